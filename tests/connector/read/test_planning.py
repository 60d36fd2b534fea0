"""Files to partitions: what is left out, and how the rest is divided."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import replace

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyspark_rmqindex.files import FileSlice
from pyspark_rmqindex.options import read_options
from pyspark_rmqindex.read.batches import keep
from pyspark_rmqindex.read.planning import (
    Query,
    apportion,
    matching_pairs,
    plan_files,
    prune,
    wanted_by,
)
from rmqindex import index_key, key_hash
from rmqindex.indexfile import Fingerprint
from rmqindex.messagestore import NOTHING, Range, Wanted
from rmqindex.query import may_hold
from rmqindex.storage import FileIdentity, Location


def a_file(entries, begin_timestamp=1000, name="f"):
    """Make a whole file of some entries."""
    return FileSlice(
        path=Location(name),
        name_path=Location(name),
        hash_slot_num=97,
        index_num=entries + 1,
        begin_timestamp=begin_timestamp,
        fingerprint=Fingerprint(FileIdentity(0), entries + 1, None),
        limit=entries + 1,
        start=1,
        stop=entries + 1,
    )


def test_a_file_that_begins_after_the_wanted_times_is_left_out():
    """No entry reads as earlier than its file's begin_timestamp; nothing else is certain."""
    early, late = a_file(5, 1000, "early"), a_file(5, 2000, "late")
    assert prune([early, late], Wanted(time=Range(high=1999))) == [early]
    assert prune([early, late], Wanted(time=Range(high=2000))) == [early, late]
    assert prune([early, late], Wanted(time=Range(low=10**12))) == [early, late]
    assert prune([early, late], Wanted(phy_offset=Range(10**9, 10**9))) == [early, late]


def test_positions_cut_a_file_at_both_ends():
    """A scan then reads these entries only."""
    (cut,) = prune([a_file(100)], Wanted(position=Range(10, 19)))
    assert (cut.start, cut.stop) == (10, 20)
    assert prune([a_file(5)], Wanted(position=Range(6, 9))) == []


def test_nothing_wanted_reads_nothing():
    """An empty range, no pair or no hash."""
    for wanted in (
        Wanted(time=NOTHING),
        Wanted(phy_offset=NOTHING),
        Wanted(position=NOTHING),
        Wanted(pairs=frozenset()),
        Wanted(key_hashes=frozenset()),
    ):
        assert prune([a_file(5)], wanted) == []


@given(
    st.lists(st.integers(1, 5000), max_size=20),
    st.integers(20, 40_000),
    st.integers(1, 10_000),
)
def test_a_scan_reads_every_entry_once_in_order(counts, max_bytes, open_bytes):
    """However the files are split and packed."""
    files = [a_file(count, name=str(n)) for n, count in enumerate(counts)]
    partitions = apportion(files, Query(), max_bytes, open_bytes)
    slices = [each for partition in partitions for each in partition.slices]
    for file in files:
        mine = [each for each in slices if each.path == file.path]
        assert [each.start for each in mine[1:]] == [each.stop for each in mine[:-1]]
        assert (mine[0].start, mine[-1].stop) == (file.start, file.stop)
        assert all((each.stop - each.start) * 20 <= max(max_bytes, 20) for each in mine)
    assert [each.path for each in slices] == sorted((each.path for each in slices), key=int)
    assert all(partition.slices for partition in partitions)


def test_a_full_file_is_three_partitions_and_a_thousand_small_ones_are_two():
    """About 128 MB a partition, opening a local file counted as 128 KiB, and no small rest."""
    packing = (128 * 2**20, 2**17)
    assert len(apportion([a_file(19_999_999)], Query(), *packing)) == 3
    parts = apportion([a_file(199)] * 1000, Query(pairs=(("t", "k"),)), *packing)
    assert [len(part.slices) for part in parts] == [500, 500]


def test_a_lookup_packs_files_by_what_it_touches():
    """One key in a hundred full files is one task; many keys are several."""
    packing = (128 * 2**20, 2**17)
    files = [a_file(19_999_999)] * 100
    assert len(apportion(files, Query(pairs=(("t", "k"),)), *packing)) == 1
    many = tuple(("t", str(n)) for n in range(4096))
    assert len(apportion(files, Query(pairs=many), *packing)) == 50
    assert len(apportion(files, Query(key_hashes=(1,)), *packing)) == 1
    assert all(each in files for each in apportion(files, Query(pairs=many), *packing)[0].slices)


def test_pairs_are_kept_where_their_hash_is_asked_for():
    """The options ``keys`` and ``keyHash`` together mean both."""
    wanted = key_hash(index_key("t", "a"))
    assert matching_pairs([("t", "a"), ("t", "b")], [wanted, 5]) == (("t", "a"),)


def test_a_slice_travels_with_what_tells_its_file_apart():
    """Tiny and comparable: a partition is pickled once for each task."""
    import pickle

    file = replace(a_file(5), start=2)
    assert pickle.loads(pickle.dumps(file)) == file
    assert len(pickle.dumps(file)) < 300


@pytest.mark.parametrize("pair", [("T", "\ud800"), ("\udfff", "k"), ("T", "a\udcff")])
def test_a_pair_that_no_string_can_hold_is_not_looked_up(pair):
    """Options in JSON can name lone surrogates, and columns cannot carry them."""
    options = read_options({"path": "/x", "topic": pair[0], "keys": json.dumps([pair[1], "k", ""])})
    planned = plan_files(options, wanted_by(options), [a_file(5)], remote=False)
    expected = {each for each in ((pair[0], "k"), (pair[0], "")) if pair[0] == "T"}
    assert set(planned.query.pairs) == expected
    assert len(planned.partitions) == (1 if expected else 0)


ENDS = [-(2**63), -(2**63) + 1, -1, 0, 1, 2**63 - 1]
BOUNDS = st.none() | st.sampled_from(ENDS) | st.integers(-(2**66), 2**66)


@given(st.lists(st.sampled_from(ENDS) | st.integers(-(2**63), 2**63 - 1)), BOUNDS, BOUNDS)
def test_no_bound_leaves_out_an_entry_that_may_be_within(times, low, high):
    """Also beyond 64 bits, which NumPy does not compare with exactly."""
    batch = pa.record_batch(
        [pa.array(times, pa.int64()), pa.array([1] * len(times), pa.int32())],
        names=["store_timestamp", "time_diff"],
    )
    inside = [
        each for each in times if (low is None or low <= each) and (high is None or each <= high)
    ]
    held = may_hold(batch, low, high).column(0).to_pylist()
    assert not Counter(inside) - Counter(held)
    kept = [
        each
        for part in keep(batch, {"store_timestamp": Range(low, high)})
        for each in part.column(0).to_pylist()
    ]
    assert kept == inside
