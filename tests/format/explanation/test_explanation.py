"""What an explanation draws from the log, the other topics, the key and the tools."""

from __future__ import annotations

import contextlib
import json
import shlex
import shutil
from dataclasses import asdict

import pytest
from tests.system.store_kinds import copy_store

import rmqindex
from commitlog_encoder import Log, Message, properties_text
from other_broker import running_broker
from permissions import mode_of
from recorded import BROKER_VERSIONS
from rmqindex import (
    EXPLAIN_REASONS,
    CommitLog,
    IndexDirectory,
    Layout,
    RmqIndexError,
    explain_lookup,
    rebuild_index,
)
from rmqindex.explanation import log_search
from rmqindex.explanation.index_search import Window
from rmqindex.explanation.log_search import choose_parts

BROKER = BROKER_VERSIONS / "5.5.0" / "store"
DELAYED = "FD0000000000000000000000000000020D3C4E0E2F2A689CC3670060"
FOREVER = Window(0, 2**63 - 1)
DAY = 24 * 3_600_000


@pytest.fixture
def broker(tmp_path):
    """A copy of a store that a real broker of 5.5.0 wrote."""
    shutil.copytree(BROKER, tmp_path / "b5")
    return tmp_path / "b5"


def explain(store, topic, key, *window, **options):
    """Explain with the log beside the index."""
    return explain_lookup(store, topic, key, *window, commit_log="auto", **options)


def reason(explained, code):
    """Return the only reason of a code."""
    (found,) = [each for each in explained.reasons if each.code == code]
    return found


def codes(explained):
    """Return the codes of all reasons."""
    return {each.code for each in explained.reasons}


def moved(file, distance):
    """Return a file of the log whose records say that they lie further on."""
    with CommitLog(file) as log:
        offsets = [
            offset
            for batch in log.scan(columns=["phy_offset"])
            for offset in batch["phy_offset"].to_pylist()
        ]
    data = bytearray(file.read_bytes())
    for offset in offsets:
        data[offset + 28 : offset + 36] = (offset + distance).to_bytes(8, "big")
    return bytes(data)


def tagged_log(root, count, others=()):
    """Write a log of messages with a key and a tag, and return where each begins."""
    written = Log(file_size=1 << 16)
    for number in range(count):
        tag = dict(others).get(number, "TagA")
        properties = properties_text([("KEYS", f"k{number}"), ("TAGS", tag)])
        written.append(Message("T", properties=properties, store_timestamp=10**12 + number))
    written.write_to(root / "commitlog")
    return written.offsets


def newest(store):
    """Return the newest IndexFile."""
    return max((store / "index").iterdir())


