"""Bulk changes of an index: parallel writes, rebuild, relayout, expiry and salvage.

A write is a `WriteJob`.
Its tasks stage sorted runs, or whole files, with a `RowStager`; file plans cut the rows into files
where a broker would; one commit adds all files to the index, or none.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from rmqindex.rooms import importer

if TYPE_CHECKING:
    from rmqindex.bulk.committer import Commit, Committer, commit_files, commit_staged
    from rmqindex.bulk.file_plans import BuiltFile, FilePlan, build_file, plan_files
    from rmqindex.bulk.index_state import IndexedFile, IndexState, find_layout
    from rmqindex.bulk.indexed_rows import without_indexed
    from rmqindex.bulk.intact_entries import salvage
    from rmqindex.bulk.job import WriteJob, WriteOptions
    from rmqindex.bulk.rebuild import RebuildResult, rebuild_index
    from rmqindex.bulk.relayout import RelayoutResult, relayout_index
    from rmqindex.bulk.row_stager import RowStager, StagedRows
    from rmqindex.bulk.sorted_runs import (
        ARRIVAL,
        BY_POSITION,
        CONTENT,
        EntryRows,
        Order,
        RunBuffer,
        RunSet,
        RunSlice,
    )
    from rmqindex.bulk.tags import TagChoice, tags_of_index

__all__ = [
    "ARRIVAL",
    "BY_POSITION",
    "CONTENT",
    "BuiltFile",
    "Commit",
    "Committer",
    "EntryRows",
    "FilePlan",
    "IndexState",
    "IndexedFile",
    "Order",
    "RebuildResult",
    "RelayoutResult",
    "RowStager",
    "RunBuffer",
    "RunSet",
    "RunSlice",
    "StagedRows",
    "TagChoice",
    "WriteJob",
    "WriteOptions",
    "build_file",
    "commit_files",
    "commit_staged",
    "find_layout",
    "plan_files",
    "rebuild_index",
    "relayout_index",
    "salvage",
    "tags_of_index",
    "without_indexed",
]

__getattr__ = importer(
    __name__,
    {
        "committer": (
            "Commit",
            "Committer",
            "commit_files",
            "commit_staged",
        ),
        "file_plans": (
            "BuiltFile",
            "FilePlan",
            "build_file",
            "plan_files",
        ),
        "index_state": (
            "IndexState",
            "IndexedFile",
            "find_layout",
        ),
        "indexed_rows": ("without_indexed",),
        "intact_entries": ("salvage",),
        "job": (
            "WriteJob",
            "WriteOptions",
        ),
        "rebuild": (
            "RebuildResult",
            "rebuild_index",
        ),
        "relayout": (
            "RelayoutResult",
            "relayout_index",
        ),
        "row_stager": (
            "RowStager",
            "StagedRows",
        ),
        "sorted_runs": (
            "ARRIVAL",
            "BY_POSITION",
            "CONTENT",
            "EntryRows",
            "Order",
            "RunBuffer",
            "RunSet",
            "RunSlice",
        ),
        "tags": (
            "TagChoice",
            "tags_of_index",
        ),
    },
)


def __dir__() -> list[str]:
    """List the room's names."""
    return __all__
