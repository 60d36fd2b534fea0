"""The lines without Spark: building, looking up, decoding, and reading from a cold disk."""

from __future__ import annotations

import contextlib
import ctypes
import mmap
import os
import shutil
import statistics
from typing import TYPE_CHECKING
from unittest import mock

import numpy as np

from benchmarks._broker import start_broker
from benchmarks._data import (
    FILE_NAME,
    KEY_LENGTH,
    TOPIC,
    key_bytes,
    key_strings,
    offsets,
    timestamps,
)
from benchmarks._rounds import Comparison, Goal, compared, interleaved, timed
from rmqindex import IndexFile, IndexFileWriter, Layout, index_key_hashes

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    import pyarrow as pa
    from numpy.typing import NDArray

    from benchmarks._context import Context

__all__ = ["build", "cold", "decode", "look_up", "seconds_to_write", "without_waiting_for_the_disk"]

_NANOS = 1e9
_STORED = ["key_hash", "phy_offset", "time_diff", "prev_position"]
_MAX_NUM = 64
_COLD_OPENINGS = 25


def build(context: Context) -> Iterator[Comparison]:
    """Build a file from topics and keys."""
    broker = start_broker(context.work.parent)
    count = context.sizes.build
    layout = Layout() if count < Layout().capacity else context.sizes.layout
    numbers = np.arange(count, dtype=np.uint64)
    keys, phy_offsets, times = key_strings(numbers), offsets(numbers), timestamps(numbers)
    java = (
        broker.strings(key_bytes(numbers).tobytes(), KEY_LENGTH),
        _java_longs(phy_offsets),
        _java_longs(times),
    )
    path = context.work / "built" / FILE_NAME
    path.parent.mkdir(exist_ok=True)

    def theirs(*, durable: bool) -> float:
        path.unlink(missing_ok=True)
        return (
            broker.build(str(path), layout.hash_slot_num, layout.index_num, TOPIC, *java, durable)
            / _NANOS
        )

    def ours(*, durable: bool) -> float:
        with contextlib.nullcontext() if durable else without_waiting_for_the_disk():
            return seconds_to_write(path, layout, keys, phy_offsets, times)

    for durable, note in ((False, "both until the bytes are in the page cache"), (True, "")):
        measured = interleaved(
            {
                "rmqindex": lambda durable=durable: ours(durable=durable),
                "IndexFile.putKey": lambda durable=durable: theirs(durable=durable),
            },
            context.sizes.rounds if not durable else context.sizes.slow_rounds,
        )
        what = ", and wait until it is on the disk" if durable else ""
        yield compared(
            measured,
            "rmqindex",
            "IndexFile.putKey",
            work=f"build a file from {count:,} topics and keys{what}",
            goal=Goal(3 if durable else 4),
            rows=count,
            note=note,
        )
    path.unlink()


def _java_longs(values: NDArray[np.int64]) -> object:
    import jpype  # noqa: PLC0415  (the JVM runs by now)

    return jpype.JArray(jpype.JLong)(values)


def seconds_to_write(
    path: Path,
    layout: Layout,
    keys: pa.Array,
    phy_offsets: NDArray[np.int64],
    times: NDArray[np.int64],
) -> float:
    """Hash keys and write them to a new file; return how long it took."""
    path.unlink(missing_ok=True)

    def write() -> None:
        hashes = index_key_hashes(TOPIC, keys)
        with IndexFileWriter(path, layout) as writer:
            assert writer.put_many(hashes, phy_offsets, times) == len(keys)

    return timed(write)()


@contextlib.contextmanager
def without_waiting_for_the_disk() -> Iterator[None]:
    """Leave out what depends on the disk alone."""
    with mock.patch("os.fsync", _nothing), mock.patch("os.fdatasync", _nothing):
        yield


def _nothing(descriptor: int) -> None:
    """Do not wait."""


