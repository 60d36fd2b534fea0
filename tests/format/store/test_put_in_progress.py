"""A header as a put in progress leaves it: the file is read, at most without that put's entry."""

from __future__ import annotations

from itertools import pairwise

import pytest

import live_broker
from rmqindex import Layout
from rmqindex.store.snapshot import IndexSnapshot

LAYOUT = Layout(7, 6)
FILES = 3
BEGIN = 1_700_000_000_000


@pytest.fixture(params=[0, 1500])
def states(tmp_path, monkeypatch, request):
    """Return the files of an index after each number that a broker's puts store."""
    written = tmp_path / "written"
    found = []
    put_number = live_broker.store

    def recorded(*arguments):
        put_number(*arguments)
        found.append({path.name: path.read_bytes() for path in sorted(written.iterdir())})

    monkeypatch.setattr(live_broker, "store", recorded)
    index = live_broker.LiveIndex(written, LAYOUT.hash_slot_num, LAYOUT.index_num)
    for number in range(FILES * (LAYOUT.index_num - 1)):
        if number % (LAYOUT.index_num - 1) == 0:
            index.roll(f"2023111422132{number:04d}")
        index.put(number * 5 + 1, 100 * number, BEGIN + request.param * number)
    return found


def read(index, mode, layout):
    """Return the entries of an index; nothing may be missing in what is said of it."""
    rows = []
    for planned in IndexSnapshot.of(index, layout, mode):
        assert planned.error is None
        assert planned.lacking is None
        if planned.is_empty:
            continue
        with planned.open() as file:
            for batch in file.scan(stop=planned.stop):
                rows += [(row["phy_offset"], row["store_timestamp"]) for row in batch.to_pylist()]
    return rows


@pytest.mark.parametrize("layout", [LAYOUT, None])
def test_each_state_of_a_put_is_read_alike_in_both_modes(states, tmp_path, layout):
    """A broker stores count, last offset and last time one after the other, and may be killed."""
    index = tmp_path / "index"
    index.mkdir()
    counts = []
    # The first file shows the geometry of the others.
    start = 0 if layout else next(n for n, files in enumerate(states) if len(files) == 2)
    for files in states[start:]:
        for name, data in files.items():
            (index / name).write_bytes(data)
        strict = read(index, "FAILFAST", layout)
        assert read(index, "DROPMALFORMED", layout) == strict
        counted = sum(max(int.from_bytes(data[36:40], "big") - 1, 0) for data in files.values())
        assert len(strict) == counted
        counts.append(counted)
    assert all(more - less in (0, 1) for less, more in pairwise(counts))
    assert counts[-1] == FILES * (LAYOUT.index_num - 1)
