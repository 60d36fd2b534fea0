"""Chains built batch by batch are the chains that one put after the other builds."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from rmqindex.indexwriter.appender import LINK_BATCH, link, slot_numbers


def link_singly(slots, numbers, first_position):
    """Link entries one after the other, as the broker does."""
    previous = []
    for place, number in enumerate(numbers):
        position = first_position + place
        value = slots[number]
        previous.append(value if 0 < value <= position else 0)
        slots[number] = position
    return previous


@given(
    st.lists(st.integers(0, 6), max_size=60),
    st.integers(1, 50),
    st.lists(st.integers(-(2**31), 2**31 - 1) | st.integers(-2, 60), min_size=7, max_size=7),
)
def test_a_batch_links_as_single_puts_do(numbers, first_position, slots):
    """Whatever stands in the slots, also values that are no position yet."""
    expected_slots = list(slots)
    expected = link_singly(expected_slots, numbers, first_position)
    batch_slots = np.array(slots, np.int32)
    previous, emptied = link(batch_slots, np.array(numbers, np.int32), first_position)
    assert previous.tolist() == expected
    assert batch_slots.tolist() == expected_slots
    assert emptied == expected.count(0)
    assert previous.dtype == np.int32


def test_a_full_batch_in_one_slot_is_one_chain():
    """The worst case for repeated slots: every entry hangs on the one before."""
    slots = np.array([3], np.int32)
    previous, emptied = link(slots, np.zeros(LINK_BATCH, np.int32), 4)
    assert previous.tolist() == list(range(3, LINK_BATCH + 3))
    assert slots.tolist() == [LINK_BATCH + 3]
    assert emptied == 0


@given(
    st.lists(st.integers(0, 2**31 - 1) | st.just(2**31 - 1), max_size=20),
    st.integers(1, 2**29) | st.integers(1, 10),
)
def test_the_slot_is_the_remainder(hashes, hash_slot_num):
    """Slots are hash modulo slot count, for every hash and count."""
    numbers = slot_numbers(np.array(hashes, np.int32), hash_slot_num)
    assert numbers.tolist() == [value % hash_slot_num for value in hashes]
    assert numbers.dtype == np.int32
