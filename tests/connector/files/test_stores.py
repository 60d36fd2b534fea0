"""Several stores in one read, and the column that tells them apart."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.errors import AnalysisException, PythonException
from pyspark.sql.types import StringType, StructField, StructType

import pyspark_rmqindex
from pyspark_rmqindex.files.listing import list_slices
from pyspark_rmqindex.files.stores import (
    StoreCheck,
    check_one_store,
    logs_of,
    store_of,
    store_of_log,
    store_of_queue,
)
from pyspark_rmqindex.messages import MessageReader
from pyspark_rmqindex.options import message_options, read_options
from rmqindex import RmqIndexError, sample_store
from rmqindex.storage import Location

ENTRIES_A, MESSAGES_A = 959, 430


def at(paths):
    """Return paths as the options of a read have them."""
    return read_options({"paths": json.dumps(paths)}).paths


@pytest.fixture(scope="module")
def brokers(tmp_path_factory):
    """Return the folder of two brokers: the second has only the last log file and two IndexFiles.

    Each has its store in a folder of its own.
    """
    folder = tmp_path_factory.mktemp("brokers")
    for broker in ("a", "b"):
        shutil.copytree(sample_store(), folder / broker / "store")
    (folder / "lost+found").mkdir()
    (folder / "notes.txt").write_text("what fits a pattern need not be a store")
    second = folder / "b" / "store"
    for path in sorted((second / "index").iterdir())[2:]:
        path.unlink()
    min((second / "commitlog").iterdir()).unlink()
    return folder


class TestNames:
    """What the column ``store`` holds."""

    @pytest.mark.parametrize(
        ("file", "store"),
        [
            ("/data/a/store/index/20240101000000000", "/data/a/store"),
            ("/data/a/store/commitlog/00000000000000000000", "/data/a/store"),
            ("/data/copies/20240101000000000", "/data/copies"),
            ("/index/20240101000000000", "/"),
            ("s3://bucket/a/index/2024?region=x", "s3://bucket/a?region=x"),
        ],
    )
    def test_a_file_is_of_the_store_that_holds_its_index(self, file, store):
        """Or, where its directory has another name, of that directory."""
        assert store_of(Location(file)) == store

    @pytest.mark.parametrize(
        ("path", "store"),
        [
            ("/data/a", "/data/a"),
            ("/data/a/commitlog", "/data/a"),
            ("/data/a/commitlog/00000000000000000000", "/data/a"),
            ("/data/disk1/commitlog, /data/disk2/commitlog", "/data/disk1"),
            ("s3://bucket/a/commitlog?region=x", "s3://bucket/a?region=x"),
        ],
    )
    def test_a_log_is_of_the_store_of_its_first_path(self, path, store):
        """However it is given."""
        assert store_of_log(Location(path)) == store

    @pytest.mark.parametrize(
        ("file", "store"),
        [
            ("/data/a/consumequeue/T/0/00000000000000000000", "/data/a"),
            ("/data/a/batchconsumequeue/T/0/00000000000000000000", "/data/a"),
            ("s3://bucket/a/consumequeue/T/0/00000000000000000000?x=y", "s3://bucket/a?x=y"),
            ("/copies/0/00000000000000000000", "/copies/0"),
        ],
    )
    def test_a_unit_is_of_the_store_that_holds_its_queues(self, file, store):
        """Or, where its directories have other names, of the directory of its file."""
        assert store_of_queue(Location(file)) == store

    def test_files_of_one_log_are_one_log(self, brokers):
        """Two stores are two, and a pattern stands for those that fit it."""
        first, second = (str(brokers / broker / "store") for broker in "ab")
        files = [str(path) for path in sorted((brokers / "a" / "store" / "commitlog").iterdir())]
        assert logs_of(at(files)) == [(first, tuple(files))]
        assert logs_of(at([first, second])) == [(first, (first,)), (second, (second,))]
        assert logs_of(at([f"{brokers}/*/store"])) == [(first, (first,)), (second, (second,))]
        assert logs_of(at([f"{brokers}/{{a,b}}/store"])) == [(first, (first,)), (second, (second,))]
        assert logs_of(at([f"{first}/*"])) == [(first, (f"{first}/commitlog",))]
        with pytest.raises(RmqIndexError, match="no store and no log file fits the pattern"):
            logs_of(at([f"{brokers}/c*"]))


class TestWhatFitsAPattern:
    """What is no log itself must not hide one, or be the place of one."""

    def test_the_folder_of_a_store_is_refused_by_that_stores_name(self, brokers):
        """Or its messages would be missing from the answer in silence."""
        inner = brokers / "a" / "store"
        with pytest.raises(RmqIndexError, match=f"Give one of the stores in it, such as {inner}$"):
            logs_of(at([f"{brokers}/*"]))

    def test_an_empty_folder_is_refused_since_a_disk_may_not_be_mounted(self, brokers, tmp_path):
        """Whose broker would be missing otherwise."""
        (tmp_path / "a").symlink_to(brokers / "a" / "store")
        (tmp_path / "b").mkdir()
        with pytest.raises(RmqIndexError, match=r"b: expected log files, .* is the disk mounted"):
            logs_of(at([f"{tmp_path}/*"]))

    def test_what_is_neither_is_passed_over(self, brokers, tmp_path):
        """Such as notes, the lost+found of a disk, or an empty folder of the store's own."""
        store = brokers / "a" / "store"
        (tmp_path / "a").symlink_to(store)
        (tmp_path / "lost+found").mkdir()
        (tmp_path / "scripts").mkdir()
        (tmp_path / "scripts" / "start.sh").touch()
        assert [log.store for log in logs_of(at([f"{tmp_path}/*"]))] == [f"{tmp_path}/a"]
        (store / "config").mkdir(exist_ok=True)
        assert [log.store for log in logs_of(at([f"{store}/*"]))] == [str(store)]

    def test_entries_know_no_lost_and_found_either(self, tmp_path):
        """The index is listed by the same rule."""
        shutil.copytree(sample_store(), tmp_path / "a")
        (tmp_path / "lost+found").mkdir()
        assert list_slices(read_options({"path": f"{tmp_path}/*"})).total == 5


