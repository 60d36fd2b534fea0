"""Why a key has no hit."""

from __future__ import annotations

import json
import shutil

import pytest

import rmqindex
from kinds import sampled
from rmqindex import (
    EXPLAIN_REASONS,
    IndexDirectory,
    IndexFileWriter,
    Layout,
    RmqIndexError,
    explain_lookup,
)

STORE = rmqindex.sample_store()
LAYOUT = Layout(7, 100)
HOUR = 3_600_000
START = 1_700_000_000_000


@pytest.fixture
def index(tmp_path):
    """A function that writes IndexFiles of (key, offset, time) and returns their directory."""

    def write(*files):
        end = (0, 0)
        for number, puts in enumerate(files):
            path = tmp_path / f"2023111422132{number:04d}"
            with IndexFileWriter(path, LAYOUT, *end) as writer:
                for key, offset, time in puts:
                    writer.put(f"T#{key}", offset, time)
                    end = (offset, time)
        return tmp_path

    return write


def reasons(explained):
    """Return the reasons of the entries, newest first."""
    return [hit.reason for file in explained.files for hit in file.hits]


class TestAgainstTheBroker:
    """What is called a hit is what the broker's own query returns."""

    @pytest.mark.parametrize("part", sampled(range(8), 0))
    @pytest.mark.parametrize("with_log", sampled([False, True], False))
    def test_hits_and_collisions_are_the_brokers_answer(self, golden, with_log, part):
        """Over every query that RocketMQ answered for the sample store."""
        queries = json.loads((golden / "store_queries.json").read_text())["query_offset"]
        returned = ("hit", "collision") if with_log else ("hit",)
        for query in queries[::3][part::8]:
            if query["max_num"] < 64 or query["begin"] > query["end"]:
                continue
            explained = explain_lookup(
                STORE,
                query["topic"],
                query["key"],
                query["begin"],
                query["end"],
                "auto" if with_log else None,
            )
            hits = [
                hit.phy_offset
                for file in explained.files
                for hit in file.hits
                if hit.reason in returned
            ]
            assert set(query["result"]) <= set(hits) | {
                hit.phy_offset
                for file in explained.files
                for hit in file.hits
                if hit.reason == "outside_window"
            }
            if not with_log:
                assert set(hits) <= set(query["result"])


@pytest.mark.parametrize(
    ("begin", "end", "message"),
    [
        (2000, 1999, "begin: expected at most end, 1999, got 2000"),
        (1700000000, None, r"did you mean 1700000000000 \(2023-11-14 22:13:20"),
        (None, 1700000000, r"did you mean 1700000000000 \(2023-11-14 22:13:20"),
    ],
)
def test_a_range_that_nobody_means_is_refused(begin, end, message):
    """Its end before its begin, though a broker answers that, or seconds."""
    with pytest.raises(ValueError, match=message):
        explain_lookup(STORE, "TopicTest", "order-49", begin, end)


