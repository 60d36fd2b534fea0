"""Errors of a task whose file is no longer the planned one."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

from rmqindex import RmqIndexError
from rmqindex.storage import FileChangedError

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["as_planned", "changed_error"]

T = TypeVar("T")


def changed_error(path: str, what: str) -> RmqIndexError:
    """Return the error for a file that changed between planning and reading.

    Args:
        path: The file.
        what: What happened to it, such as ``removed``.
    """
    return RmqIndexError(
        f"{path}: the file was {what} since the query was planned; run the query again, on a "
        "fresh DataFrame"
    )


def as_planned(items: Iterator[T]) -> Iterator[T]:
    """Yield the items of a task; if a file changed, raise an error that says what to do.

    Raises:
        RmqIndexError: A file is no longer the planned one.
    """
    try:
        yield from items
    except FileChangedError as error:
        raise changed_error(error.path, error.what) from error
