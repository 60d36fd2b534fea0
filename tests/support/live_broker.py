"""A process that writes a store as a broker does: through shared mappings, while others read.

Each value is put where RocketMQ's ``IndexFile.putKey`` and ``IndexHeader`` put it, in that order:
entry, slot, begin fields, slot count, index count, end fields; nothing is flushed.
Messages go into the CommitLog first, record by record, and now and then a record stands half
written for a moment.

Run as a program it appends at a steady rate until its time is over, or it is killed:

    python tests/support/live_broker.py STORE --seconds 30 --rate 5000
"""

from __future__ import annotations

import argparse
import contextlib
import mmap
import os
import random
import struct
import subprocess
import sys
import time
from datetime import datetime
from pathlib import Path

from commitlog_encoder import BLANK, Message, properties_text
from twin import java_hash

HEADER = 40
#: Up to the topic's length in a record with IPv4 hosts and no body.
HEAD = 89


def store(data, code, offset, value):
    """Put a number at once, as a ByteBuffer does: who reads sees the former one or this one.

    ``struct.pack_into`` fills the place with zeros first, and a reader can see them.
    """
    packed = struct.pack(code, value)
    data[offset : offset + len(packed)] = packed


class LiveIndex:
    """The IndexFiles of one broker; each put is visible at once."""

    def __init__(self, directory, hash_slot_num=500, index_num=2_000):
        """Go on with the last file, as the broker does when it starts, or begin with none."""
        self.directory = Path(directory)
        self.directory.mkdir(parents=True, exist_ok=True)
        self.hash_slot_num = hash_slot_num
        self.index_num = index_num
        self.map = None
        self.end = (0, 0)  # phy_offset and store time of the last put
        self.count = 0
        names = sorted(path.name for path in self.directory.iterdir())
        if names:
            self._open(names[-1])
            _, end_time, _, end_offset, _, self.count = struct.unpack_from(">qqqqii", self.map)
            self.count = max(self.count, 1)
            self.end = (end_offset, end_time)

    def _open(self, name):
        size = HEADER + 4 * self.hash_slot_num + 20 * self.index_num
        with (self.directory / name).open("a+b") as file:
            if os.fstat(file.fileno()).st_size < size:
                file.truncate(size)
            self.map = mmap.mmap(file.fileno(), size)

    def roll(self, name=None):
        """Begin the next file, named by the time, which inherits the end of the last."""
        while name is None or (self.directory / name).exists():
            now = datetime.now().astimezone()
            name = now.strftime("%Y%m%d%H%M%S") + f"{now.microsecond // 1000:03d}"
        if self.map is not None:
            self.map.close()
        self._open(name)
        offset, timestamp = self.end
        if offset > 0:
            store(self.map, ">q", 16, offset)
            store(self.map, ">q", 24, offset)
        if timestamp > 0:
            store(self.map, ">q", 0, timestamp)
            store(self.map, ">q", 8, timestamp)
        self.count = 1

    def put(self, key_hash, phy_offset, store_timestamp):
        """Append an entry."""
        if self.map is None or self.count >= self.index_num:
            self.roll()
        data, count = self.map, self.count
        slot_at = HEADER + 4 * (key_hash % self.hash_slot_num)
        (slot,) = struct.unpack_from(">i", data, slot_at)
        if slot <= 0 or slot > count:
            slot = 0
        (begin,) = struct.unpack_from(">q", data, 0)
        seconds = max((store_timestamp - begin) // 1000, 0) if begin > 0 else 0
        at = HEADER + 4 * self.hash_slot_num + 20 * count
        store(data, ">i", at, key_hash)
        store(data, ">q", at + 4, phy_offset)
        store(data, ">i", at + 12, seconds)
        store(data, ">i", at + 16, slot)
        store(data, ">i", slot_at, count)
        if count <= 1:
            store(data, ">q", 16, phy_offset)
            store(data, ">q", 0, store_timestamp)
        if slot == 0:
            (used,) = struct.unpack_from(">i", data, 32)
            store(data, ">i", 32, used + 1)
        store(data, ">i", 36, count + 1)
        store(data, ">q", 24, phy_offset)
        store(data, ">q", 8, store_timestamp)
        self.count = count + 1
        self.end = (phy_offset, store_timestamp)


class LiveLog:
    """The CommitLog of one broker."""

    def __init__(self, directory, file_size=64 * 1024, pause=0.0):
        """Begin at offset 0.

        Args:
            directory: Where the files are.
            file_size: What each has, bytes.
            pause: For how many seconds a record may stand half written.
        """
        self.directory = Path(directory)
        self.directory.mkdir(parents=True, exist_ok=True)
        self.file_size = file_size
        self.pause = pause
        self.end = 0
        self.map = None

    def _place(self):
        start = self.end - self.end % self.file_size
        if self.end == start or self.map is None:
            if self.map is not None:
                self.map.close()
            with (self.directory / f"{start:020d}").open("w+b") as file:
                file.truncate(self.file_size)
                self.map = mmap.mmap(file.fileno(), self.file_size)
        return self.end - start

    def append(self, message, *, half=False):
        """Store a message; return its offset.

        Args:
            message: What to store.
            half: Whether the record stands half written for a moment.
        """
        record = message.encode(self.end)
        at = self._place()
        if len(record) + 8 > self.file_size - at:
            self.map[at : at + 8] = struct.pack(">iI", self.file_size - at, BLANK)
            self.end += self.file_size - at
            record = message.encode(self.end)
            at = self._place()
        if half:
            # No order of the bytes of a copy is promised: the ends first, then the middle.
            # Only a hole within the head, which no copy leaves, could not be seen.
            edge = random.randrange(8, len(record))
            rest = random.randrange(max(edge, HEAD), len(record) + 1)
            self.map[at : at + edge] = record[:edge]
            self.map[at + rest : at + len(record)] = record[rest:]
            time.sleep(self.pause)
        self.map[at : at + len(record)] = record
        self.end += len(record)
        return self.end - len(record)


class LiveStore:
    """A store: messages into the CommitLog, their keys into the index."""

    def __init__(self, root, *, pause=0.0, **index):
        """Begin a store."""
        self.log = LiveLog(Path(root) / "commitlog", pause=pause)
        self.index = LiveIndex(Path(root) / "index", **index)
        self.pause = pause
        self.number = 0

    def send(self):
        """Store a message with a unique key and one or two more, and index it."""
        self.number += 1
        number, now = self.number, time.time_ns() // 1_000_000
        topic, uniq_key = f"Topic{number % 3}", f"ID{number:08d}"
        keys = [f"order-{number % 1000}", f"user-{number % 77}"][: 1 + number % 2]
        text = properties_text([("UNIQ_KEY", uniq_key), ("KEYS", " ".join(keys))])
        message = Message(
            topic=topic,
            body=b"b" * (number % 50),
            properties=text,
            store_timestamp=now,
            born_timestamp=now,
        )
        half = self.pause > 0 and number % 97 == 0
        offset = self.log.append(message, half=half)
        for key in [uniq_key, *keys]:
            self.index.put(java_hash(f"{topic}#{key}"), offset, now)


@contextlib.contextmanager
def started(root, folder, **settings):
    """Run this as a program; yield its process once there is a file in a folder of the store.

    Args:
        root: The store.
        folder: ``index`` or ``commitlog``.
        **settings: Its options.
    """
    options = [f"--{name.replace('_', '-')}={value}" for name, value in settings.items()]
    command = [sys.executable, __file__, root, *options]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as writer:
        while not any(Path(root).glob(f"{folder}/*")):
            assert writer.poll() is None, "it ended without a file"
            time.sleep(0.01)
        yield writer


def follow(writer, offset, open_stream, limits, next_batch, rows_of):
    """Read a stream of what a program writes to its end, with readers that die at any moment.

    Args:
        writer: The program, as of :func:`started`.
        offset: Where the stream begins.
        open_stream: Opens a reader, with a limit of its batches or without.
        limits: The name of such a limit, and values to choose among.
        next_batch: Returns the end of a reader's next batch behind an offset, and its rows.
        rows_of: Returns the rows that a reader has between two offsets.

    Returns:
        The rows of all batches, and how many batches had any.
    """
    name, values = limits
    chance = random.Random()
    reader, rows, batches = None, [], 0
    while True:
        is_over = writer.poll() is not None
        if reader is None or chance.random() < 0.3:
            reader = open_stream(**{name: str(chance.choice(values))})
        end, more = next_batch(reader, offset)
        if chance.random() < 0.1:
            # The process died before the batch was done: it is planned again.
            assert rows_of(open_stream(), offset, end) == more
        rows += more
        batches += end != offset
        if is_over and end == offset:
            return rows, batches
        offset = end


def main(argv=None):
    """Send messages at a steady rate."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("store", type=Path)
    parser.add_argument("--seconds", type=float, default=30.0)
    parser.add_argument("--rate", type=float, default=2_000.0, help="messages per second")
    parser.add_argument("--index-num", type=int, default=2_000, help="entry places of a file")
    parser.add_argument("--pause", type=float, default=0.002, help="of half a record, seconds")
    arguments = parser.parse_args(argv)
    store = LiveStore(
        arguments.store,
        pause=arguments.pause,
        hash_slot_num=max(arguments.index_num // 4, 1),
        index_num=arguments.index_num,
    )
    begun = time.monotonic()
    while (elapsed := time.monotonic() - begun) < arguments.seconds:
        while store.number < elapsed * arguments.rate:
            store.send()
        time.sleep(0.001)
    sys.stdout.write(f"{store.number}\n")


if __name__ == "__main__":
    main()
