"""Maintenance of a whole index: rebuild, relayout, expiry and salvage.

New files come from a CommitLog or from the old files, and replace them in one commit of ``bulk``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from rmqindex.rooms import importer

if TYPE_CHECKING:
    from rmqindex.maintenance.intact_entries import salvage
    from rmqindex.maintenance.rebuild import RebuildResult, rebuild_index
    from rmqindex.maintenance.relayout import RelayoutResult, relayout_index
    from rmqindex.maintenance.tags import TagChoice, tags_of_index

__all__ = [
    "RebuildResult",
    "RelayoutResult",
    "TagChoice",
    "rebuild_index",
    "relayout_index",
    "salvage",
    "tags_of_index",
]

__getattr__ = importer(
    __name__,
    {
        "intact_entries": ("salvage",),
        "rebuild": (
            "RebuildResult",
            "rebuild_index",
        ),
        "relayout": (
            "RelayoutResult",
            "relayout_index",
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
