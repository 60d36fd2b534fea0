"""Exports: every row once, wherever a run was stopped."""

from __future__ import annotations

import csv
import json
import re
import shutil
import tempfile
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.system.store_kinds import copy_store

import rmqindex
from commitlog_encoder import Log, Message, properties_text
from rmqindex import CommitLog, CorruptCommitLogError, RmqIndexError
from rmqindex.commitlog import Selection, newest_messages, select_messages
from rmqindex.export import DEFAULT_COLUMNS, EntrySelection, export_entries, export_messages
from rmqindex.store import IndexSnapshot

STORE = rmqindex.sample_store()
TOPICS = ("A", "B", "C")


class Stop(BaseException):
    """Ends a run where a kill would."""


def small_log(count=60, file_size=1024, start=0, *, upper=False):
    """A log of many files, each of which is a block of a few messages."""
    log = Log(file_size, start)
    for number in range(count):
        log.append(
            Message(
                topic=TOPICS[number % 3],
                queue_id=number % 4,
                body=b"%d" % number * 10,
                properties=properties_text(
                    [("TAGS", f"T{number % 2}"), ("KEYS", f"{'K' if upper else 'k'}{number}")]
                ),
                store_timestamp=1_700_000_000_000 + number * 1000,
            )
        )
    return log


@pytest.fixture
def store(tmp_path):
    """A store that has such a log."""
    small_log().write_to(tmp_path / "store" / "commitlog")
    return tmp_path / "store"


def exported(directory):
    """Return the rows of an export in the order of its files."""
    paths = sorted(directory.glob("messages-*.parquet"))
    return [row for path in paths for row in pq.read_table(path).to_pylist()]


def in_the_log(store, selection=None):
    """Return the offset and the body of the messages, told by a scan of the whole log."""
    selection = selection or Selection()
    with CommitLog(store) as log:
        rows = [row for batch in log.scan() for row in batch.to_pylist()]
    return [
        (row["phy_offset"], row["body"])
        for row in rows
        if row["topic"] in (selection.topics or TOPICS)
        and row["queue_id"] in (selection.queue_ids or range(4))
        and row["tags"] in (selection.tags or ("T0", "T1"))
        and (selection.begin is None or row["store_timestamp"] >= selection.begin)
        and (selection.end is None or row["store_timestamp"] <= selection.end)
        and (selection.start is None or row["phy_offset"] >= selection.start)
        and (selection.stop is None or row["phy_offset"] < selection.stop)
    ]


def places(rows):
    """Return the offset and the body of exported rows."""
    return [(row["phy_offset"], row["body"]) for row in rows]


def some(values):
    """A tuple of a few values, or none."""
    return st.lists(st.sampled_from(values), max_size=2, unique=True).map(tuple)


SELECTIONS = st.builds(
    Selection,
    topics=some(TOPICS),
    queue_ids=some(range(4)),
    tags=some(("T0", "T1", "none")),
    begin=st.none() | st.integers(1_700_000_000_000, 1_700_000_060_000),
    end=st.none() | st.integers(1_700_000_000_000, 1_700_000_060_000),
    start=st.none() | st.integers(0, 9000),
    stop=st.none() | st.integers(0, 9000),
)


class TestSelection:
    """Which messages are asked for."""

    @settings(max_examples=30, deadline=None)
    @given(selection=SELECTIONS, limit=st.integers(1, 70))
    def test_forward_and_backward_agree_with_a_scan(self, selection, limit):
        """A selection in Arrow is a filter of all messages in Python."""
        with tempfile.TemporaryDirectory() as folder:
            store = Path(folder)
            small_log().write_to(store / "commitlog")
            expected = in_the_log(store, selection)
            columns = ["phy_offset", "body"]
            with CommitLog(store) as log:
                blocks = list(select_messages(log, selection, columns))
                found = [row for block in blocks if block.batch for row in block.batch.to_pylist()]
                newest = newest_messages(log, selection, columns, limit).to_pylist()
            assert places(found) == expected
            assert places(newest) == expected[::-1][:limit]


