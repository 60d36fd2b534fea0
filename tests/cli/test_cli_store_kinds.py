"""Stores of every kind are read right, or refused with what was found in them.

RocketMQ's own classes wrote the stores, and said what is in them; see ``tests/data/store_kinds``.
"""

import json
import re
import shlex
import shutil
import struct

import pytest
from tests.system.store_kinds import KINDS, bytes_of, copy_store, told, units_of

import rmqindex
from kinds import sampled
from remote_stores import under_uri
from rmqindex import CommitLog, ConsumeQueue, IndexDirectory, IndexFile, Layout, RmqIndexError

ROCKSDB_QUEUES = ("rocksdb_queue", "separate_path", "rocksdb_alone", "rocksdb_killed")
NO_INDEX_FILES = ("rocksdb_index_alone", "rocksdb_alone", "rocksdb_killed")
GEOMETRY = ("--max-hash-slot-num", 97, "--max-index-num", 200)
INDEX_IN_ROCKSDB = ("rocksdb_index_alone", "rocksdb_alone")
DLEDGER = ("dledger", "dledger_after_plain", "dledger_batches")
WITH_INDEX_FILES = tuple(kind for kind in KINDS if kind not in NO_INDEX_FILES)
WITH_QUEUE_FILES = tuple(kind for kind in KINDS if kind not in ROCKSDB_QUEUES)

QUEUE_REFUSAL = r"found those of RocksDB \(.*CURRENT and MANIFEST-000005\), as with storeType="
INDEX_REFUSAL = r"an index in RocksDB \(.*rocksdbstore/000013\.sst\), as with indexRocksDBEnable="
WRITE_REFUSAL = "expected a folder of a store to write to, got one of DLedger"


@pytest.fixture
def kept(tmp_path):
    """Copies a store of a kind."""
    return lambda kind: copy_store(kind, tmp_path)


def rocksdb_of(store):
    """Return the bytes of RocksDB and DLedger in a store."""
    return {
        name: data
        for name, data in bytes_of(store).items()
        if name.startswith(("rocksdbstore", "consumequeue_rocksdb", "dledger-"))
        or name.endswith((".sst", ".log", "CURRENT"))
        or "MANIFEST-" in name
    }


