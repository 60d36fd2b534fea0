"""Many hashes at once: the set itself, and the search of a file for it."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from strategies import broker_files, damaged_files, key_hashes

from rmqindex import HashSet, IndexFile, IndexFileWriter, Layout, RmqIndexError
from rmqindex.keys.hash_set import distinct
from rows import rows_of
from twin import INT_MAX


def hash_set(hashes):
    """Return a set of some hashes."""
    return HashSet(np.unique(np.array(hashes, np.int32)))


def pairs_of(wanted, others):
    """Return what a set finds, by place."""
    near, places = wanted.match(np.array(others, np.int32))
    return sorted(zip(near.tolist(), wanted.hashes[places].tolist(), strict=True))


def in_order(batches):
    """Return found rows by hash and position."""
    return sorted(rows_of(batches), key=lambda row: (row["query"], -row["position"]))


@given(st.lists(key_hashes()))
def test_distinct_numbers_are_in_order_each_once(hashes):
    """Whatever repeats and however they are ordered; their type stays."""
    found = distinct(np.array(hashes, np.int32))
    assert found.tolist() == sorted(set(hashes))
    assert found.dtype == np.int32


@given(st.lists(key_hashes()), st.lists(key_hashes()))
def test_a_set_finds_the_hashes_that_are_in_it(hashes, others):
    """Each place of another hash that is in the set is found once, with its hash."""
    wanted = hash_set(hashes)
    expected = [(place, other) for place, other in enumerate(others) if other in set(hashes)]
    assert pairs_of(wanted, others) == expected


@pytest.mark.parametrize("step", [1, 7, 1 << 16])
def test_hashes_that_crowd_together_are_found(step):
    """Hashes of short keys are neighbours; so are those at either end of the range."""
    hashes = [*range(0, 5000 * step, step), INT_MAX]
    hashes = [hashed for hashed in hashes if hashed <= INT_MAX]
    others = [0, 1, 4999 * step % INT_MAX, step, INT_MAX, INT_MAX - 1]
    expected = [(place, other) for place, other in enumerate(others) if other in set(hashes)]
    assert pairs_of(hash_set(hashes), others) == expected


@given(file=broker_files(), hashes=st.lists(key_hashes()), limit=st.none() | st.integers(1, 50))
def test_a_search_finds_what_a_lookup_finds(tmp_path_factory, file, hashes, limit):
    """By slots and by scan, in either mode, up to a limit."""
    path = tmp_path_factory.getbasetemp() / "20231114221320001"
    path.write_bytes(bytes(file.data))
    wanted = hash_set(hashes)
    for mode in ("FAILFAST", "DROPMALFORMED"):
        with IndexFile(path, Layout(file.hash_slot_num, file.index_num), mode=mode) as opened:
            expected = opened.lookup(wanted.hashes, limit).to_pylist()
            for by_scan in (False, True):
                assert in_order(opened.search(wanted, limit, by_scan=by_scan)) == expected


@given(damaged=damaged_files(), hashes=st.lists(key_hashes(), min_size=1))
def test_a_search_of_a_damaged_file_is_right_or_an_error(tmp_path_factory, damaged, hashes):
    """Leniently it is the lookup; strictly it also is, or says what is wrong."""
    file, data = damaged
    path = tmp_path_factory.getbasetemp() / "20231114221320002"
    path.write_bytes(data)
    layout = Layout(file.hash_slot_num, file.index_num)
    wanted = hash_set(hashes)
    with IndexFile(path, layout, mode="DROPMALFORMED") as opened:
        expected = opened.lookup(wanted.hashes).to_pylist()
        assert in_order(opened.search(wanted)) == expected
    try:
        with IndexFile(path, layout) as opened:
            expected = opened.lookup(wanted.hashes).to_pylist()
            assert in_order(opened.search(wanted)) == expected
    except RmqIndexError:
        with pytest.raises(RmqIndexError), IndexFile(path, layout) as opened:
            opened.lookup(wanted.hashes)


def test_a_hot_key_comes_in_bounded_batches(tmp_path):
    """A key with very many entries is found whole, in batches of about 65,536 of them."""
    path, entries = tmp_path / "20231114221320003", 300_000
    with IndexFileWriter(path, Layout(7, entries + 1)) as writer:
        hashes = np.full(entries, 5, np.int32)
        hashes[::1000] = 3
        writer.put_many(hashes, np.arange(entries), np.full(entries, 1_700_000_000_000))
    with IndexFile(path, Layout(7, entries + 1)) as opened:
        for by_scan in (False, True):
            sizes = [batch.num_rows for batch in opened.search(hash_set([5, 6]), by_scan=by_scan)]
            assert sum(sizes) == entries - entries // 1000
            assert max(sizes) <= 2 * 65_536


def test_many_crowded_hashes_are_left_to_one_scan(tmp_path):
    """Where hundreds of hashes share one slot, each is found all the same."""
    path, count = tmp_path / "20231114221320004", 200
    with IndexFileWriter(path, Layout(1, 20_001)) as writer:
        hashes = np.tile(np.arange(count, dtype=np.int32), 100)
        writer.put_many(hashes, np.arange(len(hashes)), np.full(len(hashes), 1_700_000_000_000))
    with IndexFile(path, Layout(1, 20_001)) as opened:
        wanted = hash_set(range(0, 400, 2))
        found = in_order(opened.search(wanted))
        assert found == opened.lookup(wanted.hashes).to_pylist()
        assert len(found) == count // 2 * 100


@pytest.mark.parametrize("hashes", [[2, 1], [1, 1], [-1, 1]])
def test_a_set_is_ascending_and_each_hash_once(hashes):
    """What is not would be found in the wrong place."""
    with pytest.raises(ValueError, match="hashes: expected int32, ascending"):
        HashSet(np.array(hashes, np.int32))
    with pytest.raises(ValueError, match="hashes: expected int32"):
        HashSet(np.array([1, 2], np.int64))
