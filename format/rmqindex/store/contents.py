"""Detects what a store holds, and refuses what rmqindex cannot read or must not write.

A broker keeps its index in IndexFiles, in RocksDB or in both, its ConsumeQueues in files, in
RocksDB or in both, and its CommitLog plain or in DLedger. Only files and their bytes show which,
not names of folders: every broker from 5.4.0 on makes an empty ``rocksdbstore``.

RocketMQ: ``MessageRocksDBStorage``, ``ConsumeQueueRocksDBStorage``, ``DLedgerCommitLog``,
``IndexStoreFile``, ``StorePathConfigHelper``.
"""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING

from rmqindex.errors import RmqIndexError, command_line
from rmqindex.indexfile.committed import open_index_source, refuse_tiered_file
from rmqindex.layout.record import (
    BLANK_MAGIC_CODE,
    FILE_NAME_DIGITS,
    MAGIC_CODE_OFFSET,
    MAGIC_CODE_V1,
    MAGIC_CODE_V2,
    SIZE_WIDTH,
)
from rmqindex.layout.store import (
    BATCH_FOLDER,
    CHECKPOINT_NAME,
    COMMITLOG_FOLDER,
    INDEX_FOLDER,
    QUEUE_FOLDER,
    ROCKSDB_QUEUE_FOLDER,
    ROCKSDB_STORE_FOLDER,
    TIERED_FOLDERS,
)
from rmqindex.storage.disk import refuse_lost_link
from rmqindex.storage.location import Location
from rmqindex.storage.opening import open_source
from rmqindex.store.dledger import begins_like_dledger, is_dledger_folder
from rmqindex.transaction.broker_lock import BrokerLock
from rmqindex.transaction.directories import entries_or_none, exists

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from rmqindex.transaction.broker_lock import StoreHold
    from rmqindex.transaction.directories import FileEntry

# UtilAll.offset2FileName.
_LOG_NAME = re.compile(rf"[0-9]{{{FILE_NAME_DIGITS}}}")
# Names of the tiered storage's index files: epoch milliseconds.
_TIERED_NAME = re.compile(r"[0-9]{13}")

# Folders that a broker lists as it starts, and what shows that they are of a store.
_LISTED = frozenset({INDEX_FOLDER, COMMITLOG_FOLDER, QUEUE_FOLDER, BATCH_FOLDER})
_BESIDE = _LISTED | {CHECKPOINT_NAME}

# RocksDB's own file names.
_CURRENT = "CURRENT"
_MANIFEST_PREFIX = "MANIFEST-"
_SST_SUFFIX = ".sst"
_WAL_SUFFIX = ".log"
# The end of a table names its column family, after a key that may be shortened.
_DEFAULT_FAMILY = b"namedefault"
_TABLE_END_SIZE = 1 << 16
# IndexRocksDBRecord: each message has a record with its unique key.
_UNIQUE_KEY_MARK = b"@U@"
_WAL_BEGIN_SIZE = 1 << 20


def refuse_other_file(given: Location, file: Location, folder: Location) -> None:
    """Refuse a file that, by its name and its place or its bytes, is not an IndexFile."""
    name = file.name
    if name == CHECKPOINT_NAME:
        raise RmqIndexError(
            f"{given}: expected an IndexFile, an index directory or a store, got a checkpoint. For "
            f"its store's index give {folder or '/'}; `{command_line('dump', given)}` prints it"
        )
    if _TIERED_NAME.fullmatch(name):
        with open_index_source(file) as source:
            refuse_tiered_file(source)
    if not _LOG_NAME.fullmatch(name):
        return
    queues = folder.parent.parent.name
    if queues in (QUEUE_FOLDER, BATCH_FOLDER):
        what, how = "ConsumeQueue", "rmqindex.ConsumeQueue or the format rmqconsumequeue"
        store = folder.parent.parent.parent
    elif is_dledger_folder(folder.parent) or begins_like_dledger(file):
        raise _dledger_error(given, folder.parent)
    elif folder.name == COMMITLOG_FOLDER or _begins_like_a_log(file):
        what, how = "CommitLog", "rmqindex.CommitLog, the format rmqcommitlog or the command cat"
        store = folder.parent
    else:
        return
    raise RmqIndexError(
        f"{given}: expected an IndexFile, an index directory or a store, got a {what}. For its "
        f"store's index give {store or '/'}; a {what} is read by {how}"
    )


