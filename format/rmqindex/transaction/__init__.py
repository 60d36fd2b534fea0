"""Transactions: all files of a write enter an index directory at once, or none does.

Jobs stage files in a :class:`Staging`, locally or on S3, and commit them in one step.
Readers list a directory by :func:`directory_entries`, which hides a commit until it has finished,
so nobody ever sees a mixture.
A dead commit is undone, or on S3 finished, by the next write.
Whoever writes into a store holds its :class:`BrokerLock`, which keeps brokers and other writers
out.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from rmqindex.rooms import importer

if TYPE_CHECKING:
    from rmqindex.transaction.broker_lock import BrokerLock, BrokerState
    from rmqindex.transaction.directories import (
        FileEntry,
        directory_entries,
        entries_or_none,
        exists,
        list_once,
    )
    from rmqindex.transaction.journal import Journal, effective_listing, staging_root
    from rmqindex.transaction.local_staging import LocalStaging
    from rmqindex.transaction.owner import Owner

__all__ = [
    "BrokerLock",
    "BrokerState",
    "FileEntry",
    "Journal",
    "LocalStaging",
    "Owner",
    "directory_entries",
    "effective_listing",
    "entries_or_none",
    "exists",
    "list_once",
    "staging_root",
]

__getattr__ = importer(
    __name__,
    {
        "broker_lock": ("BrokerLock", "BrokerState"),
        "directories": (
            "FileEntry",
            "directory_entries",
            "entries_or_none",
            "exists",
            "list_once",
        ),
        "journal": (
            "Journal",
            "effective_listing",
            "staging_root",
        ),
        "local_staging": ("LocalStaging",),
        "owner": ("Owner",),
    },
)


def __dir__() -> list[str]:
    """List the room's names."""
    return __all__
