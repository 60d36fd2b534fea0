"""Streams into an index: each batch is there once, in the bytes that one write would have left."""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import re
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from pyspark.sql.types import IntegerType, LongType, StringType, StructType

from killing import assert_one_turn, fork_server, kill_before, lives
from other_broker import running_broker
from pyspark_rmqindex.stream import writer as writer_module
from pyspark_rmqindex.stream.commit import (
    StreamBatch,
    commit_batch,
    discard_batches,
    staging_of,
)
from pyspark_rmqindex.stream.writer import IndexStreamWriter
from pyspark_rmqindex.write import IndexWriter, write_options
from rmqindex import IndexFile, IndexFileWriter, Layout, RmqIndexError
from rmqindex.bulk import CONTENT, RunSlice
from rmqindex.transaction import Owner, effective_listing, staging_root
from streams import run_to_end

SCHEMA = (
    StructType()
    .add("key_hash", IntegerType())
    .add("phy_offset", LongType())
    .add("store_timestamp", LongType())
)
BEGIN = 1_700_000_000_000
LAYOUT = Layout(7, 21)
GEOMETRY = {"maxHashSlotNum": "7", "maxIndexNum": "21"}


def options_of(directory, **options):
    """Return the options of a stream or a write, as Spark passes them."""
    return {"path": str(directory), "timeZone": "UTC", **GEOMETRY, **options}


def batch_of(offsets):
    """Return a batch of rows whose hashes repeat."""
    offsets = np.asarray(offsets, np.int64)
    columns = [
        pa.array((offsets * 7919 % 13).astype(np.int32)),
        pa.array(offsets * 100),
        pa.array(BEGIN + offsets * 700),
    ]
    return pa.record_batch(columns, names=SCHEMA.names)


@pytest.fixture
def in_batch(monkeypatch):
    """Have tasks believe that they are of a certain batch."""

    def enter(query, number):
        monkeypatch.setattr(writer_module, "task_batch", lambda: StreamBatch(query, number))

    return enter


def run_batch(directory, query, number, *tasks, **options):
    """Run a batch as Spark does: one writer for the tasks, another one for the commit."""
    given = options_of(directory, **options)
    original = writer_module.task_batch
    writer_module.task_batch = lambda: StreamBatch(query, number)
    try:
        writer = IndexStreamWriter(SCHEMA, False, given)
        messages = [writer.write(iter([batch_of(offsets)])) for offsets in tasks]
    finally:
        writer_module.task_batch = original
    IndexStreamWriter(SCHEMA, False, given).commit(messages, number)


def write_at_once(directory, offsets):
    """Write the same rows in one job."""
    writer = IndexWriter(SCHEMA, False, options_of(directory))
    writer.commit([writer.write(iter([batch_of(offsets)]))])


def contents(directory):
    """Return the bytes of every file by its name."""
    return {path.name: path.read_bytes() for path in directory.iterdir()}


