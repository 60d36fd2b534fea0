"""What a plot shows, counted."""

from __future__ import annotations

from rmqindex import sample_store
from rmqindex.answers.plot import count_index
from rmqindex.store import IndexSnapshot


def test_what_is_counted_are_the_entries():
    """Chains, slots and times add up to the entries."""
    counts = count_index(IndexSnapshot.of(sample_store(), None, "FAILFAST"))
    assert sum(counts.entry_counts) == 959
    assert sum(int(part.sum()) for part in counts.over_time) == 959
    for lengths, slots, entries in zip(
        counts.chain_lengths, counts.hash_slot_num, counts.entry_counts, strict=True
    ):
        assert lengths.sum() == slots
        assert (lengths * range(len(lengths))).sum() == entries
