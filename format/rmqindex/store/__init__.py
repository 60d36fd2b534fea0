"""A broker's store: what it holds, its checkpoint, and the log of DLedger in it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rmqindex.rooms import importer

if TYPE_CHECKING:
    from rmqindex.store.checkpoint import StoreCheckpoint
    from rmqindex.store.contents import refuse_rocksdb_index, refuse_target
    from rmqindex.store.dledger import dledger_data
    from rmqindex.store.roots import root_of
    from rmqindex.store.sample import sample_store

__all__ = [
    "StoreCheckpoint",
    "dledger_data",
    "refuse_rocksdb_index",
    "refuse_target",
    "root_of",
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
        "dledger": ("dledger_data",),
        "roots": ("root_of",),
        "sample": ("sample_store",),
    },
)


def __dir__() -> list[str]:
    """List the room's names."""
    return __all__