class TestFilesWithoutTheKey:
    """Each file says what stands in the key's slot."""

    def test_an_empty_slot(self, index):
        """Nothing hangs there."""
        directory = index([("a", 0, START)])
        key = next(k for k in "bcdefghij" if rmqindex.key_hash(f"T#{k}") % 7 != 0
                   and rmqindex.key_hash(f"T#{k}") % 7 != rmqindex.key_hash("T#a") % 7)  # fmt: skip
        (file,) = explain_lookup(directory, "T", key, layout=LAYOUT).files
        assert (file.reason, file.chain_length) == ("empty_slot", 0)

    def test_other_keys_in_the_chain(self, index):
        """They are counted."""
        slot = rmqindex.key_hash("T#a") % 7
        others = [k for k in map(str, range(100)) if rmqindex.key_hash(f"T#{k}") % 7 == slot][:3]
        directory = index([(key, 0, START) for key in others])
        (file,) = explain_lookup(directory, "T", "a", layout=LAYOUT).files
        assert (file.reason, file.slot, file.chain_length) == ("other_keys", slot, 3)
        assert "3 entries of 3 other key hashes" in file.detail

    def test_a_file_without_entries(self, index):
        """It needs no geometry."""
        (file,) = explain_lookup(index([]), "T", "a").files
        assert (file.reason, file.slot) == ("no_entries", None)

    def test_a_damaged_file(self, index):
        """The others are explained all the same."""
        directory = index([("a", 0, START)], [("a", 9, START + 9)])
        (directory / "20231114221320000").write_bytes(b"short")
        newer, older = explain_lookup(directory, "T", "a", layout=LAYOUT).files
        assert (newer.reason, older.reason) == ("hit", "damaged")

    def test_a_file_of_more_than_one_geometry_is_not_damaged(self, tmp_path):
        """Which one the broker has, only the user knows; the message may have its entry."""
        layout = Layout(2, 9)  # of the size of 7 slots and 8 places
        key = next(key for key in map(str, range(100)) if rmqindex.key_hash(f"T#{key}") % 14 == 0)
        with IndexFileWriter(tmp_path / "20231114221320000", layout) as writer:
            writer.put(f"T#{key}", 0, START)
        with pytest.raises(RmqIndexError, match=r"several geometries fit: .* say which with"):
            explain_lookup(tmp_path, "T", key)
        (file,) = explain_lookup(tmp_path, "T", key, layout=layout).files
        assert file.reason == "hit"

    def test_a_damaged_file_is_answered_with_a_command(self, index):
        """An explanation takes no mode, so it names the audit, which says what to do."""
        directory = index([("a", 0, START)], [("a", 9, START + 9)])
        file = min(directory.iterdir())
        file.write_bytes(file.read_bytes()[:-4])
        explained = explain_lookup(directory, "T", "a")
        assert "DROPMALFORMED" not in explained.files[1].detail
        remedies = {reason.code: reason.remedy for reason in explained.reasons}
        assert remedies["damaged"] == f"rmqindex verify {directory}"

    def test_a_path_that_is_not_there(self, tmp_path):
        """That is an error."""
        with pytest.raises(RmqIndexError, match="no such file"):
            explain_lookup(tmp_path / "nothing", "T", "a")


class TestWhatTheBrokerHides:
    """Entries of the key that the broker's search does not return."""

    def test_outside_the_window(self, index):
        """The entry is too old or too new."""
        directory = index([("a", 0, START), ("a", 9, START + HOUR)])
        explained = explain_lookup(directory, "T", "a", START + 1, START + HOUR - 1, layout=LAYOUT)
        assert reasons(explained) == ["outside_window", "outside_window"]

    def test_a_file_whose_header_does_not_meet_the_window(self, index):
        """A clock that stepped back: the header's end is not the latest time."""
        directory = index([("a", 0, START), ("a", 9, START + HOUR), ("b", 10, START + 1)])
        explained = explain_lookup(directory, "T", "a", START + HOUR, layout=LAYOUT)
        assert reasons(explained) == ["file_skipped", "outside_window"]

    def test_a_newer_file_that_begins_before_the_window(self, index):
        """The broker goes no further back, though clocks may have stepped."""
        directory = index(
            [("a", 0, START + HOUR), ("a", 1, START + 2 * HOUR)],
            [("a", 9, START), ("a", 10, START + 2 * HOUR)],
        )
        explained = explain_lookup(directory, "T", "a", START + HOUR, layout=LAYOUT)
        assert reasons(explained) == ["hit", "outside_window", "hidden_by_file", "hidden_by_file"]

    def test_an_older_entry_in_the_chain(self, index):
        """The broker's walk stops at it, whatever stands behind."""
        slot = rmqindex.key_hash("T#a") % 7
        other = next(k for k in map(str, range(99)) if rmqindex.key_hash(f"T#{k}") % 7 == slot)
        directory = index(
            [("b", 0, START), ("a", 1, START + HOUR), (other, 2, START), ("b", 3, START + HOUR)]
        )
        explained = explain_lookup(directory, "T", "a", START + HOUR, layout=LAYOUT)
        assert reasons(explained) == ["hidden_by_stop"]

    def test_more_rows_than_the_broker_returns(self, index):
        """The newest 64, and no others."""
        directory = index([("a", n, START + n) for n in range(70)], [("a", 99, START + 99)])
        explained = explain_lookup(directory, "T", "a", layout=LAYOUT)
        assert reasons(explained) == ["hit"] * 64 + ["hidden_by_limit"] * 7
        assert len(explained.hits) == 64
        fewer = explain_lookup(directory, "T", "a", layout=LAYOUT, max_msgs_num_batch=1)
        assert reasons(fewer) == ["hit"] + ["hidden_by_limit"] * 70

    def test_the_first_entry_of_a_rolled_file(self, index):
        """The broker reads it late by the gap to the file before."""
        directory = index([("b", 0, START)], [("a", 1, START + HOUR)])
        explained = explain_lookup(
            directory, "T", "a", START + HOUR, START + HOUR + 1000, layout=LAYOUT
        )
        assert reasons(explained) == ["read_late"]
        assert explained.files[0].reason == "read_late"


