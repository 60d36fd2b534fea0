"""Readings that a writer may change halfway: repeated until one is steady, or refused."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, TypeVar

from rmqindex.errors import RmqIndexError

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["UnsteadyError", "read_steady"]

T = TypeVar("T")

# A reading of many files may take longer than the patience, so that some are tried in any case.
_PATIENCE_SECONDS = 10.0
_LEAST_ATTEMPTS = 5
_POLL_SECONDS = 0.01


class UnsteadyError(Exception):
    """A reading that proves nothing, since what it read changed meanwhile; says what changed."""


def read_steady(where: object, read: Callable[[], T]) -> T:
    """Repeat a reading until it is steady.

    Args:
        where: What is read, for the error: a path, or several as text.
        read: Reads once; raises :class:`UnsteadyError` where that was disturbed.

    Returns:
        The first reading that was not disturbed.

    Raises:
        RmqIndexError: Every reading of ten seconds was disturbed.
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
