"""Exports: messages or entries as files of Parquet, JSON lines or CSV, resumed where they stopped.

The name of each file says which part of the source it holds, and files appear complete or not at
all, so that an export that was killed goes on behind its last file and neither loses nor repeats a
row.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from rmqindex.rooms import importer

if TYPE_CHECKING:
    from rmqindex.export.columns import DEFAULT_COLUMNS
    from rmqindex.export.entries import EntrySelection, export_entries
    from rmqindex.export.folder import ExportResult
    from rmqindex.export.messages import export_messages, exported_range
    from rmqindex.export.part import FORMATS

__all__ = [
    "DEFAULT_COLUMNS",
    "FORMATS",
    "EntrySelection",
    "ExportResult",
    "export_entries",
    "export_messages",
    "exported_range",
]

__getattr__ = importer(
    __name__,
    {
        "columns": ("DEFAULT_COLUMNS",),
        "entries": ("EntrySelection", "export_entries"),
        "folder": ("ExportResult",),
        "messages": ("export_messages", "exported_range"),
        "part": ("FORMATS",),
    },
)


def __dir__() -> list[str]:
    """List the room's names."""
    return __all__