class TestWithTheLog:
    """What the messages themselves say."""

    def test_a_collision_names_the_other_message(self):
        """Two keys of one hash, told apart by the message."""
        explained = explain_lookup(STORE, "TopicTest", "BB", commit_log="auto")
        plain = explain_lookup(STORE, "TopicTest", "BB")
        collisions = [
            hit for file in explained.files for hit in file.hits if hit.reason == "collision"
        ]
        assert {hit.reason for file in plain.files for hit in file.hits} <= {"hit"}
        for hit in collisions:
            assert hit.message is not None
            assert ": " in hit.message

    def test_an_expired_message(self, tmp_path):
        """The log's head is gone, and the index still points there."""
        shutil.copytree(STORE, tmp_path / "store")
        (tmp_path / "store" / "commitlog" / "00000000000000000000").unlink()
        explained = explain_lookup(tmp_path / "store", "TopicTest", "order-49", commit_log="auto")
        found = {hit.phy_offset: hit.reason for file in explained.files for hit in file.hits}
        assert found[0] == "expired"
        assert found[112_033] == "hit"

    def test_an_offset_without_a_message(self, tmp_path):
        """The index is not this log's."""
        with IndexDirectory(tmp_path / "index", LAYOUT, writable=True) as directory:
            directory.build_index("TopicTest", "a", None, 0, 7, START)
        explained = explain_lookup(tmp_path, "TopicTest", "a", commit_log=STORE, layout=LAYOUT)
        assert reasons(explained) == ["dangling"]

    def test_topics_that_hold_messages_of_others(self):
        """A retried message is under its group's retry topic."""
        explained = explain_lookup(STORE, "TopicTest", "order-49", commit_log="auto")
        (retry,) = explained.other_topics
        assert (retry.topic, retry.is_verified) == ("%RETRY%group1", True)
        assert retry.phy_offsets == (49_473, 13_267)

    def test_a_message_of_another_topic_is_verified_beside_collisions(self):
        """Entries of the topic whose messages have other keys are left out, and cast no doubt."""
        explained = explain_lookup(STORE, "TopicTest", "BB", commit_log="auto")
        (retry,) = explained.other_topics
        assert (retry.topic, retry.phy_offsets) == ("%RETRY%group1", (65_979,))
        assert retry.is_verified

    def test_a_message_that_is_read_early(self):
        """The broker cuts times to seconds, and misses what was stored in the window's first."""
        window = (1_700_000_214_000, 1_700_000_214_258)  # the message's own time is the end
        explained = explain_lookup(STORE, "TopicTest", "order-49", *window, "auto")
        (hit,) = [
            hit for file in explained.files for hit in file.hits if hit.reason != "outside_window"
        ]
        assert (hit.phy_offset, hit.reason) == (24_638, "read_early")
        assert hit.store_timestamp == 1_700_000_214_258
        assert explained.hits == ()
        blind = explain_lookup(STORE, "TopicTest", "order-49", *window)
        assert set(reasons(blind)) == {"outside_window"}

    def test_retry_topics_are_known_by_their_queues(self, tmp_path):
        """Also where the CommitLog is elsewhere."""
        shutil.copytree(STORE, tmp_path / "store")
        (tmp_path / "store" / "commitlog").rename(tmp_path / "log")
        explained = explain_lookup(
            tmp_path / "store", "TopicTest", "order-49", commit_log=tmp_path / "log"
        )
        assert [other.topic for other in explained.other_topics] == ["%RETRY%group1"]

    def test_candidates_of_other_topics_without_a_log(self):
        """They are hashes only, and said to be."""
        explained = explain_lookup(STORE, "TopicTest", "order-49")
        (retry,) = [other for other in explained.other_topics if other.topic == "%RETRY%group1"]
        assert not retry.is_verified

    def test_every_reason_is_explained(self):
        """The table has a sentence for each."""
        for meaning in EXPLAIN_REASONS.values():
            assert meaning.endswith(".")
