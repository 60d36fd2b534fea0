"""Rows that are indexed already: a write skips or refuses them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from rmqindex.bulk.sorted_runs import EntryRows, RunSet
from rmqindex.errors import RmqIndexError

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from rmqindex.bulk.file_plans import BuiltFile
    from rmqindex.bulk.index_state import IndexState
    from rmqindex.bulk.job import WriteJob

__all__ = ["check_file_not_indexed", "unindexed", "without_indexed"]


def unindexed(job: WriteJob, rows: EntryRows) -> EntryRows:
    """Return the rows that do not lie before the end of the index."""
    if job.end is None or job.accepts_indexed:
        return rows
    before = rows.phy_offset < job.end
    if not before.any():
        return rows
    if not job.options.broker_redispatch and job.options.on_indexed != "skip":
        raise job.already_indexed(job.end, int(rows.phy_offset[np.argmax(before)]))
    kept = ~before
    return EntryRows(
        rows.key_hash[kept],
        rows.phy_offset[kept],
        rows.store_timestamp[kept],
        rows.ordinal[kept],
        None if rows.file_path is None else rows.file_path.filter(kept),
    )


def without_indexed(job: WriteJob, state: IndexState, rows: RunSet) -> RunSet:
    """Return the rows to write, without those that are indexed already.

    Raises:
        ValueError: Some rows are, and the options make that an error.
    """
    if state.end is None or not len(rows) or job.accepts_indexed:
        return rows
    before = rows.cut_at_offset(state.end, inclusive=False)
    until = rows.cut_at_offset(state.end, inclusive=True)
    everything = rows.cut(len(rows))
    if job.options.broker_redispatch:
        return rows.between(before, everything)
    skip = job.options.on_indexed == "skip"
    if not skip and rows.count_before(state.end):
        raise job.already_indexed(state.end, rows.row(0)["phy_offset"])
    edge = rows.between(before, until)
    if not len(edge):
        return rows.between(before, everything)
    hashes = np.concatenate([block["key_hash"] for block in edge.blocks()])
    kept = _not_among(hashes, state.hashes_at_end(job.layout))
    if kept.all():
        return rows.between(before, everything)
    if not skip:
        raise job.already_indexed(state.end, state.end)
    edges = np.flatnonzero(np.diff(kept, prepend=False, append=False)).tolist()
    slices = [
        part
        for start, stop in zip(edges[::2], edges[1::2], strict=True)
        for part in edge.between(edge.cut(start), edge.cut(stop)).slices
    ]
    slices += rows.between(until, everything).slices
    return RunSet(job.staging.path, slices, rows.order)


def check_file_not_indexed(job: WriteJob, state: IndexState, file: BuiltFile) -> None:
    """Refuse a file that a task built if another write has indexed its rows meanwhile."""
    if state.end is None or job.accepts_indexed:
        return
    moved = state.end != job.end and not job.options.broker_redispatch
    if file.least < state.end or (moved and file.least == state.end):
        raise RmqIndexError(
            f"{job.staging.directory}: expected the index to end at {job.end}, as when this write "
            f"began, got {state.end}: another write came first; write again"
        )


def _not_among(hashes: NDArray[np.int32], indexed: NDArray[np.int32]) -> NDArray[np.bool_]:
    """Mask the hashes that remain when indexed ones are removed, one for one."""
    order = np.argsort(hashes, kind="stable")
    values = hashes[order]
    numbers = np.arange(len(values)) - np.searchsorted(values, values, side="left")
    indexed = np.sort(indexed)
    counts = np.searchsorted(indexed, values, side="right") - np.searchsorted(indexed, values)
    kept = np.empty(len(hashes), np.bool_)
    kept[order] = numbers >= counts
    return kept
