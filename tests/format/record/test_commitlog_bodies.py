"""Compressed bodies and inner batches."""

from __future__ import annotations

import struct
import tracemalloc
import zlib
from contextlib import suppress
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rmqindex import RmqIndexError, decompress_bodies, decompress_body, inner_messages
from rmqindex.record.bodies import MAX_BODY_SIZE

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


@pytest.mark.requirement("LOG-BOD-4")
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


@pytest.mark.requirement("LOG-BAT-3")
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


class TestLimits:
    """What a small file can make of memory."""

    @pytest.fixture(autouse=True)
    def traced(self):
        """Count what Python and NumPy take; Arrow counts its own."""
        tracemalloc.start()
        yield
        tracemalloc.stop()

    @pytest.mark.parametrize("kind", [0x001, 0x101, 0x201])
    def test_a_bomb_takes_no_more_memory_than_the_limit(self, kind):
        """64 MiB of zeros are a few kilobytes when they are packed; little of it is unpacked."""
        name = {0x101: "lz4", 0x201: "zstd"}.get(kind)
        data = bytes(MAX_BODY_SIZE + 1)
        bomb = packed(data, name) if name else zlib.compress(data)
        del data
        tracemalloc.reset_peak()
        before = tracemalloc.get_traced_memory()[0]
        with pytest.raises(RmqIndexError, match=f"body: expected at most {1 << 20} bytes"):
            decompress_body(bomb, kind, max_size=1 << 20)
        assert tracemalloc.get_traced_memory()[1] - before < 8 << 20
        with pytest.raises(RmqIndexError, match=f"body: expected at most {MAX_BODY_SIZE} bytes"):
            decompress_body(bomb, kind)

    def test_many_bodies_have_a_limit_together(self):
        """Each is small enough, and an array of them has to be."""
        bodies = pa.array([zlib.compress(bytes(1 << 20))] * 100, pa.binary())
        with pytest.raises(RmqIndexError, match="at most 4194304 bytes in all after unpacking"):
            decompress_bodies(bodies, [1] * 100, max_total_size=4 << 20)
        assert tracemalloc.get_traced_memory()[1] < 12 << 20
        assert len(decompress_bodies(bodies[:4], [1] * 4, max_total_size=4 << 20)) == 4
        with pytest.raises(RmqIndexError, match="body: expected at most 1000 bytes"):
            decompress_bodies(bodies, [1] * 100, max_size=1000)

    @pytest.mark.system
    def test_an_inner_batch_holds_as_many_messages_as_a_broker_counts(self):
        """A megabyte of the smallest ones packs to a few kilobytes."""
        smallest = inner(b"", b"")
        assert len(inner_messages(zlib.compress(smallest * 32767), INNER | 1)) == 32767
        with pytest.raises(RmqIndexError, match=r"message at byte 720874: expected at most 32767"):
            inner_messages(zlib.compress(smallest * 2_000_000), INNER | 1)
        assert tracemalloc.get_traced_memory()[1] < 96 << 20

    def test_the_bodies_of_inner_batches_have_the_same_limit(self):
        """They are unpacked in the same way."""
        body = zlib.compress(inner(bytes(1000), b""))
        with pytest.raises(RmqIndexError, match="body: expected at most 999 bytes"):
            inner_messages(body, INNER | 1, max_size=999)

    def test_a_batch_inside_a_batch_is_not_opened(self):
        """However deep they are nested: a body is bytes."""
        body = inner(b"a", b"")
        for _ in range(1000):
            body = inner(body, b"")
        (message,) = inner_messages(body, INNER)
        assert len(message.body) == len(body) - 22


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
