"""The broker's checkpoint file (spec: checkpoint; RocketMQ: ``StoreCheckpoint``)."""

from __future__ import annotations

import contextlib
import os
import struct
from dataclasses import astuple, dataclass
from pathlib import Path

from rmqindex.arguments import int_of
from rmqindex.folders import CHECKPOINT_NAME
from rmqindex.layout import INT64_MIN
from rmqindex.ownfiles.disk import move_synced
from rmqindex.ownfiles.safe_open import open_regular, open_to_read
from rmqindex.ownfiles.writable import write_own

__all__ = ["CHECKPOINT_NAME", "StoreCheckpoint"]

# StoreCheckpoint.java: five big-endian longs at the start of one page.
_FIELDS = struct.Struct(">5q")
_FILE_SIZE = 4096
# StoreCheckpoint.getMinTimestamp: how far back the broker goes to be safe.
_SAFETY_MARGIN_MS = 3000
_MODE = 0o644

# The bytes behind these fields belong to newer brokers.
_FIELDS_END = _FIELDS.size


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
            RmqIndexError: It is not a regular file.
            OSError: The file is absent or cannot be read.
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
            RmqIndexError: It is not a regular file.
            OSError: The file is absent or cannot be read.
        """
        with open(path, "rb", opener=open_to_read) as file:
            data = file.read(_FIELDS_END + 8)[_FIELDS_END:]
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
