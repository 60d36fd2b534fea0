"""``rmqindex messages --follow``: in each form, until Ctrl-C or a limit, on a clock of its own."""

import csv
import io
import json
import shutil
import subprocess
import sys

import pytest

import rmqindex
from commitlog_encoder import Log, Message, properties_text

FIRST = 3


def message(number):
    """Return a message with a key."""
    pairs = properties_text([("UNIQ_KEY", f"ID{number}"), ("KEYS", f"k{number}")])
    return Message(topic="T", body=b"hello", properties=pairs, store_timestamp=1_700_000_000_000)


@pytest.fixture
def live(tmp_path, monkeypatch):
    """Return a store to which each wait appends a message, until Ctrl-C at the fourth."""
    store = tmp_path / "store"
    (store / "commitlog").mkdir(parents=True)
    log = Log(4096)
    waits = []

    def write(number):
        log.append(message(number))
        log.write_to(store / "commitlog")

    for number in range(FIRST):
        write(number)

    def sleep(seconds):
        waits.append(seconds)
        if len(waits) == 4:
            raise KeyboardInterrupt
        write(FIRST + len(waits) - 1)

    monkeypatch.setattr("time.sleep", sleep)
    return store, waits


def test_it_ends_with_ctrl_c(run, live):
    """A line for each message, below one head; with the exit code of all commands."""
    store, waits = live
    code, out, err = run("messages", store, "--follow", "--interval", "2.5")
    assert (code, err, waits) == (130, "", [2.5] * 4)
    head, *lines = out.splitlines()
    assert head.split() == ["Offset", "Stored", "(UTC)", "Topic", "Queue", "Tags", "Keys", "Size"]
    assert [line.split()[5:7] for line in lines] == [["-", f"k{n}"] for n in (3, 4, 5)]


def test_a_topic_without_a_queue_is_told_while_it_is_waited_for(run, live):
    """It may come yet; one that was misspelt never does."""
    store, _ = live
    (store / "consumequeue" / "Topic" / "0").mkdir(parents=True)
    code, out, err = run("messages", store, "--follow", "--topic", "topics")
    assert (code, out) == (130, "")
    assert "waiting for messages; there is no queue of the topic topics" in err


def test_json_is_a_document_a_line_and_csv_has_one_head(run, live):
    """For programs that read them as they come."""
    store, _ = live
    code, out, _ = run("messages", store, "-f", "--json", "--limit", 2)
    assert code == 0
    assert [json.loads(line)["keys"] for line in out.splitlines()] == ["k3", "k4"]
    code, out, _ = run("messages", store, "-f", "--csv", "--from", 0)
    assert code == 130
    rows = list(csv.DictReader(io.StringIO(out)))
    assert len(rows) == len({row["phy_offset"] for row in rows}) >= 5


def test_bodies_come_if_asked(run, live):
    """With the properties, each in full."""
    store, _ = live
    code, out, _ = run("messages", store, "-f", "--body", "--json", "--since", "0", "--limit", 1)
    assert code == 2
    code, out, _ = run("messages", store, "-f", "--body", "--json", "--begin", "0", "--limit", 4)
    assert code == 0
    assert [json.loads(line)["body"] for line in out.splitlines()] == ["hello"] * 4
    code, out, _ = run("messages", store, "-f", "--body", "--from", "0", "--limit", 1)
    assert (code, out.count("hello")) == (0, 1)


def test_what_it_tells_goes_to_standard_error(run, live, monkeypatch):
    """A log that is cut, as here by the loss of its file's second half."""
    store, _ = live
    (path,) = (store / "commitlog").iterdir()
    whole = path.read_bytes()
    with rmqindex.CommitLog(store) as log:
        (batch,) = log.scan(columns=["phy_offset"])
    last = batch.column(0)[FIRST - 1].as_py()
    steps = iter([whole[:last] + bytes(len(whole) - last), None])

    def sleep(_seconds):
        data = next(steps)
        if data is None:
            raise KeyboardInterrupt
        path.write_bytes(data)

    monkeypatch.setattr("time.sleep", sleep)
    code, out, err = run("messages", store, "-f")
    assert (code, out) == (130, "")
    assert f"got a log that was cut at offset {last}" in err


def test_it_ends_when_its_reader_is_gone(tmp_path):
    """Also while no message comes, as behind ``head``."""
    (tmp_path / "commitlog").mkdir()
    log = Log(4096)
    log.append(message(0))
    log.write_to(tmp_path / "commitlog")
    asked = ["messages", str(tmp_path), "-f", "--from", "0", "--interval", "0.1", "--json"]
    with subprocess.Popen(
        [sys.executable, "-m", "rmqindex", *asked], stdout=subprocess.PIPE
    ) as process:
        assert json.loads(process.stdout.readline())["keys"] == "k0"
        process.stdout.close()
        assert process.wait(120) == 141


@pytest.mark.parametrize(
    ("given", "told"),
    [
        (("-f", "--end", "now"), "--end: not together with --follow"),
        (("-f", "--to", 100), "--to: not together with --follow"),
        (
            ("-f", "--interval", "0"),
            "'--interval': expected seconds from 0.1 to 99999, such",
        ),
        (("-f", "--interval", "nan"), "'--interval': expected seconds from 0.1"),
        (("--interval", "1"), "--interval: only with --follow"),
    ],
)
def test_slips_are_refused(run, live, given, told):
    """Before anything is read."""
    code, out, err = run("messages", live[0], *given)
    assert (code, out) == (2, "")
    assert told in err


def test_one_store_is_followed(run, live, tmp_path):
    """The first of several would never end."""
    shutil.copytree(live[0], tmp_path / "other")
    code, _, err = run("messages", live[0], tmp_path / "other", "-f")
    assert (code, "--follow: expected one STORE, got several" in err) == (2, True)
