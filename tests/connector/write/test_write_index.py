"""``write_index`` builds what one broker would have written, however the rows are dealt out."""

from __future__ import annotations

import itertools
import json
import random
import time
from pathlib import Path
from typing import ClassVar

import pytest
from pyspark.errors import PythonException

from kinds import sampled
from other_broker import can_start
from pyspark_rmqindex import write_index
from pyspark_rmqindex.write import write_index as write_index_module
from recorded import ROCKETMQ_CLASSES
from rmqindex import IndexFile, IndexFileWriter, Layout, RmqIndexError, key_hash, message_keys

SERVICES = json.loads((ROCKETMQ_CLASSES / "service_vectors.json").read_text())
MESSAGES = (
    "phy_offset BIGINT, store_timestamp BIGINT, topic STRING, uniq_key STRING, keys STRING, "
    "sys_flag INT"
)


def indexed_messages(service):
    """Return the messages of a service case that its broker indexed."""
    end = 0
    rows = []
    for message in service["messages"]:
        offset = message["commitlog_offset"]
        keys = message_keys(
            message["topic"], message["uniq_key"], message["keys"], message["sys_flag"]
        )
        if offset >= end and keys:
            end = offset
            rows.append(
                (
                    offset,
                    message["store_timestamp"],
                    message["topic"],
                    message["uniq_key"],
                    message["keys"],
                    message["sys_flag"],
                )
            )
    return rows


def index_bytes(directory):
    """Return the files of an index directory in the order of their names."""
    return [path.read_bytes() for path in sorted(directory.iterdir())]


def entries_of(directory, layout):
    """Return (phy_offset, key_hash, store_timestamp) of all entries, oldest first."""
    found = []
    for path in sorted(Path(directory).iterdir()):
        with IndexFile(path, layout) as file:
            for batch in file.scan(columns=["phy_offset", "key_hash", "store_timestamp"]):
                found += [tuple(row.values()) for row in batch.to_pylist()]
    return found


def without_early_file(files):
    """Drop a trailing file that a broker created before it had an entry for it."""
    return files[:-1] if files and int.from_bytes(files[-1][36:40]) <= 1 else files


def service_layout(service):
    """Return the options that name a case's geometry."""
    return {"maxHashSlotNum": service["hash_slot_num"], "maxIndexNum": service["index_num"]}


