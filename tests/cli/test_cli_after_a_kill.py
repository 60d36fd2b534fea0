"""A broker is killed between two stores into its files, and `verify` leads its operator back."""

from __future__ import annotations

import re
import shlex
from collections import Counter

import pytest

from kinds import sampled
from live_writer import LiveWriter
from rmqindex import CommitLog, IndexFile, Layout, message_keys, verify

LAYOUT = Layout(53, 40)
_COLUMNS = ["topic", "uniq_key", "keys", "sys_flag", "phy_offset"]
_COMMANDS = 4


def entries(store):
    """Return how often each offset is in the index."""
    found = Counter()
    for path in sorted((store / "index").iterdir()):
        with IndexFile(path, LAYOUT) as file:
            for batch in file.scan(columns=["phy_offset"]):
                found.update(batch["phy_offset"].to_pylist())
    return found


def wanted(store):
    """Return how many keys the message at each offset has."""
    with CommitLog(store) as log:
        rows = [row for batch in log.scan(columns=_COLUMNS) for row in batch.to_pylist()]
    return Counter({row.pop("phy_offset"): len(message_keys(*row.values())) for row in rows})


def lead(run, store):
    """Type what `verify` says until it finds no error; return the commands."""
    typed = []
    for _ in range(_COMMANDS):
        code, out, _ = run("verify", str(store))
        if code == 0:
            return typed
        command = re.search("`rmqindex ([^`]*)`", " ".join(out.split()))[1]
        typed.append(command)
        code, _, err = run(*shlex.split(command))
        assert code == 0, (command, err)
    raise AssertionError(typed)


@pytest.mark.parametrize("steps", sampled(range(0, 120, 7), *range(0, 120, 21)))
def test_a_put_that_was_torn_is_mended_by_what_is_printed(run, tmp_path, steps):
    """Every key of every message has its entry then, and the broker's start loses none."""
    writer = LiveWriter(tmp_path / "store", LAYOUT, 1 << 13, seed=steps % 5)
    writer.write(60)
    writer.step(steps)
    writer.close()
    lead(run, writer.store)
    for finding in verify(writer.store, "auto").to_pylist():
        if finding["rule"] == "restart_indexes":  # what the start would do is done before
            (command,) = re.findall("`rmqindex ([^`]*)`", finding["remedy"])
            assert run(*shlex.split(command.replace("STORE", str(writer.store))))[0] == 0
    assert not wanted(writer.store) - entries(writer.store)
    rules = set(verify(writer.store, "auto")["rule"].to_pylist())
    assert not rules & {"restart_loses", "restart_rebuilds"}
