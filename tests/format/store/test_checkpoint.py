"""The broker's checkpoint file."""

from __future__ import annotations

import json
import stat
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from recorded import ROCKETMQ_CLASSES
from rmqindex import StoreCheckpoint, sample_store

LONGS = st.integers(-(2**63), 2**63 - 1)
CHECKPOINTS = st.builds(StoreCheckpoint, LONGS, LONGS, LONGS, LONGS, LONGS)


def test_the_sample_stores_checkpoint_is_read_as_the_broker_wrote_it():
    """All five fields agree with what the broker held."""
    store = json.loads((ROCKETMQ_CLASSES / "store_messages.json").read_text())
    checkpoint = StoreCheckpoint.load(sample_store() / "checkpoint")
    assert checkpoint == StoreCheckpoint(**store["checkpoint"])
    assert checkpoint.to_bytes() == (sample_store() / "checkpoint").read_bytes()


@given(CHECKPOINTS)
def test_a_checkpoint_survives_encoding(checkpoint):
    """Any five longs come back from the 4,096 bytes."""
    data = checkpoint.to_bytes()
    assert len(data) == 4096
    assert StoreCheckpoint.from_bytes(data) == checkpoint


@given(st.binary(max_size=60))
def test_any_bytes_decode_as_if_zeros_followed(data):
    """The broker maps a whole page, whatever the file's size."""
    assert StoreCheckpoint.from_bytes(data) == StoreCheckpoint.from_bytes(data.ljust(4096, b"\0"))


def test_a_field_beyond_64_bits_is_refused():
    """The file has no place for it."""
    with pytest.raises(ValueError, match="confirm_phy_offset: expected a 64-bit int"):
        StoreCheckpoint(confirm_phy_offset=2**63)


def test_the_minimum_goes_three_seconds_back_and_not_below_zero():
    """As ``getMinTimestamp`` and ``getMinTimestampIndex``."""
    checkpoint = StoreCheckpoint(10_000, 9_000, 5_000)
    assert checkpoint.min_timestamp == 6_000
    assert checkpoint.min_timestamp_index == 5_000
    assert StoreCheckpoint(2_000, 9_000, 5_000).min_timestamp == 0
    assert StoreCheckpoint(2_000, 9_000, 5_000).min_timestamp_index == 0


def test_saving_replaces_the_file_and_leaves_nothing_beside_it(tmp_path):
    """The new one is there whole, with the old one's permissions."""
    path = tmp_path / "checkpoint"
    StoreCheckpoint(1).save(path)
    path.chmod(0o640)
    StoreCheckpoint(2, 3, 4, 5, 6).save(path)
    assert StoreCheckpoint.load(path) == StoreCheckpoint(2, 3, 4, 5, 6)
    assert stat.S_IMODE(path.stat().st_mode) == 0o640
    assert list(tmp_path.iterdir()) == [path]


def test_a_checkpoint_that_cannot_be_saved_leaves_the_old_one(tmp_path):
    """An error on the way leaves no half file and no stray one."""
    path = tmp_path / "checkpoint"
    path.mkdir()
    with pytest.raises(IsADirectoryError):
        StoreCheckpoint().save(path)
    assert list(tmp_path.iterdir()) == [path]


def test_a_missing_checkpoint_is_pythons_own_error(tmp_path):
    """Nothing is made up for a file that is not there."""
    with pytest.raises(FileNotFoundError):
        StoreCheckpoint.load(tmp_path / "checkpoint")


@pytest.mark.requirement("IDX-CKP-4")
def test_what_stands_behind_the_fields_is_kept(tmp_path):
    """Brokers from 5.5.0 on have a sixth field at byte 40."""
    path = tmp_path / "checkpoint"
    tail = (123_456_789).to_bytes(8, "big") + bytes(4048)
    path.write_bytes(bytes(40) + tail)
    replace(StoreCheckpoint.load(path), index_msg_timestamp=7).save(path)
    assert path.read_bytes()[40:] == tail
    assert StoreCheckpoint.load(path).index_msg_timestamp == 7


@pytest.mark.parametrize("size", [50, 4096, 4106])
def test_the_bytes_behind_the_fields_stay_whatever_the_size(tmp_path, size):
    """A shorter file gets the broker's 4,096 bytes, a longer one stays as long as it was."""
    path = tmp_path / "checkpoint"
    path.write_bytes(b"x" * size)
    StoreCheckpoint(physic_msg_timestamp=5).save(path)
    saved = path.read_bytes()
    assert len(saved) == max(size, 4096)
    assert saved[40:] == (b"x" * (size - 40)).ljust(4056, b"\0")