class TestMessagesOutsideTheIndex:
    """What the log has and the index has not."""

    def test_a_message_behind_the_last_entry_is_found_with_both_ends(self, broker):
        """The newest file was lost."""
        newest(broker).unlink()
        explained = explain(broker, "Delayed", DELAYED)
        missing = reason(explained, "not_indexed")
        assert missing.phy_offsets == (34204,)
        assert missing.remedy == shlex.join(["rmqindex", "rebuild", str(broker), "--resume"])
        assert reason(explained, "index_reach").sentence == (
            "Indexed from offset 0 to 33894, stored 2026-11-21 07:31:42.359 UTC to 2026-11-21 "
            "07:31:45.125 UTC; a miss beyond proves nothing."
        )
        assert "34204 to 36140" in reason(explained, "index_behind").sentence
        assert explained.hits == ()

    def test_a_file_named_in_the_future_is_not_continued(self, broker):
        """No new name would come behind it."""
        newest(broker).unlink()
        newest(broker).rename(broker / "index" / "99991231235959999")
        missing = reason(explain(broker, "Delayed", DELAYED), "not_indexed")
        assert missing.remedy == shlex.join(["rmqindex", "rebuild", str(broker), "--replace"])

    def test_the_reach_is_that_of_all_files_whatever_their_names(self, broker):
        """A clock that stepped back names the newest before the others."""
        expected = reason(explain(broker, "Delayed", DELAYED), "index_reach")
        oldest = min((broker / "index").iterdir())
        newest(broker).rename(oldest.with_name(str(int(oldest.name) - 1)))
        assert reason(explain(broker, "Delayed", DELAYED), "index_reach") == expected

    def test_the_remedy_makes_it_a_hit(self, broker):
        """What is said to help does."""
        newest(broker).unlink()
        rebuild_index(broker, broker / "index", resume=True, index_tags=True)
        assert [hit.phy_offset for hit in explain(broker, "Delayed", DELAYED).hits] == [34204]

    def test_messages_before_the_first_entry_are_added_to_the_hits(self, store):
        """The oldest file was lost, and the index answers eight of eleven."""
        min((store / "index").iterdir()).unlink()
        explained = explain(store, "TopicTest", "order-49")
        assert len(explained.hits) == 8
        missing = reason(explained, "not_indexed")
        assert missing.phy_offsets == (24_638, 19_997, 0)
        assert missing.remedy.endswith("--replace")
        assert "0 to 25846" in reason(explained, "index_gap").sentence
        assert "index_behind" not in codes(explained)

    def test_messages_between_two_files_are_found(self, store):
        """A file in the middle was lost."""
        files = sorted((store / "index").iterdir())
        files[2].unlink()
        explained = explain(store, "TopicTest", "order-49")
        assert reason(explained, "not_indexed").phy_offsets == (72_754, 66_703, 64_048)
        assert reason(explained, "not_indexed").remedy.endswith("--replace")

    def test_a_file_that_cannot_be_read_is_searched_for_in_the_log(self, store):
        """Its messages count as not indexed."""
        files = sorted((store / "index").iterdir())
        files[2].write_bytes(files[2].read_bytes()[:3000])
        explained = explain(store, "TopicTest", "order-49", layout=Layout(97, 200))
        found = {hit.phy_offset for hit in explained.hits}
        found |= set(reason(explained, "not_indexed").phy_offsets)
        assert found >= {72_754, 66_703, 64_048, 0, 112_033}
        assert reason(explained, "damaged")

    @pytest.mark.parametrize("number", [0, 2, -1])
    @pytest.mark.parametrize("is_copy", [False, True])
    def test_nothing_is_said_of_files_that_were_not_asked_for(
        self, run, store, tmp_path, number, is_copy
    ):
        """Of one file of a whole index; the command asks all of them."""
        index, log = store / "index", store if is_copy else "auto"
        if is_copy:
            index = shutil.copytree(index, tmp_path / "copy")
        whole = {hit.phy_offset for hit in explain(store, "TopicTest", "order-49").hits}
        file = sorted(index.iterdir())[number]
        for search in ("gaps", "all"):
            found = explain_lookup(file, "TopicTest", "order-49", commit_log=log, search_log=search)
            others = reason(found, "entry_unknown")
            assert {hit.phy_offset for hit in found.hits} == whole - set(others.phy_offsets)
            assert codes(found).isdisjoint({"not_indexed", "index_gap", "index_behind"})
            assert not any("rebuild" in (each.remedy or "") for each in found.reasons)
        code, out, _ = run(*shlex.split(others.remedy)[1:], "--json")
        hits = [hit for each in json.loads(out)["files"] for hit in each["hits"]]
        assert (code, {hit["phy_offset"] for hit in hits}) == (0, whole)
        missed = explain_lookup(file, "TopicTest", "nokey", commit_log=log)
        assert "where the file has no entries" in reason(missed, "not_searched").sentence
        assert not any("rebuild" in (each.remedy or "") for each in missed.reasons)

    @pytest.mark.parametrize("number", [0, 2, -1])
    def test_nothing_is_said_of_what_an_unreadable_file_may_have(self, store, number):
        """Whether it is the oldest, one in the middle or the newest: no rebuild is advised."""
        files = sorted((store / "index").iterdir())
        whole = {hit.phy_offset for hit in explain(store, "TopicTest", "order-49").hits}
        with mode_of(files[number], 0):
            explained = explain(store, "TopicTest", "order-49")
            assert "Permission denied" in str(explained)
            hidden = reason(explained, "entry_unknown")
            assert hidden.remedy == f"rmqindex verify {store}"
            assert not any("rebuild" in (each.remedy or "") for each in explained.reasons)
        assert codes(explained).isdisjoint({"not_indexed", "index_gap", "index_behind", "damaged"})
        assert {hit.phy_offset for hit in explained.hits} == whole - set(hidden.phy_offsets)
        assert hidden.phy_offsets
        assert "4 of 5 files" in reason(explained, "hit").sentence

    def test_an_index_that_cannot_be_read_at_all_has_no_verdict(self, store):
        """That there is no entry is said of the files that were read: none."""
        with contextlib.ExitStack() as stack:
            for file in (store / "index").iterdir():
                stack.enter_context(mode_of(file, 0))
            explained = explain(store, "TopicTest", "order-49")
        assert "0 of 5 files; 5 cannot be read" in reason(explained, "no_entry").sentence
        assert len(reason(explained, "entry_unknown").phy_offsets) == 11
        assert codes(explained).isdisjoint({"not_indexed", "index_gap", "index_behind"})

    @pytest.mark.parametrize("with_folder", [True, False])
    def test_an_index_without_files_is_the_reason(self, broker, with_folder):
        """Also where the whole folder was lost."""
        shutil.rmtree(broker / "index")
        if with_folder:
            (broker / "index").mkdir()
        explained = explain(broker, "Delayed", DELAYED)
        assert explained.reasons[0].code == "no_index"
        assert explained.reasons[0].remedy == shlex.join(["rmqindex", "rebuild", str(broker)])
        assert reason(explained, "not_indexed").phy_offsets == (34204,)
        assert explained.index is None
        assert explained.log.is_searched

    def test_a_log_elsewhere_is_named_in_the_remedy(self, broker, tmp_path):
        """The command writes into the index that was asked."""
        newest(broker).unlink()
        (broker / "commitlog").rename(tmp_path / "log")
        explained = explain_lookup(broker, "Delayed", DELAYED, commit_log=tmp_path / "log")
        words = shlex.split(reason(explained, "not_indexed").remedy)
        assert words[2:] == [str(tmp_path / "log"), "--out", str(broker / "index"), "--resume"]

    def test_a_running_broker_may_still_index_it(self, broker):
        """So nothing is to be typed, which its lock would refuse (F7)."""
        newest(broker).unlink()
        with running_broker(broker):
            explained = explain(broker, "Delayed", DELAYED)
        for code in ("not_indexed", "index_behind"):
            missing = reason(explained, code)
            assert "The broker runs" in missing.sentence
            assert missing.remedy is None

    @pytest.mark.parametrize("damage", ["count", "name"])
    def test_no_rebuild_goes_on_behind_a_damaged_or_a_misnamed_last_file(self, store, damage):
        """The one that is advised is not refused."""
        files = sorted((store / "index").iterdir())
        if damage == "count":
            data = bytearray(files[-1].read_bytes())
            data[36:40] = (5).to_bytes(4, "big")
            files[-1].write_bytes(data)
        else:
            files[-1].unlink()
            files[-2].rename(files[0].with_name(str(int(files[0].name) - 1)))
        explained = explain(store, "TopicTest", "order-49", layout=Layout(97, 200))
        remedies = {each.remedy for each in explained.reasons if " rebuild " in (each.remedy or "")}
        typed = ["rmqindex", "rebuild", str(store), "--replace"]
        typed += ["--max-hash-slot-num", "97", "--max-index-num", "200"]
        assert remedies == {shlex.join(typed)}
        with pytest.raises(RmqIndexError):
            rebuild_index(store / "commitlog", store / "index", resume=True)
        rebuild_index(store / "commitlog", store / "index", replace=True)
        assert not {"not_indexed", "damaged"} & set(codes(explain(store, "TopicTest", "order-49")))

    def test_no_rebuild_is_advised_that_the_damaged_log_refuses(self, store):
        """What is to be restored first is for the audit to say."""
        newest(store).unlink()
        log = max((store / "commitlog").iterdir())
        with CommitLog(store) as whole:
            (at, *_) = whole.scan(120_000, columns=["phy_offset"])
        place = at["phy_offset"][0].as_py() - int(log.name)
        data = bytearray(log.read_bytes())
        data[place : place + 8] = bytes(8)
        log.write_bytes(data)
        explained = explain(store, "TopicTest", "order-49")
        for code in ("index_behind", "log_damaged"):
            assert reason(explained, code).remedy == f"rmqindex verify {store}"
        assert not any(" rebuild " in (each.remedy or "") for each in explained.reasons)
        with pytest.raises(RmqIndexError):
            rebuild_index(store / "commitlog", store / "index", resume=True)
        remedies = rmqindex.verify(store, "auto")["remedy"].to_pylist()
        assert any("Restore the CommitLog first; then" in each for each in remedies)

    def test_no_rebuild_is_advised_where_files_are_to_be_laid_out_anew_first(self, store):
        """One that goes on is refused behind a file of another geometry."""
        *_, last, lost = sorted((store / "index").iterdir())
        lost.unlink()
        last.write_bytes(last.read_bytes() + bytes(100))  # of five entries more
        explained = explain(store, "TopicTest", "order-49")
        assert reason(explained, "not_indexed").remedy == f"rmqindex verify {store}"
        with pytest.raises(RmqIndexError):
            rebuild_index(store / "commitlog", store / "index", resume=True)
        assert "geometry_differs" in rmqindex.verify(store, "auto")["rule"].to_pylist()

    def test_where_no_file_shows_the_geometry_no_rebuild_is_advised_without_it(self, tmp_path):
        """It is refused; the audit gives the numbers to replace."""
        tagged_log(tmp_path, 3)
        rebuild_index(tmp_path, tmp_path / "index", layout=Layout(17, 100))
        (path,) = (tmp_path / "index").iterdir()
        path.write_bytes(bytes(40) + path.read_bytes()[40:])
        explained = explain(tmp_path, "T", "k1")
        remedies = {each.remedy for each in explained.reasons} - {None}
        assert remedies == {f"rmqindex verify {tmp_path}"}
        with pytest.raises(RmqIndexError):
            rebuild_index(tmp_path, tmp_path / "index", replace=True)

    def test_a_killed_broker_does_not_index_it(self, broker):
        """The index is completed before it starts."""
        newest(broker).unlink()
        (broker / "abort").touch()
        missing = reason(explain(broker, "Delayed", DELAYED), "not_indexed")
        assert f"`rmqindex verify {broker}` tells" in missing.sentence
        assert missing.remedy.endswith("--resume")

    def test_tags_are_missing_only_where_they_are_indexed(self, store, broker):
        """Brokers before 5.4.0 write no entries of tags."""
        old = explain(store, "TopicTest", "T#TagA", search_log="all")
        assert codes(old).isdisjoint({"not_indexed", "not_in_log"})
        assert reason(old, "tag_not_indexed").phy_offsets
        newest(broker).unlink()
        (broker / "rocksdbstore").mkdir()
        new = codes(explain(broker, "Delayed", "T#标签"))
        assert "not_indexed" in new
        assert "tag_not_indexed" not in new

    def test_a_key_in_the_form_of_a_tag_is_indexed_by_every_broker(self, tmp_path):
        """It is missing, whether or not tags are indexed."""
        log = Log(file_size=1 << 16)
        log.append(Message(topic="T", properties=properties_text([("KEYS", "T#A")])))
        log.append(Message(topic="T", properties=properties_text([("TAGS", "A")])))
        log.write_to(tmp_path / "commitlog")
        missing = reason(explain(tmp_path, "T", "T#A", search_log="all"), "not_indexed")
        assert missing.phy_offsets == (0,)

    @pytest.mark.parametrize("search_log", ["all", "gaps"])
    def test_the_remedy_of_tags_that_were_not_indexed_indexes_them(self, run, tmp_path, search_log):
        """The broker was rolled back; a rebuild without being asked for them leaves them out."""
        offsets = tagged_log(tmp_path, 40)
        layout = Layout(11, 300)
        rebuild_index(tmp_path, tmp_path / "index", layout, index_tags=True, stop=offsets[20])
        rebuild_index(tmp_path, tmp_path / "index", layout, resume=True, index_tags=False)
        missing = reason(explain(tmp_path, "T", "T#TagA", search_log=search_log), "not_indexed")
        assert missing.phy_offsets[0] == offsets[39]
        assert run(*shlex.split(missing.remedy)[1:])[0] == 0
        again = explain(tmp_path, "T", "T#TagA", search_log="all")
        assert "not_indexed" not in codes(again)
        assert len(again.hits) == 40

    def test_a_remedy_behind_the_index_mends_what_lies_between_its_files_too(self, run, tmp_path):
        """Resuming is refused where a file in the middle was lost, too."""
        tagged_log(tmp_path, 60)
        rebuild_index(tmp_path, tmp_path / "index", Layout(11, 20))
        files = sorted((tmp_path / "index").iterdir())
        files[1].unlink()
        files[-1].unlink()
        remedy = reason(explain(tmp_path, "T", "k59"), "not_indexed").remedy
        assert run(*shlex.split(remedy)[1:])[0] == 0
        assert len(explain(tmp_path, "T", "k59").hits) == 1

    def test_a_tag_whose_only_entries_were_lost_is_missing(self, run, tmp_path):
        """That tags are indexed shows in the entries of others."""
        tagged_log(tmp_path, 40, {38: "TagZ"})
        rebuild_index(tmp_path, tmp_path / "index", Layout(11, 20), index_tags=True)
        newest(tmp_path).unlink()
        missing = reason(explain(tmp_path, "T", "T#TagZ"), "not_indexed")
        assert run(*shlex.split(missing.remedy)[1:])[0] == 0
        assert len(explain(tmp_path, "T", "T#TagZ").hits) == 1

    def test_more_messages_than_are_kept_are_not_counted(self, store, monkeypatch):
        """The sentence says so."""
        monkeypatch.setitem(log_search._LIMITS, "key", 3)
        shutil.rmtree(store / "index")
        found = reason(explain(store, "TopicTest", "order-49"), "not_indexed")
        assert "has at least " in found.sentence

    def test_a_message_that_was_rolled_back_is_not_missing(self, store):
        """A broker does not index it."""
        explained = explain(store, "TopicTest", "order-49", search_log="all")
        assert reason(explained, "rolled_back").phy_offsets == (71_966,)
        assert "not_indexed" not in codes(explained)

    def test_a_whole_index_has_no_missing_message(self, store):
        """Keys of the sample store, with all of the log searched."""
        with CommitLog(store) as log:
            rows = [
                row for batch in log.scan(columns=["topic", "keys"]) for row in batch.to_pylist()
            ]
        pairs = {(row["topic"], key) for row in rows for key in (row["keys"] or "").split()}
        for topic, key in sorted(pairs)[::25]:
            explained = explain(store, topic, key, search_log="all")
            assert codes(explained).isdisjoint({"not_indexed", "index_gap", "index_behind"})
            assert explained.log.is_searched

    def test_a_key_of_a_message_inside_a_batch(self):
        """The broker indexes the batch's own keys, and the audit's reader knows the others."""
        with CommitLog(BROKER) as log:
            rows = next(log.scan(columns=["topic", "keys", "phy_offset", "sys_flag", "body"]))
            batches = [row for row in rows.to_pylist() if row["topic"] == "InnerBatches"]
        inner = rmqindex.inner_messages(batches[0]["body"], batches[0]["sys_flag"], 0)
        key = next(value for name, value in inner[0].properties if name == "UNIQ_KEY")
        found = explain(BROKER, "InnerBatches", key, search_log="all")
        assert reason(found, "key_of_member").phy_offsets == (batches[0]["phy_offset"],)
        assert "not_in_log" not in codes(found)