class TestMessages:
    """``export_messages``."""

    def test_every_column_is_the_logs(self, store, tmp_path):
        """Times are timestamps; the properties that are columns anyway are not repeated."""
        with CommitLog(store) as log:
            result = export_messages(log, tmp_path / "out")
            expected = pa.Table.from_batches(log.scan(columns=DEFAULT_COLUMNS))
        table = pq.read_table(tmp_path / "out")
        assert (result.row_count, result.file_count, result.is_resumed) == (60, 1, False)
        for name in DEFAULT_COLUMNS:
            column = table.column(name)
            if name.endswith("_timestamp"):
                assert column.type == pa.timestamp("ms", "UTC")
            assert column.cast(expected.column(name).type).equals(expected.column(name))

    @pytest.mark.parametrize("kind", ["jsonl", "csv"])
    def test_texts_hold_every_body(self, tmp_path, kind):
        """UTF-8 as it is, anything else in Base64."""
        log = Log(4096)
        bodies = [b"text", '\u6d88,"quoted"\nline'.encode(), b"\xff\x00", b""]
        for body in bodies:
            log.append(Message(body=body, properties=properties_text([("K", "v")])))
        log.write_to(tmp_path / "commitlog")
        with CommitLog(tmp_path / "commitlog") as opened:
            export_messages(opened, tmp_path / "out", kind=kind)
        (path,) = (tmp_path / "out").glob("messages-*")
        if kind == "jsonl":
            rows = [json.loads(line) for line in path.read_text().splitlines()]
            assert rows[0]["properties"] == {"K": "v"}
            assert rows[0]["store_timestamp"] == 1_700_000_000_001
        else:
            with path.open(newline="") as file:
                rows = list(csv.DictReader(file))
            assert json.loads(rows[0]["properties"]) == {"K": "v"}
        texts = [row.get("body") for row in rows]
        assert texts[:2] == ["text", bodies[1].decode()]
        assert rows[2]["body_base64"] == "/wA="
        assert texts[3] == ""

    @settings(max_examples=20, deadline=None)
    @given(
        selection=SELECTIONS,
        stops=st.lists(st.integers(0, 12), max_size=6),
        max_file_size=st.sampled_from([1, 3000, 1 << 20]),
    )
    def test_a_run_that_is_stopped_anywhere_goes_on(self, selection, stops, max_file_size):
        """Whatever blocks the earlier runs had read, each row is there once, in order."""
        with tempfile.TemporaryDirectory() as folder:
            root = Path(folder)
            small_log().write_to(root / "store" / "commitlog")
            for stop in [*stops, None]:
                left = [stop]

                def report(_done, _total, left=left):
                    if left[0] is not None:
                        left[0] -= 1
                        if left[0] < 0:
                            raise Stop

                with CommitLog(root / "store") as log:
                    try:
                        export_messages(
                            log,
                            root / "out",
                            selection,
                            max_file_size=max_file_size,
                            progress=report,
                        )
                    except Stop:
                        # What a kill leaves behind.
                        (root / "out" / ".rmqindex_export.part").write_bytes(b"half a file")
            found = places(exported(root / "out"))
            assert found == in_the_log(root / "store", selection)
            assert not list((root / "out").glob(".*"))

    def test_what_a_broker_adds_is_added(self, tmp_path):
        """The same again exports the rest, of a log that has lost its head too."""
        whole = small_log(60)
        part = small_log(30)
        part.write_to(tmp_path / "store" / "commitlog")
        for _ in range(2):
            with CommitLog(tmp_path / "store") as log:
                result = export_messages(log, tmp_path / "out")
        assert (result.row_count, result.files, result.file_count) == (0, (), 1)
        whole.write_to(tmp_path / "store" / "commitlog")
        expected = in_the_log(tmp_path / "store")
        (tmp_path / "store" / "commitlog" / f"{0:020d}").unlink()
        with CommitLog(tmp_path / "store") as log:
            result = export_messages(log, tmp_path / "out")
        assert (result.row_count, result.is_resumed) == (30, True)
        assert places(exported(tmp_path / "out")) == expected

    @pytest.mark.parametrize(
        "change",
        [
            {"selection": Selection(topics=("A",))},
            {"kind": "csv"},
            {"columns": ["phy_offset"]},
            {"raw_bodies": True},
        ],
        ids=str,
    )
    def test_another_question_is_refused(self, store, tmp_path, change):
        """The directory remembers what was asked for."""
        with CommitLog(store) as log:
            export_messages(log, tmp_path / "out")
            before = sorted((tmp_path / "out").iterdir())
            with pytest.raises(RmqIndexError, match="as it was begun"):
                export_messages(log, tmp_path / "out", **change)
        assert sorted((tmp_path / "out").iterdir()) == before

    def test_a_directory_with_other_files_is_refused(self, store, tmp_path):
        """Before an export as well as later."""
        (tmp_path / "out").mkdir()
        (tmp_path / "out" / "mine.txt").touch()
        with CommitLog(store) as log:
            with pytest.raises(RmqIndexError, match=r"found 'mine\.txt'"):
                export_messages(log, tmp_path / "out")
            (tmp_path / "out" / "mine.txt").unlink()
            export_messages(log, tmp_path / "out")
            (tmp_path / "out" / "mine.txt").touch()
            with pytest.raises(RmqIndexError, match=r"found 'mine\.txt'"):
                export_messages(log, tmp_path / "out")

    @pytest.mark.parametrize("name", ["index/20240101", "commitlog/a/b", "consumequeue/Orders"])
    def test_a_folder_that_a_broker_lists_is_refused(self, store, tmp_path, name):
        """By whatever path; beside such folders there is room, and nothing is left of a refusal."""
        (store / "index").mkdir(exist_ok=True)
        (tmp_path / "link").symlink_to(store)
        with CommitLog(store) as log:
            for target in (store / name, tmp_path / "link" / name):
                with pytest.raises(RmqIndexError, match="expected a directory outside of"):
                    export_messages(log, target)
            assert not (store / name).exists()
            assert export_messages(log, store / "exports").row_count

    def test_a_file_is_no_directory(self, store, tmp_path):
        """It is said which one is expected."""
        (tmp_path / "taken").touch()
        with (
            CommitLog(store) as log,
            pytest.raises(RmqIndexError, match="expected a directory, got a file"),
        ):
            export_messages(log, tmp_path / "taken")

    def test_a_part_that_was_removed_is_named(self, store, tmp_path):
        """Rows are never missing without a word."""
        with CommitLog(store) as log:
            export_messages(log, tmp_path / "out", max_file_size=1)
            sorted((tmp_path / "out").glob("messages-*"))[1].unlink()
            with pytest.raises(RmqIndexError, match="one was removed"):
                export_messages(log, tmp_path / "out", max_file_size=1)

    def test_another_log_is_refused(self, store, tmp_path):
        """Also one that is shorter, or whose messages were deleted before they were exported."""
        with CommitLog(store) as log:
            export_messages(log, tmp_path / "out", Selection(topics=("A",)))
        other = Log(1024)
        other.append(Message(store_timestamp=5))
        other.write_to(tmp_path / "other")
        with (
            CommitLog(tmp_path / "other") as log,
            pytest.raises(RmqIndexError, match="from another store"),
        ):
            export_messages(log, tmp_path / "out", Selection(topics=("A",)))
        small_log(60, start=1 << 20).write_to(tmp_path / "later")
        with (
            CommitLog(tmp_path / "later") as log,
            pytest.raises(RmqIndexError, match="have expired before they were exported"),
        ):
            export_messages(log, tmp_path / "out", Selection(topics=("A",)))

    def test_a_log_whose_older_files_came_later_is_refused(self, tmp_path):
        """As in a copy whose files arrive in any order: the export lacks their messages."""
        log = small_log(30)
        folder = log.write_to(tmp_path / "store" / "commitlog")
        oldest = min(folder.iterdir())
        oldest.rename(tmp_path / oldest.name)
        with CommitLog(tmp_path / "store") as opened:
            begun = opened.min_offset
            export_messages(opened, tmp_path / "out")
        found = exported(tmp_path / "out")
        (tmp_path / oldest.name).rename(oldest)
        with (
            CommitLog(tmp_path / "store") as opened,
            pytest.raises(RmqIndexError, match=f"begins at {begun}, as .* one that begins at 0"),
        ):
            export_messages(opened, tmp_path / "out")
        assert exported(tmp_path / "out") == found

    @pytest.mark.parametrize("damage", ["missing", "empty", "hole", "body"])
    def test_what_was_left_out_is_told_until_it_is_back_and_then_refused(self, tmp_path, damage):
        """The manifest remembers it: the run after it called the export complete."""
        store = tmp_path / "store"
        small_log(30).write_to(store / "commitlog")
        path = sorted((store / "commitlog").iterdir())[2]
        whole = path.read_bytes()
        if damage == "missing":
            path.unlink()
        elif damage == "empty":
            path.write_bytes(b"")
        else:
            body = re.search(rb"(\d\d)\1{9}", whole)
            assert body
            at = 4 if damage == "hole" else body.start()
            path.write_bytes(whole[:at] + b"\0" * 4 + whole[at + 4 :])

        def run(selection=None, name="out"):
            told = []
            with CommitLog(store) as log:
                result = export_messages(
                    log, tmp_path / name, selection, mode="DROPMALFORMED", on_skipped=told.append
                )
            return result, told

        first, _ = run()
        ((start, stop),) = first.left_out
        for _ in range(2):
            result, told = run()
            assert (result.files, result.left_out, len(told)) == ((), first.left_out, 1)
            assert f"messages from offset {start} to before {stop}" in told[0]
            assert int(path.name) <= start < stop <= int(path.name) + len(whole)
        path.write_bytes(whole)
        with pytest.raises(RmqIndexError, match=rf"{start} to before {stop}.*another directory"):
            run()
        assert run(name="anew")[0].left_out == ()
        assert places(exported(tmp_path / "anew")) == in_the_log(store)

    def test_what_comes_back_of_other_topics_is_not_missing(self, tmp_path):
        """The export never asked for it."""
        log = Log(1024)
        for number in range(60):
            log.append(Message(topic="B" if 10 <= number < 40 else "A", body=b"x" * 40))
        folder = log.write_to(tmp_path / "store" / "commitlog")
        path = sorted(folder.iterdir())[3]
        path.rename(tmp_path / path.name)
        found = []
        for is_back in (False, False, True):
            if is_back:
                (tmp_path / path.name).rename(path)
            with CommitLog(tmp_path / "store") as opened:
                result = export_messages(opened, tmp_path / "out", Selection(topics=("A",)))
            found.append(result.left_out)
        part = (int(path.name), int(path.name) + 1024)
        assert found == [(part,), (part,), ()]

    @pytest.mark.parametrize("before", [30, 29, 20])
    def test_a_log_whose_tail_was_written_anew_is_refused(self, tmp_path, before):
        """After a crash or a fail-over: with the last message, or another behind the seam."""
        log = small_log(30)
        log.write_to(tmp_path / "store" / "commitlog")
        with CommitLog(tmp_path / "store") as opened:
            export_messages(opened, tmp_path / "out")
        found = exported(tmp_path / "out")
        other = small_log(before, upper=True) if before == 30 else small_log(before)
        for number in range(20):
            other.append(Message(body=b"new" * number, store_timestamp=1_800_000_000_000))
        shutil.rmtree(tmp_path / "store")
        other.write_to(tmp_path / "store" / "commitlog")
        with (
            CommitLog(tmp_path / "store") as opened,
            pytest.raises(RmqIndexError, match=r"truncated and written anew.*another directory"),
        ):
            export_messages(opened, tmp_path / "out")
        assert exported(tmp_path / "out") == found

    def test_an_export_without_a_mark_is_refused(self, store, tmp_path):
        """An earlier release wrote none, so nothing shows that the log is the same."""
        with CommitLog(store) as log:
            export_messages(log, tmp_path / "out")
            path = tmp_path / "out" / "_rmqindex_export.json"
            manifest = json.loads(path.read_text())
            path.write_text(json.dumps({**manifest, "marks": {"messages": {}}}))
            with pytest.raises(RmqIndexError, match=r"mark of what was exported.*another dir"):
                export_messages(log, tmp_path / "out")
            path.write_text(json.dumps({**manifest, "marks": {"messages": {"1": 2}}}))
            with pytest.raises(RmqIndexError, match="got none"):
                export_messages(log, tmp_path / "out")
            (marks,) = manifest["marks"].values()
            bad = {"messages": dict.fromkeys(marks, 5)}
            path.write_text(json.dumps({**manifest, "marks": bad}))
            with pytest.raises(RmqIndexError, match="a damaged one"):
                export_messages(log, tmp_path / "out")
            del manifest["marks"]
            path.write_text(json.dumps({**manifest, "version": 1}))
            with pytest.raises(RmqIndexError, match="an earlier release"):
                export_messages(log, tmp_path / "out")

    def test_a_run_that_died_between_a_mark_and_its_part_goes_on(self, store, tmp_path):
        """The mark of the part before is there still."""
        with CommitLog(store) as log:
            export_messages(log, tmp_path / "out", max_file_size=1)
            expected = exported(tmp_path / "out")
            last = max((tmp_path / "out").glob("messages-*"))
            last.unlink()
            export_messages(log, tmp_path / "out", max_file_size=1)
        assert exported(tmp_path / "out") == expected

    def test_messages_on_which_dledger_has_not_agreed_wait(self, tmp_path):
        """Another leader may replace them; they are named as left out."""
        store = copy_store("dledger", tmp_path / "store")
        for name in ("index", "consumequeue"):  # they prove more
            shutil.rmtree(store / name)
        checkpoint = store / "dledger-n0" / "checkpoint"
        counts = []
        for committed in (107, 119):
            checkpoint.write_text(f"committedIndex={committed}\nendIndex=119\n")
            with CommitLog(store) as log:
                agreed, end = log.committed_offset, log.max_offset
                result = export_messages(log, tmp_path / "out")
            counts.append(result.row_count)
            assert all(row["phy_offset"] < agreed for row in exported(tmp_path / "out"))
            assert (result.unagreed is None) == (agreed == end)
        assert counts == [108, 12]

    def test_a_message_that_is_being_written_waits(self, tmp_path):
        """Its size may be visible before its body."""
        now = time.time_ns() // 1_000_000
        log = small_log(30, file_size=1 << 16)
        torn = log.append(Message(body=b"torn", body_crc=5, store_timestamp=now + 3_600_000))
        log.append(Message(store_timestamp=now + 3_600_000))
        log.write_to(tmp_path / "commitlog")
        with CommitLog(tmp_path / "commitlog") as opened:
            result = export_messages(opened, tmp_path / "out")
        assert result.row_count == 30
        assert all(row["phy_offset"] < torn for row in exported(tmp_path / "out"))

    def test_damage_ends_a_run_and_keeps_what_is_finished(self, store, tmp_path):
        """Leaving damage out goes on behind it."""
        damaged = sorted((store / "commitlog").iterdir())[3]
        data = bytearray(damaged.read_bytes())
        data[4:8] = b"\0\1\2\3"
        damaged.write_bytes(data)
        with CommitLog(store) as log:
            with pytest.raises(CorruptCommitLogError):
                export_messages(log, tmp_path / "out", max_file_size=1)
            assert len(list((tmp_path / "out").glob("messages-*"))) == 3
            skipped = []
            export_messages(
                log,
                tmp_path / "out",
                max_file_size=1,
                mode="DROPMALFORMED",
                on_skipped=skipped.append,
            )
            assert skipped
            sound = [row for batch in log.scan(mode="DROPMALFORMED") for row in batch.to_pylist()]
        assert places(exported(tmp_path / "out")) == places(sound)

    def test_a_body_that_does_not_unpack_is_refused_by_its_offset(self, tmp_path):
        """Or null, where damage is left out; raw bodies are as stored."""
        log = Log(4096)
        log.append(Message(body=b"sound"))
        offset = log.append(Message(body=b"no zlib", sys_flag=1))
        log.write_to(tmp_path / "commitlog")
        with CommitLog(tmp_path / "commitlog") as opened:
            with pytest.raises(RmqIndexError, match=f"message at offset {offset}: "):
                export_messages(opened, tmp_path / "1")
            export_messages(opened, tmp_path / "2", mode="DROPMALFORMED", on_skipped=print)
            export_messages(opened, tmp_path / "3", raw_bodies=True)
        assert [row["body"] for row in exported(tmp_path / "2")] == [b"sound", None]
        assert [row["body"] for row in exported(tmp_path / "3")] == [b"sound", b"no zlib"]


