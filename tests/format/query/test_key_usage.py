"""Which keys crowd an index: counted by hash, told apart by their messages."""

from __future__ import annotations

import shutil
import sys
from collections import Counter, defaultdict

import numpy as np
import pytest

import rmqindex
from commitlog_encoder import Log, Message, properties_text
from recorded import BROKER_VERSIONS
from rmqindex import CommitLog, CorruptIndexError, IndexFileWriter, Layout, RmqIndexError
from rmqindex.commitlog import Selection
from rmqindex.keys import message_keys
from rmqindex.query import key_usage, measure_keys
from rmqindex.query.hash_counts import most_frequent
from rmqindex.store import IndexSnapshot

STORE = rmqindex.sample_store()
TIME = 1_700_000_000_000
LAYOUT = Layout(7, 1000)


def make_store(root, messages, *, layouts=(LAYOUT,), indexed=None):
    """Write a log of messages (topic, KEYS) and the index that a broker writes of them."""
    log = Log(64 * 1024)
    offsets = [
        log.append(Message(topic=topic, properties=properties_text([("KEYS", keys)])))
        for topic, keys in messages
    ]
    log.write_to(root / "commitlog")
    (root / "index").mkdir()
    rows = list(zip(messages, offsets, strict=True))[:indexed]
    for number, layout in enumerate(layouts):
        part = rows[number :: len(layouts)] if len(layouts) > 1 else rows
        path = root / "index" / f"{20231114221320000 + number}"
        with IndexFileWriter(path, layout) as writer:
            for (topic, keys), offset in part:
                for key in message_keys(topic, None, keys):
                    assert writer.put(key, offset, TIME)
    return root, offsets


def measured(
    root, by="key", *, log=True, index=True, selection=None, layout=None, mode="FAILFAST", **names
):
    """Measure a store, its log or its index alone."""
    files = IndexSnapshot.of(root, layout, mode) if index else None
    if not log:
        return measure_keys(files, None, by, selection, mode=mode, **names)
    with CommitLog(root) as opened:
        return measure_keys(files, opened, by, selection, mode=mode, **names)


def steps(root, by, **names):
    """Count the lines that the module runs, each turn of a loop in one line too."""
    count = 0

    def trace(frame, event, _):
        nonlocal count
        count += event == "line"
        return trace if frame.f_code.co_filename == key_usage.__file__ else None

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        rows = measured(root, by, **names).rows
    finally:
        sys.settrace(before)
    return count, len(rows)


def pairs(usage):
    """Return topic and key of each row, with its entries."""
    return [(row.topic, row.key, row.entry_count) for row in usage.rows]