class TestWhereTheColumnIs:
    """By default where stores may be several."""

    @pytest.mark.parametrize(
        ("options", "expected"),
        [
            ({"path": "/a"}, False),
            ({"paths": '["/a"]'}, False),
            ({"paths": '["/a", "/b"]'}, True),
            ({"path": "/*/store"}, True),
            ({"path": "s3://b/a/store?x=y"}, False),
            ({"path": "s3://b/*/store?x=y"}, True),
            ({"path": "/a", "recursiveFileLookup": "true"}, True),
            ({"path": "/a", "storeColumn": "true"}, True),
            ({"path": "/*/store", "storeColumn": "false"}, False),
        ],
    )
    def test_it_is_decided_from_the_options_alone(self, options, expected):
        """So that a schema does not depend on what lies on a disk."""
        assert read_options(options).has_store is expected
        if "recursiveFileLookup" not in options:
            assert message_options(options).has_store is expected


class TestListing:
    """Which files are opened."""

    def test_files_of_other_stores_are_not_opened(self, brokers, tmp_path):
        """So one that is broken does not matter."""
        broken = tmp_path / "c" / "index"
        broken.mkdir(parents=True)
        (broken / "20240101000000000").write_bytes(b"\x00" * 36 + b"\x00\x00\x00\x09")
        paths = [str(brokers / "a" / "store"), str(tmp_path / "c")]
        options = read_options({"path": paths[0], "paths": f'["{paths[1]}"]'})
        listing = list_slices(options, frozenset(paths[:1]))
        assert (len(listing.slices), listing.total) == (5, 6)
        with pytest.raises(RmqIndexError, match=f"^{broken}"):
            list_slices(options)

    def test_a_store_without_an_index_is_an_error_or_nothing(self, brokers, tmp_path):
        """As one that is missing; the error names it."""
        (tmp_path / "commitlog").mkdir()
        given = {"path": str(tmp_path), "paths": f'["{brokers}/a/store", "{brokers}/gone"]'}
        with pytest.raises(RmqIndexError, match=f"^{tmp_path}: expected a store with a folder"):
            list_slices(read_options(given))
        assert list_slices(read_options({**given, "ignoreMissingFiles": "true"})).total == 5


class TestMessages:
    """Messages of several stores."""

    def test_each_store_has_its_own_log(self, brokers):
        """Their offsets may be the same."""
        reader = MessageReader(
            message_options({"path": f"{brokers}/*/store"}),
            StructType([StructField("store", StringType())]),
        )
        counts = {}
        for partition in reader.partitions():
            for batch in reader.read(partition):
                for store in batch.column(0).to_pylist():
                    counts[store] = counts.get(store, 0) + 1
        assert list(counts) == [f"{brokers}/a/store", f"{brokers}/b/store"]
        assert counts[f"{brokers}/a/store"] == MESSAGES_A > counts[f"{brokers}/b/store"] > 0