class TestEntries:
    """``export_entries``."""

    @settings(max_examples=10, deadline=None)
    @given(stops=st.lists(st.integers(0, 5), max_size=4), low=st.none() | st.integers(0, 130_000))
    def test_a_run_that_is_stopped_goes_on(self, stops, low):
        """Each entry is there once, with the name of its IndexFile."""
        with tempfile.TemporaryDirectory() as folder:
            out = Path(folder) / "out"
            files = IndexSnapshot.of(STORE, None, "FAILFAST")
            for stop in [*stops, None]:
                left = [stop]

                def report(_done, _total, left=left):
                    if left[0] is not None:
                        left[0] -= 1
                        if left[0] < 0:
                            raise Stop

                try:
                    export_entries(files, out, EntrySelection(start=low), progress=report)
                except Stop:
                    continue
            paths = sorted(out.glob("entries-*"))
            found = [row for path in paths for row in pq.read_table(path).to_pylist()]
            expected = []
            for planned in files:
                with planned.open() as file:
                    for batch in file.scan():
                        keep = batch.column("phy_offset").to_numpy() >= (low or 0)
                        kept = batch.filter(pa.array(np.array(keep)))["position"].to_pylist()
                        expected += [(planned.entry.name, position) for position in kept]
            assert [(row["file"], row["position"]) for row in found] == expected

    def test_an_index_file_that_was_written_anew_is_refused(self, tmp_path):
        """Its name alone does not tell."""
        shutil.copytree(STORE / "index", tmp_path / "index")
        export_entries(IndexSnapshot.of(tmp_path / "index", None, "FAILFAST"), tmp_path / "out")
        first, second = sorted((tmp_path / "index").iterdir())[:2]
        shutil.copy(second, first)
        with pytest.raises(RmqIndexError, match="written anew"):
            export_entries(IndexSnapshot.of(tmp_path / "index", None, "FAILFAST"), tmp_path / "out")

    def test_entries_of_a_file_that_was_written_anew_behind_its_first_are_refused(self, tmp_path):
        """Header and first entry may be the same."""
        shutil.copytree(STORE / "index", tmp_path / "index")
        files = IndexSnapshot.of(tmp_path / "index", None, "FAILFAST")
        export_entries(files, tmp_path / "out")
        path = Path(files[0].entry.path)
        data = bytearray(path.read_bytes())
        data[files[0].layout.entry_offset(2) + 11] ^= 1  # a phy_offset
        path.write_bytes(data)
        with pytest.raises(RmqIndexError, match=r"with checksum .*written anew"):
            export_entries(IndexSnapshot.of(tmp_path / "index", None, "FAILFAST"), tmp_path / "out")

    @pytest.mark.parametrize("how", ["relayout", "rebuild"])
    def test_an_index_that_was_laid_out_anew_is_refused(self, tmp_path, how):
        """Its files have other names and the same entries, which would be there twice."""
        store = tmp_path / "store"
        shutil.copytree(STORE, store)
        export_entries(IndexSnapshot.of(store, None, "FAILFAST"), tmp_path / "out")
        before = sorted(path.name for path in (tmp_path / "out").iterdir())
        if how == "relayout":
            rmqindex.relayout_index(store / "index", rmqindex.Layout(50, 2000))
        else:
            rmqindex.rebuild_index(store, store / "index", replace=True)
        with pytest.raises(RmqIndexError, match=r"written anew.*another directory"):
            export_entries(IndexSnapshot.of(store, None, "FAILFAST"), tmp_path / "out")
        assert sorted(path.name for path in (tmp_path / "out").iterdir()) == before

    def test_files_that_expired_are_no_longer_asked_for(self, tmp_path):
        """While later ones are there that were exported, too; what is new is added."""
        shutil.copytree(STORE / "index", tmp_path / "index")
        paths = sorted((tmp_path / "index").iterdir())
        newest = (tmp_path / paths[-1].name, paths[-1])
        paths[-1].rename(newest[0])
        export_entries(IndexSnapshot.of(tmp_path / "index", None, "FAILFAST"), tmp_path / "out")
        newest[0].rename(newest[1])
        paths[0].unlink()
        result = export_entries(
            IndexSnapshot.of(tmp_path / "index", None, "FAILFAST"), tmp_path / "out"
        )
        assert len(result.files) == 1

    def test_a_file_that_vanished_before_its_end_was_read_is_named(self, tmp_path):
        """A crashed broker deletes the newest one, whose later entries are lost or elsewhere."""
        shutil.copytree(STORE / "index", tmp_path / "index")
        export_entries(IndexSnapshot.of(tmp_path / "index", None, "FAILFAST"), tmp_path / "out")
        newest = max((tmp_path / "index").iterdir())
        newest.unlink()
        with pytest.raises(RmqIndexError, match=f"expected the IndexFile {newest.name}, whose"):
            export_entries(IndexSnapshot.of(tmp_path / "index", None, "FAILFAST"), tmp_path / "out")
        for path in (tmp_path / "index").iterdir():
            path.unlink()
        with pytest.raises(RmqIndexError, match="got none of them"):
            export_entries([], tmp_path / "out")

    def test_files_given_one_by_one_are_no_others_successors(self, tmp_path):
        """Those that were exported before are beside them."""
        for path in sorted((STORE / "index").iterdir()):
            export_entries(IndexSnapshot.of(path, None, "FAILFAST"), tmp_path / "out")
        assert len(list((tmp_path / "out").glob("entries-*"))) > 1


