"""One entry, one key, one answer: every engine that looks keys up finds the same entries."""

from __future__ import annotations

from collections import Counter

import pytest

from engines import ENGINES, RECORDED_STORES, broker_offsets, command, scan, scanned
from kinds import sampled


@pytest.fixture(
    scope="module",
    params=sampled(
        RECORDED_STORES, "sample, indexed twice at its end", "5.5.0", "dledger_after_plain"
    ),
)
def case(request):
    """Return each store of the tests."""
    return RECORDED_STORES[request.param]


def some(pairs):
    """Return those with keys that collide, and some others, for engines that take long."""
    return [pair for n, pair in enumerate(pairs) if n % 17 == 0 or pair[1] in ("Aa", "BB")]


def test_a_scan_knows_the_key_of_each_entry(case, twin):
    """The one that the slow twin finds, and none where the message has expired."""
    found = {(row.file, row.position): (row.topic, row.key) for row in scan(case)}
    owners = {place: owner or (None, None) for place, owner in twin.owners.items()}
    assert found == owners


@pytest.mark.parametrize("engine", ENGINES)
def test_every_engine_finds_the_entries_of_every_key(case, twin, engine):
    """Each entry for one key alone, with the message's time and its state."""
    pairs = some(twin.pairs()) if engine == "MessageStore, one key" else twin.pairs()
    expected = twin.expected(pairs)
    assert expected
    assert ENGINES[engine](case, pairs) == expected


def test_a_scan_with_a_filter_finds_what_lookups_verify(case, twin):
    """What nobody can confirm has no key there."""
    pairs = twin.pairs()
    verified = {row: n for row, n in twin.expected(pairs).items() if row.state == "verified"}
    assert scanned(case, pairs) == verified


def test_the_command_finds_the_entries_of_a_key(case, twin, run, tmp_path):
    """As JSON, one answer for each line of a file of keys."""
    pairs = some(twin.pairs())
    assert command(run, case, pairs, tmp_path) == twin.expected(pairs)


def test_the_brokers_own_search_has_no_other_messages_of_a_key(case, twin):
    """It returns candidates; those whose message has the key are the entries found, up to 64."""
    for pair in twin.pairs()[::7]:
        rows = twin.expected([pair])
        own = Counter(row.phy_offset for row in rows)
        answered = Counter(broker_offsets(case, pair))
        of_the_key = set(answered) & set(own)
        assert answered.total() >= min(64, own.total())
        if answered.total() < 64:
            assert of_the_key == set(own)
