"""Exports: messages or entries as files of Parquet, JSON lines or CSV, resumed where they stopped.

The name of each file says which part of the source it holds, and files appear complete or not at
all, so that an export that was killed goes on behind its last file and neither loses nor repeats a
row.
"""

from typing import TYPE_CHECKING

from rmqindex.lazy_exports import lazy_exports

if TYPE_CHECKING:
    from rmqindex.export.columns import DEFAULT_COLUMNS as DEFAULT_COLUMNS
    from rmqindex.export.entries import EntrySelection as EntrySelection
    from rmqindex.export.entries import export_entries as export_entries
    from rmqindex.export.folder import ExportResult as ExportResult
    from rmqindex.export.messages import export_messages as export_messages
    from rmqindex.export.messages import exported_range as exported_range
    from rmqindex.export.part import FORMATS as FORMATS
else:
    __getattr__, __dir__, __all__ = lazy_exports(__name__)