class TestWhatWasSearched:
    """A miss says of what it is one."""

    def test_a_miss_where_the_index_covers_the_log_names_the_rest(self):
        """Only what lies outside the entries was searched."""
        explained = explain(rmqindex.sample_store(), "TopicTest", "nobody")
        assert reason(explained, "not_searched").remedy.endswith("--search-log all")
        assert "not_in_log" not in codes(explained)
        assert not explained.log.is_searched
        searched, unsearched = explained.log.searched, explained.log.unsearched
        assert sum(b - a for a, b in searched + unsearched) == 123_120

    def test_the_same_question_is_asked_with_its_times(self, run):
        """By each command that searches further, or elsewhere."""
        store, hour = rmqindex.sample_store(), (1_699_999_200_000, 1_700_002_800_000)
        times = ["--begin", str(hour[0]), "--end", str(hour[1])]
        asked = {
            ("TopicTest", "nobody"): ("not_searched", ["--search-log", "all"]),
            ("topictest", "order-49"): ("topic_spelling", []),
            ("TopicTest", "ORDER-49"): ("key_spelling", []),
            ("nobody", "TopicTest"): ("swapped", []),
        }
        for question, (code, options) in asked.items():
            remedy = shlex.split(reason(explain(store, *question, *hour), code).remedy)
            assert remedy[5:] == [*options, *times]
            found, _, _ = run(*remedy[1:], "--json")
            assert found == (remedy[1] == "explain")

    def test_a_miss_in_the_whole_log_says_so(self):
        """It was searched to the end."""
        explained = explain(rmqindex.sample_store(), "TopicTest", "nobody", search_log="all")
        assert "offsets 0 to 123120" in reason(explained, "not_in_log").sentence
        assert "not_searched" not in codes(explained)

    def test_a_miss_in_a_log_without_its_oldest_file_says_from_where_on(self, store):
        """Nobody knows whether it expired or was lost; all that is left was searched."""
        min((store / "commitlog").iterdir()).unlink()
        explained = explain(store, "TopicTest", "nobody", search_log="all")
        sentence = reason(explained, "not_in_log").sentence
        assert "from offset 65536, where its oldest file begins, to 123120" in sentence
        assert "whole" not in sentence

    def test_damage_is_no_proof(self, store):
        """A message may have been there."""
        file = min((store / "commitlog").iterdir())
        data = bytearray(file.read_bytes())
        data[30_000:30_400] = bytes(400)
        file.write_bytes(data)
        explained = explain(store, "TopicTest", "nobody", search_log="all")
        assert str(file) in reason(explained, "log_damaged").sentence
        assert "not_in_log" not in codes(explained)

    @pytest.mark.parametrize("kept", [40_960, 0], ids=["some", "nothing"])
    def test_a_log_that_lost_its_end_is_not_the_whole_one(self, store, kept):
        """An entry leads to a message that is no longer there, as the key's may have been."""
        newest = max((store / "commitlog").iterdir())
        newest.write_bytes(newest.read_bytes()[:kept].ljust(65_536, b"\0"))
        explained = explain(store, "TopicTest", "nobody", search_log="all")
        assert "leads to a message at offset 122928" in reason(explained, "log_damaged").sentence
        assert "not_in_log" not in codes(explained)

    def test_a_file_of_the_log_that_is_lost_was_not_searched(self, store):
        """A gap between files is not covered by a search of all."""
        (store / "commitlog" / f"{65_536:020}").unlink()
        shutil.copytree(store / "commitlog", store / "other")
        far = store / "commitlog" / f"{131_072:020}"
        far.write_bytes(moved(store / "other" / f"{0:020}", 131_072))
        explained = explain(store, "TopicTest", "nobody", search_log="all")
        assert (65_536, 131_072) in explained.log.unsearched
        assert "not_in_log" not in codes(explained)

    def test_none_of_the_log_is_searched_on_request(self, broker):
        """The message behind the index is not found, and nothing is claimed."""
        newest(broker).unlink()
        explained = explain(broker, "Delayed", DELAYED, search_log="none")
        assert explained.log.searched == ()
        assert reason(explained, "not_searched")

    def test_times_leave_no_file_out(self, store):
        """A clock that stepped back puts a message into a file of another time."""
        shutil.rmtree(store / "index")
        (store / "index").mkdir()
        with CommitLog(store) as log:
            second = log.first_store_timestamp(log.files[1])
            whole = [(0, log.max_offset)]
            early = Window(0, second - 1)
            assert choose_parts(log, whole, early, None, 60_000).searched == ((0, 65_536),)
        explained = explain(store, "TopicTest", "order-49", 0, second - 1)
        assert explained.log.searched == ((0, 123_120),)
        assert explained.log.unsearched == ()

    def test_a_long_search_begins_where_the_key_was_made(self, store):
        """Then come the newest files, up to the limit."""
        with CommitLog(store) as log:
            whole = [(0, log.max_offset)]
            first = log.first_store_timestamp(log.files[0])
            likely = Window(first, first)
            assert choose_parts(log, whole, FOREVER, None, 60_000).searched == ((65_536, 123_120),)
            assert choose_parts(log, whole, FOREVER, likely, 60_000).searched == ((0, 65_536),)
            assert choose_parts(log, whole, FOREVER, likely, 200_000).unsearched == ()

    def test_progress_reaches_what_is_searched(self, store):
        """In bytes."""
        seen = []
        explain(store, "TopicTest", "x", search_log="all", progress=lambda *done: seen.append(done))
        assert seen[-1][1] == 123_120
        assert all(done <= total for done, total in seen)

    def test_a_choice_that_there_is_not(self, store):
        """It is named with the others."""
        with pytest.raises(ValueError, match="search_log: expected one of gaps, all, none"):
            explain(store, "TopicTest", "x", search_log="some")


