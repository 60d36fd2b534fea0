"""Probe or scan: what decides it."""

from __future__ import annotations

import pytest

from pyspark_rmqindex.files import FileSlice
from pyspark_rmqindex.join.task import (
    STRATEGIES,
    crossover,
    is_scanned,
    lookup_cost,
    probe_cost,
    scan_cost,
)
from rmqindex.indexfile import Fingerprint
from rmqindex.storage import FileIdentity, Location


def file_of(entries, slots):
    """Return a file of so many entries and slots."""
    stop = entries + 1
    fingerprint = Fingerprint(FileIdentity(0), stop, None)
    return FileSlice(
        Location("/i/1"), Location("/i/1"), slots, 4 * slots, 0, fingerprint, stop, 1, entries
    )


@pytest.mark.parametrize("remote", [False, True])
@pytest.mark.parametrize(("entries", "slots"), [(2_000_000, 500_000), (20_000_000, 5_000_000)])
def test_few_keys_are_probed_and_many_are_scanned(entries, slots, remote):
    """The crossover is where the estimates meet, and lies between one key and all of them."""
    each = file_of(entries, slots)
    edge = crossover(each, remote=remote)
    assert 1 <= edge < entries
    assert probe_cost(edge, each, remote=remote) <= scan_cost(edge, each, remote=remote)
    assert not is_scanned(edge, each, "auto", remote=remote)
    assert is_scanned(edge + 1, each, "auto", remote=remote)
    assert lookup_cost(edge, [each, each], remote=remote) == 2 * probe_cost(
        edge, each, remote=remote
    )
    assert lookup_cost(9 * edge, [each], remote=remote) == scan_cost(9 * edge, each, remote=remote)


def test_crowded_slots_make_probes_dearer():
    """Of two files with as many entries, the one with fewer slots is scanned sooner."""
    assert crossover(file_of(10**6, 100), remote=False) < crossover(
        file_of(10**6, 10**6), remote=False
    )


def test_what_was_measured_is_estimated():
    """Of the files of two sizes that were measured, on either side of where the lines cross."""
    small, large = file_of(2_000_000, 500_000), file_of(20_000_000, 5_000_000)
    assert not is_scanned(31_250, small, "auto", remote=False)
    assert is_scanned(62_500, small, "auto", remote=False)
    assert not is_scanned(625_000, large, "auto", remote=False)
    assert is_scanned(2_500_000, large, "auto", remote=False)


def test_a_strategy_that_is_named_is_taken():
    """Whatever the estimates say."""
    each = file_of(1000, 250)
    assert "auto" in STRATEGIES
    assert not is_scanned(10**9, each, "probe", remote=False)
    assert is_scanned(1, each, "scan", remote=False)