def offsets_in(directory):
    """Return the numbers of the rows that a reader finds; every file must be sound."""
    found = []
    for _, path in sorted(effective_listing(directory).items()):
        with IndexFile(path, LAYOUT) as file:
            assert file.lookup(range(13)).num_rows == file.entry_count
            found += [offset for b in file.scan() for offset in b["phy_offset"].to_pylist()]
    return [offset // 100 for offset in found]


def left_beside(directory):
    """Return what a stream leaves beside its index."""
    return {path.name for path in staging_root(directory).iterdir()}


@pytest.fixture
def directory(tmp_path):
    """A directory that a stream is to fill."""
    return tmp_path / "store" / "index"


class TestBytes:
    """What batches leave, however they are cut."""

    @pytest.mark.system
    def test_a_thousand_small_batches_leave_the_bytes_of_one_write(self, tmp_path, monkeypatch):
        """Three thousand rows in batches of three and in one: the same names, the same bytes."""
        # A process that is not killed needs no disk, and these would take minutes.
        monkeypatch.setattr(os, "fsync", lambda _: None)
        monkeypatch.setattr(os, "fdatasync", lambda _: None)
        geometry = {"maxHashSlotNum": "49", "maxIndexNum": "701"}
        directory = tmp_path / "stream" / "index"
        options = write_options(options_of(directory, **geometry))
        owner = Owner.current()
        rows = batch_of(range(3_000))
        hashes, offsets, timestamps = (column.to_numpy() for column in rows.columns)
        for number in range(1_000):
            part = slice(3 * number, 3 * number + 3)
            data = b"".join(
                (offsets[part].tobytes(), timestamps[part].tobytes(), hashes[part].tobytes())
            )
            run = RunSlice("run", 3, 0, 3, (), data + bytes(12))  # each the first of its message
            assert commit_batch(options, StreamBatch("a", number), [run], CONTENT, owner)
        discard_batches(options, StreamBatch("a", 1_000))
        writer = IndexWriter(SCHEMA, False, options_of(tmp_path / "one" / "index", **geometry))
        writer.commit([writer.write(iter([rows]))])
        assert contents(directory) == contents(tmp_path / "one" / "index")
        assert len(contents(directory)) == 5
        assert left_beside(directory) == {"lock", "ledger.json"}

    def test_the_rows_of_a_batch_are_ordered_whatever_task_had_them(self, directory, tmp_path):
        """Tasks with rows in any order, some without any: one order by offset."""
        run_batch(directory, "a", 0, [9, 4, 6], [], [5, 0, 2], [1, 3, 8, 7])
        run_batch(directory, "a", 1, [12, 10], [11])
        write_at_once(tmp_path / "one", range(13))
        assert contents(directory) == contents(tmp_path / "one")

    @pytest.mark.parametrize("inline", [0, 10, 1000])
    def test_a_batch_fills_the_last_file_and_as_many_more_as_it_takes(
        self, directory, tmp_path, monkeypatch, inline
    ):
        """A large batch continues in place and brings new files in the same commit."""
        monkeypatch.setattr(writer_module, "_INLINE_ROWS", inline)
        monkeypatch.setattr(writer_module, "_RUN_ROWS", 16)
        run_batch(directory, "a", 0, range(7))
        run_batch(directory, "a", 1, range(7, 40), range(40, 75))
        run_batch(directory, "a", 2, range(75, 80))
        run_batch(directory, "a", 3, range(80, 81))
        write_at_once(tmp_path / "one", range(81))
        assert contents(directory) == contents(tmp_path / "one")
        assert len(contents(directory)) == 5
        assert left_beside(directory) == {"lock", "ledger.json"}

    def test_batches_go_on_behind_a_write_of_another_kind(self, directory, tmp_path):
        """What others append in between is noticed, and continued like one's own."""
        run_batch(directory, "a", 0, range(4))
        write_at_once(directory, range(4, 9))
        run_batch(directory, "a", 1, range(9, 12))
        (path,) = directory.iterdir()
        with IndexFileWriter(path, LAYOUT) as writer:
            row = batch_of([12])
            writer.put_many(*(row.column(name) for name in SCHEMA.names))
        run_batch(directory, "a", 2, range(13, 30))
        write_at_once(tmp_path / "one", range(30))
        assert contents(directory) == contents(tmp_path / "one")

    def test_an_index_that_got_another_geometry_is_looked_at_anew(self, directory, tmp_path):
        """What a stream remembers of the last file is not believed of one that replaced it."""
        run_batch(directory, "a", 0, range(6))
        (path,) = directory.iterdir()
        other = Layout(12, 20)
        assert other.file_size == LAYOUT.file_size
        rows = batch_of(range(6))
        with IndexFileWriter(tmp_path / "other", other) as writer:
            writer.put_many(*(rows.column(name) for name in SCHEMA.names))
        (tmp_path / "other").replace(path)
        geometry = {"maxHashSlotNum": "12", "maxIndexNum": "20"}
        with pytest.raises(RmqIndexError, match="expected maxHashSlotNum 7"):
            run_batch(directory, "a", 1, range(6, 9))
        run_batch(directory, "a", 1, range(6, 9), **geometry)
        run_batch(tmp_path / "one", "a", 0, range(9), **geometry)
        assert contents(directory) == contents(tmp_path / "one")

    def test_other_writes_continue_the_last_file_where_it_stands_too(self, directory):
        """A small append copies nothing: the file is the same one afterwards, and fuller."""
        write_at_once(directory, range(4))
        (path,) = directory.iterdir()
        before = path.stat().st_ino
        write_at_once(directory, range(4, 9))
        assert path.stat().st_ino == before
        assert offsets_in(directory) == list(range(9))
        assert [each.name for each in directory.parent.iterdir()] == [directory.name]

    def test_a_batch_without_rows_changes_nothing(self, directory):
        """Neither the index nor anything beside it is made for no rows."""
        run_batch(directory, "a", 0, [], [])
        assert not directory.exists()


class TestOnce:
    """A batch that Spark runs again."""

    def test_a_batch_that_is_there_is_not_added_again(self, directory):
        """Its number tells, whatever rows it has of those that are there."""
        run_batch(directory, "a", 0, range(5))
        run_batch(directory, "a", 1, range(5, 9))
        before = contents(directory)
        run_batch(directory, "a", 1, range(5, 9))
        run_batch(directory, "a", 0, range(5))
        run_batch(directory, "a", 0, range(3, 9))
        assert contents(directory) == before

    def test_a_checkpoint_from_a_backup_loses_nothing(self, directory):
        """A batch of a number that is there, with rows that are not, is refused, not skipped."""
        for number in range(3):
            run_batch(directory, "a", number, range(5 * number, 5 * number + 5))
        before = contents(directory)
        run_batch(directory, "a", 1, range(5, 12))
        with pytest.raises(RmqIndexError, match=r"batch 2, .* older than the index") as raised:
            run_batch(directory, "a", 2, range(12, 19))
        assert "Start with a new checkpoint and onIndexed=skip" in str(raised.value)
        assert contents(directory) == before
        for number in range(3):
            run_batch(directory, "b", number, range(7 * number, 7 * number + 7), onIndexed="skip")
        assert offsets_in(directory) == list(range(21))

    def test_another_query_is_another_stream(self, directory):
        """Numbers of another query mean nothing; its rows must lie behind those that are there."""
        run_batch(directory, "a", 0, range(5))
        with pytest.raises(ValueError, match="onIndexed=skip"):
            run_batch(directory, "b", 0, range(5))
        run_batch(directory, "b", 0, range(5, 8))
        run_batch(directory, "a", 1, range(8, 10))
        before = contents(directory)
        run_batch(directory, "b", 0, range(5, 8))
        run_batch(directory, "a", 1, range(8, 10))
        assert contents(directory) == before
        assert offsets_in(directory) == list(range(10))

    def test_a_lost_checkpoint_is_made_up_for_by_offsets(self, directory):
        """With onIndexed=skip, a new query that begins anew adds only what is not there."""
        for number in range(6):
            run_batch(directory, "a", number, range(4 * number, 4 * number + 4))
        for number in range(4):
            rows = range(7 * number, 7 * number + 7)
            run_batch(directory, "b", number, rows, onIndexed="skip")
        assert offsets_in(directory) == list(range(28))

    @pytest.mark.parametrize("kept", [0, 1])
    def test_an_index_that_lost_what_the_stream_put_there_is_refused(self, directory, kept):
        """Each batch is said to be there once; without the ledger, it goes on."""
        run_batch(directory, "a", 0, range(30))
        for path in sorted(directory.iterdir())[kept:]:
            path.unlink()
        before = contents(directory)
        for query, number in (("a", 1), ("a", 0), ("b", 0)):  # the next, again, and another's
            with pytest.raises(RmqIndexError, match="up to offset 2900 that earlier") as raised:
                run_batch(directory, query, number, range(30, 35))
            assert contents(directory) == before
        (root,) = re.findall("or delete it, ([^ ]*) and", str(raised.value))
        (Path(root) / "ledger.json").unlink()
        run_batch(directory, "a", 1, range(30, 35))
        assert offsets_in(directory) == [*range(20 * kept), *range(30, 35)]

    @pytest.mark.parametrize("before", [18, 19])
    def test_a_last_message_that_spans_files_is_known_to_a_new_query(self, directory, before):
        """Its entries in the file before the newest one are neither added again nor accepted."""
        rows = [*range(before), *[50] * 44]  # 20 entries a file: the last message spans 3 or 4
        run_batch(directory, "a", 0, rows)
        for number, part in enumerate((rows[:before], rows[before:])):
            run_batch(directory, "b", number, part, onIndexed="skip")
        assert offsets_in(directory) == rows
        with pytest.raises(ValueError, match="phy_offset 5000: expected rows after 5000"):
            run_batch(directory, "c", 0, [50])
        run_batch(directory, "b", 2, [*[50] * 44, 51], onIndexed="skip")
        assert offsets_in(directory) == [*rows, 51]

    def test_two_runs_of_one_batch_at_once_add_it_once(self, directory):
        """A commit that outlived its application, and the retry that does not know of it."""
        run_batch(directory, "a", 0, range(5))
        context = fork_server()
        processes = [
            context.Process(target=run_batch, args=(directory, "a", 1, range(5, 60)))
            for _ in range(2)
        ]
        for process in processes:
            process.start()
        for process in processes:
            process.join(timeout=60)
        assert [process.exitcode for process in processes] == [0, 0]
        assert offsets_in(directory) == list(range(60))


class TestErrors:
    """What is refused, and what a failed batch leaves."""

    def test_only_output_mode_append_is_known(self, directory):
        """A stream that replaces everything with each batch is refused."""
        with pytest.raises(ValueError, match="expected append, got complete"):
            IndexStreamWriter(SCHEMA, True, options_of(directory))

    @pytest.mark.parametrize(
        ("options", "message"),
        [
            ({"allowLiveStore": "true"}, "'allowLiveStore': not for streams"),
            ({"onIndexd": "skip"}, "did you mean 'onIndexed'"),
            ({"startingPosition": "latest"}, "'startingPosition'"),
        ],
    )
    def test_options_are_checked_before_the_first_row(self, directory, options, message):
        """Unknown options and those of other uses are errors."""
        with pytest.raises(ValueError, match=message):
            IndexStreamWriter(SCHEMA, False, options_of(directory, **options))

    def test_the_checkpoint_location_is_spark_s_own_affair(self, directory):
        """Spark passes it to the sink with the other options."""
        IndexStreamWriter(SCHEMA, False, options_of(directory, checkpointLocation="/somewhere"))

    def test_columns_that_cannot_be_indexed_are_refused(self, directory):
        """The columns are those of df.write."""
        with pytest.raises(ValueError, match="'store_timestamp': missing"):
            IndexStreamWriter(
                StructType().add("topic", StringType()).add("phy_offset", LongType()),
                False,
                options_of(directory),
            )

    def test_outside_of_a_stream_no_batch_can_be_told(self, directory):
        """Without Spark's ids a batch could not be told from its second run."""
        writer = IndexStreamWriter(SCHEMA, False, options_of(directory))
        with pytest.raises(RmqIndexError, match=r"sql\.streaming\.queryId"):
            writer.write(iter([batch_of([1])]))

    def test_an_aborted_batch_leaves_nothing_that_was_staged(
        self, directory, monkeypatch, in_batch
    ):
        """Abort removes the runs of the tasks that finished; a straggler's go with the next."""
        monkeypatch.setattr(writer_module, "_INLINE_ROWS", 0)
        run_batch(directory, "a", 0, range(5))
        in_batch("a", 1)
        writer = IndexStreamWriter(SCHEMA, False, options_of(directory))
        message = writer.write(iter([batch_of(range(5, 9))]))
        assert staging_of(write_options(options_of(directory)), StreamBatch("a", 1)).path.exists()
        writer.abort([message, None], 1)
        assert left_beside(directory) == {"lock", "ledger.json"}
        writer.write(iter([batch_of(range(5, 9))]))
        run_batch(directory, "a", 2, range(9, 12))
        assert left_beside(directory) == {"lock", "ledger.json"}
        assert offsets_in(directory) == [0, 1, 2, 3, 4, 9, 10, 11]

    def test_a_bad_row_fails_its_task_and_leaves_nothing(self, directory, monkeypatch, in_batch):
        """The error names the row; what the task staged before is gone."""
        monkeypatch.setattr(writer_module, "_INLINE_ROWS", 0)
        monkeypatch.setattr(writer_module, "_RUN_ROWS", 4)
        in_batch("a", 0)
        writer = IndexStreamWriter(SCHEMA, False, options_of(directory))
        bad = batch_of([6]).set_column(1, "phy_offset", pa.array([None], pa.int64()))
        with pytest.raises(ValueError, match="phy_offset: expected a value, got NULL"):
            writer.write(iter([batch_of(range(6)), bad]))
        staged = staging_of(write_options(options_of(directory)), StreamBatch("a", 0)).path
        assert [path.name for path in staged.iterdir()] == ["owner.json"]

    def test_a_broker_that_holds_the_store_is_respected(self, directory):
        """A stream into a live store fails before anything changes."""
        run_batch(directory, "a", 0, range(5))
        with (
            running_broker(directory.parent),
            pytest.raises(RmqIndexError, match="a broker runs on this store"),
        ):
            run_batch(directory, "a", 1, range(5, 9))
        (directory.parent / "abort").write_text("1")  # what a crash leaves
        run_batch(directory, "a", 1, range(5, 9))
        assert offsets_in(directory) == list(range(9))

    def test_a_full_disk_in_a_commit_loses_nothing(self, directory, monkeypatch):
        """The batch that failed is undone, and runs again."""
        run_batch(directory, "a", 0, range(5))
        before = contents(directory)
        calls = itertools.count()
        pwrite = os.pwrite

        def fail_once(*arguments):
            if next(calls) == 1:
                raise OSError(28, "No space left on device")
            return pwrite(*arguments)

        with monkeypatch.context() as patched, contextlib.suppress(OSError):
            patched.setattr(os, "pwrite", fail_once)
            run_batch(directory, "a", 1, range(5, 60))
        assert contents(directory) == before
        run_batch(directory, "a", 1, range(5, 60))
        assert offsets_in(directory) == list(range(60))


def run_and_die(directory, fatal):
    """Run the second batch in this process, which is killed before its n-th step."""
    kill_before(fatal)
    writer_module._INLINE_ROWS = 0
    run_batch(directory, "a", 1, range(15, 28))


@pytest.mark.system
def test_a_batch_killed_at_any_step_is_there_once_after_its_second_run(tmp_path):
    """Kill a batch that continues a file and begins another, then run it again: once, always."""
    outcomes = []
    for fatal in itertools.count(1):
        directory = tmp_path / str(fatal) / "index"
        run_batch(directory, "a", 0, range(15))
        finished = lives(run_and_die, directory, fatal)
        state = offsets_in(directory)
        assert state in (list(range(15)), list(range(28))), f"killed before step {fatal}"
        outcomes.append(len(state) == 28)
        run_batch(directory, "a", 1, range(15, 28))
        run_batch(directory, "a", 2, range(28, 30))
        assert offsets_in(directory) == list(range(30))
        assert left_beside(directory) == {"lock", "ledger.json"}
        if finished:
            break
    write_at_once(tmp_path / "one", range(30))
    assert contents(directory) == contents(tmp_path / "one")
    assert_one_turn(outcomes, more_than=15)


@pytest.mark.system
@pytest.mark.spark_streams
def test_a_commitlog_streamed_into_an_index_is_the_broker_s_own(spark, store, tmp_path):
    """RocketMQ's ReputMessageService on Spark: the broker's files, also after a lost record.

    Spark runs a batch again when it dies between the commit of the sink and its own.
    """
    index, checkpoint = tmp_path / "index", tmp_path / "checkpoint"

    def run():
        query = run_to_end(
            spark.readStream.format("rmqcommitlog")
            .option("maxBytesPerTrigger", 20_000)
            .load(str(store))
            .writeStream.format("rmqindex")
            .option("checkpointLocation", str(checkpoint))
            .options(maxHashSlotNum=97, maxIndexNum=200, timeZone="UTC"),
            index,
        )
        return [progress["batchId"] for progress in query.recentProgress]

    def files():
        return [path.read_bytes() for path in sorted(index.iterdir())]

    broker = [path.read_bytes() for path in sorted((store / "index").iterdir())]
    batches = run()
    assert len(batches) > 3
    assert files() == broker
    commits = checkpoint / "commits"
    for path in (commits / str(batches[-1]), commits / f".{batches[-1]}.crc"):
        Path(path).unlink()
    assert run()[:1] == [batches[-1]]
    assert files() == broker


@pytest.mark.system
def test_a_stream_of_another_source_is_written_by_pyspark_4_1_too(spark, tmp_path):
    """Only streams that are read from this package need a later one."""
    geometry = {"maxHashSlotNum": "97", "maxIndexNum": "200", "timeZone": "UTC"}
    columns = (
        "CAST(id % 50 AS INT) AS key_hash",
        "id * 100 AS phy_offset",
        "timestamp_millis(1700000000000 + id * 1000) AS store_timestamp",
    )
    rows = spark.range(0, 300, 1, 1).selectExpr(*columns)
    rows.write.parquet(str(tmp_path / "rows"))
    query = (
        spark.readStream.schema(rows.schema)
        .parquet(str(tmp_path / "rows"))
        .writeStream.format("rmqindex")
        .option("checkpointLocation", str(tmp_path / "checkpoint"))
        .options(**geometry)
        .trigger(availableNow=True)
        .start(str(tmp_path / "index"))
    )
    query.awaitTermination()
    rows.write.format("rmqindex").mode("append").options(**geometry).save(str(tmp_path / "once"))
    assert contents(tmp_path / "index") == contents(tmp_path / "once")


@pytest.mark.parametrize(
    "ledger",
    [
        {"streams": []},
        {"streams": {"q": "1"}},
        {"streams": {"q": True}},
        {"tail": []},
        {"tail": {}},
        {"tail": {"name": "1", "path": "/etc/passwd"}},
    ],
)
def test_a_ledger_has_its_own_fields(tmp_path, ledger):
    """It says which batches are in the index, so that nothing else may pass for it."""
    options = write_options({"path": str(tmp_path / "index")})
    root = staging_root(options.directory)
    root.mkdir()
    fields = {"job": "stream-q-0", "created": False, "old": [], "new": [], "ledger": ledger}
    (root / "ledger.json").write_text(json.dumps(fields))
    with pytest.raises(RmqIndexError, match=r"index\.rmqindex/ledger\.json: expected what batches"):
        commit_batch(options, StreamBatch("q", 0), [], None, Owner.current())


@pytest.mark.parametrize("query", ["../../elsewhere", "/elsewhere", "a/b", ""])
def test_the_id_of_a_query_leads_nowhere_else(tmp_path, query):
    """It comes from a checkpoint, and names a directory."""
    options = write_options({"path": str(tmp_path / "index")})
    if query:
        with pytest.raises(ValueError, match="job: expected a name"):
            staging_of(options, StreamBatch(query, 0))
    else:
        assert staging_of(options, StreamBatch(query, 0)).path.parent.parent == tmp_path
