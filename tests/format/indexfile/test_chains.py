"""Walking the chains of many hashes at once."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from strategies import BEGIN, broker_files, key_hashes

from rmqindex import IndexHeader, Layout
from rmqindex.indexfile.chains import find
from rmqindex.indexfile.committed import open_index_source
from twin import BrokerFile


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A folder for tests that write the same file again and again."""
    return tmp_path_factory.mktemp("files")


def walk(folder, oracle, hashes, *, limit=None, max_steps=10**6):
    """Walk through an oracle's file."""
    path = folder / "100"
    path.write_bytes(bytes(oracle.data))
    header = IndexHeader.from_bytes(oracle.data)
    with open_index_source(path) as source:
        return find(
            source,
            Layout(oracle.hash_slot_num, oracle.index_num),
            np.array(hashes, np.int32),
            limit=header.index_count if limit is None else limit,
            header=header,
            index_count=lambda: header.index_count,
            max_steps=max_steps,
        )


@given(broker_files(min_entries=1), st.lists(key_hashes(), max_size=30))
def test_a_walk_finds_what_the_broker_finds(folder, oracle, hashes):
    """For every hash, newest first."""
    found, unfinished = walk(folder, oracle, hashes)
    answers = [oracle.select(hashed, 10**6, -(2**63), 2**63 - 1) for hashed in hashes]
    assert found.entries["phy_offset"].tolist() == [
        offset for answer in answers for offset in answer
    ]
    assert found.queries.tolist() == [query for query, answer in enumerate(answers) for _ in answer]
    assert not len(unfinished)


@given(broker_files(min_entries=1), st.lists(key_hashes(), max_size=30), st.integers(0, 8))
def test_a_walk_that_is_given_up_returns_nothing_for_its_hash(folder, oracle, hashes, max_steps):
    """So that a scan can answer it from the start."""
    whole, _ = walk(folder, oracle, hashes)
    found, unfinished = walk(folder, oracle, hashes, max_steps=max_steps)
    assert not set(unfinished.tolist()) & set(found.queries.tolist())
    kept = ~np.isin(whole.queries, unfinished)
    assert found.queries.tolist() == whole.queries[kept].tolist()
    assert found.positions.tolist() == whole.positions[kept].tolist()


def test_a_short_chain_is_never_given_up(tmp_path):
    """It ends with the entry that points to none."""
    oracle = BrokerFile(4, 20)
    for number in range(8):
        oracle.put(number, number, BEGIN)
    found, unfinished = walk(tmp_path, oracle, range(8), max_steps=2)
    assert found.positions.tolist() == list(range(1, 9))
    assert not len(unfinished)


def test_entries_beyond_the_limit_are_walked_through(tmp_path):
    """They are part of the chain, not of the answer."""
    oracle = BrokerFile(1, 20)
    for number in range(10):
        oracle.put(number % 2, number, BEGIN)
    found, _ = walk(tmp_path, oracle, [0, 1], limit=5)
    assert found.positions.tolist() == [3, 1, 4, 2]


def test_an_entry_that_was_never_written_gives_the_walk_up(tmp_path):
    """It lies beyond the limit, is all zeros, and hides what is before it."""
    oracle = BrokerFile(1, 20)
    for number in range(5):
        oracle.put(number, number + 1, BEGIN)
    oracle.index_count += 1
    oracle.data[40:44] = (6).to_bytes(4, "big")
    found, unfinished = walk(tmp_path, oracle, [0, 3], limit=6)
    assert unfinished.tolist() == [0, 1]
    assert not len(found.queries)