@pytest.mark.parametrize("number", [0, 4, 9])
@pytest.mark.parametrize("seconds", [0, 1])
def test_a_message_without_a_store_time_is_exported_as_any_other(tmp_path, number, seconds):
    """No broker writes to a stopped store, whatever the times of its messages are."""
    log = Log(64 * 1024)
    for each in range(10):
        time = 1_700_000_000_000 + each * seconds * 1000
        log.append(Message(topic="A", store_timestamp=0 if each == number else time))
    log.write_to(tmp_path / "store" / "commitlog")
    (tmp_path / "store" / "lock").write_bytes(b"lock")
    with CommitLog(tmp_path / "store") as opened:
        assert export_messages(opened, tmp_path / "out").row_count == 10
        assert export_messages(opened, tmp_path / "out").row_count == 0


def test_an_export_does_not_go_on_with_a_log_whose_disk_is_not_mounted(tmp_path):
    """It has no file at all, which is no log that begins at 0."""
    store = shutil.copytree(rmqindex.sample_store(), tmp_path / "store")
    min((store / "commitlog").iterdir()).unlink()
    with CommitLog(store) as log:
        export_messages(log, tmp_path / "export")
    shutil.rmtree(store / "commitlog")
    (store / "commitlog").mkdir()
    with CommitLog(store) as log, pytest.raises(RmqIndexError, match="is its disk mounted"):
        export_messages(log, tmp_path / "export")
