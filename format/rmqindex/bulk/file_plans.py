"""Plans where each IndexFile ends, given ordered rows, and builds it."""

from __future__ import annotations

import contextlib
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from rmqindex.bulk.sorted_runs import RunSet
from rmqindex.errors import RmqIndexError
from rmqindex.header import IndexHeader  # noqa: TC001  (read by from_json)
from rmqindex.indexwriter.append_in_place import InPlaceAppend
from rmqindex.indexwriter.writer import open_appender
from rmqindex.layout import FIRST_POSITION

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rmqindex.bulk.index_state import IndexedFile
    from rmqindex.bulk.sorted_runs import Order, RunSlice
    from rmqindex.indexfile.geometry import Layout
    from rmqindex.indexwriter.append_in_place import Entries
    from rmqindex.transaction.staging import Staging

__all__ = ["BuiltFile", "FilePlan", "build_file", "plan_append", "plan_files"]


@dataclass(frozen=True, slots=True)
class FilePlan:
    """The plan of one file; picklable.

    Attributes:
        slices: The parts of the runs that hold its rows.
        order: The order of the runs.
        layout: Its geometry.
        prev_end_phy_offset: The ``end_phy_offset`` inherited from the file before it, bytes; 0 for
            none.
        prev_end_timestamp: Likewise, epoch milliseconds.
        continued: The present file to continue; None for a new one.
    """

    slices: tuple[RunSlice, ...]
    order: Order
    layout: Layout
    prev_end_phy_offset: int = 0
    prev_end_timestamp: int = 0
    continued: IndexedFile | None = None

    @property
    def rows(self) -> int:
        """How many rows there are."""
        return sum(part.stop - part.start for part in self.slices)


@dataclass(frozen=True, slots=True)
class BuiltFile:
    """One staged file, complete and synced to disk; picklable.

    Attributes:
        name: Its name in the staging directory.
        least: The least ``phy_offset`` of its new entries.
        greatest: The greatest one.
        header: Its header.
        continued: The name of the file that it continues and replaces, or None.
    """

    name: str
    least: int
    greatest: int
    header: IndexHeader
    continued: str | None = None


def plan_files(
    runs: RunSet, layout: Layout, last: IndexedFile | None, *, continues: bool
) -> Iterator[FilePlan]:
    """Plan the files that a broker would write for rows, given the last file before them.

    Files end where they are full.
    A new file inherits the end of a full file before it, as in the broker.

    Args:
        runs: The rows in order.
        layout: The geometry.
        last: The file before them, or None.
        continues: Whether to continue a last file that is not full.

    Yields:
        One plan a file, in order.

    Raises:
        RmqIndexError: The geometry leaves no room for an entry.
    """
    if layout.capacity < 1:
        raise RmqIndexError(f"{layout}: expected room for an entry, got none: place 0 is unused")
    full = last is not None and last.header.index_count >= layout.index_num
    total = len(runs)
    stop = runs.cut(0)
    rank = 0
    while rank < total:
        plan = FilePlan((), runs.order, layout)
        room = layout.capacity
        if rank:
            before = runs.row(rank - 1)
            plan = replace(
                plan,
                prev_end_phy_offset=before["phy_offset"],
                prev_end_timestamp=before["store_timestamp"],
            )
        elif last is not None and full:
            plan = replace(
                plan,
                prev_end_phy_offset=last.header.end_phy_offset,
                prev_end_timestamp=last.header.end_timestamp,
            )
        elif last is not None and continues:
            plan = replace(plan, continued=last)
            room = layout.index_num - max(last.header.index_count, FIRST_POSITION)
        start, rank = stop, min(rank + room, total)
        stop = runs.cut(rank)
        yield replace(plan, slices=runs.between(start, stop).slices)


def build_file(staging: Staging, name: str, plan: FilePlan) -> BuiltFile:
    """Build one file in the staging directory, and sync it to disk.

    Args:
        staging: The job's staging directory.
        name: The file's name in it, not in use yet.
        plan: Its plan.
    """
    path = staging.path / name
    if plan.continued is not None:
        staging.fetch_indexed(plan.continued.path, name)
    runs = RunSet(staging.path, plan.slices, plan.order)
    appender = open_appender(path, plan.layout, plan.prev_end_phy_offset, plan.prev_end_timestamp)
    with contextlib.closing(appender):
        for block in runs.blocks():
            fitted = appender.put_many(
                block["key_hash"], block["phy_offset"], block["store_timestamp"]
            )
            assert fitted == len(block["key_hash"]), "a plan fills no file beyond its capacity"
        appender.flush_unseen()
    continued = None if plan.continued is None else plan.continued.name
    return BuiltFile(name, *runs.offset_range(), appender.header, continued)


def plan_append(directory: Path, plan: FilePlan, *, trusted: bool = False) -> InPlaceAppend:
    """Plan the append in place that continues a file; needs the commit lock."""
    assert plan.continued is not None, "only a file that is there can be continued"
    runs = RunSet(directory, plan.slices, plan.order)
    last = runs.row(len(runs) - 1)
    return InPlaceAppend(
        Path(plan.continued.path),
        plan.layout,
        runs.key_hashes(),
        partial(_entries, runs),
        (last["phy_offset"], last["store_timestamp"]),
        trusted=trusted,
    )


def _entries(runs: RunSet) -> Iterator[Entries]:
    for block in runs.blocks():
        yield block["key_hash"], block["phy_offset"], block["store_timestamp"]
