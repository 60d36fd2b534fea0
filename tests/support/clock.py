"""A clock on which waits take no time."""

from __future__ import annotations

import time

__all__ = ["hurry"]


def hurry(monkeypatch, least=0.0):
    """Have each wait end at once, and the clock go on by what it was to take.

    Args:
        monkeypatch: Undoes it.
        least: How far the clock goes on for a wait at least, seconds: an hour ends any patience.
    """
    monotonic, waited = time.monotonic, 0.0

    def sleep(seconds):
        nonlocal waited
        waited += max(seconds, least)

    monkeypatch.setattr(time, "sleep", sleep)
    monkeypatch.setattr(time, "monotonic", lambda: monotonic() + waited)