class TestTopics:
    """A key under another topic."""

    def test_a_topic_of_another_case_comes_first(self):
        """Topics are case-sensitive."""
        explained = explain(rmqindex.sample_store(), "topictest", "order-49")
        found = reason(explained, "topic_spelling")
        assert found.topic == "TopicTest"
        assert len(found.phy_offsets) == 11
        others = [each.code for each in explained.reasons if each.topic is not None]
        assert others[0] == "topic_spelling"

    def test_a_topic_with_blanks(self):
        """Pasted with a space behind it."""
        explained = explain(rmqindex.sample_store(), "TopicTest ", "order-49")
        assert reason(explained, "topic_spelling").topic == "TopicTest"

    @pytest.mark.parametrize("topic", ["TopicTest", "topictest"])
    def test_topic_and_key_in_each_others_place_come_first(self, topic):
        """A topic of the store as the key gives them away, and the lookup of both is printed."""
        explained = explain(rmqindex.sample_store(), "order-49", topic)
        found = reason(explained, "swapped")
        assert (found.topic, len(found.phy_offsets)) == ("TopicTest", 11)
        assert shlex.split(found.remedy)[3:] == ["TopicTest", "order-49"]
        assert next(each for each in explained.reasons if each.topic is not None) is found
        assert "topic_unknown" not in codes(explained)

    def test_swapped_arguments_without_an_entry_are_asked_anew(self):
        """The question is put right, and nothing is claimed of the answer."""
        found = reason(explain(rmqindex.sample_store(), "nobody", "TopicTest"), "swapped")
        assert (found.topic, found.phy_offsets) == ("TopicTest", ())
        assert shlex.split(found.remedy)[1::2] == ["explain", "TopicTest"]

    def test_a_key_that_is_called_as_a_topic_is_not_swapped(self):
        """Where its own topic is one, too."""
        explained = explain(rmqindex.sample_store(), "TopicTest", "TopicOrder")
        assert {"swapped", "topic_unknown"}.isdisjoint(codes(explained))

    @pytest.mark.parametrize(
        ("topic", "key", "near", "command"),
        [
            ("TopicTes", "order-49", "TopicTest", "lookup"),
            ("TopicTes", "nobody", "TopicTest", "explain"),
            ("topictest", "nobody", "TopicTest", "explain"),
            ("Nope", "order-49", None, None),
        ],
    )
    def test_a_topic_that_the_store_does_not_have_names_the_nearest(
        self, topic, key, near, command
    ):
        """With the lookup where that has the key."""
        found = reason(explain(rmqindex.sample_store(), topic, key), "topic_unknown")
        assert found.topic == near
        asked = None if found.remedy is None else tuple(shlex.split(found.remedy))
        assert asked == (command and ("rmqindex", command, asked[2], near, key))

    def test_a_topic_without_a_message_is_known_by_the_table(self, tmp_path):
        """And a copy without queues and table knows of none that is missing."""
        store = shutil.copytree(rmqindex.sample_store(), tmp_path / "store")
        assert "topic_unknown" in codes(explain(store, "New", "nobody"))
        (store / "config").mkdir(exist_ok=True)
        (store / "config" / "topics.json").write_text('{"topicConfigTable": {"New": {}}}')
        assert "topic_unknown" not in codes(explain(store, "New", "nobody"))
        shutil.rmtree(store / "config")
        shutil.rmtree(store / "consumequeue")
        assert "topic_unknown" not in codes(explain(store, "Old", "nobody"))

    def test_a_light_queue_is_no_topic_to_ask_for(self, tmp_path):
        """Its messages are indexed under the topics that they were sent to."""
        store = shutil.copytree(rmqindex.sample_store(), tmp_path / "store")
        (store / "consumequeue" / "%LMQ%device-1" / "0").mkdir(parents=True)
        assert reason(explain(store, "%LMQ%device-2", "nobody"), "topic_unknown").topic is None
        assert "swapped" not in codes(explain(store, "nobody", "%LMQ%device-1"))

    def test_messages_of_a_topic_that_was_deleted_stay(self, tmp_path):
        """So what is said to be missing is the queue, and not the topic."""
        store = shutil.copytree(rmqindex.sample_store(), tmp_path / "store")
        shutil.rmtree(store / "consumequeue" / "TopicTest")
        found = reason(explain(store, "TopicTest", "nobody"), "topic_unknown")
        assert found.sentence.startswith("The store has no queue of the topic TopicTest")

    def test_a_key_of_another_topic(self, broker):
        """Every topic with a ConsumeQueue is tried."""
        explained = explain(broker, "Orders", "task-45")
        assert reason(explained, "other_topic").topic == "Retries"

    def test_other_topics_are_left_alone_where_the_key_is_found(self):
        """Only those in which a broker keeps messages of others are named."""
        explained = explain(rmqindex.sample_store(), "TopicTest", "order-49")
        assert [other.topic for other in explained.other_topics] == ["%RETRY%group1"]

    @pytest.mark.parametrize(
        ("topic", "key", "code", "real"),
        [
            ("Delayed", DELAYED, "schedule_topic", ("Delayed",)),
            ("Transactions", "payment-65", "half_topic", ("Transactions",)),
            ("Retries", "task-45", "retry_topic", ("Retries",)),
            ("Retries", "task-45", "dead_letter_topic", ("Retries",)),
        ],
    )
    def test_the_topics_of_the_broker_itself(self, broker, topic, key, code, real):
        """With the topic to which the message belongs, by its own property."""
        explained = explain(broker, topic, key)
        found = reason(explained, code)
        (other,) = [each for each in explained.other_topics if each.topic == found.topic]
        assert (other.real_topics, other.is_verified) == (real, True)
        assert EXPLAIN_REASONS[code] in found.sentence

    def test_what_only_the_log_has_is_shown_by_its_offset(self, broker):
        """A lookup would find nothing."""
        shutil.rmtree(broker / "index")
        found = reason(explain(broker, "Delayed", DELAYED), "schedule_topic")
        assert shlex.split(found.remedy) == ["rmqindex", "cat", str(broker), "26838"]

    def test_without_a_log_no_topic_is_guessed_by_hash(self):
        """But for one that differs only in case, and those of the broker, as candidates."""
        explained = explain_lookup(rmqindex.sample_store(), "topictest", "order-49")
        assert {other.topic for other in explained.other_topics} == {"TopicTest", "%RETRY%group1"}
        assert not any(other.is_verified for other in explained.other_topics)

    def test_an_empty_topic_is_refused(self):
        """No message has one."""
        with pytest.raises(ValueError, match="topic: expected the name of a topic, got ''"):
            explain(rmqindex.sample_store(), "", "BB")


