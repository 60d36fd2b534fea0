"""Looks at a whole store: what fills it, and what any of its files holds, byte by byte."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rmqindex.rooms import importer

if TYPE_CHECKING:
    from rmqindex.inspection.dump import Dump, dump_file
    from rmqindex.inspection.items import Field, Item
    from rmqindex.inspection.usage import FolderUsage, Usage, UsageRow, folder_usage, measure_usage

__all__ = [
    "Dump",
    "Field",
    "FolderUsage",
    "Item",
    "Usage",
    "UsageRow",
    "dump_file",
    "folder_usage",
    "measure_usage",
]

__getattr__ = importer(
    __name__,
    {
        "dump": ("Dump", "dump_file"),
        "items": ("Field", "Item"),
        "usage": ("FolderUsage", "Usage", "UsageRow", "folder_usage", "measure_usage"),
    },
)


def __dir__() -> list[str]:
    """List the room's names."""
    return __all__
