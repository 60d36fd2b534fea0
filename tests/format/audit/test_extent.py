"""Which offsets behind a log's end are damaged ones, and which a longer log has left."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from rmqindex import CommitLog, IndexFile, Layout, sample_store
from rmqindex.audit.extent import damaged_offsets

BEYOND = 10**9


@pytest.fixture
def held():
    """Offsets and hashes of the entries of a file, its header, and the log."""
    path = sorted((sample_store() / "index").iterdir())[1]
    with IndexFile(path, Layout(97, 200)) as file, CommitLog(sample_store()) as log:
        found = pa.Table.from_batches(file.scan(columns=["phy_offset", "key_hash"]))
        yield *(column.to_numpy() for column in found.columns), file.header, log


def damaged(held, offsets, hashes):
    """Return which offsets were damaged, of a file with these entries in its place."""
    _, _, header, log = held
    parts = np.array_split(offsets, 3), np.array_split(hashes, 3)
    return damaged_offsets(log, lambda: zip(*parts, strict=True), header).tolist()


def inside(held):
    """Return the place of an entry in the middle of its file, the first of its message."""
    offsets = held[0]
    return int(np.flatnonzero(np.diff(offsets[:100]))[-1]) + 1


@pytest.mark.parametrize("count", [1, 2, 60])
def test_an_entry_whose_message_has_no_other_was_damaged(held, count):
    """Also several in a row, across blocks of the reading."""
    offsets, hashes = held[0].copy(), held[1]
    places = slice(inside(held), inside(held) + count)
    offsets[places] += BEYOND
    assert damaged(held, offsets, hashes) == offsets[places].tolist()


def test_an_entry_of_a_key_that_has_one_was_left_by_a_longer_log(held):
    """Such as one of a key that many messages have."""
    at = inside(held)
    offsets = np.insert(held[0], at, BEYOND)
    assert damaged(held, offsets, np.insert(held[1], at, held[1][at])) == []


def test_entries_in_a_row_are_explained_together(held):
    """Of the messages of a longer log, only some have a key that one of the shorter has."""
    offsets, hashes, at = held[0].copy(), held[1].copy(), inside(held)
    offsets[at] += BEYOND
    offsets, hashes = np.insert(offsets, at, BEYOND), np.insert(hashes, at, 77)
    assert damaged(held, offsets, hashes) == []


def test_nothing_is_known_of_messages_whose_entries_may_be_in_two_files(held):
    """The first one and the last one of a file."""
    first, last = (held[0] == held[0][place] for place in (0, -1))
    for own in (first, last):
        places = np.flatnonzero(own)[:1] if own is last else np.flatnonzero(own)[-1:]
        offsets = held[0].copy()
        offsets[places] += BEYOND
        assert damaged(held, offsets, held[1]) == []


def test_a_file_that_begins_with_greater_offsets_is_of_two_logs(held):
    """Its header has the offset of the first of them."""
    header = held[2]
    header = type(header)(
        header.begin_timestamp, header.end_timestamp, BEYOND, header.end_phy_offset
    )
    offsets, hashes = np.insert(held[0], 0, BEYOND), np.insert(held[1], 0, held[1][0])
    assert damaged((held[0], held[1], header, held[3]), offsets, hashes) == []


def test_negative_offsets_are_no_messages(held):
    """As damage leaves them in the header, or in the entry before."""
    header = held[2]
    header = type(header)(
        header.begin_timestamp, header.end_timestamp, -(10**6), header.end_phy_offset
    )
    offsets, at = held[0].copy(), inside(held)
    offsets[at] += BEYOND
    offsets[at - 1] = -5
    assert damaged((held[0], held[1], header, held[3]), offsets, held[1]) == [offsets[at]]
