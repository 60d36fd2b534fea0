"""Raises the checkpoint so that a broker keeps an index (RocketMQ: ``IndexService.load``).

A broker that starts after a crash deletes the IndexFiles that end later than the checkpoint's
``indexMsgTimestamp``, which it sets when it flushes a full file.
"""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

from rmqindex.errors import RmqIndexError
from rmqindex.fileset.paths import list_index_files
from rmqindex.folders import COMMITLOG_FOLDER, INDEX_FOLDER
from rmqindex.indexfile.committed import open_index_source, read_header
from rmqindex.storage.location import Location
from rmqindex.store.checkpoint import CHECKPOINT_NAME, StoreCheckpoint
from rmqindex.store.contents import refuse_target
from rmqindex.store.dledger import dledger_data
from rmqindex.transaction.broker_lock import BrokerLock

__all__ = ["cover_index", "ensure_coverable", "is_coverable", "raise_checkpoint"]


def cover_index(path: str | os.PathLike[str]) -> StoreCheckpoint:
    """Raise a store's checkpoint so that a broker that starts after a crash keeps the index.

    ``index_msg_timestamp`` becomes the latest ``end_timestamp`` of the files, unless it is later
    already; the other fields do not change.
    A store without a checkpoint gets one whose other fields are 0, like a broker's new one.

    Args:
        path: A local store root that has ``index/``, or that directory.

    Returns:
        The present checkpoint.

    Raises:
        RmqIndexError: Not a store, or a broker runs on it, which would overwrite the checkpoint.
        OSError: The checkpoint cannot be written.
    """
    given = Path(os.path.abspath(path))  # noqa: PTH100  (resolve would follow links)
    parts = (INDEX_FOLDER, COMMITLOG_FOLDER, CHECKPOINT_NAME)
    is_root = any((given / name).exists() for name in parts)
    index = given / INDEX_FOLDER if is_root else given
    ensure_coverable(index)
    with BrokerLock.around(index).hold():
        return raise_checkpoint(index)


def ensure_coverable(index: Path) -> None:
    """Refuse an index directory whose store's checkpoint cannot be raised.

    Args:
        index: The directory, which may be absent.

    Raises:
        RmqIndexError: It is not part of a store, or a broker runs on it.
    """
    store = index.parent
    has_log = (store / COMMITLOG_FOLDER).is_dir() or dledger_data(Location.of(store)) is not None
    if not (store / CHECKPOINT_NAME).is_file() and not has_log:
        raise RmqIndexError(
            f"{store}: expected a store, with a checkpoint or a commitlog, got neither"
        )
    refuse_target(Location.of(index))
    BrokerLock.around(index).ensure_free()


def is_coverable(index: Path) -> bool:
    """Return whether a write to an index directory raises a checkpoint unless told otherwise.

    It does in the index of a store on which no broker runs: that of a running one would be
    overwritten.

    Args:
        index: The local directory, which may be absent.
    """
    if index.name != INDEX_FOLDER or (index.parent / CHECKPOINT_NAME).is_dir():
        return False  # Spark's checkpoints often have this name, too
    try:
        ensure_coverable(index)
    except RmqIndexError:
        return False
    return True


def raise_checkpoint(index: Path) -> StoreCheckpoint:
    """As :func:`cover_index`, for a caller that keeps brokers from starting.

    Args:
        index: A local index directory.

    Returns:
        The present checkpoint.

    Raises:
        OSError: The checkpoint cannot be written.
    """
    target = index.parent / CHECKPOINT_NAME
    known = StoreCheckpoint.load(target) if target.exists() else StoreCheckpoint()
    latest = max((_end_timestamp(entry.path) for entry in list_index_files(index)), default=0)
    checkpoint = replace(known, index_msg_timestamp=max(latest, known.index_msg_timestamp))
    if checkpoint != known or not target.exists():
        checkpoint.save(target)
    return checkpoint


def _end_timestamp(path: str) -> int:
    with open_index_source(path) as source:
        return read_header(source).end_timestamp
