"""A broker's store: how paths resolve, its files, their names, its checkpoint and its lock."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rmqindex.rooms import importer

if TYPE_CHECKING:
    from rmqindex.store.checkpoint import StoreCheckpoint
    from rmqindex.store.contents import refuse_rocksdb_index, refuse_target
    from rmqindex.store.cover import cover_index, is_coverable
    from rmqindex.store.dledger import dledger_data
    from rmqindex.store.geometry import layout_beside, open_in_store
    from rmqindex.store.live_store import is_live
    from rmqindex.store.paths import (
        index_files,
        is_index_name,
        is_other_kind,
        list_index_files,
        resolve,
    )
    from rmqindex.store.patterns import Hit, broker_order, expand, has_pattern, is_hidden, matcher
    from rmqindex.store.sample import sample_store

__all__ = [
    "Hit",
    "StoreCheckpoint",
    "broker_order",
    "cover_index",
    "dledger_data",
    "expand",
    "has_pattern",
    "index_files",
    "is_coverable",
    "is_hidden",
    "is_index_name",
    "is_live",
    "is_other_kind",
    "layout_beside",
    "list_index_files",
    "matcher",
    "open_in_store",
    "refuse_rocksdb_index",
    "refuse_target",
    "resolve",
    "sample_store",
]

__getattr__ = importer(
    __name__,
    {
        "checkpoint": ("StoreCheckpoint",),
        "contents": (
            "refuse_rocksdb_index",
            "refuse_target",
        ),
        "cover": (
            "cover_index",
            "is_coverable",
        ),
        "dledger": ("dledger_data",),
        "geometry": (
            "layout_beside",
            "open_in_store",
        ),
        "live_store": ("is_live",),
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
        "sample": ("sample_store",),
    },
)


def __dir__() -> list[str]:
    """List the room's names."""
    return __all__
