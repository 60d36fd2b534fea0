"""Repeats a reading that a writer may disturb, until one is undisturbed or time is up."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, TypeVar

from rmqindex.errors import RmqIndexError

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["UnsteadyError", "read_steady"]

T = TypeVar("T")

# Reading many files may take longer than the time limit, so a few attempts are always made.
_PATIENCE_SECONDS = 10.0
_LEAST_ATTEMPTS = 5
_POLL_SECONDS = 0.01


class UnsteadyError(Exception):
    """A reading was disturbed: its files changed meanwhile. The message says which."""


def read_steady(where: object, read: Callable[[], T]) -> T:
    """Repeat a reading until it is undisturbed.

    Args:
        where: The path, or paths as text, that the error names.
        read: Reads once; raises :class:`UnsteadyError` where it was disturbed.

    Returns:
        The first undisturbed reading.

    Raises:
        RmqIndexError: Every reading was disturbed for ten seconds.
    """
    deadline = time.monotonic() + _PATIENCE_SECONDS
    attempt = 0
    while True:
        attempt += 1
        try:
            return read()
        except UnsteadyError as error:
            if attempt >= _LEAST_ATTEMPTS and time.monotonic() > deadline:
                raise RmqIndexError(
                    f"{where}: expected one reading without a change, got {attempt} during each "
                    f"of which {error}; stop what writes there, or run this again when it writes "
                    "less"
                ) from error
        time.sleep(_POLL_SECONDS)
