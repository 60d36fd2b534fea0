"""A geometry that is said: another one than the file's reads the same bytes as other entries."""

from __future__ import annotations

import contextlib
import os
import random

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from strategies import BEGIN, damaged_files

from rmqindex import CorruptIndexError, Layout, RmqIndexError, verify
from rmqindex.storage import Location
from rmqindex.store import open_in_store
from twin import BrokerFile

MODES = ("FAILFAST", "DROPMALFORMED")
NAME = "20231114221320000"


def written(folder, data):
    """Write bytes as a file; return its path."""
    path = folder / NAME
    path.write_bytes(bytes(data))
    return path


def random_file(slots, places, entries, seed=0):
    """A file of random hashes and rising offsets and times."""
    rng = random.Random(seed)
    file = BrokerFile(slots, places)
    for number in range(min(entries, places - 1)):
        file.put(rng.randrange(2**31), 211 * number, BEGIN + 3700 * number)
    return file


def opened(path, said, mode="FAILFAST"):
    """Open a file as a command does that is given a geometry."""
    return open_in_store(Location.of(path), said, mode)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A folder for tests that write the same file again and again."""
    return tmp_path_factory.mktemp("files")


@given(st.integers(20, 60), st.integers(12, 80), st.integers(8, 90), st.integers(0, 2**32))
def test_another_of_the_files_size_is_refused(folder, slots, places, entries, seed):
    """The message names the file's own."""
    path = written(folder, random_file(slots, places, entries, seed).data)
    for more in (-2, -1, 1, 2, 3):
        for mode in MODES:
            shows = f"maxHashSlotNum {slots} and maxIndexNum {places}, got"
            with pytest.raises(RmqIndexError, match=shows):
                opened(path, Layout(slots - 5 * more, places + more), mode)
    assert verify(folder, layout=Layout(slots, places)).num_rows <= 1  # without a checkpoint
    with pytest.raises(RmqIndexError, match="the geometry that the file shows"):
        verify(folder, layout=Layout(slots - 5, places + 1))


@pytest.mark.parametrize("said", [Layout(98, 200), Layout(200, 97), Layout(1, 1), Layout(8, 300)])
def test_another_of_another_size_is_refused(tmp_path, said):
    """Not as a damage of the file, of which something is to be read."""
    path = written(tmp_path, random_file(97, 200, 60).data)
    for mode in MODES:
        with pytest.raises(RmqIndexError, match="maxHashSlotNum 97 and maxIndexNum 200, got"):
            opened(path, said, mode)


@given(damaged_files())
def test_the_right_one_is_never_refused_for_another(folder, damaged):
    """Whatever bytes are damaged, or cut off: what the file shows is a guess then."""
    file, data = damaged
    said = Layout(file.hash_slot_num, file.index_num)
    path = written(folder, data)
    with contextlib.suppress(CorruptIndexError), opened(path, said) as read:
        assert read.layout == said
    with opened(path, said, "DROPMALFORMED") as read:
        assert read.layout == said


@given(st.integers(1, 30), st.integers(3, 40), st.integers(1, 40), st.integers(0, 400))
def test_a_file_that_was_cut_or_is_too_long_is_read_with_the_right_one(
    folder, slots, places, entries, surplus
):
    """A file with fewer places shows a geometry, too: the same entries at the same positions."""
    file = random_file(slots, places, entries)
    said = Layout(slots, places)
    path = written(folder, file.data)
    with opened(path, said) as whole:
        count = whole.entry_count
    path = written(folder, file.data + bytes(surplus))
    with opened(path, said) as longer:
        assert longer.entry_count == count
    size = len(file.data) - surplus
    assume(size >= said.entry_offset(file.index_count))
    os.truncate(path, size)
    with opened(path, said, "DROPMALFORMED") as short:
        assert short.entry_count == count


def test_the_default_is_not_doubted(tmp_path):
    """No broker has another geometry of its size, and to search for one takes seconds."""
    path = written(tmp_path, bytearray(random_file(7, 90, 60).data[:40]))
    os.truncate(path, Layout().file_size)
    with opened(path, Layout(), "DROPMALFORMED") as file:
        assert file.layout == Layout()


@given(st.integers(1, 30), st.integers(3, 40), st.integers(1, 40), st.integers(1, 9))
def test_one_that_the_header_contradicts_is_refused_where_the_file_shows_none(
    folder, slots, places, entries, surplus
):
    """Such as one with bytes behind its end, or a single entry, which fits many geometries."""
    file = random_file(slots, places, entries)
    path = written(folder, file.data + bytes(4 * surplus))
    with opened(path, Layout(slots, places)) as right:
        offsets = [each for batch in right.scan(columns=["phy_offset"]) for each in batch[0]]
    for said in (Layout(slots + 1, places), Layout(slots + 5, max(places - 1, 1))):
        with contextlib.suppress(RmqIndexError), opened(path, said) as wrong:
            assert [e for batch in wrong.scan(columns=["phy_offset"]) for e in batch[0]] == offsets
