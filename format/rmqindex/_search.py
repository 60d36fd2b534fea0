"""One key over many IndexFiles, newest first."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from rmqindex._index_file import IndexFile

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from rmqindex._index_file import Mode
    from rmqindex._layout import Layout
    from rmqindex._paths import FileEntry

__all__ = ["Hit", "search"]


@dataclass(frozen=True, slots=True)
class Hit:
    """An entry whose key hash is the one asked for.

    Attributes:
        path: The IndexFile it stands in.
        name: The name of that file.
        position: Its number in the file, from 1.
        phy_offset: CommitLog offset at which the message starts, bytes.
        store_timestamp: Store time, epoch milliseconds; exact to the second below.
    """

    path: str
    name: str
    position: int
    phy_offset: int
    store_timestamp: int


def search(
    entries: Sequence[FileEntry],
    key_hash: int,
    *,
    layout: Layout | None,
    mode: Mode,
    begin: int,
    end: int,
) -> Iterator[Hit]:
    """Find the entries of one key hash in every file.

    Unlike the broker, it stops neither at a number of entries nor at the first one that is too
    old, and it answers the first entry of a rolled file with its true time.

    Args:
        entries: A listing, oldest file first.
        key_hash: The hash of the whole ``topic#key``.
        layout: The geometry of each file, or ``None`` to find it.
        mode: ``FAILFAST`` or ``DROPMALFORMED``, as :class:`IndexFile` takes it.
        begin: The earliest store time wanted, epoch milliseconds.
        end: The latest store time wanted, epoch milliseconds.

    Yields:
        The newest file's entries first, and in each file the newest first.

    Raises:
        RmqIndexError: A file that cannot be used.
    """
    for entry in reversed(entries):
        with IndexFile(entry.path, layout, mode=mode) as file:
            found = file.lookup([key_hash])
        times = found["store_timestamp"].to_numpy()
        for row in np.flatnonzero((times >= begin) & (times <= end)).tolist():
            yield Hit(
                path=entry.path,
                name=entry.name,
                position=found["position"][row].as_py(),
                phy_offset=found["phy_offset"][row].as_py(),
                store_timestamp=int(times[row]),
            )
