"""What a plot shows, counted."""

from __future__ import annotations

import errno
import os
from datetime import UTC

import pytest

from rmqindex import IndexFileWriter, Layout, RmqIndexError, sample_store
from rmqindex.answers.plot import count_index, plot_counts
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


def test_counts_are_those_of_the_files_that_were_listed(store):
    """Or an error: not those of a file that has taken another's name, or that is gone."""
    files = IndexSnapshot.of(store, None, "FAILFAST")
    counted = count_index(files).entry_counts
    first, second, *_ = sorted((store / "index").iterdir())
    content = first.read_bytes()
    second.unlink()
    with pytest.raises(RmqIndexError, match=r"the file was removed .* run this again"):
        count_index(files)
    second.write_bytes(content)
    with pytest.raises(RmqIndexError, match="run this again"):
        count_index(files)
    assert sum(counted) == 959


def test_files_without_entries_are_not_opened_again(tmp_path):
    """What has been listed as empty counts nothing, also where it is filled meanwhile."""
    path, layout = tmp_path / "20231114221320000", Layout(7, 12)
    IndexFileWriter(path, layout).close()
    files = IndexSnapshot.of(tmp_path, None, "FAILFAST")
    path.unlink()
    assert count_index(files).entry_counts == (0,)


def test_a_picture_that_does_not_fit_on_the_disk_leaves_none(tmp_path, monkeypatch):
    """The error names the file."""
    counts = count_index(IndexSnapshot.of(sample_store(), None, "FAILFAST"))

    def fill(*_):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "write", fill)
    with pytest.raises(OSError, match=r"No space left on device: .*p\.png"):
        plot_counts(counts, tmp_path / "p.png", "title", UTC, "UTC")
    assert not list(tmp_path.iterdir())
