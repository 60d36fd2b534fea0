"""Many entries in one step: sorted runs, file plans and the commit of parallel writes.

A write is a `WriteJob`.
Its tasks stage sorted runs, or whole files, with a `RowStager`; file plans cut the rows into files
where a broker would; one commit adds all files to the index, or none.
Whatever writes raises :class:`OSError` where the disk is full or broken, and
:class:`RmqIndexError` where the storage fails, a file is malformed, or the staging is gone.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from rmqindex.rooms import importer

if TYPE_CHECKING:
    from rmqindex.bulk.committer import Commit, Committer, commit_files, commit_staged
    from rmqindex.bulk.file_plans import BuiltFile, FilePlan, build_file, plan_files
    from rmqindex.bulk.index_state import IndexedFile, IndexState, find_layout
    from rmqindex.bulk.indexed_rows import without_indexed
    from rmqindex.bulk.job import WriteJob, WriteOptions
    from rmqindex.bulk.replacement import FileSummary, LostEntries, Replacement
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

__all__ = [
    "ARRIVAL",
    "BY_POSITION",
    "CONTENT",
    "BuiltFile",
    "Commit",
    "Committer",
    "EntryRows",
    "FilePlan",
    "FileSummary",
    "IndexState",
    "IndexedFile",
    "LostEntries",
    "Order",
    "Replacement",
    "RowStager",
    "RunBuffer",
    "RunSet",
    "RunSlice",
    "StagedRows",
    "WriteJob",
    "WriteOptions",
    "build_file",
    "commit_files",
    "commit_staged",
    "find_layout",
    "plan_files",
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
        "job": (
            "WriteJob",
            "WriteOptions",
        ),
        "replacement": (
            "FileSummary",
            "LostEntries",
            "Replacement",
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
    },
)


def __dir__() -> list[str]:
    """List the room's names."""
    return __all__
