"""A user that never ends, or takes too much memory, is an outcome with a name."""

from __future__ import annotations

import pytest

from . import bounds
from .bounds import MEMORY_BYTES, bounded
from .users.outcome import Outcome, attempt

ASKED = {"key": "T#key"}


def asked_of(work):
    """Ask one who does this."""
    ask = lambda _: work()  # noqa: E731
    return bounded(lambda: attempt(Outcome("user", "hits", ASKED), ask, ()), "user", ASKED)


def test_an_answer_stays_as_it_is():
    """With its rows."""
    outcome = asked_of(lambda: [1])
    assert (outcome.status, outcome.rows) == ("answered", [1])


@pytest.mark.parametrize("name", ["CPU_SECONDS", "_ASLEEP_SECONDS"])
def test_what_does_not_end_hung(monkeypatch, name):
    """By the processor's time, or by the clock's where it sleeps."""
    monkeypatch.setattr(bounds, name, 0.05)

    def work():
        while True:
            pass

    outcome = asked_of(work)
    assert (outcome.status, outcome.user, outcome.asked) == ("hung", "user", ASKED)


def test_more_memory_than_a_small_store_needs_is_a_crash():
    """Although it was given back."""
    outcome = asked_of(lambda: len(b"x" * (MEMORY_BYTES + (32 << 20))))
    assert (outcome.status, outcome.error) == ("crashed", "memory")
    assert "MiB, expected at most 256" in outcome.text


def test_a_size_that_a_damaged_byte_says_is_not_allocated():
    """It fails in the process, and the machine goes on."""
    outcome = asked_of(lambda: bytearray(1 << 45))
    assert (outcome.status, outcome.error) == ("crashed", "MemoryError")
    assert asked_of(lambda: [2]).rows == [2]