class TestIndexFiles:
    """What reads the index."""

    @pytest.mark.parametrize("kind", WITH_INDEX_FILES)
    def test_every_key_is_answered_as_the_broker_did(self, kept, kind):
        """By our own search and by the broker's."""
        store = kept(kind)
        with IndexDirectory(store) as index:
            for key, answer in told(kind)["answers"].items():
                found = index.query_offset("TopicTest", key, 64, 0, 2**63 - 1).phy_offsets
                assert sorted(found) == answer, key

    @pytest.mark.parametrize(
        "kind", sampled(WITH_INDEX_FILES, "separate_path", "dledger_after_plain")
    )
    def test_commands_answer(self, run, kept, tmp_path, kind):
        """``info``, ``scan``, ``lookup``, ``explain``, ``verify`` and ``plot``."""
        store = kept(kind)
        before = bytes_of(store)
        offsets = {message[0] for message in told(kind)["messages"]}
        code, out, _ = run("scan", store, "--json")
        assert code == 0
        assert {int(row.split('"phy_offset": ')[1].split(",")[0]) for row in out.splitlines()} == (
            offsets
        )
        answers = told(kind)["answers"]["order-3"]
        for command in ("lookup", "explain"):
            code, out, err = run(command, store, "TopicTest", "order-3")
            assert (code, err) == (0, "")
            assert all(str(offset) in out for offset in answers[-3:])
        code, out, _ = run("verify", store, "--json")
        found = json.loads(out)
        rules = [finding["rule"] for finding in found["findings"]]
        assert (code, found["counts"]["error"], found["counts"]["warning"]) == (0, 0, 0)
        assert rules in ([], ["queues_not_audited"])
        assert run("info", store)[0] == 0
        assert run("plot", store, "--out", tmp_path / "plot.svg")[0] == 0
        assert run("recover", store) == (0, "Nothing to undo\n", "")
        assert bytes_of(store) == before

    @pytest.mark.parametrize("kind", INDEX_IN_ROCKSDB)
    @pytest.mark.parametrize("has_folder", [False, True], ids=["no folder", "empty folder"])
    def test_an_index_in_rocksdb_alone_is_refused(self, run, kept, kind, has_folder):
        """Also where an empty folder ``index`` would read as no rows."""
        store = kept(kind)
        if has_folder:
            (store / "index").mkdir()
        paths = [store, store / "index"] if has_folder else [store]
        for path in paths:
            for command in (
                ("info",),
                ("scan",),
                ("lookup", "TopicTest", "order-3"),
                ("explain", "TopicTest", "order-3"),
                ("verify",),
                ("plot", "--out", store.parent / "x.svg"),
                ("expire", "--before", 1),
                ("relayout", "--slots", 10, "--entries", 500),
            ):
                code, _, err = run(command[0], path, *command[1:])
                assert code == 2, command
                assert "expected IndexFiles, found none, and an index in RocksDB" in err
                assert "storeType" not in err
                assert f"`rmqindex rebuild {store} --out DIR`" in err
            with pytest.raises(RmqIndexError, match=INDEX_REFUSAL):
                IndexDirectory(path)
            with pytest.raises(RmqIndexError, match=INDEX_REFUSAL):
                rmqindex.verify(path)

    def test_a_database_without_an_index_says_nothing(self, kept):
        """Every broker from 5.4.0 on makes the folder ``rocksdbstore``."""
        store = kept("plain")
        shutil.rmtree(store / "index")
        with pytest.raises(RmqIndexError, match="expected a store with a folder index, found none"):
            IndexDirectory(store)
        (store / "index").mkdir()
        assert IndexDirectory(store).files == ()

    def test_tables_of_another_column_family_are_no_index(self, kept):
        """Timers and transactions are kept in the same database."""
        store = kept("plain")
        shutil.rmtree(store / "index")
        timers = b"\0" * 100 + b"rocksdb.column.family.nametimer" + b"\0" * 60
        (store / "rocksdbstore" / "000015.sst").write_bytes(timers)
        (store / "rocksdbstore" / "000016.log").write_bytes(b"timer")
        with pytest.raises(RmqIndexError, match="expected a store with a folder index, found none"):
            IndexDirectory(store)

    def test_an_index_in_the_write_ahead_log_is_one(self, kept):
        """A broker that was killed has flushed its log, but no table."""
        store = kept("rocksdb_killed")
        record = struct.pack(">q", 1) + b"@TopicTest@U@UNIQ0003@" + struct.pack(">q", 421)
        (store / "rocksdbstore" / "000004.log").write_bytes(record)
        with pytest.raises(RmqIndexError, match=r"an index in RocksDB \(.*/000004\.log\)"):
            IndexDirectory(store)

    @pytest.mark.parametrize("kind", sampled(NO_INDEX_FILES, "rocksdb_killed"))
    def test_a_rebuild_makes_index_files_of_it(self, run, kept, kind):
        """As the refusal says; afterwards they are read, and RocksDB is what it was."""
        store = kept(kind)
        before = rocksdb_of(store)
        (store / "abort").unlink(missing_ok=True)
        assert run("rebuild", store)[0] == 0
        code, out, _ = run("lookup", store, "TopicTest", "order-3")
        assert (code, "12 entries" in out) == (0, True)
        assert rocksdb_of(store) == before

    @pytest.mark.parametrize(
        ("kind", "name", "message"),
        [
            ("rocksdb_queue", "consumequeue", QUEUE_REFUSAL),
            ("separate_path", "consumequeue_rocksdb", QUEUE_REFUSAL),
            ("rocksdb_index", "rocksdbstore", r"a RocksDB database \(CURRENT and MANIFEST-"),
            ("dledger", "dledger-n0/index", "got a file of DLedger"),
            ("dledger", "dledger-n0/data", "got a file of DLedger"),
            ("dledger", "dledger-n0", "DLedger"),
        ],
    )
    def test_a_folder_of_another_kind_is_no_index(self, kept, kind, name, message):
        """It is refused to readers and to writers, before anything is changed."""
        store = kept(kind)
        before = bytes_of(store)
        with pytest.raises(RmqIndexError, match=message):
            rmqindex.verify(store / name)
        with pytest.raises(RmqIndexError, match=r"RocksDB|DLedger"):
            IndexDirectory(store / name, Layout(10, 20), writable=True)
        assert bytes_of(store) == before