class TestKeys:
    """Texts that are no key, and what they are."""

    @pytest.mark.parametrize("key", [" payment-65", "payment-65 ", "PAYMENT-65"])
    def test_blanks_and_case(self, broker, key):
        """The key that was meant is looked up in the index."""
        found = reason(explain(broker, "Transactions", key), "key_spelling")
        assert "'payment-65': 1 message at 28654" in found.sentence
        assert shlex.split(found.remedy)[-2:] == ["Transactions", "payment-65"]

    def test_a_message_id_in_lower_case(self, broker):
        """Clients write it in capitals."""
        found = explain(broker, "Delayed", DELAYED.lower())
        assert reason(found, "key_spelling").phy_offsets == (34204,)

    def test_a_key_with_spaces_is_several_keys(self, broker):
        """Each part is looked up."""
        explained = explain(broker, "Transactions", "payment-65 account-0")
        parts = [each for each in explained.reasons if each.code == "key_with_spaces"]
        assert [28654 in part.phy_offsets for part in parts] == [True, True]

    def test_a_part_of_a_key(self):
        """Found by a search of the log, since the index knows whole keys only."""
        explained = explain(rmqindex.sample_store(), "TopicTest", "rder-4", search_log="all")
        assert "'order-49'" in reason(explained, "part_of_key").sentence

    def test_a_key_that_only_the_log_has_in_another_case(self, store):
        """The index has no files."""
        shutil.rmtree(store / "index")
        found = reason(explain(store, "TopicTest", "Order-49"), "key_spelling")
        assert len(found.phy_offsets) > 1
        assert "cat" in found.remedy

    def test_a_tag(self, broker):
        """Indexed by brokers from 5.4.0 on, and found in another way."""
        found = reason(explain(broker, "Orders", "TagA"), "tag")
        assert shlex.split(found.remedy)[-3:] == ["Orders", "TagA", "--tag"]

    def test_an_offset_message_id(self):
        """It names a place in the log."""
        explained = explain(
            rmqindex.sample_store(), "TopicTest", "0A00000100002A9F0000000000000000"
        )
        assert reason(explained, "offset_message_id").phy_offsets == (0,)
        assert "cat" in reason(explained, "offset_message_id").remedy

    def test_the_time_in_a_unique_key(self, broker):
        """Made by a client in a month that the index tells."""
        key = DELAYED[:-4] + "FFFF"
        explained = explain(broker, "Delayed", key)
        assert "2026-11-21 07:31:44.103 UTC" in reason(explained, "unique_key_time").sentence
        zoned = explain(broker, "Delayed", key, time_zone="Asia/Shanghai")
        assert "2026-11-21 15:31:44.103 +08:00" in reason(zoned, "unique_key_time").sentence

    def test_a_text_of_hexadecimal_digits_that_no_client_makes(self):
        """A month has at most 31 days."""
        explained = explain(rmqindex.sample_store(), "TopicTest", "FF" * 16)
        assert "unique_key_time" not in codes(explained)


