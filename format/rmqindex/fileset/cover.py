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

__all__ = [
    "cover_index",
    "ensure_coverable",
    "is_coverable",
    "present_checkpoint",
    "raise_checkpoint",
]


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
        RmqIndexError: Not a store, a checkpoint that cannot be read, or a broker runs on it, which
            would overwrite the checkpoint.
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
        RmqIndexError: As :func:`present_checkpoint`.
        OSError: The checkpoint cannot be written.
    """
    known = present_checkpoint(index)
    latest = max((_end_timestamp(entry.path) for entry in list_index_files(index)), default=0)
    before = known or StoreCheckpoint()
    checkpoint = replace(before, index_msg_timestamp=max(latest, before.index_msg_timestamp))
    if checkpoint != known:
        checkpoint.save(index.parent / CHECKPOINT_NAME)
    return checkpoint


def present_checkpoint(index: Path) -> StoreCheckpoint | None:
    """Return the checkpoint that a write will raise; None where the store has none yet.

    Args:
        index: A local index directory, which may be absent.

    Raises:
        RmqIndexError: There is one that cannot be read.
    """
    path = index.parent / CHECKPOINT_NAME
    try:
        return StoreCheckpoint.load(path)
    except FileNotFoundError:
        return None
    except PermissionError as error:
        raise _UnraisableError(path, error.strerror, "let this user read it") from error
    except (OSError, RmqIndexError) as error:
        got = "a directory" if path.is_dir() else "no readable file"
        raise _UnraisableError(path, got, "move it away, or restore it") from error


class _UnraisableError(RmqIndexError):
    """A checkpoint that cannot be raised."""

    def __init__(self, path: Path, got: object, remedy: str) -> None:
        self.hint = f"{remedy}; checkpoint=False leaves it as it is"
        super().__init__(
            f"{path}: expected the store's checkpoint, which is raised so that a broker that "
            f"starts after a crash keeps the IndexFiles, got {got}; {self.hint}"
        )


def _end_timestamp(path: str) -> int:
    with open_index_source(path) as source:
        return read_header(source).end_timestamp