class TestConsumeQueues:
    """What reads and writes queues."""

    @pytest.mark.parametrize("kind", WITH_QUEUE_FILES)
    def test_files_of_queues_are_read(self, kept, kind):
        """With every unit that the broker gave of them; light queues may be in RocksDB alone."""
        units = {
            key: value
            for key, value in units_of(kind).items()
            if not (kind == "double_write" and key[0].startswith("%LMQ%"))
        }
        columns = ("queue_offset", "phy_offset", "size", "tags_code")
        for queue in ConsumeQueue.find(kept(kind)):
            rows = [[row[n] for n in columns] for b in queue.scan() for row in b.to_pylist()]
            assert rows == units.pop((queue.topic, queue.queue_id))
        assert not units

    @pytest.mark.parametrize("kind", ROCKSDB_QUEUES)
    def test_queues_in_rocksdb_are_refused(self, run, kept, kind, tmp_path):
        """By the store and by the folder, which would read as no rows."""
        store = kept(kind)
        for path in (store, store / "consumequeue"):
            with pytest.raises(RmqIndexError, match=QUEUE_REFUSAL) as caught:
                ConsumeQueue.find(path)
            assert f"`rmqindex rebuild-queues {store} --out DIR`" in str(caught.value)
        assert run("rebuild-queues", store, "--out", tmp_path / "made")[0] == 0
        if kind == "separate_path":
            with pytest.raises(RmqIndexError, match=QUEUE_REFUSAL):
                ConsumeQueue.find(store / "consumequeue_rocksdb")

    @pytest.mark.parametrize("kind", [*ROCKSDB_QUEUES, "double_write"])
    @pytest.mark.parametrize("options", [(), ("--replace",)], ids=["", "replace"])
    def test_queues_are_not_rebuilt_over_rocksdb(self, run, kept, kind, options):
        """A broker with RocksDB would not read them, and its own would be gone."""
        store = kept(kind)
        (store / "abort").unlink(missing_ok=True)
        before = bytes_of(store)
        code, _, err = run("rebuild-queues", store, *options)
        assert code == 2
        assert "found those of RocksDB" in err
        assert bytes_of(store) == before

    def test_queues_of_rocksdb_that_a_stopped_exchange_set_aside_come_back(self, run, kept):
        """``recover`` puts them back and removes nothing of them."""
        store = kept("rocksdb_queue")
        before = bytes_of(store)
        home = store / ".consumequeue.rmqindex"
        (home / "new").mkdir(parents=True)
        (home / "old").mkdir()
        (store / "consumequeue").rename(home / "old" / "consumequeue")
        (home / "undo.json").write_text('{"old": ["consumequeue"], "new": ["consumequeue"]}')
        (store / "consumequeue").mkdir()
        assert run("recover", store)[:2] == (0, "Undid an unfinished write of: queues\n")
        assert bytes_of(store) == before

    def test_queues_of_rocksdb_that_were_left_aside_are_not_removed(self, run, kept):
        """By nothing that begins anew in the same directory."""
        store = kept("rocksdb_queue")
        old = store / ".consumequeue.rmqindex" / "old"
        old.mkdir(parents=True)
        (store / "consumequeue").rename(old / "consumequeue")
        before = bytes_of(store)
        code, _, err = run("rebuild-queues", store)
        assert (code, "found those of RocksDB" in err) == (2, True)
        assert bytes_of(store) == before

    @pytest.mark.parametrize("kind", [*ROCKSDB_QUEUES, "double_write"])
    def test_a_rebuild_elsewhere_makes_files(self, run, kept, tmp_path, kind):
        """As the refusal says: every message has its unit, also the one that RocksDB lacks."""
        store = kept(kind)
        before = bytes_of(store)
        assert run("rebuild-queues", store, "--out", tmp_path / "made")[0] == 0
        units = {
            row["phy_offset"]
            for queue in ConsumeQueue.find(tmp_path / "made")
            for batch in queue.scan()
            for row in batch.to_pylist()
        }
        assert units == {message[0] for message in told(kind)["messages"]}
        assert bytes_of(store) == before

    def test_a_topic_is_asked_for_where_only_rocksdb_names_them(self, run, kept):
        """Instead of answering that there is no such message."""
        store = kept("rocksdb_queue")
        code, _, err = run("cat", store, "UNIQ0003")
        assert code == 2
        assert "--topic" in err
        code, out, _ = run("cat", store, "UNIQ0003", "--topic", "TopicTest", "--raw")
        assert (code, out) == (0, "body 3")

    @pytest.mark.parametrize("kind", NO_INDEX_FILES)
    def test_a_unique_key_without_index_files_is_an_error(self, run, kept, kind):
        """Not the answer that there is no such message; an offset needs no index."""
        store = kept(kind)
        code, _, err = run("cat", store, "UNIQ0003", "--topic", "TopicTest")
        assert code == 2
        assert ("an index in RocksDB" in err) == (kind in INDEX_IN_ROCKSDB)
        assert run("cat", store, "0", "--raw") == (0, "body 0", "")

    def test_topics_that_nothing_names_are_asked_for(self, run, kept):
        """Instead of answering that there is no such message."""
        store = kept("plain")
        shutil.rmtree(store / "consumequeue")
        code, _, err = run("cat", store, "UNIQ0003")
        assert (code, "--topic" in err) == (2, True)

    def test_a_unique_key_is_not_looked_up_in_a_remote_store(self, run, kept, monkeypatch):
        """Instead of answering that there is no such message."""
        store = kept("plain")
        log = under_uri(monkeypatch, store) + "/commitlog"
        assert run("cat", log, "0", "--raw") == (0, "body 0", "")
        code, _, err = run("cat", log, "UNIQ0003")
        assert (code, "unique keys are found in local stores alone" in err) == (2, True)

    def test_an_explanation_says_which_topics_it_could_not_look_at(self, run, kept):
        """Retry and dead letter topics are named by folders of queues alone."""
        _, out, _ = run("explain", kept("rocksdb_queue"), "TopicTest", "order-3")
        assert "Retry and dead letter topics were not looked at" in out


