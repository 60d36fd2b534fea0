"""The checkpoint, against ``struct``."""

from __future__ import annotations

import dataclasses
import struct

from rmqindex import StoreCheckpoint

MAX_LENGTH = 64
SHORT = 40_000
_FIELDS = struct.Struct(">5q")


def seeds():
    """Return a checkpoint, an empty and a short one."""
    return [
        _FIELDS.pack(1_700_000_000_000, 1_700_000_000_500, 1_699_999_000_000, 4096, 0),
        b"",
        b"x",
    ]


def check(data):
    """Decode, compare, and encode again."""
    checkpoint = StoreCheckpoint.from_bytes(data)
    fields = _FIELDS.unpack(data[: _FIELDS.size].ljust(_FIELDS.size, b"\0"))
    assert dataclasses.astuple(checkpoint) == fields
    least = (min(fields[:2]) - 3000 + 2**63) % 2**64 - 2**63  # in 64 bits, as the broker subtracts
    assert checkpoint.min_timestamp == max(least, 0)
    assert checkpoint.min_timestamp_index <= checkpoint.min_timestamp
    encoded = checkpoint.to_bytes()
    assert len(encoded) == 4096
    assert StoreCheckpoint.from_bytes(encoded) == checkpoint
