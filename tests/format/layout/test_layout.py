"""Offsets, sizes and limits of the geometry."""

from __future__ import annotations

import numpy as np
import pytest

from rmqindex import Layout


def test_the_default_is_the_brokers():
    """A broker that is configured with nothing writes files of 420,000,040 bytes."""
    layout = Layout()
    assert (layout.hash_slot_num, layout.index_num) == (5_000_000, 20_000_000)
    assert layout.file_size == 420_000_040


def test_slots_follow_the_header_and_entries_the_slots():
    """Slots are numbered from 0, entries from 1, and the place of entry 0 is never used."""
    layout = Layout(97, 200)
    assert layout.slot_offset(0) == 40
    assert layout.slot_offset(96) == 40 + 4 * 96
    assert layout.entry_offset(1) == 40 + 4 * 97 + 20
    assert layout.file_size == 40 + 4 * 97 + 20 * 200
    assert layout.capacity == 199


def test_a_file_of_one_place_holds_nothing():
    """Place 0 is never used."""
    assert Layout(1, 1).capacity == 0


def test_numbers_below_one_are_refused():
    """The message names the number and what it was."""
    with pytest.raises(ValueError, match="hash_slot_num: expected at least 1, got 0"):
        Layout(0, 5)
    with pytest.raises(ValueError, match="index_num: expected at least 1, got -3"):
        Layout(5, -3)


@pytest.mark.parametrize("value", [1.0, "5", None, True])
def test_other_types_are_refused(value):
    """Also bool, which Python counts among the ints."""
    with pytest.raises(TypeError, match="hash_slot_num: expected an int"):
        Layout(value, 5)


def test_numpy_integers_are_taken_as_python_ints():
    """So that a layout is the same wherever its numbers come from."""
    layout = Layout(np.int32(7), np.int64(9))
    assert layout == Layout(7, 9)
    assert type(layout.hash_slot_num) is int


def test_a_size_beyond_the_brokers_int_is_refused():
    """The broker computes the size in 32 bits, where about 107 million entries overflow."""
    Layout(1, (2**31 - 1 - 44) // 20)
    with pytest.raises(ValueError, match="file size: expected at most 2147483647 bytes"):
        Layout(1, (2**31 - 1 - 44) // 20 + 1)
