"""What a task says of a file that is not the planned one any more."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

from rmqindex import RmqIndexError
from rmqindex.storage import FileChangedError

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["as_planned", "changed_error"]

T = TypeVar("T")


def changed_error(path: str, what: str) -> RmqIndexError:
    """Return the error of a file that was changed between the planning and the reading.

    Args:
        path: The file.
        what: What was done to it.
    """
    return RmqIndexError(
        f"{path}: the file was {what} since the query was planned; run the query again, on a "
        "fresh DataFrame"
    )


def as_planned(items: Iterator[T]) -> Iterator[T]:
    """Yield what a task reads; a file that was changed is named with what to do about it.

    Raises:
        RmqIndexError: A file is not the planned one.
    """
    try:
        yield from items
    except FileChangedError as error:
        raise changed_error(error.path, error.what) from error
