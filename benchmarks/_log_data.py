"""A CommitLog of equal messages: made anew, the same on every machine."""

from __future__ import annotations

import zlib
from typing import TYPE_CHECKING

import numpy as np

from benchmarks._data import KEY_LENGTH, TOPIC, key_bytes, timestamps
from rmqindex import Layout, rebuild_index
from rmqindex.layout import (
    BLANK_MAGIC_CODE,
    BODY_CRC_OFFSET,
    BODY_LENGTH_OFFSET,
    BORN_TIMESTAMP_OFFSET,
    FILE_NAME_DIGITS,
    MAGIC_CODE_OFFSET,
    MAGIC_CODE_V1,
    PHYSICAL_OFFSET_OFFSET,
    QUEUE_OFFSET_OFFSET,
    STORE_TIMESTAMP_OFFSET,
)

if TYPE_CHECKING:
    from pathlib import Path

    from numpy.typing import NDArray

__all__ = ["make_store"]

_BODY_START = BODY_LENGTH_OFFSET + 4
_UNIQ_KEY, _KEYS, _END = b"UNIQ_KEY\x01", b"\x02KEYS\x01", b"\x02TAGS\x01TagA\x02"
_CHUNK = 1 << 14


def make_store(path: Path, messages: int, size: int) -> Path:
    """Make a store of messages with a unique key and a key each, and its index, if not there.

    Args:
        path: The store's root.
        messages: How many records the one CommitLog file has room for; the last is the blank record
            that fills it.
        size: The bytes of each record.

    Returns:
        The root.
    """
    if not path.exists():
        part = path.with_suffix(".part")
        (part / "commitlog").mkdir(parents=True, exist_ok=True)
        _write_log(part / "commitlog" / f"{0:0{FILE_NAME_DIGITS}}", messages, size)
        rebuild_index(part, part / "index", Layout(), replace=True)
        part.rename(path)
    return path


def _write_log(path: Path, messages: int, size: int) -> None:
    properties = _UNIQ_KEY + bytes(KEY_LENGTH) + _KEYS + bytes(KEY_LENGTH) + _END
    tail = bytes([len(TOPIC)]) + TOPIC.encode() + len(properties).to_bytes(2, "big") + properties
    body = b"x" * (size - _BODY_START - len(tail))
    template = np.frombuffer(bytes(_BODY_START) + body + tail, np.uint8)
    uniq_key = size - len(properties) + len(_UNIQ_KEY)
    keys = uniq_key + KEY_LENGTH + len(_KEYS)
    with path.open("wb") as file:
        for start in range(0, messages, _CHUNK):
            numbers = np.arange(start, min(start + _CHUNK, messages), dtype=np.uint64)
            rows = np.tile(template, (len(numbers), 1))
            _put(rows, 0, np.full(len(numbers), size), 4)
            _put(rows, MAGIC_CODE_OFFSET, np.full(len(numbers), MAGIC_CODE_V1), 4)
            _put(rows, BODY_CRC_OFFSET, np.full(len(numbers), zlib.crc32(body) & 0x7FFFFFFF), 4)
            _put(rows, QUEUE_OFFSET_OFFSET, numbers, 8)
            _put(rows, PHYSICAL_OFFSET_OFFSET, numbers * np.uint64(size), 8)
            _put(rows, BORN_TIMESTAMP_OFFSET, timestamps(numbers), 8)
            _put(rows, STORE_TIMESTAMP_OFFSET, timestamps(numbers), 8)
            _put(rows, BODY_LENGTH_OFFSET, np.full(len(numbers), len(body)), 4)
            for place, first in ((uniq_key, 0), (keys, messages)):
                text = key_bytes(numbers + np.uint64(first)).reshape(-1, KEY_LENGTH)
                rows[:, place : place + KEY_LENGTH] = text
            if numbers[-1] == messages - 1:
                _put(rows[-1:], MAGIC_CODE_OFFSET, np.array([BLANK_MAGIC_CODE]), 4)
            file.write(rows.data)


def _put(rows: NDArray[np.uint8], place: int, values: NDArray[np.integer], size: int) -> None:
    """Write a big-endian field of every record."""
    field = np.ascontiguousarray(values.astype(f">i{size}")).view(np.uint8)
    rows[:, place : place + size] = field.reshape(-1, size)
