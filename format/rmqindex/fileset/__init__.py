"""The IndexFiles of one index: what a path or a pattern stands for, names and listings."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rmqindex.rooms import importer

if TYPE_CHECKING:
    from rmqindex.fileset.cover import cover_index, is_coverable
    from rmqindex.fileset.geometry import layout_beside, open_in_store
    from rmqindex.fileset.paths import (
        index_files,
        is_index_name,
        is_other_kind,
        list_index_files,
        resolve,
    )
    from rmqindex.fileset.patterns import Hit, broker_order, expand, has_pattern, is_hidden, matcher
    from rmqindex.fileset.planned_index import lacking_text

__all__ = [
    "Hit",
    "broker_order",
    "cover_index",
    "expand",
    "has_pattern",
    "index_files",
    "is_coverable",
    "is_hidden",
    "is_index_name",
    "is_other_kind",
    "lacking_text",
    "layout_beside",
    "list_index_files",
    "matcher",
    "open_in_store",
    "resolve",
]

__getattr__ = importer(
    __name__,
    {
        "cover": (
            "cover_index",
            "is_coverable",
        ),
        "geometry": (
            "layout_beside",
            "open_in_store",
        ),
        "paths": (
            "index_files",
            "is_index_name",
            "is_other_kind",
            "list_index_files",
            "resolve",
        ),
        "patterns": (
            "Hit",
            "broker_order",
            "expand",
            "has_pattern",
            "is_hidden",
            "matcher",
        ),
        "planned_index": ("lacking_text",),
    },
)


def __dir__() -> list[str]:
    """List the room's names."""
    return __all__
