"""A broker that goes on writing a store, one store of a field after the other, as RocketMQ does.

RocketMQ: ``IndexFile.putKey``, ``IndexHeader``, ``IndexService``, ``CommitLog.appendMessage``.
"""

from __future__ import annotations

import os
import random
import struct
from collections import deque
from dataclasses import replace
from typing import TYPE_CHECKING

from commitlog_encoder import BLANK, Message, properties_text
from rmqindex import Layout, StoreCheckpoint, key_hash

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

__all__ = ["LiveWriter"]

_BEGIN = 1_700_000_000_000
_FIELDS = {
    "begin_timestamp": (0, ">q"),
    "end_timestamp": (8, ">q"),
    "begin_phy_offset": (16, ">q"),
    "end_phy_offset": (24, ">q"),
    "hash_slot_count": (32, ">i"),
    "index_count": (36, ">i"),
}


class LiveWriter:
    """Writes messages and their entries; each step is one store into one file."""

    def __init__(
        self,
        store: Path,
        layout: Layout,
        log_file_size: int,
        *,
        lag: int = 2,
        log_files: int = 1 << 30,
        seed: int = 0,
    ) -> None:
        """Begin an empty store.

        Args:
            store: The store root, which is made.
            layout: The geometry.
            log_file_size: The size of a log file, bytes.
            lag: How many messages are in the log before the first of them is indexed.
            log_files: How many log files are kept.
            seed: Of the keys.
        """
        self.store = store
        self.layout = layout
        self._log_file_size = log_file_size
        self._lag = lag
        self._log_files = log_files
        self._random = random.Random(seed)
        for name in ("index", "commitlog"):
            (store / name).mkdir(parents=True)
        (store / "abort").touch()
        StoreCheckpoint(2**60, 2**60).save(store / "checkpoint")
        self._end = 0
        self._time = _BEGIN
        self._number = 0
        self._names = 0
        self._index: int | None = None
        self._path: Path | None = None
        self._last_end = (0, 0)
        self._pending: deque[tuple[int, int, list[str]]] = deque()
        self._flushes: list[int] = []
        self._is_whole = False
        self._steps = self._run()

    def step(self, count: int = 1) -> None:
        """Make some stores."""
        for _ in range(count):
            next(self._steps)

    def write(self, messages: int) -> None:
        """Make stores until so many more messages are in the log."""
        wanted = self._number + messages
        while self._number < wanted:
            next(self._steps)

    def settle(self) -> None:
        """Index what is in the log, so that nothing is half done."""
        self._lag = 0
        while not self._is_whole:
            next(self._steps)

    def close(self) -> None:
        """Close the file that is written."""
        if self._index is not None:
            os.close(self._index)

    def _run(self) -> Iterator[None]:
        while True:
            yield from self._append()
            while len(self._pending) > self._lag:
                yield from self._dispatch(*self._pending.popleft())
            while self._flushes:
                checkpoint = StoreCheckpoint.load(self.store / "checkpoint")
                time = self._flushes.pop()
                replace(checkpoint, index_msg_timestamp=time).save(self.store / "checkpoint")
                yield
            yield from self._expire()
            self._is_whole = not self._pending
            yield
            self._is_whole = False

    def _append(self) -> Iterator[None]:
        self._time += self._random.randrange(0, 900)
        keys = [f"key-{self._random.randrange(60)}" for _ in range(self._random.randrange(4))]
        unique = f"U{self._number:08d}"
        message = Message(
            topic="Live",
            properties=properties_text([("UNIQ_KEY", unique), ("KEYS", " ".join(keys))]),
            store_timestamp=self._time,
        )
        room = self._log_file_size - self._end % self._log_file_size
        if len(message.encode(self._end)) + 8 > room:
            yield from self._store_log(struct.pack(">iI", room, BLANK))
            self._end += room
        offset = self._end
        record = message.encode(offset)
        yield from self._store_log(record)
        self._end += len(record)
        self._number += 1
        self._pending.append((offset, self._time, [unique, *keys]))

    def _store_log(self, data: bytes) -> Iterator[None]:
        start = self._end - self._end % self._log_file_size
        path = self.store / "commitlog" / f"{start:020d}"
        file = os.open(path, os.O_RDWR | os.O_CREAT)
        try:
            if not os.fstat(file).st_size:
                yield
                os.ftruncate(file, self._log_file_size)
                yield
            for first in range(0, len(data), 40):
                os.pwrite(file, data[first : first + 40], self._end - start + first)
                yield
        finally:
            os.close(file)

    def _dispatch(self, offset: int, time: int, keys: list[str]) -> Iterator[None]:
        for key in keys:
            if self._index is None or self._header("index_count") >= self.layout.index_num:
                yield from self._roll()
            yield from self._put(key_hash(f"Live#{key}"), offset, time)

    def _roll(self) -> Iterator[None]:
        if self._index is not None:
            self._last_end = self._header("end_phy_offset"), self._header("end_timestamp")
            self._flushes.append(self._last_end[1])
            os.close(self._index)
        self._names += 1
        self._path = self.store / "index" / f"{20260101000000000 + self._names}"
        self._index = os.open(self._path, os.O_RDWR | os.O_CREAT)
        yield
        os.ftruncate(self._index, self.layout.file_size)
        yield
        offset, time = self._last_end
        for name, value in (
            ("begin_phy_offset", offset),
            ("end_phy_offset", offset),
            ("begin_timestamp", time),
            ("end_timestamp", time),
        ):
            if value:
                self._set(name, value)
                yield
        self._set("index_count", 1)
        yield

    def _put(self, hash_: int, offset: int, time: int) -> Iterator[None]:
        position = self._header("index_count")
        place = self.layout.slot_offset(hash_ % self.layout.hash_slot_num)
        assert self._index is not None
        (slot,) = struct.unpack(">i", os.pread(self._index, 4, place))
        if not 0 < slot <= position:
            slot = 0
        begin = self._header("begin_timestamp")
        seconds = max((time - begin) // 1000, 0) if begin > 0 else 0
        entry = struct.pack(">iqii", hash_, offset, seconds, slot)
        os.pwrite(self._index, entry, self.layout.entry_offset(position))
        yield
        os.pwrite(self._index, struct.pack(">i", position), place)
        yield
        if position <= 1:
            self._set("begin_phy_offset", offset)
            yield
            self._set("begin_timestamp", time)
            yield
        if not slot:
            self._set("hash_slot_count", self._header("hash_slot_count") + 1)
            yield
        self._set("index_count", position + 1)
        yield
        self._set("end_phy_offset", offset)
        yield
        self._set("end_timestamp", time)
        yield

    def _header(self, name: str) -> int:
        place, kind = _FIELDS[name]
        assert self._index is not None
        value: int = struct.unpack(kind, os.pread(self._index, struct.calcsize(kind), place))[0]
        return value

    def _set(self, name: str, value: int) -> None:
        place, kind = _FIELDS[name]
        assert self._index is not None
        os.pwrite(self._index, struct.pack(kind, value), place)

    def _expire(self) -> Iterator[None]:
        files = sorted((self.store / "commitlog").iterdir())
        for path in files[: -self._log_files]:
            path.unlink()
            yield
        first = int(min(path.name for path in (self.store / "commitlog").iterdir()))
        for path in sorted((self.store / "index").iterdir())[:-1]:
            with path.open("rb") as file:
                header = file.read(40)
            if struct.unpack_from(">q", header, 24)[0] >= first:
                break
            path.unlink()
            yield