class TestCounts:
    """Against plain counting of the sample store, which RocketMQ wrote."""

    def test_keys_have_the_entries_that_a_lookup_returns(self):
        """For every key of the store, messages and bytes too."""
        usage = measured(STORE, limit=10_000)
        messages, sizes = Counter(), Counter()
        with CommitLog(STORE) as log:
            for batch in log.scan():
                for row in batch.to_pylist():
                    keys = message_keys(row["topic"], row["uniq_key"], row["keys"], row["sys_flag"])
                    for key in set(keys):
                        messages[key] += 1
                        sizes[key] += row["size"]
        found = {f"{row.topic}#{row.key}": row for row in usage.rows if row.entry_count}
        assert {key: row.message_count for key, row in found.items()} == messages
        assert {key: row.size for key, row in found.items()} == sizes
        store = rmqindex.MessageStore(STORE)
        for row in usage.rows[:30]:
            assert store.lookup(row.topic, row.key).num_rows == row.entry_count
        assert [row.entry_count for row in usage.rows] == sorted(
            (row.entry_count for row in usage.rows), reverse=True
        )
        assert sum(row.entry_count for row in usage.rows) == usage.entry_count == 959

    def test_hashes_without_a_log_and_the_chains_of_their_slots(self):
        """What a lookup walks, by the entries themselves."""
        usage = measured(STORE, log=False, limit=10_000)
        hashes, chains, pages = Counter(), Counter(), defaultdict(set)
        for file in IndexSnapshot.of(STORE, None, "FAILFAST"):
            with file.open() as opened:
                for batch in opened.scan():
                    for row in batch.to_pylist():
                        hashes[row["key_hash"]] += 1
                        chains[row["slot"], opened.name] += 1
                        byte = opened.layout.entry_offset(row["position"])
                        pages[row["slot"]].add((opened.name, byte // 4096))
        assert {row.key_hash: row.entry_count for row in usage.rows} == hashes
        for row in usage.rows:
            own = [count for (slot, _), count in chains.items() if slot == row.slot]
            assert row.slot == row.key_hash % 97
            assert (row.longest_chain, row.entries_read) == (max(own), sum(own))
            assert (row.bytes_read, row.pages_read) == (20 * sum(own), len(pages[row.slot]))
            assert (row.topic, row.key, row.message_count, row.unverified_count) == (None,) * 4

    def test_a_log_without_an_index_has_messages(self):
        """And no entries."""
        usage = measured(STORE, index=False, limit=1)
        (row,) = usage.rows
        assert (row.key, row.message_count, row.entry_count) == ("DV[XZAX", 16, None)
        assert usage.entry_count is None

    def test_tags_have_messages_and_entries(self):
        """Of a broker that indexes them."""
        root = BROKER_VERSIONS / "5.5.0" / "store"
        usage = measured(root, "tag", limit=1000)
        tags = Counter()
        with CommitLog(root) as log:
            for batch in log.scan(columns=["topic", "tags"]):
                tags.update(
                    (row["topic"], f"T#{row['tags']}") for row in batch.to_pylist() if row["tags"]
                )
        assert {(row.topic, row.key): row.message_count for row in usage.rows} == tags
        assert [row.message_count for row in usage.rows] == sorted(tags.values(), reverse=True)


class TestWhoseEntry:
    """Keys of one hash, of several topics, and entries without a message."""

    def test_two_keys_of_one_hash_are_two_rows(self, tmp_path):
        """``Aa`` and ``BB`` collide; each has its own entries."""
        root, _ = make_store(tmp_path, [("T", "Aa")] * 3 + [("T", "BB")] * 2 + [("T", "x")])
        usage = measured(root)
        assert pairs(usage) == [("T", "Aa", 3), ("T", "BB", 2), ("T", "x", 1)]
        assert usage.rows[0].key_hash == usage.rows[1].key_hash
        assert usage.rows[0].entries_read >= 5

    def test_a_hash_shared_by_many_does_not_push_out_a_hotter_key(self, tmp_path):
        """Its count is that of both; a key behind it may have more than each."""
        messages = [("T", "Aa")] * 3 + [("T", "BB")] * 3 + [("T", "x")] * 4 + [("T", "y")] * 5
        root, _ = make_store(tmp_path, messages)
        assert pairs(measured(root, limit=1)) == [("T", "y", 5)]
        assert pairs(measured(root, limit=3))[:2] == [("T", "y", 5), ("T", "x", 4)]

    def test_a_key_without_entries_has_no_row(self, tmp_path):
        """Whether or not another key shares its hash."""
        root, _ = make_store(tmp_path, [("T", "Aa"), ("T", "BB"), ("T", "k")], indexed=1)
        assert pairs(measured(root)) == [("T", "Aa", 1)]

    def test_one_key_of_two_topics_is_two_rows(self, tmp_path):
        """A key is its topic's."""
        root, _ = make_store(tmp_path, [("A", "k")] * 2 + [("B", "k")])
        assert pairs(measured(root)) == [("A", "k", 2), ("B", "k", 1)]

    def test_entries_of_expired_messages_are_a_keys_but_unverified(self, tmp_path):
        """As in a lookup; a hash without any message has no key."""
        root, _ = make_store(tmp_path, [("T", "k")] * 3 + [("T", "old")])
        shutil.copytree(root / "index", tmp_path / "other" / "index")
        log = Log(64 * 1024, start=64 * 1024)
        log.append(Message(topic="T", properties=properties_text([("KEYS", "k")])))
        log.write_to(tmp_path / "other" / "commitlog")
        usage = measured(tmp_path / "other")
        assert [(row.key, row.entry_count, row.unverified_count) for row in usage.rows] == [
            ("k", 3, 3),
            (None, 1, 1),
        ]

    def test_a_key_twice_in_a_message_is_one_message_and_two_entries(self, tmp_path):
        """``KEYS`` may repeat it."""
        root, _ = make_store(tmp_path, [("T", "k k")])
        (row,) = measured(root).rows
        assert (row.message_count, row.entry_count) == (1, 2)

    def test_files_of_other_geometries_have_no_common_slot(self, tmp_path):
        """The chains of each are counted."""
        root, _ = make_store(tmp_path, [("T", "k")] * 4, layouts=(Layout(7, 100), Layout(5, 100)))
        (row,) = measured(root).rows
        assert (row.slot, row.longest_chain, row.entries_read) == (None, 2, 4)


class TestWhatIsAsked:
    """Selections, limits and modes."""

    def test_a_topic_narrows_messages_and_entries(self, tmp_path):
        """The chains stay those of all keys."""
        root, _ = make_store(tmp_path, [("A", "k")] * 5 + [("B", "k")] * 2)
        usage = measured(root, selection=Selection(topics=("B",)))
        assert pairs(usage) == [("B", "k", 2)]
        assert (usage.message_count, usage.entry_count) == (2, 2)

    def test_offsets_and_times_narrow_an_index_alone(self, tmp_path):
        """Times are those of the entries."""
        root, offsets = make_store(tmp_path, [("A", "k")] * 5)
        for selection, count in (
            (Selection(start=offsets[2]), 3),
            (Selection(stop=offsets[1]), 1),
            (Selection(begin=TIME + 1), 0),
            (Selection(begin=TIME, end=TIME), 5),
        ):
            assert measured(root, log=False, selection=selection).entry_count == count

    def test_what_needs_a_log_is_refused_without(self):
        """Tags, topics and queues are not in an index."""
        for by, selection in (("tag", None), ("key", Selection(topics=("T",)))):
            with pytest.raises(RmqIndexError, match="expected a CommitLog"):
                measured(STORE, by, log=False, selection=selection)

    @pytest.mark.parametrize(("by", "limit"), [("hash", 1), ("key", 0)])
    def test_other_arguments_are_refused(self, by, limit):
        """By name."""
        with pytest.raises(ValueError, match="expected"):
            measured(STORE, by, limit=limit)

    def test_messages_without_tags_have_no_row_of_tags(self, tmp_path):
        """They are counted all the same, and so are their entries."""
        root, _ = make_store(tmp_path, [("T", "k")] * 3)
        usage = measured(root, "tag")
        assert (usage.rows, usage.message_count, usage.entry_count) == ((), 3, 3)

    def test_an_index_without_entries_has_no_rows(self, tmp_path):
        """And nothing of it is an error."""
        root, _ = make_store(tmp_path, [("T", "k")], indexed=0)
        usage = measured(root, log=False)
        assert (usage.rows, usage.entry_count) == ((), 0)

    def test_damage_is_refused_or_left_out(self, tmp_path):
        """As a scan does."""
        root, _ = make_store(tmp_path, [("T", "k")] * 5)
        file = next((root / "index").iterdir())
        data = bytearray(file.read_bytes())
        data[40 + 4 * 7 + 20 * 2 : 40 + 4 * 7 + 20 * 3] = b"\xff" * 20
        file.write_bytes(data)
        with pytest.raises(CorruptIndexError):
            measured(root, layout=LAYOUT)
        assert pairs(measured(root, layout=LAYOUT, mode="DROPMALFORMED")) == [("T", "k", 4)]

    def test_an_empty_index_without_a_log_has_no_keys(self, tmp_path):
        """A broker that has just begun."""
        (tmp_path / "index").mkdir()
        (tmp_path / "checkpoint").write_bytes(bytes(4096))
        assert pairs(measured(tmp_path, log=False)) == []

    def test_neither_an_index_nor_a_log_is_refused(self, tmp_path):
        """Nothing was counted."""
        with pytest.raises(RmqIndexError, match="expected IndexFiles or a CommitLog, got neither"):
            measured(tmp_path, log=False, index=False)


class TestWork:
    """What an answer of very many rows costs."""

    @pytest.mark.parametrize("by", ["key", "tag"])
    def test_twice_the_keys_are_twice_the_work(self, tmp_path, by):
        """And not four times: keys are not looked for among all others."""
        taken = []
        for number in (200, 400, 800):
            log = Log(256 * 1024)
            for place in range(number):
                properties = [("KEYS", f"k{place}"), ("TAGS", f"tag{place}")]
                log.append(Message(topic="T", properties=properties_text(properties)))
            root = tmp_path / str(number)
            log.write_to(root / "commitlog")
            count, rows = steps(root, by, index=False, limit=10_000)
            assert rows == number
            taken.append(count)
        assert taken[2] - taken[1] < 2.5 * (taken[1] - taken[0])


class TestMostFrequent:
    """Any number of hashes in bounded memory."""

    @pytest.mark.parametrize("most", [3, 10, 1 << 24])
    @pytest.mark.parametrize("limit", [1, 4, 500])
    def test_ranges_change_no_answer(self, most, limit):
        """However few are held at a time."""
        generator = np.random.default_rng(7)
        parts = [
            (generator.zipf(1.3, size) % 60 * 35_000_000).astype(np.int32)
            for size in (0, 100, 300, 1)
        ]
        found = most_frequent(lambda: iter(parts), limit, most=most)
        counts = Counter(np.concatenate(parts).tolist())
        expected = sorted(counts.items(), key=lambda item: (-item[1], item[0]))[:limit]
        assert list(zip(found.hashes.tolist(), found.counts.tolist(), strict=True)) == expected
        assert found.total == 401

    def test_nothing_has_nothing(self):
        """An empty index."""
        found = most_frequent(lambda: iter(()), 5)
        assert (len(found.hashes), found.total) == (0, 0)