class TestOneStoreInAnIndex:
    """An index holds the offsets of one log."""

    def test_rows_of_two_stores_are_refused(self):
        """In one batch, in two, and in two tasks."""
        check = StoreCheck(0)
        check.see(pa.record_batch({"store": pa.array(["/a", None, "/a"])}))
        check.see(pa.record_batch({"store": pa.array([], pa.string())}))
        assert check.store == "/a"
        with pytest.raises(ValueError, match="expected the rows of one store, got those of '/a'"):
            check.see(pa.record_batch({"store": pa.array(["/a", "/b"])}))
        with pytest.raises(ValueError, match="'/a' and '/b'"):
            check_one_store(["/b", None, "/a"])

    def test_a_store_that_is_no_text_is_refused(self):
        """Spark's STRING holds any bytes."""
        store = pa.array([b"a", b"\xff"], pa.binary()).view(pa.string())
        with pytest.raises(ValueError, match=r"column 'store': expected UTF-8, got b'\\xff'"):
            StoreCheck(0).see(pa.record_batch([store], names=["store"]))

    def test_rows_that_do_not_say_it_are_accepted(self):
        """Nothing is known of them."""
        check = StoreCheck(None)
        check.see(pa.record_batch({"key_hash": pa.array([1])}))
        assert check_one_store([check.store, None]) is None


def load(spark, path, **options):
    """Load entries."""
    return spark.read.format("rmqindex").options(**options).load(path)


class TestInSpark:
    """Scans, lookups and writes."""

    def test_scans_and_lookups_say_which_store_a_row_is_of(self, spark, brokers):
        """Each entry is compared with the log of its own store."""
        frame = load(spark, f"{brokers}/*/store", commitLog="auto", topic="TopicTest", key="k")
        assert frame.columns[-2:] == ["store", "match_state"]
        found = {
            (Path(row.store).parent.name, row.match_state): row["count"]
            for row in frame.groupBy("store", "match_state").count().collect()
        }
        alone = load(spark, f"{brokers}/a/store", commitLog="auto", topic="TopicTest", key="k")
        assert {state for name, state in found if name == "a"} == {"verified"}
        assert found["a", "verified"] == alone.count()
        assert {state for name, state in found if name == "b"} == {"unverified"}

        # Patterns of hits that are no stores, and a schema that asks for the column.
        scan = spark.read.format("rmqindex").schema("store STRING").load(f"{brokers}/*/store")
        counts = {Path(row.store).parent.name: row["count"] for row in _counts(scan)}
        assert counts["a"] == ENTRIES_A
        assert counts["b"] == load(spark, f"{brokers}/b/store/index").count()

    @pytest.mark.system
    def test_where_store_opens_the_files_of_that_store_only(self, spark, brokers):
        """With the other conditions, and for every query by itself."""
        frame = pyspark_rmqindex.table(
            spark, [f"{brokers}/a/store", f"{brokers}/b/store"], commitLog="none"
        )
        pair = "topic = 'TopicTest' AND key = 'order-49'"
        every = {tuple(row) for row in frame.where(pair).collect()}
        assert pyspark_rmqindex.last_plan(frame).files_kept == 7
        for broker in "ab":
            store = f"{brokers}/{broker}/store"
            fresh = pyspark_rmqindex.table(
                spark, [f"{brokers}/a/store", f"{brokers}/b/store"], commitLog="none"
            )
            one = fresh.where(f"{pair} AND store = '{store}'")
            place = one.columns.index("store")
            expected = {row for row in every if row[place] == store}
            assert {tuple(row) for row in one.collect()} == expected
            plan = pyspark_rmqindex.last_plan(one)
            assert (plan.files_kept, plan.files_total) == ({"a": 5, "b": 2}[broker], 7)
            # Another query on the same relation is not narrowed by the first.
            assert {tuple(row) for row in fresh.where(pair).collect()} == every

    def test_one_log_for_several_stores_is_refused(self, spark, brokers):
        """Where a store has another of its own."""
        frame = load(spark, f"{brokers}/*/store", commitLog=f"{brokers}/a/store")
        with pytest.raises(AnalysisException, match="expected 'auto' for several stores"):
            frame.count()

    @pytest.mark.system
    def test_what_was_read_of_one_store_is_written_back(self, spark, brokers, tmp_path):
        """And rows of two are refused, in one task or in several."""
        options = {"maxHashSlotNum": 97, "maxIndexNum": 200}
        both = load(spark, f"{brokers}/*/store")
        one = both.where(f"store = '{brokers}/b/store'")
        one.write.format("rmqindex").options(**options).mode("append").save(str(tmp_path / "one"))
        pyspark_rmqindex.write_index(one, tmp_path / "same", **options)
        for name in ("one", "same"):
            assert load(spark, str(tmp_path / name)).count() == one.count() > 0
        for frame in (both.coalesce(1), both.repartition(2, "store")):
            with pytest.raises((AnalysisException, PythonException), match="rows of one store"):
                frame.write.format("rmqindex").options(**options).mode("append").save(
                    str(tmp_path / "two")
                )
            with pytest.raises((ValueError, PythonException), match="rows of one store"):
                pyspark_rmqindex.write_index(frame, tmp_path / "two", **options)
        assert not any((tmp_path / "two").glob("*"))


def _counts(frame):
    return frame.groupBy("store").count().collect()