def _dledger_error(given: Location, dledger: Location) -> RmqIndexError:
    store = dledger.parent
    if exists(store.child(INDEX_FOLDER)):
        advice = f"For its store's index give {store or '/'}"
    else:
        advice = (
            "There is no index beside it; "
            f"`{command_line('rebuild', dledger, options=['--out', 'DIR'])}` makes one of its "
            "CommitLog"
        )
    return RmqIndexError(
        f"{given}: expected an IndexFile, an index directory or a store, got a file of DLedger "
        f"({dledger}). {advice}; its CommitLog is read by rmqindex.CommitLog, the format "
        "rmqcommitlog and the commands messages and cat"
    )


def refuse_other_log(given: Location, folder: Location) -> None:
    """Refuse a directory that has files named as those of a CommitLog, and is another one."""
    above = folder.absolute.parent
    if above.parent.name in (QUEUE_FOLDER, BATCH_FOLDER):
        raise RmqIndexError(
            f"{given}: expected a CommitLog, got a ConsumeQueue. For the CommitLog give its store, "
            f"{above.parent.parent or '/'}; a ConsumeQueue is read by rmqindex.ConsumeQueue, the "
            "format rmqconsumequeue or the command dump"
        )
    if folder.absolute.name == INDEX_FOLDER and is_dledger_folder(above):
        raise RmqIndexError(
            f"{given}: expected a CommitLog, got DLedger's own index of it. Give {above}"
        )


def _begins_like_a_log(file: Location) -> bool:
    """Return whether a file begins with a record, or with a blank one."""
    with open_source(file) as source:
        if source.size < MAGIC_CODE_OFFSET + SIZE_WIDTH:
            return False
        magic = int.from_bytes(source.read(MAGIC_CODE_OFFSET, SIZE_WIDTH), "big", signed=True)
    return magic in (MAGIC_CODE_V1, MAGIC_CODE_V2, BLANK_MAGIC_CODE)


# --- Tiered storage ---------------------------------------------------------------------------


def refuse_tiered_folder(directory: Location) -> None:
    """Refuse a directory that has index files of the tiered storage in or below it."""
    for entry in entries_or_none(directory):
        if entry.is_directory and entry.name in TIERED_FOLDERS:
            refuse_tiered_folder(directory.child(entry.name))
        elif _TIERED_NAME.fullmatch(entry.name) and not entry.is_directory:
            with open_index_source(entry.path) as source:
                refuse_tiered_file(source)


# --- RocksDB ----------------------------------------------------------------------------------


def refuse_database(path: Location, entries: Iterable[FileEntry]) -> None:
    """Refuse a directory that is a RocksDB database."""
    found = manifest_of(entries)
    if found is None:
        return
    if path.name in (QUEUE_FOLDER, ROCKSDB_QUEUE_FOLDER):
        raise _rocksdb_queue_error(path, f"{path.child(_CURRENT)} and {found}", path.parent)
    raise RmqIndexError(
        f"{path}: a RocksDB database ({_CURRENT} and {found}), which is not supported. Give its "
        f"store for the IndexFiles beside it, {path.parent or '/'}"
    )


def manifest_of(entries: Iterable[FileEntry]) -> str | None:
    """Return the name of the manifest if a directory is a database."""
    names = {entry.name for entry in entries if not entry.is_directory}
    manifests = sorted(name for name in names if name.startswith(_MANIFEST_PREFIX))
    return manifests[-1] if _CURRENT in names and manifests else None


def rocksdb_queues(store: Location) -> tuple[Location, str] | None:
    """Return where a store has ConsumeQueues in RocksDB, and the files that show it."""
    for name in (QUEUE_FOLDER, ROCKSDB_QUEUE_FOLDER):
        folder = store.child(name)
        found = manifest_of(entries_or_none(folder))
        if found is not None:
            return folder, f"{folder.child(_CURRENT)} and {found}"
    return None


def refuse_rocksdb_queues(store: Location) -> None:
    """Refuse a store whose ConsumeQueues are in RocksDB."""
    found = rocksdb_queues(store)
    if found is not None:
        raise _rocksdb_queue_error(*found, store)


def _rocksdb_queue_error(folder: Location, files: str, store: Location) -> RmqIndexError:
    return RmqIndexError(
        f"{folder}: expected files of ConsumeQueues, found those of RocksDB ({files}), as with "
        "storeType=defaultRocksDB or rocksdbCQDoubleWriteEnable=true, which is not supported. "
        f"`{command_line('rebuild-queues', store or '/', options=['--out', 'DIR'])}` makes files "
        "from the CommitLog, and leaves RocksDB alone"
    )


