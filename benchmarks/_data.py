"""The rows that everything is measured on: made anew, the same on every machine."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from rmqindex import IndexFileWriter, Layout, index_key_hashes

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from numpy.typing import NDArray

__all__ = [
    "FILE_NAME",
    "KEY_LENGTH",
    "TOPIC",
    "Sizes",
    "key_bytes",
    "key_strings",
    "make_file",
    "make_keys",
    "make_messages",
    "offsets",
    "read_through",
    "timestamps",
]

TOPIC = "orders"
KEY_LENGTH = 32
FILE_NAME = "20260101000000000"

# Messages of 1 KB, 20 a millisecond, from 2026 on.
_MESSAGE_BYTES = 1000
_MESSAGES_PER_MILLISECOND = 20
_BEGIN_MILLIS = 1_767_225_600_000
_CHUNK = 1 << 20

_HEX_PAIRS = np.frombuffer(bytes(range(256)).hex().encode("ascii"), "<u2")
_READ_BYTES = 1 << 20


@dataclass(frozen=True, slots=True)
class Sizes:
    """How much work is measured.

    Attributes:
        build: Keys put into a new file.
        lookup: Keys looked up.
        layout: The geometry of the full file, whose capacity is the number of rows elsewhere.
        in_list: Keys in one ``IN``.
        small_files: How many small files, at most and at least.
        messages: Records in a CommitLog.
        message_sizes: The bytes of each record: those of most lines, and of a log of short ones.
        growth_entries: Entries of indexes of one file, for the curves.
        growth_files: Full files of indexes of several.
        growth_messages: Records of the logs that are indexed anew.
        request_layout: The geometry of a full file in an object store: as the broker's, four
            entries to a slot, and so large that the links of a chain lie far apart.
        request_listings: Files that are listed in an object store.
        request_files: Files there that a key is looked up in.
        join_files: How many files the keys of joins are looked up in.
        join_keys: Keys of the large join.
        few_keys: Keys of the small join.
        engine_keys: Keys of the join in each engine.
        rounds: Rounds of the fast lines.
        slow_rounds: Rounds of those that take tens of seconds.
        join_rounds: Rounds of those that take a minute.
    """

    build: int = 5_000_000
    lookup: int = 1_000_000
    layout: Layout = field(default_factory=Layout)
    in_list: int = 1_000
    small_files: tuple[int, int] = (1_000, 10)
    messages: int = 1 << 20
    message_sizes: tuple[int, int] = (1024, 200)
    growth_entries: tuple[int, ...] = (100_000, 1_000_000, 10_000_000)
    growth_files: tuple[int, ...] = (1, 5, 50, 250, 1_300)
    growth_messages: tuple[int, ...] = (100_000, 1_000_000, 10_000_000)
    request_layout: Layout = field(default_factory=lambda: Layout(500_000, 2_000_000))
    request_listings: tuple[int, ...] = (10, 100, 1_000)
    request_files: tuple[int, ...] = (10, 100)
    join_files: int = 10
    join_keys: int = 10_000_000
    few_keys: int = 10_000
    engine_keys: int = 1_000_000
    rounds: int = 7
    slow_rounds: int = 3
    join_rounds: int = 3

    @classmethod
    def quick(cls) -> Sizes:
        """Return sizes that only show whether everything runs."""
        return cls(
            build=100_000,
            lookup=10_000,
            layout=Layout(100_000, 400_000),
            in_list=100,
            small_files=(50, 10),
            messages=1 << 14,
            growth_entries=(1_000, 10_000),
            growth_files=(1, 5),
            growth_messages=(1_000, 10_000),
            request_layout=Layout(10_000, 40_000),
            request_listings=(10, 100),
            request_files=(10,),
            join_keys=20_000,
            few_keys=1_000,
            engine_keys=20_000,
            rounds=3,
            slow_rounds=2,
            join_rounds=1,
        )

    @property
    def rows(self) -> int:
        """How many rows the full file holds."""
        return self.layout.capacity


def key_bytes(numbers: NDArray[np.uint64]) -> NDArray[np.uint8]:
    """Return 32 random hexadecimal digits for every message number, one key after another."""
    words = np.empty((len(numbers), 2), np.uint64)
    for place in (0, 1):
        # SplitMix64: a counter goes in, random bits come out.
        bits = (numbers * np.uint64(2) + np.uint64(place + 1)) * np.uint64(0x9E3779B97F4A7C15)
        bits = (bits ^ (bits >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        bits = (bits ^ (bits >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        words[:, place] = bits ^ (bits >> np.uint64(31))
    return _HEX_PAIRS[words.view(np.uint8)].view(np.uint8).reshape(-1)


def key_strings(numbers: NDArray[np.uint64]) -> pa.Array:
    """Return the keys of messages as an Arrow array."""
    ends = np.arange(len(numbers) + 1, dtype=np.int32) * np.int32(KEY_LENGTH)
    buffers = [None, pa.py_buffer(ends), pa.py_buffer(key_bytes(numbers))]
    return pa.Array.from_buffers(pa.string(), len(numbers), buffers)


def offsets(numbers: NDArray[np.uint64]) -> NDArray[np.int64]:
    """Return where messages start in the CommitLog, bytes."""
    return numbers.astype(np.int64) * _MESSAGE_BYTES


def timestamps(numbers: NDArray[np.uint64]) -> NDArray[np.int64]:
    """Return when messages were stored, epoch milliseconds."""
    return _BEGIN_MILLIS + numbers.astype(np.int64) // _MESSAGES_PER_MILLISECOND


def _chunks(numbers: NDArray[np.uint64]) -> Iterator[NDArray[np.uint64]]:
    for start in range(0, len(numbers), _CHUNK):
        yield numbers[start : start + _CHUNK]


def make_file(path: Path, layout: Layout, first: int, count: int) -> None:
    """Write an IndexFile of so many messages from a number on, unless it is there."""
    if path.exists():
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_suffix(".part")
    with IndexFileWriter(part, layout) as writer:
        for numbers in _chunks(np.arange(first, first + count, dtype=np.uint64)):
            hashes = index_key_hashes(TOPIC, key_strings(numbers))
            writer.put_many(hashes, offsets(numbers), timestamps(numbers))
    part.rename(path)


def make_messages(path: Path, numbers: NDArray[np.uint64]) -> None:
    """Write messages as one Parquet file of topic, key, offset and time, unless it is there."""
    if path.exists():
        return
    schema = pa.schema(
        [
            pa.field("topic", pa.string(), nullable=False),
            pa.field("key", pa.string(), nullable=False),
            pa.field("phy_offset", pa.int64(), nullable=False),
            pa.field("store_timestamp", pa.timestamp("us", tz="UTC"), nullable=False),
        ]
    )
    part = path.with_suffix(".part")
    with pq.ParquetWriter(part, schema, use_dictionary=["topic"]) as writer:
        for chunk in _chunks(numbers):
            columns = [
                pa.repeat(TOPIC, len(chunk)),
                key_strings(chunk),
                pa.array(offsets(chunk)),
                pa.array(timestamps(chunk) * 1000).view(pa.timestamp("us", tz="UTC")),
            ]
            writer.write_batch(pa.record_batch(columns, schema=schema))
    part.rename(path)


def make_keys(path: Path, numbers: NDArray[np.uint64]) -> None:
    """Write the keys of messages as one Parquet file of topic, key and number."""
    if path.exists():
        return
    schema = pa.schema(
        [
            pa.field("topic", pa.string(), nullable=False),
            pa.field("key", pa.string(), nullable=False),
            pa.field("number", pa.int64(), nullable=False),
        ]
    )
    part = path.with_suffix(".part")
    with pq.ParquetWriter(part, schema, use_dictionary=["topic"]) as writer:
        for chunk in _chunks(numbers):
            columns = [pa.repeat(TOPIC, len(chunk)), key_strings(chunk), pa.array(chunk.view("i8"))]
            writer.write_batch(pa.record_batch(columns, schema=schema))
    part.rename(path)


def read_through(path: Path) -> None:
    """Read a whole file, in order."""
    block = bytearray(_READ_BYTES)
    with path.open("rb", buffering=0) as file:
        while file.readinto(block):
            pass
