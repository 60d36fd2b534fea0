"""The 40-byte header."""

from __future__ import annotations

from dataclasses import astuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rmqindex import IndexHeader, Layout, RmqIndexError, salvage
from rmqindex.query import PointFile

INT64 = st.integers(-(2**63), 2**63 - 1)
INT32 = st.integers(-(2**31), 2**31 - 1)
TIERED_MAGIC = bytes.fromhex("bcc50289")
HEADERS = st.builds(IndexHeader, INT64, INT64, INT64, INT64, INT32, INT32)


def test_every_vector_has_its_header(vector):
    """What RocketMQ wrote is read field by field."""
    header = IndexHeader.from_bytes(vector.path.read_bytes())
    assert astuple(header) == tuple(vector.case["header"].values())


@given(HEADERS)
def test_a_header_survives_the_round_trip(header):
    """Every number of 64 and 32 bits has its bytes."""
    assert len(header.to_bytes()) == 40
    assert IndexHeader.from_bytes(header.to_bytes()) == header
    assert IndexHeader.from_bytes(header.to_bytes() + b"more") == header


@given(st.binary(max_size=80))
def test_bytes_either_decode_or_are_too_few(data):
    """There is no header that 40 bytes cannot hold."""
    if len(data) < 40:
        with pytest.raises(ValueError, match=f"header: expected 40 bytes, got {len(data)}"):
            IndexHeader.from_bytes(data)
    else:
        assert IndexHeader.from_bytes(data).to_bytes() == data[:40]


def test_integers_are_big_endian_and_signed():
    """As Java's ByteBuffer writes them."""
    data = bytes.fromhex("00000000000003e8" + "ff" * 8 + "00" * 16 + "00000002" + "00000003")
    assert IndexHeader.from_bytes(data) == IndexHeader(1000, -1, 0, 0, 2, 3)


@pytest.mark.parametrize(("index_count", "entries"), [(-5, 0), (0, 0), (1, 0), (2, 1), (200, 199)])
def test_the_count_is_one_ahead_of_the_entries(index_count, entries):
    """Entries are numbered from 1; a file that was only created counts 0 on disk."""
    assert IndexHeader(index_count=index_count).entry_count == entries


def test_numbers_that_do_not_fit_are_refused():
    """Instead of being cut, with the field."""
    with pytest.raises(ValueError, match="begin_timestamp: expected a 64-bit int, got 9223372036"):
        IndexHeader(begin_timestamp=2**63).to_bytes()
    with pytest.raises(ValueError, match="index_count: expected at most 2147483647, got 21474836"):
        IndexHeader(index_count=2**31).to_bytes()
    with pytest.raises(TypeError, match=r"end_phy_offset: expected an int, got 1\.5"):
        IndexHeader(end_phy_offset=1.5).to_bytes()


@pytest.mark.parametrize("read", [salvage, PointFile], ids=["salvage", "point lookup"])
def test_no_reader_takes_a_magic_number_for_a_time(tmp_path, read):
    """Files of the tiered storage begin with one; a layout given by the caller proves nothing."""
    layout = Layout(97, 64)
    path = tmp_path / "20231114221320000"
    path.write_bytes(TIERED_MAGIC + bytes(layout.file_size - 4))
    with pytest.raises(RmqIndexError, match="tiered storage, which is not supported"):
        list(read(path, layout))