class TestExpired:
    """What the log has no more."""

    def test_entries_of_expired_messages(self, store):
        """The index reaches further back than the log."""
        min((store / "commitlog").iterdir()).unlink()
        explained = explain(store, "TopicTest", "order-49")
        assert 0 in reason(explained, "expired").phy_offsets

    def test_a_time_before_the_log(self, store):
        """Asked for by a bound."""
        min((store / "commitlog").iterdir()).unlink()
        explained = explain(store, "TopicTest", "order-49", 0, 1_700_000_000_000)
        sentence = reason(explained, "log_begins_later").sentence
        assert "begins at offset 65536" in sentence
        assert sentence.endswith("; older messages have expired.")

    def test_a_time_before_the_first_message_of_all(self):
        """A log from offset 0 on had none before, and so none that expired."""
        explained = explain(rmqindex.sample_store(), "TopicTest", "order-49", 0, 1_600_000_000_000)
        sentence = reason(explained, "log_begins_later").sentence
        assert "begins at offset 0, stored " in sentence
        assert sentence.endswith("; it has no older message.")

    def test_a_unique_key_made_before_the_log(self, broker):
        """By its own time, days before."""
        made = rmqindex.decode_uniq_key(DELAYED, near=1_795_246_302_359)
        earlier = f"{made.month_milliseconds - 5 * DAY:08X}"
        old = DELAYED.replace(f"{made.month_milliseconds:08X}", earlier)
        made = rmqindex.decode_uniq_key(old, near=1_795_246_302_359)
        assert made.timestamp < 1_795_246_302_359 - 4 * DAY
        explained = explain(broker, "Delayed", old)
        assert reason(explained, "log_begins_later")


