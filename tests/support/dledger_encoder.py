"""Encodes logs in entries of DLedger, as its classes do, for logs larger than the golden ones."""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import TYPE_CHECKING

from commitlog_encoder import Log

if TYPE_CHECKING:
    from commitlog_encoder import Message

HEAD_SIZE = 48
NORMAL, NOOP = 1, 2


@dataclass
class DLedgerLog(Log):
    """A log of DLedger in files of one size."""

    index: int = 0
    term: int = 0

    def append(self, message: Message) -> int:
        """Store a message in an entry of its own."""
        size = len(message.encode(0))
        self._begin(size)
        offset = self.end + HEAD_SIZE
        self._entry(NORMAL, message.encode(offset))
        self.offsets.append(offset)
        return offset

    def noop(self) -> None:
        """Store an entry without a message."""
        self._begin(0)
        self._entry(NOOP, b"")

    def _begin(self, size: int) -> None:
        room = self.file_size - self.end % self.file_size
        if HEAD_SIZE + size + 8 > room:
            self._write(struct.pack(">ii", -1, room))
            self.end += room - 8

    def _entry(self, magic: int, body: bytes) -> None:
        head = struct.pack(">iiqqq", magic, HEAD_SIZE + len(body), self.index, self.term, self.end)
        self._write(head + struct.pack(">iiii", 0, 0, 0, len(body)) + body)
        self.index += 1
