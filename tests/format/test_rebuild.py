"""Going on with an index whose last message has more entries than keys."""

from __future__ import annotations

from collections import Counter

import pytest

from rmqindex import IndexFile, IndexFileWriter, Layout, rebuild_index, sample_store

LAYOUT = Layout(97, 200)
STORE = sample_store()


def entries(directory):
    """Return hash and offset of all entries, counted."""
    found = Counter()
    for path in directory.iterdir():
        with IndexFile(path, LAYOUT) as file:
            for batch in file.scan(columns=["key_hash", "phy_offset"]):
                found.update((row["key_hash"], row["phy_offset"]) for row in batch.to_pylist())
    return found


@pytest.mark.parametrize("more", [["uniq", "again"], ["member"]])
def test_what_the_last_message_has_too_much_takes_nothing_from_the_next(tmp_path, more):
    """A broker indexes it twice after a crash, and members of a batch have keys of their own."""
    index = tmp_path / "index"
    stop = 40_000
    done = rebuild_index(STORE, index, LAYOUT, stop=stop)
    with IndexFile(done.files[-1], LAYOUT) as file:
        offset, time = file.header.end_phy_offset, file.header.end_timestamp
    with IndexFileWriter(done.files[-1], LAYOUT) as writer:
        written = [writer.put(f"TopicTest#{key}", offset, time) for key in [*more, *"abcdefgh"]]
    assert all(written)
    extra = entries(index)
    rebuild_index(STORE, index, resume=True)
    assert entries(STORE / "index") - entries(index) == Counter()
    assert entries(index) - entries(STORE / "index") == extra - entries(STORE / "index")
