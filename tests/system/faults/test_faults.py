"""A few faults of each sort; ``python -m tests.system.faults`` tries many."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from random import Random

import pytest

from .disks import mounting
from .kills import run_trial
from .readers import QUICK
from .stops import COMMAND, IN_COMMITS, run_stops
from .two_writers import PAIRS, run_pair
from .writes import WRITES

TOP = Path(__file__).parents[3]
WRITE = {write.name: write for write in WRITES}
PAIR = {pair.name: pair for pair in PAIRS}


def test_a_write_of_several_processes_that_are_killed_leaves_the_old_state_or_the_new(tmp_path):
    """Of one process, ``simulator/disk`` finds what a kill after each of its calls leaves."""
    name = "write_index, append, tasks that continue a file"
    tally = run_trial(WRITE[name], 2, Random(f"1/{name}"), tmp_path)
    assert not tally.faults


def test_two_writers_at_once_leave_what_one_after_the_other_would(tmp_path):
    """One of them may be refused; what is left is never a mix."""
    tally = run_pair(PAIR["write_index append, writeStream"], 1, Random(1), tmp_path)
    assert not tally.faults


def in_name_space(module, *arguments):
    """Run a program that mounts disks of its own; return what it found wrong, one list a kind."""
    command = mounting()
    if command is None:
        pytest.skip("no file system can be mounted here: it takes root, or user name spaces")
    ended = subprocess.run(
        [*command, sys.executable, "-m", f"tests.system.faults.{module}", *arguments],
        cwd=TOP,
        check=True,
        stdout=subprocess.PIPE,
        text=True,
    )
    return [json.loads(line)[-1] for line in ended.stdout.splitlines()]


def test_a_full_or_read_only_disk_leaves_the_old_state_and_an_error_that_names_the_file():
    """With space again, the next write succeeds and leaves nothing behind."""
    names = ("write_index, append, tasks that continue a file", "rmqindex relayout")
    only = [argument for name in names for argument in ("--only", name)]
    assert in_name_space("small_disk", "--times", "1", *only) == [[]] * 2 * len(names)


def test_a_full_disk_fails_a_write_of_spark_with_its_name():
    """And changes nothing."""
    assert in_name_space("spark_disk", "df.write, append") == [[]]


STOPPED = ("df.write, overwrite", "write_index, append, tasks that continue a file")


@pytest.mark.parametrize("name", STOPPED)
def test_readers_beside_a_stopped_writer_find_the_old_state_or_the_new_one(name, tmp_path):
    """Whatever step it stopped before, and however they read: never fewer rows, never a hang."""
    tally = run_stops(WRITE[name], tmp_path, commands=(2, 6))
    assert not tally.faults
    assert tally.kills[IN_COMMITS] >= 6
    assert tally.found[f"{COMMAND}: old"]
    for reader in QUICK:
        assert tally.found[f"{reader}: old"]
        assert tally.found[f"{reader}: new"]
