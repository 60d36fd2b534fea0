"""The power is cut after calls of every kind of write; the whole is ``python -m``'s."""

from __future__ import annotations

import errno
import os

import pytest

from .kinds import KINDS
from .power import MODELS, cuts
from .recorded import Recorder
from .requests import STORE_KINDS, StoreTrial
from .states import tree_of_nodes
from .trial import Trial

pytestmark = pytest.mark.system

_SEED = int.from_bytes(os.urandom(4))
_STATES = 10
_FAILURES = 2
# The same calls each time; all of them are tried by `python -m tests.system.simulator.disk`.
_FAILING = 1


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)
def test_a_power_cut_or_an_error_leaves_what_the_next_write_completes(kind):
    """Readers find the old state, the new one, or a part that may be there; then all of it."""
    with Trial(kind) as trial:
        for model in MODELS:
            tally = trial.run(model, _SEED, most=6, states=_STATES)
            assert tally.states
            assert not tally.faults, f"seed {_SEED}: {tally.faults[0]}"
        for error in (errno.EIO, errno.ENOSPC):
            tally = trial.fail(error, _FAILING, calls=_FAILURES)
            assert not tally.faults, tally.faults[0]


@pytest.mark.parametrize("kind", STORE_KINDS, ids=lambda kind: kind.name)
def test_requests_that_are_lost_or_late_leave_what_the_next_write_completes(kind):
    """To an object store: all of the rows or none, and the next write ends in the same state."""
    tally = StoreTrial(kind).run(1, states=_STATES)
    assert tally.found
    assert not tally.faults, tally.faults[0]


def _found(folder, change, model, number):
    """Return the states after a call, as readers see them."""
    import random

    (folder / "old").write_text("old")
    with Recorder(folder) as recorder:
        change(folder)
    states = cuts(recorder.record, model, random.Random(1), most=1000, calls=[number])
    return [tree_of_nodes(cut.tree) for cut in states]


def _replace(folder):
    (folder / "new").write_text("new")
    (folder / "new").replace(folder / "old")


def _replace_synced(folder):
    with (folder / "new").open("w") as file:
        file.write("new")
        file.flush()
        os.fsync(file.fileno())
    (folder / "new").replace(folder / "old")


@pytest.mark.parametrize("model", MODELS)
def test_a_file_that_is_renamed_unsynced_may_be_empty_or_zeros(model, tmp_path):
    """As ext4 without its heuristics, XFS and btrfs may leave it."""
    states = _found(tmp_path, _replace, model, 3)
    for content in (b"", b"\0\0\0", b"new"):
        assert {"old": content} in states
    assert {"old": b"old"} in states


def test_names_persist_in_order_in_journals_of_file_systems(tmp_path):
    """A synced file has its first name; the rename is there or not, and moves it."""
    states = _found(tmp_path, _replace_synced, "ordered", 4)
    assert sorted(map(sorted, states)) == [["new", "old"], ["old"]]
    assert {"old": b"new"} in states


def test_fsync_alone_promises_no_name(tmp_path):
    """The synced file may be lost with its name, or have both; its bytes are there."""
    states = _found(tmp_path, _replace_synced, "fsync", 4)
    assert {"old": b"old"} in states
    assert {"old": b"old", "new": b"new"} in states
    assert {"old": b"new", "new": b"new"} in states
    assert {"old": b"new"} in states
    assert all(content for state in states for content in state.values())
