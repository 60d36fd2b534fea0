"""An IndexFile: its scan, its lookups by slots and by a scan, and its salvage.

What is read in batches, and given up after many steps, is read in batches of a few and given up
after a few steps here, so that small files reach all of it.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from rmqindex import IndexFile, salvage
from rmqindex.bulk import salvaging
from rmqindex.indexfile import entries as entries_module
from rmqindex.keys import HashSet
from rmqindex.layout import HEADER_SIZE
from rmqindex.query import PointFile

from ..index_bytes import MAX_LENGTH, PATH, mutate, seeds, taken_apart
from ..memory import FILES, constants
from ..outcome import outcome, table_outcome

SHORT = 1_800
__all__ = ["MAX_LENGTH", "SHORT", "check", "mutate", "seeds"]

_SMALL = {
    entries_module: {
        "_BATCH_ENTRIES": 4,
        "_BATCH_HASHES": 4,
        "_COMMON_STEPS": 2,
        "MAX_STEPS": 4,
        "_MAX_LONG_WALKS": 2,
        "_SEARCH_HASHES": 3,
    },
    salvaging: {"BLOCK": 4},
}
_STRANGERS = [0, 1, 5, 2**31 - 1]


def check(data):
    """Read a file in every way, and compare."""
    layout, flags, file = taken_apart(data)
    FILES[PATH] = file
    extend = bool(flags & 2)
    strict = outcome(IndexFile, PATH, layout, zero_extend=extend)
    lenient = outcome(IndexFile, PATH, layout, zero_extend=extend, mode="DROPMALFORMED")
    if not lenient.is_value:
        assert not strict.is_value, strict
        return
    kept = table_outcome(lenient.value.scan)
    assert kept.is_value, kept.error
    hashes = _hashes(kept.value)
    walked = _walked(strict.value, hashes) if strict.is_value else []
    with constants(_SMALL):
        saved = table_outcome(salvage, PATH, layout, uncounted=bool(flags & 4))
        _check_lenient(lenient.value, kept.value, hashes)
        if strict.is_value:
            _check_strict(strict.value, kept.value, hashes, walked)
            assert saved.is_value or len(file) < HEADER_SIZE, saved.error
    if strict.is_value and len(file) >= layout.file_size:
        _check_point(strict.value, walked, layout, hashes)
    for each in hashes[:2].tolist():
        outcome(lenient.value.lookup, [each, each], flags % 16)


def _check_lenient(file, table, hashes):
    """A lookup that asks the entries finds what filtering the scan finds."""
    again = table_outcome(file.scan)
    assert again.value == table
    found = file.lookup(hashes)
    found.validate(full=True)
    expected = _filtered(table, hashes)
    assert found.to_pylist() == expected
    assert _searched(file, hashes, by_scan=True) == expected


def _written(table):
    """Leave out zeros behind the first entry, as DROPMALFORMED does: nothing proves a write."""
    if table is None:
        return None
    columns = [table[name].to_numpy() for name in ("key_hash", "phy_offset", "time_diff")]
    links = table["prev_position"].to_numpy()
    is_blank = ~np.any([*columns, links], axis=0) & (table["position"].to_numpy() > 1)
    found = table.filter(pa.array(~is_blank))
    return found if found.num_rows else None


def _check_strict(file, kept, hashes, walked):
    """Each hash is answered by its chain or by a scan, and both as when nothing is given up.

    They differ where a link was damaged into another position of its own chain.
    """
    every = table_outcome(file.scan)
    rows = 0 if every.value is None else every.value.num_rows
    assert not every.is_value or (_written(every.value) == kept and rows == file.entry_count)
    filtered = _filtered(every.value if every.is_value else kept, hashes)
    for way in (
        lambda: file.lookup(hashes).to_pylist(),
        lambda: _searched(file, hashes, by_scan=False),
    ):
        found = outcome(way)
        if not found.is_value:
            assert not every.is_value or any(walk is None for walk in walked), found.error
            continue
        for query, walk in enumerate(walked):
            mine = _of_query(found.value, query)
            assert mine == walk or (every.is_value and mine == _of_query(filtered, query))
    scanned = outcome(lambda: _searched(file, hashes, by_scan=True))
    assert scanned.is_value == every.is_value
    assert not scanned.is_value or scanned.value == filtered


def _walked(file, hashes):
    """Return what the chain of each hash leads to; None where it is broken."""
    together = outcome(file.lookup, hashes)
    if together.is_value:
        rows = together.value.to_pylist()
        return [_of_query(rows, query) for query in range(len(hashes))]
    alone = [outcome(file.lookup, [each]) for each in hashes.tolist()]
    assert not all(each.is_value for each in alone), together.error
    return [
        [{**row, "query": query} for row in each.value.to_pylist()] if each.is_value else None
        for query, each in enumerate(alone)
    ]


def _filtered(table, hashes):
    rows = [] if table is None else table.to_pylist()
    return [
        {"query": query, **row}
        for query, wanted in enumerate(hashes.tolist())
        for row in reversed(rows)
        if row["key_hash"] == wanted
    ]


def _of_query(rows, query):
    return [row for row in rows if row["query"] == query]


def _hashes(table):
    known = [] if table is None else table["key_hash"].to_pylist()
    return np.unique(np.array([*known, *_STRANGERS], np.int32))


def _searched(file, hashes, *, by_scan):
    batches = list(file.search(HashSet(hashes), by_scan=by_scan))
    rows = [row for batch in batches for row in batch.to_pylist()]
    return sorted(rows, key=lambda row: (row["query"], -row["position"]))


def _check_point(file, walked, layout, hashes):
    """One hash at a time gives what all at once give, or leaves it to them."""
    point = PointFile(PATH, layout)
    for query, wanted in enumerate(hashes.tolist()):
        one = outcome(point.lookup, wanted, file.entry_count + 1)
        if one.value is not None:
            assert [{"query": query, **each._asdict()} for each in one.value] == walked[query]