class TestBrokersBytes:
    """The files are the broker's."""

    @pytest.mark.parametrize("partitions", sampled([1, 3, 8], 3))
    @pytest.mark.parametrize(
        "service",
        sampled(SERVICES, SERVICES[0], SERVICES[3]),
        ids=lambda service: service["name"],
    )
    def test_the_files_of_every_service_case_come_out(self, spark, tmp_path, service, partitions):
        """Shuffled messages in any number of partitions give the golden bytes."""
        rows = indexed_messages(service)
        random.Random(partitions).shuffle(rows)
        df = spark.createDataFrame(rows, MESSAGES).repartition(partitions)
        write_index(df, tmp_path / "index", **service_layout(service))
        expected = [bytes.fromhex(file["hex"]) for file in service["files"]]
        assert index_bytes(tmp_path / "index") == without_early_file(expected)

    @pytest.mark.parametrize("keys_type", sampled(["STRING", "ARRAY<STRING>"], "ARRAY<STRING>"))
    def test_the_index_of_a_whole_store_comes_out(self, spark, tmp_path, store, keys_type):
        """The messages of the sample store give its index again, in its own bytes."""
        messages = json.loads((ROCKETMQ_CLASSES / "store_messages.json").read_text())["messages"]
        rows = []
        for message in messages:
            sent = message["decoded"] or message["sent"]
            keys = sent.get("keys")
            if keys is not None and keys_type != "STRING":
                keys = keys.split(" ")
            rows.append(
                (
                    message["phy_offset"],
                    sent["store_timestamp"],
                    sent["topic"],
                    sent.get("uniq_key"),
                    keys,
                    sent["sys_flag"] if message["indexed"] else 12,
                )
            )
        random.Random(5).shuffle(rows)
        df = spark.createDataFrame(rows, MESSAGES.replace("keys STRING", f"keys {keys_type}"))
        write_index(df.repartition(4), tmp_path, maxHashSlotNum=97, maxIndexNum=200)
        assert index_bytes(tmp_path) == index_bytes(store / "index")

    def test_an_index_can_be_built_in_steps(self, spark, tmp_path):
        """Appending continues the last file, so that steps give the same bytes as one write."""
        service = next(each for each in SERVICES if len(each["files"]) > 3)
        rows = indexed_messages(service)
        offsets = sorted({row[0] for row in rows})
        edges = [offsets[0], offsets[3], offsets[len(offsets) // 2], offsets[-1] + 1]
        for first, stop in itertools.pairwise(edges):
            step = [row for row in rows if first <= row[0] < stop]
            df = spark.createDataFrame(step, MESSAGES)
            write_index(df, str(tmp_path), **service_layout(service))
        expected = [bytes.fromhex(file["hex"]) for file in service["files"]]
        assert index_bytes(tmp_path) == without_early_file(expected)

    def test_an_empty_file_that_a_broker_made_early_is_filled(self, spark, tmp_path):
        """The last file may have inherited and hold nothing yet."""
        service = next(each for each in SERVICES if each["files"][-1]["header"]["index_count"] > 1)
        *before, last = service["files"]
        for number, file in enumerate(before):
            (tmp_path / f"2020010100000{number:04}").write_bytes(bytes.fromhex(file["hex"]))
        inherited = before[-1]["header"]
        name = tmp_path / "20200102000000000"
        layout = Layout(service["hash_slot_num"], service["index_num"])
        IndexFileWriter(
            name, layout, inherited["end_phy_offset"], inherited["end_timestamp"]
        ).close()
        df = spark.createDataFrame(indexed_messages(service), MESSAGES)
        # The message at the end may have its first keys in the file before.
        write_index(df, tmp_path, onIndexed="skip", **service_layout(service))
        assert name.read_bytes() == bytes.fromhex(last["hex"])


class TestOrder:
    """The order of entries does not depend on the partitions, whatever the shape."""

    LAYOUT = Layout(97, 64)
    OPTIONS: ClassVar = {"maxHashSlotNum": 97, "maxIndexNum": 64}

    @pytest.mark.parametrize(
        ("schema", "columns"),
        [
            ("phy_offset BIGINT, store_timestamp BIGINT, key_hash INT", 3),
            ("phy_offset BIGINT, store_timestamp BIGINT, topic STRING, key STRING", 4),
        ],
    )
    def test_without_a_place_entries_of_an_offset_are_ordered_by_key_hash(
        self, spark, tmp_path, schema, columns
    ):
        """The same rows give the same bytes, however they come."""
        generator = random.Random(2)
        rows = []
        for _ in range(300):
            offset, number = generator.randrange(40), generator.randrange(20)
            row = (offset, 1_700_000_000_000 + offset, f"T{number % 3}", f"k{number}")
            rows.append(row if columns == 4 else (*row[:2], key_hash(f"{row[2]}#{row[3]}")))
        outcomes = []
        for partitions in (1, 5):
            generator.shuffle(rows)
            directory = tmp_path / str(partitions)
            df = spark.createDataFrame(rows, schema).repartition(partitions)
            write_index(df, directory, **self.OPTIONS)
            outcomes.append(index_bytes(directory))
        assert outcomes[0] == outcomes[1]
        entries = entries_of(tmp_path / "1", self.LAYOUT)
        assert entries == sorted(entries)
        assert len(entries) == 300

    def test_what_was_read_keeps_the_order_of_its_files(self, spark, tmp_path, store):
        """Entries of one offset come as they stood, by file and position."""
        read = spark.read.format("rmqindex").load(str(store))
        write_index(read.repartition(3), tmp_path, maxHashSlotNum=97, maxIndexNum=200)
        layout = Layout(97, 200)
        copied = [entry[:2] for entry in entries_of(tmp_path, layout)]
        assert copied == [entry[:2] for entry in entries_of(store / "index", layout)]

    def test_a_last_message_that_spans_two_files_is_skipped_one_for_one(self, spark, tmp_path):
        """A replay adds the missing keys of the last message only, in their order."""
        rows = [(n, 1_700_000_000_000, "T", f"u{n}", "a b a", 0) for n in range(40)]
        whole = spark.createDataFrame(rows, MESSAGES)
        write_index(whole, tmp_path / "whole", **self.OPTIONS)
        entries = entries_of(tmp_path / "whole", self.LAYOUT)
        # Index up to the second of the last message's four keys, as a killed broker might.
        schema = "phy_offset BIGINT, key_hash INT, store_timestamp BIGINT"
        part = [(*entry, place, "f") for place, entry in enumerate(entries[:-2])]
        df = spark.createDataFrame(part, f"{schema}, position INT, file_path STRING")
        write_index(df, tmp_path / "replayed", **self.OPTIONS)
        write_index(whole.repartition(3), tmp_path / "replayed", onIndexed="skip", **self.OPTIONS)
        assert entries_of(tmp_path / "replayed", self.LAYOUT) == entries
        assert index_bytes(tmp_path / "replayed") == index_bytes(tmp_path / "whole")


def test_no_broker_starts_from_the_first_staged_row_to_the_last_file(spark, tmp_path, monkeypatch):
    """The driver holds the store's lock while the tasks of other processes build the files."""
    (tmp_path / "commitlog").mkdir()
    starts = []
    run = write_index_module._run

    def probe(*arguments):
        starts.append(can_start(tmp_path))
        return run(*arguments)

    monkeypatch.setattr(write_index_module, "_run", probe)
    rows = spark.range(40).selectExpr(
        "id AS phy_offset", "1700000000000 AS store_timestamp", "'T' AS topic", "'k' AS key"
    )
    write_index(rows, tmp_path, maxHashSlotNum=7, maxIndexNum=11)
    assert starts == [False, False]
    assert can_start(tmp_path)


class TestFailures:
    """What is refused, and what is left then."""

    def rows(self, spark, first, last):
        """Return some messages."""
        data = [(n, 1_700_000_000_000, "T", f"u{n}", None, 0) for n in range(first, last)]
        return spark.createDataFrame(data, MESSAGES)

    def test_a_bad_row_fails_the_write_with_its_values(self, spark, tmp_path):
        """Nothing is committed, and nothing is left beside the index."""
        df = self.rows(spark, 0, 50).selectExpr(
            "phy_offset",
            "if(phy_offset = 7, -5L, store_timestamp) AS store_timestamp",
            "topic",
            "uniq_key",
        )
        index = tmp_path / "index"
        with pytest.raises(PythonException, match=r"got -5, in the row \(phy_offset=7"):
            write_index(df, index)
        gone_soon(index)

    @pytest.mark.system
    def test_rows_that_are_indexed_are_refused_or_skipped(self, spark, tmp_path):
        """The option ``onIndexed`` decides; either of two tasks may find such rows first."""
        index = tmp_path / "index"
        write_index(self.rows(spark, 0, 50), index)
        with pytest.raises(Exception, match=r"phy_offset (10|35): expected rows after 49"):
            write_index(self.rows(spark, 10, 60), index)
        with pytest.raises(ValueError, match="phy_offset 49: expected rows after 49"):
            write_index(self.rows(spark, 49, 60), index)
        write_index(self.rows(spark, 10, 60), index, onIndexed="skip")
        assert spark.read.format("rmqindex").load(str(index)).count() == 60

    def test_overwrite_replaces_what_is_there(self, spark, tmp_path):
        """Also with nothing at all."""
        index = tmp_path / "index"
        write_index(self.rows(spark, 0, 50), index)
        write_index(self.rows(spark, 0, 5), index, mode="overwrite")
        assert spark.read.format("rmqindex").load(str(index)).count() == 5
        write_index(self.rows(spark, 0, 5).where("false"), index, mode="overwrite")
        assert list(index.iterdir()) == []

    @pytest.mark.system
    def test_an_index_that_changed_meanwhile_is_not_touched(self, spark, tmp_path, monkeypatch):
        """Files that were planned for another state are not committed."""
        index = tmp_path / "index"
        write_index(self.rows(spark, 0, 5), index)
        original = write_index_module.plan_files
        others = [self.rows(spark, 5, 7)]

        def plan_late(*arguments, **options):
            if others:
                write_index(others.pop(), index)
            return original(*arguments, **options)

        monkeypatch.setattr(write_index_module, "plan_files", plan_late)
        with pytest.raises(RmqIndexError, match="the index was changed while this write ran"):
            write_index(self.rows(spark, 5, 9), index)
        assert spark.read.format("rmqindex").load(str(index)).count() == 7

    def test_bad_arguments_are_refused_before_anything_runs(self, spark, tmp_path):
        """Modes, options and columns."""
        df = self.rows(spark, 0, 5)
        with pytest.raises(ValueError, match="mode: expected 'append' or 'overwrite'"):
            write_index(df, tmp_path / "index", mode="ignore")
        with pytest.raises(ValueError, match="did you mean 'onIndexed'"):
            write_index(df, tmp_path / "index", onIndex="skip")
        with pytest.raises(ValueError, match="'store_timestamp': missing"):
            write_index(df.drop("store_timestamp"), tmp_path / "index")
        assert list(tmp_path.iterdir()) == []


def gone_soon(index):
    """Wait until siblings of a failed task have found nothing to write into."""
    deadline = time.monotonic() + 30
    while list(index.parent.iterdir()) and time.monotonic() < deadline:
        time.sleep(0.1)
    assert list(index.parent.iterdir()) == []