class TestTools:
    """Why a dashboard misses what is there."""

    def test_more_rows_than_a_broker_returns(self, tmp_path):
        """The newest 64, and no word of the others."""
        with IndexDirectory(tmp_path / "index", Layout(7, 200), writable=True) as directory:
            for number in range(70):
                directory.build_index("T", None, "a", 0, number, 1_700_000_000_000 + number)
        explained = explain_lookup(tmp_path, "T", "a", layout=Layout(7, 200))
        found = reason(explained, "row_limit")
        assert found.sentence == (
            "A dashboard and mqadmin show the newest 64 rows and do not say that 6 older ones are "
            "missing."
        )
        given = ["--max-hash-slot-num", "7", "--max-index-num", "200"]
        assert shlex.split(found.remedy) == ["rmqindex", "lookup", str(tmp_path), "T", "a", *given]

    @pytest.mark.parametrize(("days", "is_hidden"), [(2.9, False), (3.1, True)])
    def test_clients_look_three_days_back_for_a_unique_key(self, broker, days, is_hidden):
        """By the message's own store time."""
        now = int(1_795_246_305_125 + days * DAY)
        assert ("three_days" in codes(explain(broker, "Delayed", DELAYED, now=now))) == is_hidden
        assert "three_days" not in codes(explain(broker, "Delayed", "later-63", now=2 * now))

    def test_an_index_type_that_a_tool_does_not_send(self, broker):
        """Only of a store that a broker from 5.4.0 on wrote, and where there is an answer."""
        assert "index_type" in codes(explain(broker, "Transactions", "payment-65"))
        assert "index_type" not in codes(explain(broker, "Transactions", "nobody"))
        assert "index_type" not in codes(explain(rmqindex.sample_store(), "TopicTest", "order-49"))

    def test_an_index_in_rocksdb_that_is_not_read(self, tmp_path):
        """It is beside the IndexFiles."""
        both = explain(copy_store("rocksdb_index", tmp_path), "TopicTest", "order-3")
        assert ".sst" in reason(both, "rocksdb_index").sentence
        plain = explain(copy_store("plain", tmp_path / "other"), "TopicTest", "order-3")
        assert "rocksdb_index" not in codes(plain)

    def test_an_index_in_rocksdb_alone_is_refused(self, tmp_path):
        """As by everything that reads an index."""
        with pytest.raises(RmqIndexError, match="found none, and an index in RocksDB"):
            explain(copy_store("rocksdb_index_alone", tmp_path), "TopicTest", "order-3")


