"""Transactions: all files of a write enter an index directory at once, or none does.

Jobs stage files in a :class:`Staging`, locally or on S3, and commit them in one step.
Readers list a directory by :func:`directory_entries`, which hides a commit until it has finished,
so nobody ever sees a mixture.
A dead commit is undone, or on S3 finished, by the next write.
Whoever writes into a store holds its :class:`BrokerLock`, which keeps brokers and other writers
out.
"""

from typing import TYPE_CHECKING

from rmqindex.lazy_exports import lazy_exports

if TYPE_CHECKING:
    from rmqindex.transaction.broker_lock import BrokerLock as BrokerLock
    from rmqindex.transaction.broker_lock import BrokerState as BrokerState
    from rmqindex.transaction.directories import FileEntry as FileEntry
    from rmqindex.transaction.directories import directory_entries as directory_entries
    from rmqindex.transaction.directories import entries_or_none as entries_or_none
    from rmqindex.transaction.directories import exists as exists
    from rmqindex.transaction.directories import list_once as list_once
    from rmqindex.transaction.jobs import Recovery as Recovery
    from rmqindex.transaction.jobs import recover as recover
    from rmqindex.transaction.journal import Journal as Journal
    from rmqindex.transaction.journal import effective_listing as effective_listing
    from rmqindex.transaction.journal import staging_root as staging_root
    from rmqindex.transaction.local_staging import LocalStaging as LocalStaging
    from rmqindex.transaction.object_staging import ObjectStaging as ObjectStaging
    from rmqindex.transaction.owner import Owner as Owner
else:
    __getattr__, __dir__, __all__ = lazy_exports(__name__)
