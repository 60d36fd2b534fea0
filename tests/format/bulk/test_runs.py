"""Sorted runs: cuts by rank are exact, and merging gives one order whatever the runs."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from examples import examples
from rmqindex.bulk.sorted_runs import ARRIVAL, BY_POSITION, CONTENT, EntryRows, RunBuffer, RunSet

ROWS = st.lists(
    st.tuples(
        st.integers(0, 5),
        st.integers(0, 3),
        st.one_of(st.integers(0, 3), st.just(2**31 - 1)),
        st.one_of(st.integers(0, 2), st.just(9223372036854775)),
        st.sampled_from(["b", "a", "c"]),
    ),
    max_size=40,
)


def as_rows(rows, *, files=False):
    """Make entry rows of (phy_offset, ordinal, key_hash, store_timestamp, file)."""
    columns = list(zip(*rows, strict=True)) or [[]] * 5
    return EntryRows(
        np.array(columns[2], np.int32),
        np.array(columns[0], np.int64),
        np.array(columns[3], np.int64),
        np.array(columns[1], np.int32),
        pa.array(list(columns[4]), pa.string()) if files else None,
    )


def write_runs(directory, parts, order, limit=7):
    """Write each part as a task would."""
    slices = []
    for number, part in enumerate(parts):
        buffer = RunBuffer(directory, f"run-{number}", order, limit)
        for row in range(0, len(part), 5):
            buffer.add(as_rows(part[row : row + 5], files=order is BY_POSITION))
        buffer.finish()
        slices += buffer.slices
    return RunSet(directory, slices, order)


def merged(runs, rows=4):
    """Return (phy_offset, store_timestamp, key_hash) in the order of the merge."""
    found = []
    for block in runs.blocks(rows):
        assert 0 < len(block["key_hash"]) <= rows
        found += zip(*(array.tolist() for array in block.values()), strict=True)
    return found


def split(rows, places):
    """Deal rows out to three tasks."""
    parts = [[], [], []]
    for row, place in zip(rows, places, strict=False):
        parts[place].append(row)
    return parts


class TestMerge:
    """The order in which rows come out."""

    @given(rows=ROWS, data=st.data())
    @settings(max_examples=examples(60), deadline=None)
    def test_content_order_does_not_depend_on_who_read_the_rows(self, tmp_path_factory, rows, data):
        """Rows come by offset, place in the message, hash and time, however they were dealt out."""
        places = data.draw(st.lists(st.integers(0, 2), min_size=len(rows), max_size=len(rows)))
        runs = write_runs(tmp_path_factory.mktemp("runs"), split(rows, places), CONTENT)
        expected = sorted(rows, key=lambda row: row[:4])
        assert merged(runs) == [(row[0], row[3], row[2]) for row in expected]

    @given(rows=ROWS, data=st.data())
    @settings(max_examples=examples(60), deadline=None)
    def test_rows_of_files_come_in_the_order_of_the_files(self, tmp_path_factory, rows, data):
        """Rows of one offset come by file, then by position in it."""
        places = data.draw(st.lists(st.integers(0, 2), min_size=len(rows), max_size=len(rows)))
        runs = write_runs(tmp_path_factory.mktemp("runs"), split(rows, places), BY_POSITION)
        expected = sorted(rows, key=lambda row: (row[0], row[4], row[1], row[2], row[3]))
        assert merged(runs) == [(row[0], row[3], row[2]) for row in expected]

    @given(parts=st.lists(ROWS, max_size=3))
    @settings(max_examples=examples(60), deadline=None)
    def test_arrival_order_is_kept_within_an_offset(self, tmp_path_factory, parts):
        """Without more to order by, rows of one offset come as they came, task by task."""
        runs = write_runs(tmp_path_factory.mktemp("runs"), parts, ARRIVAL)
        expected = sorted((row for part in parts for row in part), key=lambda row: row[0])
        assert merged(runs) == [(row[0], row[3], row[2]) for row in expected]

    def test_wide_values_are_ordered_too(self, tmp_path):
        """Where an offset's rows cannot be packed into 64 bits, they are still ordered."""
        rows = [(place % 2, 0, 1, stamp, "a") for place, stamp in enumerate([2**62, 5, 2**61, 0])]
        runs = write_runs(tmp_path, [rows], CONTENT)
        assert merged(runs) == [(0, 2**61, 1), (0, 2**62, 1), (1, 0, 1), (1, 5, 1)]


class TestCuts:
    """Where a sequence of rows is cut."""

    @given(parts=st.lists(ROWS, min_size=1, max_size=3))
    @settings(max_examples=examples(60), deadline=None)
    def test_every_cut_has_its_rank_and_cuts_nest(self, tmp_path_factory, parts):
        """A cut at rank r holds r rows, and every row between two cuts stands between them."""
        runs = write_runs(tmp_path_factory.mktemp("runs"), parts, CONTENT)
        whole = merged(runs)
        previous = runs.cut(0)
        for rank in range(1, len(runs) + 1):
            cut = runs.cut(rank)
            assert merged(runs.between(previous, cut)) == whole[rank - 1 : rank]
            assert tuple(runs.row(rank - 1).values()) == whole[rank - 1]
            previous = cut

    @given(parts=st.lists(ROWS, min_size=1, max_size=3), offset=st.integers(-1, 7))
    @settings(max_examples=examples(40), deadline=None)
    def test_rows_before_an_offset_are_counted(self, tmp_path_factory, parts, offset):
        """Rows before an offset, and up to it, are found by search."""
        runs = write_runs(tmp_path_factory.mktemp("runs"), parts, ARRIVAL)
        offsets = [row[0] for part in parts for row in part]
        assert runs.count_before(offset) == sum(each < offset for each in offsets)
        assert runs.count_before(offset, inclusive=True) == sum(each <= offset for each in offsets)

    def test_slices_are_what_another_process_needs(self, tmp_path):
        """The part between two cuts is described by slices that open as the same rows."""
        rows = [(offset, 0, offset, 0, "a") for offset in (5, 1, 4, 2, 3)] * 4
        runs = write_runs(tmp_path, [rows, rows], CONTENT)
        part = runs.between(runs.cut(3), runs.cut(31))
        again = RunSet(tmp_path, part.slices, CONTENT)
        assert len(again) == 28
        assert merged(again) == merged(runs)[3:31]
        assert again.offset_range() == (1, 4)

    def test_no_rows_are_no_blocks(self, tmp_path):
        """A set of no runs is empty."""
        runs = RunSet(tmp_path, [], CONTENT)
        assert len(runs) == 0
        assert merged(runs) == []
        assert runs.slices == ()


class TestBuffer:
    """How a task writes its runs."""

    def test_runs_are_bounded_and_removed_on_demand(self, tmp_path):
        """No run holds more rows than the limit, and all of them can be taken back."""
        buffer = RunBuffer(tmp_path, "run", ARRIVAL, 7)
        buffer.add(as_rows([(1, 0, 0, 0, "a")] * 16))
        buffer.finish()
        assert [part.rows for part in buffer.slices] == [7, 7, 2]
        assert len(list(tmp_path.iterdir())) == 3
        buffer.remove()
        assert list(tmp_path.iterdir()) == []

    def test_no_directory_is_ever_made(self, tmp_path):
        """A task whose job is gone must not bring its directory back."""
        buffer = RunBuffer(tmp_path / "gone", "run", ARRIVAL, 7)
        buffer.add(as_rows([(1, 0, 0, 0, "a")]))
        with pytest.raises(FileNotFoundError):
            buffer.finish()
        assert list(tmp_path.iterdir()) == []