class TestText:
    """The same reasons in every form."""

    def test_the_text_has_files_reasons_remedies_and_the_outcome(self, broker):
        """A remedy of several reasons is shown once."""
        newest(broker).unlink()
        explained = explain(broker, "Delayed", DELAYED)
        lines = str(explained).splitlines()
        assert lines[0] == f"Delayed#{DELAYED}"
        for each in explained.reasons:
            assert f"{each.code}: {each.sentence}" in lines
        assert str(explained).count("--resume") == 1
        assert lines[-1] == f"0 entries of hash {explained.key_hash} answer the query."

    def test_every_code_is_explained(self, broker):
        """The documentation's table has them all."""
        for topic, key in (("Delayed", DELAYED), ("Orders", "nobody"), ("Orders", "TagA")):
            assert codes(explain(broker, topic, key)) <= set(EXPLAIN_REASONS)

    def test_it_is_written_as_json(self, broker):
        """With plain values."""
        document = json.loads(json.dumps(asdict(explain(broker, "Delayed", DELAYED))))
        assert document["reasons"][0]["code"] == "hit"
        assert document["index"]["end_phy_offset"] == 36140
        assert document["log"]["searched"]

    def test_an_argument_that_begins_with_a_dash_stays_one(self, broker):
        """A remedy can be pasted."""
        found = reason(explain(broker, "Orders", "-x"), "not_searched").remedy
        assert shlex.split(found)[-4:] == ["--", str(broker), "Orders", "-x"]
