"""Whole indexes at once: rebuilt from a CommitLog, laid out anew, salvaged."""

from rmqindex.bulk.intact_entries import salvage
from rmqindex.bulk.rebuild import RebuildResult, rebuild_index
from rmqindex.bulk.relayout import RelayoutResult, relayout_index

__all__ = [
    "RebuildResult",
    "RelayoutResult",
    "rebuild_index",
    "relayout_index",
    "salvage",
]
