"""Compressed bodies and inner batches."""

from __future__ import annotations

import struct
import zlib
from contextlib import suppress
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rmqindex import RmqIndexError, decompress_bodies, decompress_body, inner_messages

INNER = 0x40 | 0x80


def inner(body, properties, flag=0):
    """Encode one message of a batch."""
    return (
        struct.pack(">iiiii", 22 + len(body) + len(properties), 0, 0, flag, len(body))
        + body
        + struct.pack(">h", len(properties))
        + properties
    )


def packed(data, kind):
    """Compress in the frame format that RocketMQ writes."""
    sink = pa.BufferOutputStream()
    with pa.CompressedOutputStream(sink, kind) as stream:
        stream.write(data)
    return sink.getvalue().to_pybytes()


@pytest.mark.parametrize(
    ("sys_flag", "body"),
    [
        (0x001, zlib.compress(b"abc" * 100)),
        (0x301, zlib.compress(b"abc" * 100)),
        (0x101, packed(b"abc" * 100, "lz4")),
        (0x201, packed(b"abc" * 100, "zstd")),
        (0x300, b"abc" * 100),
    ],
)
def test_each_compression_unpacks(sys_flag, body):
    """The bits 8 to 10 say how, bit 0 whether."""
    assert decompress_body(body, sys_flag) == b"abc" * 100


def test_an_empty_body_needs_no_unpacking():
    """Whatever its flags say, as in the broker."""
    assert decompress_body(b"", 0x701) == b""


@pytest.mark.parametrize("kind", [0x001, 0x101, 0x201])
def test_a_bomb_is_refused(kind):
    """No memory beyond the limit is taken."""
    name = {0x101: "lz4", 0x201: "zstd"}.get(kind)
    bomb = packed(bytes(1 << 20), name) if name else zlib.compress(bytes(1 << 20))
    with pytest.raises(RmqIndexError, match="at most 1000 bytes"):
        decompress_body(bomb, kind, max_size=1000)
    assert len(decompress_body(bomb, kind, max_size=1 << 20)) == 1 << 20


def test_an_unknown_compression_is_refused():
    """Types 4 to 7 are not assigned."""
    with pytest.raises(RmqIndexError, match="compression type from 0 to 3, got 5"):
        decompress_body(b"x", 0x501)


@given(st.binary(min_size=1, max_size=60), st.sampled_from([0x001, 0x101, 0x201, 0x301]))
def test_broken_bodies_unpack_or_are_our_error(body, sys_flag):
    """Nothing foreign is raised."""
    with suppress(RmqIndexError):
        decompress_body(body, sys_flag)


def test_nulls_stay_where_bodies_unpack():
    """Rows without a record have no body."""
    bodies = pa.array([None, zlib.compress(b"x"), b"y"], pa.binary())
    assert decompress_bodies(bodies, [1, 1, 0]).to_pylist() == [None, b"x", b"y"]
    with pytest.raises(ValueError, match="sys_flags: expected 3, got 1"):
        decompress_bodies(bodies, [1])


def test_an_inner_batch_opens():
    """The n-th message has the n-th queue offset."""
    body = inner(b"a", b"KEYS\x01k\x02UNIQ_KEY\x01u", 7) + inner(b"", b"")
    first, second = inner_messages(zlib.compress(body), INNER | 1, 40)
    assert (first.queue_offset, first.flag, first.body) == (40, 7, b"a")
    assert (first.property("KEYS"), first.property("UNIQ_KEY")) == ("k", "u")
    assert (second.queue_offset, second.body, second.properties) == (41, b"", ())
    assert second.property("KEYS") is None


@pytest.mark.parametrize("sys_flag", [0, 0x40, 0x80])
def test_other_records_hold_no_inner_messages(sys_flag):
    """Both bits must be set, as the client asks."""
    assert inner_messages(inner(b"a", b""), sys_flag) == []


@given(st.integers(0, 30), st.integers(0, 255))
def test_a_damaged_inner_batch_is_sound_or_our_error(place, value):
    """Lying lengths take no memory and no time."""
    body = bytearray(inner(b"a", b"K\x01v\x02") + inner(b"bb", b""))
    body[place] = value
    try:
        assert len(inner_messages(bytes(body), INNER)) <= 3
    except RmqIndexError as error:
        assert "inner batch: message at byte" in str(error)  # noqa: PT017  (both are right)


@pytest.mark.parametrize("kind", ["lz4", "zstd"])
def test_a_body_that_does_not_unpack_leaves_no_memory_behind(kind):
    """A reader that drops malformed bodies may meet any number of them."""

    def refuse(times):
        for _ in range(times):
            with pytest.raises(RmqIndexError, match=kind):
                decompress_body(b"neither of them", 0x101 if kind == "lz4" else 0x201)

    refuse(3)
    before = data_bytes()
    refuse(200)
    assert data_bytes() - before < 50 * 2**20


def data_bytes():
    """Return how much memory this process has mapped for data."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return 1024 * next(int(line.split()[1]) for line in lines if line.startswith("VmData:"))
