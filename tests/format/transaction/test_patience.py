"""Whatever waits for another ends in its answer or in an error: the clock chooses no answer."""

from __future__ import annotations

import pytest

from clock import hurry
from rmqindex import RmqIndexError
from rmqindex.storage import UnsteadyError, read_steady
from rmqindex.transaction import jobs


@pytest.fixture(autouse=True)
def hurried_clock(monkeypatch):
    """Let an hour pass at each wait, and wait for nothing."""
    hurry(monkeypatch, least=3600)


def test_a_reading_that_is_always_disturbed_is_an_error():
    """And none of what it read is returned."""

    def read():
        raise UnsteadyError("a file changed")

    with pytest.raises(RmqIndexError, match="expected one reading without a change, got 5 during"):
        read_steady("store", read)


def test_a_reading_that_is_undisturbed_in_the_end_is_returned():
    """However long that took."""
    readings = iter([UnsteadyError("a"), UnsteadyError("b"), None])

    def read():
        disturbed = next(readings)
        if disturbed is not None:
            raise disturbed
        return "undisturbed"

    assert read_steady("store", read) == "undisturbed"


def test_a_lock_that_another_holds_is_an_error(tmp_path):
    """Nobody goes on without it, however long the other takes."""
    root = tmp_path / ".rmqindex"
    with jobs.hold_lock(root, create=True) as held:
        assert held
        for create in (True, False):
            with (
                pytest.raises(RmqIndexError, match="another write has been committing"),
                jobs.hold_lock(root, create=create),
            ):
                raise AssertionError("it went on without the lock")
    with jobs.hold_lock(root, create=False) as held:
        assert held