class TestCommitLogs:
    """What reads the CommitLog."""

    @pytest.mark.parametrize("kind", KINDS)
    def test_a_log_is_read(self, kept, kind):
        """Plain, in DLedger or partly in both, and whatever RocksDB holds beside it."""
        with CommitLog(kept(kind)) as log:
            offsets = [row["phy_offset"] for b in log.scan() for row in b.to_pylist()]
        assert offsets == [message[0] for message in told(kind)["messages"]]

    @pytest.mark.parametrize("kind", DLEDGER)
    def test_commands_answer_from_a_log_of_dledger(self, run, kept, tmp_path, kind):
        """``cat``, ``lookup --message``, ``verify``, ``explain``, ``expire`` and both rebuilds."""
        store = kept(kind)
        before = bytes_of(store)
        offset = told(kind)["messages"][119][0]
        assert run("cat", store, offset, "--raw") == (0, "body 119", "")
        code, out, _ = run("lookup", store, "TopicTest", "item119", "--message", "--json")
        assert (code, '"body 119"' in out) == (0, True)
        code, out, _ = run("verify", store)
        assert (code, out.split(";")[0].strip()) == (0, "0 errors, 0 warnings, 0 remarks")
        code, out, _ = run("explain", store, "TopicTest", "item119")
        assert (code, str(offset) in out) == (0, True)
        assert run("expire", store, "--dry-run")[0] == 0
        options = ("--max-hash-slot-num", 97, "--max-index-num", 200, "--index-tags")
        assert run("rebuild", store, "--out", tmp_path / "index", *options)[0] == 0
        made = tmp_path / "made"
        assert run("rebuild-queues", store, "--out", made, "--file-size", 2000)[0] == 0
        assert bytes_of(store) == before
        assert [path.read_bytes() for path in sorted((tmp_path / "index").iterdir())] == [
            path.read_bytes() for path in sorted((store / "index").iterdir())
        ]
        queues = bytes_of(made / "consumequeue")
        assert queues == bytes_of(store / "consumequeue")
        assert queues

    @pytest.mark.parametrize("kind", DLEDGER)
    def test_a_lost_index_names_the_command_that_makes_it(self, run, kept, kind):
        """As in a plain store, and the command answers every key again."""
        store = kept(kind)
        shutil.rmtree(store / "index")
        code, _, err = run("info", store)
        assert code == 2
        assert f"dledger-n0/data/ is there: `rmqindex rebuild {store}` makes the index" in err
        assert run("rebuild", store, "--max-hash-slot-num", 97, "--max-index-num", 200)[0] == 0
        with IndexDirectory(store) as index:
            for key, answer in told(kind)["answers"].items():
                found = index.query_offset("TopicTest", key, 64, 0, 2**63 - 1).phy_offsets
                assert sorted(found) == answer, key

    def test_a_copied_folder_of_dledger_is_a_log(self, run, kept, tmp_path):
        """Whatever wants an index says how to make one, in lines that can be typed."""
        folder = shutil.copytree(kept("dledger") / "dledger-n0", tmp_path / "alone" / "dledger-n0")
        for path in (folder, folder / "data", folder.parent):
            code, out, _ = run("messages", path, "--limit", 999, "--csv")
            assert (code, len(out.splitlines())) == (0, 121)
        for path in (folder, folder / "index", folder / "data"):
            for command in (["info"], ["verify"], ["lookup", "TopicTest", "item119"]):
                code, _, err = run(command[0], path, *command[1:])
                assert (code, "There is no index beside it" in err) == (2, True)
        (line,) = re.findall("`rmqindex (.*) --out DIR`", err)
        assert run(*line.split(), "--out", tmp_path / "made")[0] == 0
        asked = ("lookup", tmp_path / "made", "TopicTest", "item119", "--commit-log", folder)
        assert run(*asked)[0] == 0
        code, _, err = run("info", folder.parent)
        assert code == 2
        assert f"`rmqindex rebuild {folder.parent}` makes the index from it" in err

    @pytest.mark.parametrize("place", ["consumequeue/TopicTest/0", "dledger-n0/index"])
    def test_files_of_other_kinds_with_such_names_are_no_log(self, run, kept, place):
        """They would be one without messages."""
        folder = kept("dledger") / place
        for path in (folder, min(folder.iterdir())):
            for command in (["messages", path], ["usage", path], ["rebuild", path, "--out", "x"]):
                code, out, err = run(*command)
                assert (code, out) == (2, "")
                assert f"{path}: expected a CommitLog, got " in err

    def test_data_of_dledger_elsewhere_is_told_by_its_bytes(self, kept, tmp_path):
        """``storePathDLedgerCommitLog`` may name any folder, and the store says what is missing."""
        store = kept("dledger")
        (store / "dledger-n0" / "data").rename(tmp_path / "log")
        with CommitLog(tmp_path / "log") as log:
            assert sum(batch.num_rows for batch in log.scan()) == 120
        with pytest.raises(RmqIndexError, match=r"in the folder dledger-n0/data of DLedger, found"):
            CommitLog(store)

    def test_the_plain_part_before_dledger_is_read_by_its_own_name(self, kept):
        """As the refusal says."""
        store = kept("dledger_after_plain")
        with CommitLog(store / "commitlog") as log:
            assert sum(batch.num_rows for batch in log.scan()) == 120

    @pytest.mark.parametrize("given", ["STORE", "STORE/commitlog,STORE/dledger-n0", "FILES"])
    def test_a_printed_rebuild_reads_all_folders_of_a_log(self, run, kept, tmp_path, given):
        """As they were given, so that the index lacks no part of the log."""
        store = kept("dledger_after_plain")
        newer = sorted(map(str, (store / "dledger-n0" / "data").glob("0*")))
        given = given.replace("FILES", ",".join(["STORE/commitlog", *newer]))
        log, out = given.replace("STORE", str(store)), tmp_path / "out"
        assert run("rebuild", log, "--out", tmp_path / "whole", "--index-tags")[0] == 0
        run("rebuild", log, "--out", out, "--to", 4000, "--index-tags")
        run("rebuild", log, "--out", out, "--resume", "--to", 9000, "--no-index-tags")
        code, _, err = run("rebuild", log, "--out", out, "--resume")
        assert code == 2
        line = shlex.split(re.search("`rmqindex (.*? --index-tags)`", err)[1])
        assert run(*line)[0] == 0
        ends = [[IndexFile(path).header.end_phy_offset for path in sorted(each.iterdir())][-1]
                for each in (out, tmp_path / "whole")]  # fmt: skip
        assert ends[0] == ends[1] > 17_237

    def test_messages_of_all_folders_of_a_log_are_listed_for_their_tags(self, run, kept):
        """By the command that a lookup prints, for the times that it was asked for."""
        store = kept("dledger_after_plain")
        shutil.rmtree(store / "index")
        run("rebuild", store, "--no-index-tags", *GEOMETRY)
        newest = max(CommitLog(store).scan(columns=["store_timestamp"]), key=len)
        middle = newest["store_timestamp"].cast("int64")[len(newest) // 2].as_py()
        for times in ((), ("--begin", 0, "--end", middle)):
            _, _, err = run("lookup", store, "TopicTest", "TagA", "--tag", *times)
            line = shlex.split(re.search("`rmqindex (messages .*?)`", err)[1])
            asked = ("messages", store, "--topic", "TopicTest", "--tag", "TagA", *times)
            expected = run(*asked, "--limit", 1_000_000, "--json")[1]
            assert run(*line, "--json")[1] == expected
            assert len(expected) > 1

    @pytest.mark.parametrize("kind", DLEDGER)
    def test_index_and_queues_of_dledger_are_replaced(self, run, kept, kind):
        """As a broker takes them: with the same bytes, and nothing of DLedger is touched."""
        store = kept(kind)
        before = bytes_of(store)
        ended = rmqindex.StoreCheckpoint.load(store / "checkpoint").index_msg_timestamp
        code, out, _ = run("rebuild", store, "--replace", "--index-tags")
        assert (code, "The checkpoint covers files" in out) == (0, True)
        assert run("rebuild-queues", store, "--replace", "--file-size", 2000)[0] == 0
        assert rmqindex.cover_index(store).index_msg_timestamp >= ended
        after = bytes_of(store)
        told_apart = {"index": [], "other": []}
        for found in (before, after):
            told_apart["index"].append(
                [found[name] for name in sorted(found) if name.startswith("index/")]
            )
            told_apart["other"].append(
                {
                    name: data
                    for name, data in found.items()
                    if not name.startswith(("index/", ".")) and name != "checkpoint"
                }
            )
        assert told_apart["index"][0] == told_apart["index"][1]
        assert told_apart["other"][0] == told_apart["other"][1]

    @pytest.mark.parametrize("name", ["dledger-n0", "dledger-n0/index", "dledger-n0/new"])
    def test_nothing_is_written_into_a_folder_of_dledger(self, kept, name):
        """Neither an index nor queues."""
        store = kept("dledger")
        before = bytes_of(store)
        with pytest.raises(RmqIndexError, match=WRITE_REFUSAL):
            rmqindex.rebuild_index(rmqindex.sample_store(), store / name, replace=True)
        if name == "dledger-n0":
            with pytest.raises(RmqIndexError, match=WRITE_REFUSAL):
                rmqindex.rebuild_consume_queues(rmqindex.sample_store(), store / name)
        assert bytes_of(store) == before

    def test_a_folder_of_dledger_is_known_by_its_checkpoint(self, tmp_path):
        """A broker that was never elected has nothing else there; a store has another one."""
        for folder, checkpoint in {
            "dledger-n0": b"committedIndex=-1\nendIndex=-1\n",
            "dledger-blue": bytes(4096),
        }.items():
            (tmp_path / folder).mkdir()
            (tmp_path / folder / "checkpoint").write_bytes(checkpoint)
        with pytest.raises(RmqIndexError, match=WRITE_REFUSAL):
            rmqindex.rebuild_index(rmqindex.sample_store(), tmp_path / "dledger-n0" / "new")
        rmqindex.rebuild_index(rmqindex.sample_store(), tmp_path / "dledger-blue" / "new")

    def test_a_rebuild_among_files_of_a_log_is_refused(self, kept):
        """Its last file, full of zeros yet, would be taken for a rebuild's own and removed."""
        store = kept("rocksdb_killed")
        (store / "abort").unlink()
        before = bytes_of(store)
        with pytest.raises(RmqIndexError, match="got a CommitLog"):
            rmqindex.rebuild_index(store, store / "commitlog")
        assert bytes_of(store) == before


class TestTieredStorage:
    """Index files of the tiered storage."""

    def test_its_files_are_refused_and_never_replaced(self, tmp_path):
        """Told by the magic number, whatever their folder is called."""
        folder = tmp_path / "tiered_index_file"
        (folder / "compacting").mkdir(parents=True)
        with pytest.raises(RmqIndexError, match="tiered_index_file: expected IndexFiles, or a"):
            rmqindex.verify(folder)  # an empty folder is no index of any kind
        layout = Layout(10, 20)
        for place, magic in ((folder, "bcc50289"), (folder / "compacting", "bcc50285")):
            data = bytes.fromhex(magic).ljust(layout.file_size, b"\0")
            (place / "1700000000000").write_bytes(data)
            for path in (tmp_path, place):
                with pytest.raises(RmqIndexError, match="tiered storage, which is not supported"):
                    rmqindex.verify(path)
                with pytest.raises(RmqIndexError, match="tiered storage, which is not supported"):
                    IndexDirectory(path, layout, writable=True, last_exit_ok=False)
            assert (place / "1700000000000").read_bytes() == data

    @pytest.mark.parametrize("kind", WITH_INDEX_FILES)
    def test_writes_leave_rocksdb_and_dledger_alone(self, run, kept, kind):
        """Whatever a command does to the index, or refuses to do."""
        store = kept(kind)
        before = rocksdb_of(store)
        run("relayout", store, "--slots", 10, "--entries", 500)
        run("expire", store, "--before", 10_000)
        run("rebuild", store, "--replace")
        run("recover", store)
        assert before == rocksdb_of(store) != {}
        with IndexFile(min((store / "index").iterdir())) as file:
            assert file.entry_count
