"""Rows to the files of an index, and what is built on it: rebuild, relayout, expiry, salvage.

A write is a `WriteJob`.
Its tasks stage sorted runs, or whole files, with a `RowStager`; file plans cut the rows into files
where a broker would; one commit adds all files to the index, or none.
A rebuild takes the rows from a CommitLog, a relayout from the old files.
Whatever writes raises :class:`OSError` where the disk is full or broken, and
:class:`rmqindex.RmqIndexError` where the storage fails, a file is malformed, or the staging is
gone.
"""

from typing import TYPE_CHECKING

from rmqindex.lazy_exports import lazy_exports

if TYPE_CHECKING:
    from rmqindex.bulk.committer import Commit as Commit
    from rmqindex.bulk.committer import Committer as Committer
    from rmqindex.bulk.committer import commit_files as commit_files
    from rmqindex.bulk.committer import commit_staged as commit_staged
    from rmqindex.bulk.files import BuiltFile as BuiltFile
    from rmqindex.bulk.files import FilePlan as FilePlan
    from rmqindex.bulk.files import IndexedFile as IndexedFile
    from rmqindex.bulk.files import IndexState as IndexState
    from rmqindex.bulk.files import build_file as build_file
    from rmqindex.bulk.files import find_layout as find_layout
    from rmqindex.bulk.files import plan_files as plan_files
    from rmqindex.bulk.job import RowStager as RowStager
    from rmqindex.bulk.job import StagedRows as StagedRows
    from rmqindex.bulk.job import WriteJob as WriteJob
    from rmqindex.bulk.job import WriteOptions as WriteOptions
    from rmqindex.bulk.job import without_indexed as without_indexed
    from rmqindex.bulk.losses import FileSummary as FileSummary
    from rmqindex.bulk.losses import LostEntries as LostEntries
    from rmqindex.bulk.losses import Replacement as Replacement
    from rmqindex.bulk.rebuild import RebuildResult as RebuildResult
    from rmqindex.bulk.rebuild import rebuild_index as rebuild_index
    from rmqindex.bulk.relayout import RelayoutResult as RelayoutResult
    from rmqindex.bulk.relayout import expire_index as expire_index
    from rmqindex.bulk.relayout import expired_files as expired_files
    from rmqindex.bulk.relayout import relayout_index as relayout_index
    from rmqindex.bulk.salvaging import salvage as salvage
    from rmqindex.bulk.sorted_runs import ARRIVAL as ARRIVAL
    from rmqindex.bulk.sorted_runs import BY_POSITION as BY_POSITION
    from rmqindex.bulk.sorted_runs import CONTENT as CONTENT
    from rmqindex.bulk.sorted_runs import EntryRows as EntryRows
    from rmqindex.bulk.sorted_runs import Order as Order
    from rmqindex.bulk.sorted_runs import RunBuffer as RunBuffer
    from rmqindex.bulk.sorted_runs import RunSet as RunSet
    from rmqindex.bulk.sorted_runs import RunSlice as RunSlice
    from rmqindex.bulk.tags import TagChoice as TagChoice
    from rmqindex.bulk.tags import tags_of_index as tags_of_index
else:
    __getattr__, __dir__, __all__ = lazy_exports(__name__)
