"""A broker's store: what a path of it stands for, its files, and its checkpoint."""

from typing import TYPE_CHECKING

from rmqindex.lazy_exports import lazy_exports

if TYPE_CHECKING:
    from rmqindex.store.checkpoint import StoreCheckpoint as StoreCheckpoint
    from rmqindex.store.checkpoint import cover_index as cover_index
    from rmqindex.store.checkpoint import is_coverable as is_coverable
    from rmqindex.store.contents import refuse_rocksdb_index as refuse_rocksdb_index
    from rmqindex.store.contents import refuse_target as refuse_target
    from rmqindex.store.names import broker_order as broker_order
    from rmqindex.store.names import is_index_name as is_index_name
    from rmqindex.store.names import timestamp_name as timestamp_name
    from rmqindex.store.sample import sample_store as sample_store
    from rmqindex.store.snapshot import IndexSnapshot as IndexSnapshot
    from rmqindex.store.snapshot import SnapshotFile as SnapshotFile
    from rmqindex.store.snapshot import lacking_text as lacking_text
    from rmqindex.store.snapshot import layout_beside as layout_beside
    from rmqindex.store.snapshot import open_in_store as open_in_store
    from rmqindex.store.snapshot import open_proved as open_proved
    from rmqindex.store.snapshot import read_listed as read_listed
    from rmqindex.store.store import Hit as Hit
    from rmqindex.store.store import Store as Store
    from rmqindex.store.store import expand as expand
    from rmqindex.store.store import has_pattern as has_pattern
    from rmqindex.store.store import index_files as index_files
    from rmqindex.store.store import is_hidden as is_hidden
    from rmqindex.store.store import is_other_kind as is_other_kind
    from rmqindex.store.store import list_index_files as list_index_files
    from rmqindex.store.store import log_in as log_in
    from rmqindex.store.store import matcher as matcher
    from rmqindex.store.store import root_of as root_of
    from rmqindex.store.surroundings import ensure_no_store_is_missed as ensure_no_store_is_missed
else:
    __getattr__, __dir__, __all__ = lazy_exports(__name__)
