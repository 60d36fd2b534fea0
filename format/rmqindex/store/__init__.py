"""A broker's store: what it holds, its checkpoint, and the log of DLedger in it."""

from typing import TYPE_CHECKING

from rmqindex.lazy_exports import lazy_exports

if TYPE_CHECKING:
    from rmqindex.store.checkpoint import StoreCheckpoint as StoreCheckpoint
    from rmqindex.store.contents import refuse_rocksdb_index as refuse_rocksdb_index
    from rmqindex.store.contents import refuse_target as refuse_target
    from rmqindex.store.dledger import dledger_data as dledger_data
    from rmqindex.store.roots import root_of as root_of
    from rmqindex.store.sample import sample_store as sample_store
else:
    __getattr__, __dir__, __all__ = lazy_exports(__name__)