def look_up(context: Context) -> Iterator[Comparison]:
    """Look up keys of a full file."""
    broker = start_broker(context.work.parent)
    layout, count = context.sizes.layout, context.sizes.lookup
    numbers = np.random.default_rng(1).choice(context.sizes.rows, count, replace=False)
    numbers = numbers.astype(np.uint64)
    keys = key_strings(numbers)
    path = context.index_file
    java_keys = broker.strings(key_bytes(numbers).tobytes(), KEY_LENGTH)
    java_file = broker.open(str(path), layout.hash_slot_num, layout.index_num)
    with IndexFile(path) as file:
        found = file.lookup(index_key_hashes(TOPIC, keys)).num_rows

        def ours() -> float:
            return timed(lambda: file.lookup(index_key_hashes(TOPIC, keys)))()

        def theirs() -> float:
            nanos, hits = broker.select(java_file, TOPIC, java_keys, _MAX_NUM)
            assert hits == found, f"{hits} hits, not {found}"
            return nanos / _NANOS

        yield compared(
            interleaved(
                {"rmqindex": ours, "IndexFile.selectPhyOffset": theirs},
                context.sizes.rounds,
                warm_ups=2,
            ),
            "rmqindex",
            "IndexFile.selectPhyOffset",
            work=f"look up {count:,} keys in {context.sizes.rows:,} entries",
            goal=Goal(6),
            rows=count,
        )
    java_file.shutdown()


def decode(context: Context) -> Iterator[Comparison]:
    """Decode every field of a full file."""
    broker = start_broker(context.work.parent)
    layout, count = context.sizes.layout, context.sizes.rows
    path = context.index_file
    buffer = broker.map(str(path))
    with IndexFile(path) as file:

        def scan(columns: list[str] | None) -> Callable[[], float]:
            return timed(lambda: sum(batch.num_rows for batch in file.scan(columns=columns)))

        measured = interleaved(
            {
                "rmqindex": scan(_STORED),
                "all columns": scan(None),
                "ByteBuffer": lambda: broker.read(buffer, layout.hash_slot_num, count)[0] / _NANOS,
            },
            context.sizes.rounds,
            warm_ups=2,
        )
        work = f"decode every field of {count:,} entries"
        yield compared(measured, "rmqindex", "ByteBuffer", work=work, goal=Goal(1), rows=count)
        yield compared(
            measured,
            "all columns",
            "ByteBuffer",
            work=f"{work}, with the three columns that follow from them",
            against="ByteBuffer, stored fields alone",
            goal=Goal(0),
            rows=count,
        )


def cold(context: Context) -> Iterator[Comparison]:
    """Look up keys in a file of which nothing is in memory."""
    path = context.work / "cold"
    shutil.copyfile(context.index_file, path)
    numbers = np.random.default_rng(2).choice(context.sizes.rows, 100, replace=False)
    hashes = index_key_hashes(TOPIC, key_strings(numbers.astype(np.uint64)))

    def read(keys: NDArray[np.int32]) -> int:
        _drop_from_memory(path)
        with IndexFile(path) as file:
            assert file.lookup(keys).num_rows >= len(keys)
        return _resident_bytes(path)

    note = (
        "pages of the file in memory afterwards (mincore), none before (POSIX_FADV_DONTNEED); "
        "opening the file and finding its geometry included"
    )
    for work, each in (
        ("one key", [read(hashes[place : place + 1]) for place in range(_COLD_OPENINGS)]),
        (f"{len(hashes)} keys", [read(hashes) / len(hashes)]),
    ):
        yield Comparison(
            work=f"look up {work} in a cold file",
            against="bytes read a key",
            figure=statistics.median(each) / 1024,
            goal=Goal(64, at_least=False, unit="KiB"),
            note=note,
        )
    path.unlink()


def _drop_from_memory(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
        os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
    finally:
        os.close(descriptor)
    left = _resident_bytes(path)
    if left:
        raise RuntimeError(f"{path}: {left} bytes stay in memory; is it on a disk?")


def _resident_bytes(path: Path) -> int:
    """Return how many bytes of a file are in memory, by ``mincore``."""
    libc = ctypes.CDLL(None, use_errno=True)
    with path.open("r+b") as file, mmap.mmap(file.fileno(), 0) as mapping:
        pages = -(-len(mapping) // mmap.PAGESIZE)
        states = (ctypes.c_ubyte * pages)()
        start = ctypes.c_char.from_buffer(mapping)
        address = ctypes.c_void_p(ctypes.addressof(start))
        failed = libc.mincore(address, ctypes.c_size_t(len(mapping)), states)
        del start
        if failed:
            raise OSError(ctypes.get_errno(), "mincore")
        return int((np.frombuffer(states, np.uint8) & 1).sum()) * mmap.PAGESIZE
