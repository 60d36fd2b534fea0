"""The broker's checkpoint file, which is raised so that a broker keeps an index (spec: checkpoint).

A broker that starts after a crash deletes the IndexFiles that end later than the checkpoint's
``indexMsgTimestamp``, which it sets when it flushes a full file.

RocketMQ: ``StoreCheckpoint``, ``IndexService.load``.
"""

from __future__ import annotations

import contextlib
import os
import struct
from dataclasses import astuple, dataclass, replace
from pathlib import Path

from rmqindex.arguments import int_of
from rmqindex.errors import RmqIndexError
from rmqindex.indexfile.committed import header_of
from rmqindex.layout.index_file import INT64_MIN
from rmqindex.layout.store import CHECKPOINT_NAME, COMMITLOG_FOLDER, INDEX_FOLDER
from rmqindex.storage.disk import move_synced, open_regular, open_to_read
from rmqindex.storage.location import Location
from rmqindex.storage.writable import write_own
from rmqindex.store.contents import refuse_target
from rmqindex.store.dledger import dledger_data
from rmqindex.store.store import list_index_files
from rmqindex.transaction.broker_lock import BrokerLock

# StoreCheckpoint.java: five big-endian longs at the start of one page.
_FIELDS = struct.Struct(">5q")
_FILE_SIZE = 4096
# StoreCheckpoint.getMinTimestamp: how far back the broker goes to be safe.
_SAFETY_MARGIN_MS = 3000
_MODE = 0o644

# The bytes behind these fields belong to newer brokers.
_FIELDS_END = _FIELDS.size
#: Where those from 5.5.0 on have ``logicsPhysicalOffset``.
DISPATCHED_OFFSET = _FIELDS_END


@dataclass(frozen=True, slots=True)
class StoreCheckpoint:
    """How far a store is known to be flushed to disk.

    All times are epoch milliseconds, 0 for never.

    Attributes:
        physic_msg_timestamp: Store time of the last message flushed to the CommitLog.
        logics_msg_timestamp: Store time of the last message flushed to the ConsumeQueues.
        index_msg_timestamp: ``end_timestamp`` of the last full IndexFile flushed.
        master_flushed_offset: CommitLog offset that the master flushed, bytes.
        confirm_phy_offset: CommitLog offset that is confirmed, bytes.

    Raises:
        ValueError: A field beyond 64 bits.
        TypeError: A field that is not an int.
    """

    physic_msg_timestamp: int = 0
    logics_msg_timestamp: int = 0
    index_msg_timestamp: int = 0
    master_flushed_offset: int = 0
    confirm_phy_offset: int = 0

    def __post_init__(self) -> None:
        """Refuse values that the file cannot hold."""
        for name in self.__slots__:
            object.__setattr__(self, name, int_of(name, getattr(self, name)))

    @property
    def min_timestamp(self) -> int:
        """From where CommitLog and ConsumeQueues may disagree (``getMinTimestamp``)."""
        least = min(self.physic_msg_timestamp, self.logics_msg_timestamp) - _SAFETY_MARGIN_MS
        # The broker subtracts in 64 bits, which wrap.
        return max(least + 2**64 if least < INT64_MIN else least, 0)

    @property
    def min_timestamp_index(self) -> int:
        """From where the index may lack messages too (``getMinTimestampIndex``)."""
        return min(self.min_timestamp, self.index_msg_timestamp)

    @classmethod
    def from_bytes(cls, data: bytes | bytearray | memoryview) -> StoreCheckpoint:
        """Decode a checkpoint; as in the broker, bytes missing of the 4,096 are zero."""
        return cls(*_FIELDS.unpack(bytes(data[: _FIELDS.size]).ljust(_FIELDS.size, b"\0")))

    def to_bytes(self) -> bytes:
        """Encode the checkpoint as 4,096 bytes, of which 40 are used."""
        return _FIELDS.pack(*astuple(self)).ljust(_FILE_SIZE, b"\0")

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> StoreCheckpoint:
        """Read a checkpoint file.

        Args:
            path: A local file, such as ``<store root>/checkpoint``.

        Raises:
            RmqIndexError: It is no file, but a pipe, say.
            OSError: The file is absent, is a directory, or cannot be read.
        """
        with open(path, "rb", opener=open_to_read) as file:
            return cls.from_bytes(file.read(_FIELDS.size))

    @staticmethod
    def dispatched_offset(path: str | os.PathLike[str]) -> int:
        """Return up to which offset the ConsumeQueues were flushed, bytes; 0 where it is unknown.

        Only brokers from 5.5.0 on note it (``logicsPhysicalOffset``), behind the other fields.

        Args:
            path: As :meth:`load` takes it.

        Raises:
            RmqIndexError: It is no file, but a pipe, say.
            OSError: The file is absent, is a directory, or cannot be read.
        """
        with open(path, "rb", opener=open_to_read) as file:
            data = file.read(DISPATCHED_OFFSET + 8)[DISPATCHED_OFFSET:]
        return int.from_bytes(data.ljust(8, b"\0"), "big", signed=True)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write a checkpoint file, and sync it to disk; a crash leaves the old one or the new one.

        Args:
            path: A local file; one that exists is replaced, but its permissions and the bytes
                behind the fields are kept: brokers from 5.5.0 on have another field there.

        Raises:
            RmqIndexError: It is a symbolic link, or not a regular file.
            OSError: The file cannot be written.
        """
        target = Path(path)
        staged = target.with_name(f".{target.name}.next")
        mode, beyond = _MODE, b""
        with contextlib.suppress(FileNotFoundError), open(target, "rb", opener=open_regular) as old:
            mode = os.fstat(old.fileno()).st_mode & 0o777
            old.seek(_FIELDS_END)
            beyond = old.read()
        fields = self.to_bytes()[:_FIELDS_END]
        try:
            write_own(staged, (fields + beyond).ljust(_FILE_SIZE, b"\0"), mode)
            move_synced(staged, target)
        except BaseException:
            staged.unlink(missing_ok=True)
            raise


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
    """Refuse an index directory whose store's checkpoint cannot be raised."""
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

    Returns:
        The present checkpoint.
    """
    known = present_checkpoint(index)
    latest = max(
        (header_of(entry.path).end_timestamp for entry in list_index_files(index)), default=0
    )
    before = known or StoreCheckpoint()
    checkpoint = replace(before, index_msg_timestamp=max(latest, before.index_msg_timestamp))
    if checkpoint != known:
        checkpoint.save(index.parent / CHECKPOINT_NAME)
    return checkpoint


def present_checkpoint(index: Path) -> StoreCheckpoint | None:
    """Return the checkpoint that a write will raise; None where the store has none yet."""
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