def rocksdb_index(store: Location) -> Location | None:
    """Return a file that proves that a store has an index in RocksDB, if any."""
    return _rocksdb_index(store.child(ROCKSDB_STORE_FOLDER))


def refuse_rocksdb_index(store: Location) -> None:
    """Refuse a store whose index is in RocksDB.

    Args:
        store: A store root without IndexFiles.

    Raises:
        RmqIndexError: Its index is in RocksDB.
    """
    proof = rocksdb_index(store)
    if proof is not None:
        raise RmqIndexError(
            f"{store}: expected IndexFiles, found none, and an index in RocksDB ({proof}), as with "
            "indexRocksDBEnable=true and indexFileWriteEnable=false, which is not supported. "
            f"`{command_line('rebuild', store or '/', options=['--out', 'DIR'])}` makes IndexFiles "
            "from the CommitLog"
        )


def _rocksdb_index(folder: Location) -> Location | None:
    """Return a file of a database that has records of the index, if any.

    The index is in the default column family; timers and transactions have others.
    """
    for entry in sorted(entries_or_none(folder), key=lambda entry: entry.name):
        if entry.is_directory or not entry.size:
            continue
        if entry.name.endswith(_SST_SUFFIX):
            with open_source(entry.path) as source:
                size = min(source.size, _TABLE_END_SIZE)
                if _DEFAULT_FAMILY in bytes(source.read(source.size - size, size)):
                    return entry.path
        elif entry.name.endswith(_WAL_SUFFIX):
            with open_source(entry.path) as source:
                if _UNIQUE_KEY_MARK in bytes(source.read(0, min(source.size, _WAL_BEGIN_SIZE))):
                    return entry.path
    return None


# --- Writes -----------------------------------------------------------------------------------


def hold_writable(
    directory: Path, *, allow_live_store: bool, dry_run: bool = False, alone: bool = False
) -> StoreHold:
    """Refuse a local directory that must not be written to, else hold the lock of its store.

    Args:
        directory: The directory.
        allow_live_store: Whether to go on where a broker runs.
        dry_run: Whether nothing will be written.
        alone: As :meth:`BrokerLock.hold` takes it.

    Returns:
        The hold, to be closed when everything is written.
    """
    lock = BrokerLock.around(directory)
    for store in lock.roots:
        refuse_target(Location.of(directory), Location.of(store))
    return lock.hold(allow_live_store=allow_live_store or dry_run, alone=alone)


def refuse_target(directory: Location, store: Location | None = None) -> None:
    """Refuse to write into a folder of DLedger, or among files that are not IndexFiles.

    Args:
        directory: The directory, which may be absent; a local path or a URI.
        store: The root of its store; by default its parent.

    Raises:
        RmqIndexError: It is a folder of DLedger, or inside one that a broker lists, or has files of
            a CommitLog, a ConsumeQueue, DLedger, the tiered storage or RocksDB; or it is a link to
            what is not there.
    """
    if directory.local is not None:
        refuse_lost_link(directory.local)
    refuse_inside(directory)
    for folder in (directory, directory.parent if store is None else store):
        if is_dledger_folder(folder):
            raise RmqIndexError(
                f"{directory}: expected a folder of a store to write to, got one of DLedger "
                f"({folder}). Give its store, {folder.parent or '/'}, or a directory outside"
            )
    entries = entries_or_none(directory)
    refuse_database(directory, entries)
    for entry in entries:
        if not entry.is_directory:
            refuse_other_file(directory, entry.path, directory)


def refuse_inside(directory: Location) -> None:
    """Refuse to write into a folder of a store that a broker lists as it starts.

    With a directory of digits in ``index`` it does not start (RocketMQ: ``IndexService.load``), and
    one below ``consumequeue`` is a topic or a queue to it.

    Args:
        directory: Where to write, which may be absent. It may itself be such a folder.

    Raises:
        RmqIndexError: It is inside one.
    """
    local = directory.local
    folder = directory.absolute if local is None else Location(os.path.realpath(local))
    while (above := folder.parent) != folder:
        folder = above
        if folder.name in _LISTED and any(
            exists(folder.parent.child(name)) for name in _BESIDE - {folder.name}
        ):
            raise RmqIndexError(
                f"{directory}: expected a directory outside of {folder}, whose contents a broker "
                "takes for its own; give another one"
            )
