"""A few faults of each sort; ``python -m tests.system.faults`` tries many."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from .disks import mounting
from .readers import QUICK, QUICK_OF_QUEUES
from .stops import run_stops
from .two_writers import PAIRS, run_pair
from .writes import RECOVERIES, WRITES

TOP = Path(__file__).parents[3]


@pytest.mark.parametrize("pair", PAIRS, ids=lambda pair: pair.name)
def test_two_writers_at_once_leave_what_one_after_the_other_would(pair, tmp_path):
    """One of them may be refused; what is left is never a mix."""
    tally = run_pair(pair, 2, 1, tmp_path)
    assert not tally.faults


def test_a_full_disk_fails_a_write_of_spark_with_its_name():
    """And changes nothing."""
    command = mounting()
    if command is None:
        pytest.skip("no file system can be mounted here: it takes root, or user name spaces")
    ended = subprocess.run(
        [*command, sys.executable, "-m", "tests.system.faults.spark_disk", "df.write, append"],
        cwd=TOP,
        check=True,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert [json.loads(line)[-1] for line in ended.stdout.splitlines()] == [[]]


@pytest.mark.parametrize("write", [*WRITES, *RECOVERIES], ids=lambda write: write.name)
def test_readers_beside_a_writer_that_stands_still_find_the_old_state_or_the_new_one(
    write, tmp_path
):
    """Whatever call it stands before, and however they read: never fewer rows, never a hang."""
    tally = run_stops(write, tmp_path, commands=(1, 6))
    assert not tally.faults
    for reader in QUICK_OF_QUEUES if write.queues else QUICK:
        assert tally.found[f"{reader}: old"]
