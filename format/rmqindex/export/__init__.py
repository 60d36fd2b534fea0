"""Messages and entries as files of Parquet, JSON lines or CSV, and what a file of a store holds.

The name of each exported file says which part of the source it holds, and files appear complete or
not at all, so that a killed export resumes where it stopped, and neither loses nor repeats a row.
"""

from typing import TYPE_CHECKING

from rmqindex.lazy_exports import lazy_exports

if TYPE_CHECKING:
    from rmqindex.export.dump import Dump as Dump
    from rmqindex.export.dump import dump_file as dump_file
    from rmqindex.export.entries import EntrySelection as EntrySelection
    from rmqindex.export.entries import export_entries as export_entries
    from rmqindex.export.folder import ExportResult as ExportResult
    from rmqindex.export.folder import OtherExportError as OtherExportError
    from rmqindex.export.formats import DEFAULT_COLUMNS as DEFAULT_COLUMNS
    from rmqindex.export.formats import FORMATS as FORMATS
    from rmqindex.export.items import Field as Field
    from rmqindex.export.items import Item as Item
    from rmqindex.export.messages import export_messages as export_messages
    from rmqindex.export.messages import exported_range as exported_range
else:
    __getattr__, __dir__, __all__ = lazy_exports(__name__)
