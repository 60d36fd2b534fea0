"""The header of an IndexFile, against ``struct``."""

from __future__ import annotations

import dataclasses
import struct

from rmqindex import IndexHeader

from ..outcome import outcome

MAX_LENGTH = 64
SHORT = 40_000
_FIELDS = struct.Struct(">qqqqii")


def seeds():
    """Return headers of an empty and of a filled file, and a short one."""
    return [
        bytes(40),
        _FIELDS.pack(1_700_000_000_000, 1_700_000_060_000, 0, 4096, 3, 5),
        b"short",
    ]


def check(data):
    """Decode, compare, and encode again."""
    found = outcome(IndexHeader.from_bytes, data, refuses=True)
    assert found.is_value == (len(data) >= _FIELDS.size), found.error
    if not found.is_value:
        return
    header = found.value
    fields = _FIELDS.unpack_from(data)
    assert dataclasses.astuple(header) == fields
    assert header.entry_count == max(fields[-1] - 1, 0)
    assert header.to_bytes() == data[: _FIELDS.size]
