"""Entries of tags, which brokers from 5.4.0 on write behind those of a message's keys."""

from __future__ import annotations

import shutil

import pytest

from rmqindex import (
    CommitLog,
    IndexDirectory,
    IndexFileWriter,
    Layout,
    expand_messages,
    key_hash,
    message_keys,
    rebuild_index,
    sample_store,
    verify,
)

LAYOUT = Layout(97, 200)
ALWAYS = (0, 2**63 - 1)
MESSAGES = [
    ("T", "u", "a b", 0, "TagA"),
    ("T", None, None, 0, "TagB"),
    ("T", "u", None, 12, "TagA"),
    ("\u8ba2\u5355", None, "a", None, "\u6807\u7b7e || b"),
    ("T", "", " ", 4, ""),
    ("T", "u", None, 0, None),
]


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    """The sample store, as a broker of 5.4.0 or later would have indexed it."""
    path = tmp_path_factory.mktemp("tagged") / "store"
    shutil.copytree(sample_store(), path)
    rebuild_index(path / "commitlog", path / "index", LAYOUT, replace=True, index_tags=True)
    return path


def tagged(store):
    """Return topic, tags, offset and store time of the messages with tags."""
    columns = ["topic", "tags", "phy_offset", "store_timestamp", "sys_flag"]
    with CommitLog(store) as log:
        rows = [row for batch in log.scan(columns=columns) for row in batch.to_pylist()]
    return [row for row in rows if row["tags"] and row["sys_flag"] & 12 != 12]


def test_tags_come_last_and_are_not_split():
    """A message without tags, with empty ones, or rolled back has no such key."""
    keys = [message_keys(*message) for message in MESSAGES]
    assert keys == [
        ["T#u", "T#a", "T#b", "T#T#TagA"],
        ["T#T#TagB"],
        [],
        ["\u8ba2\u5355#a", "\u8ba2\u5355#T#\u6807\u7b7e || b"],
        ["T#"],
        ["T#u"],
    ]


def test_columns_are_expanded_as_messages_are():
    """Hash, row and place of each key are those of one message at a time."""
    rows, ordinals, hashes = expand_messages(*map(list, zip(*MESSAGES, strict=True)))
    expected = [
        (row, place, key_hash(key))
        for row, message in enumerate(MESSAGES)
        for place, key in enumerate(message_keys(*message))
    ]
    assert list(zip(rows.tolist(), ordinals.tolist(), hashes.tolist(), strict=True)) == expected


def test_the_audit_takes_entries_of_tags_for_their_messages_own(store):
    """An index is whole with them and without them."""
    assert len(tagged(store)) > 100
    for path in (store, sample_store()):
        found = verify(path, commit_log="auto")
        assert "error" not in found["severity"].to_pylist()
        assert "entry_duplicate" not in found["rule"].to_pylist()


def test_the_audit_counts_entries_of_tags(store, tmp_path):
    """One more than the message has is told."""
    copy = tmp_path / "store"
    shutil.copytree(store, copy)
    row = tagged(copy)[-1]
    with IndexFileWriter(max((copy / "index").iterdir()), LAYOUT) as writer:
        key = f"{row['topic']}#T#{row['tags']}"
        assert writer.put(key, row["phy_offset"], row["store_timestamp"])
    assert "entry_duplicate" in verify(copy, commit_log="auto")["rule"].to_pylist()


def test_the_brokers_search_finds_tags_by_their_type(store):
    """Any other type is a key, as none is."""
    row = tagged(store)[-1]
    topic, tags = row["topic"], row["tags"]
    newest = max(r["phy_offset"] for r in tagged(store) if (r["topic"], r["tags"]) == (topic, tags))
    with IndexDirectory(store) as index:
        found = index.query_offset(topic, tags, 64, *ALWAYS, "T")
        assert found.phy_offsets[0] == newest
        assert index.query_offset(topic, f"T#{tags}", 64, *ALWAYS) == found
        assert index.query_offset(topic, tags, 64, *ALWAYS, "K").phy_offsets == ()


def test_the_command_finds_tags(run, store):
    """The message behind each hit has them; without --tag they are a key."""
    row = tagged(store)[-1]
    code, out, err = run("lookup", store, row["topic"], row["tags"], "--tag", "--limit", "1")
    assert (code, err) == (0, "")
    assert str(row["phy_offset"]) in out.replace(",", "")
    assert run("lookup", store, row["topic"], row["tags"])[0] == 1


def test_the_command_rebuilds_with_tags(run, store, tmp_path):
    """The files are those that rebuild_index makes."""
    out = tmp_path / "index"
    code, _, err = run(
        *("rebuild", store, "--out", out, "--index-tags"),
        *("--max-hash-slot-num", "97", "--max-index-num", "200"),
    )
    assert (code, err) == (0, "")
    made, expected = (sorted(path.iterdir()) for path in (out, store / "index"))
    assert [path.read_bytes() for path in made] == [path.read_bytes() for path in expected]
