"""``spark.read.format("rmqindex").load(path)``: a scan of the entries."""

from __future__ import annotations

import datetime as dt
import json
import os
import shutil
import struct
import subprocess
import sys
import textwrap

import pytest
from pyspark.errors import AnalysisException, PythonException
from pyspark.sql.types import (
    IntegerType,
    LongType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from kinds import sampled
from pyspark_rmqindex import last_plan, table
from rmqindex import IndexFileWriter, Layout

EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)


def reader(spark, **options):
    """Return a reader of the format."""
    return spark.read.format("rmqindex").options(**options)


def rows_of(df):
    """Return a DataFrame's rows, times as epoch milliseconds, in the order of file and position."""
    collected = df.selectExpr(
        "key_hash",
        "phy_offset",
        "unix_millis(store_timestamp) AS store_timestamp",
        "time_diff",
        "slot",
        "position",
        "prev_position",
        "file_path",
    ).collect()
    return sorted((tuple(row) for row in collected), key=lambda row: (row[7], row[5]))


def write_file(path, entries, layout=Layout(97, 200)):  # noqa: B008
    """Write (key_hash, phy_offset, store_timestamp) entries as one file."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with IndexFileWriter(path, layout) as writer:
        hashes, offsets, times = zip(*entries, strict=True)
        assert writer.put_many(hashes, offsets, times) == len(entries)
    return path


ENTRIES = [(5, 100, 1_700_000_000_123), (102, 200, 1_700_000_001_123), (5, 300, 1_700_000_002_200)]


def test_every_entry_of_the_sample_store_is_a_row(spark, store, store_entries):
    """Store root, index directory and single files; every column as a slow decoder reads it."""
    assert rows_of(reader(spark).load(str(store))) == store_entries
    assert rows_of(reader(spark).load(str(store / "index"))) == store_entries
    assert rows_of(reader(spark).load(f"file://{store}/index")) == store_entries
    (path,) = {entry.file_path for entry in store_entries[:1]}
    alone = [entry for entry in store_entries if entry.file_path == path]
    assert rows_of(reader(spark).load(path)) == alone


def test_the_schema_is_the_documented_one(spark, store):
    """Also under a conf that would turn TIMESTAMP in a text into another type."""
    spark.conf.set("spark.sql.timestampType", "TIMESTAMP_NTZ")
    try:
        assert reader(spark).load(str(store)).schema == StructType(
            [
                StructField("key_hash", IntegerType()),
                StructField("phy_offset", LongType()),
                StructField("store_timestamp", TimestampType()),
                StructField("time_diff", IntegerType()),
                StructField("slot", IntegerType()),
                StructField("position", IntegerType()),
                StructField("prev_position", IntegerType()),
                StructField("file_path", StringType()),
            ]
        )
    finally:
        spark.conf.unset("spark.sql.timestampType")


@pytest.mark.system
def test_a_given_schema_reads_these_columns_in_this_order(spark, store, store_entries):
    """NOT NULL included, and the file path alone as well."""
    schema = "position INT NOT NULL, store_timestamp TIMESTAMP, phy_offset BIGINT NOT NULL"
    df = reader(spark).schema(schema).load(str(store))
    assert df.columns == ["position", "store_timestamp", "phy_offset"]
    assert df.count() == len(store_entries)
    assert sorted(row[2] for row in df.collect()) == sorted(e.phy_offset for e in store_entries)
    paths = reader(spark).schema("file_path STRING").load(str(store)).distinct().collect()
    assert {row[0] for row in paths} == {entry.file_path for entry in store_entries}


@pytest.mark.parametrize(
    ("schema", "message"),
    [
        ("posittion INT", "column 'posittion': unknown; did you mean 'position'?"),
        ("position BIGINT", "column 'position': expected INT, got BIGINT."),
        ("topic STRING", "column 'topic': an IndexFile stores no texts; look keys up with"),
    ],
)
def test_a_schema_that_does_not_fit_is_an_error_that_lists_the_columns(
    spark, store, schema, message
):
    """It comes with the first action, since Spark asks nobody before."""
    df = reader(spark).schema(schema).load(str(store))
    with pytest.raises(AnalysisException) as caught:
        df.count()
    assert message in str(caught.value)
    assert "Known columns: key_hash INT, phy_offset BIGINT, store_timestamp TIMESTAMP" in str(
        caught.value
    )


def test_naming_key_in_a_plain_load_is_an_unresolved_column(spark, store):
    """The relation never answers with keys it does not know."""
    with pytest.raises(AnalysisException, match="UNRESOLVED_COLUMN"):
        reader(spark).load(str(store)).where("key = 'order-49'")


@pytest.mark.parametrize("pushdown", sampled(["true", "false"], "true"))
def test_one_load_can_be_reused_in_every_way_whatever_the_conf(
    spark, store, store_entries, pushdown
):
    """Filters of one query never narrow another."""
    spark.conf.set("spark.sql.python.filterPushdown.enabled", pushdown)
    df = reader(spark).load(str(store))
    df.createOrReplaceTempView("entries")
    first, second = store_entries[0], store_entries[500]
    by_hash = {
        entry.key_hash: sum(e.key_hash == entry.key_hash for e in store_entries)
        for entry in (first, second)
    }
    assert df.where(df.key_hash == first.key_hash).count() == by_hash[first.key_hash]
    assert df.where(df.key_hash == second.key_hash).count() == by_hash[second.key_hash]
    assert df.count() == len(store_entries)
    union = " UNION ALL ".join(f"SELECT * FROM entries WHERE key_hash = {h}" for h in by_hash)
    assert spark.sql(union).count() == sum(by_hash.values())
    joined = spark.sql(
        f"SELECT * FROM entries a JOIN entries b ON a.slot % 1 = b.slot % 1 "
        f"WHERE a.key_hash = {first.key_hash} AND b.key_hash = {second.key_hash}"
    )
    assert joined.count() == by_hash[first.key_hash] * by_hash[second.key_hash]
    scalar = spark.sql(
        f"SELECT count(*), (SELECT max(position) FROM entries WHERE phy_offset = 0) "
        f"FROM entries WHERE key_hash = {second.key_hash}"
    ).collect()[0]
    assert scalar[0] == by_hash[second.key_hash]
    assert scalar[1] == max(e.position for e in store_entries if e.phy_offset == 0)
    planned = df.where(df.key_hash == first.key_hash)
    planned.explain(mode="simple")
    df.where("position = 7").collect()
    assert len(planned.collect()) == by_hash[first.key_hash]
    assert len(planned.cache().collect()) == by_hash[first.key_hash]


def test_several_paths_count_each_file_once(spark, store, store_entries):
    """A directory and a file in it are not read twice."""
    index = store / "index"
    one = store_entries[0].file_path
    df = spark.read.format("rmqindex").load([str(index), one])
    assert rows_of(df) == store_entries


def test_patterns_choose_files(spark, store, store_entries):
    """Globs in the path, and a pattern for names."""
    names = sorted({entry.file_path.rpartition("/")[2] for entry in store_entries})

    def chosen(df):
        return sorted(
            row[0].rpartition("/")[2] for row in df.select("file_path").distinct().collect()
        )

    assert chosen(reader(spark).load(f"{store}/index/*{names[0][-3:]}")) == names[:1]
    assert chosen(reader(spark).load(f"{store}/ind?x")) == names
    both = f"{store}/index/{{{names[1]},{names[2]}}}"
    assert chosen(reader(spark).load(both)) == names[1:3]
    assert chosen(reader(spark, pathGlobFilter=f"*{names[4][-4:]}").load(str(store))) == names[4:]


def test_directories_below_are_read_on_request(spark, tmp_path):
    """Stores below a directory are read by their index alone; hidden folders are not."""
    write_file(tmp_path / "a" / "index" / "20240101000000000", ENTRIES)
    (tmp_path / "a" / "commitlog").mkdir()
    (tmp_path / "a" / "commitlog" / "00000000000000000000").write_bytes(b"not an index")
    write_file(tmp_path / "b" / "20240101000000000", ENTRIES)
    write_file(tmp_path / ".hidden" / "20240101000000000", ENTRIES)
    df = reader(spark, recursiveFileLookup="true").load(str(tmp_path))
    assert len(rows_of(df)) == 2 * len(ENTRIES)


def test_what_the_broker_skips_is_skipped(spark, tmp_path):
    """Hidden names and names that are no numbers."""
    path = write_file(tmp_path / "20240101000000000", ENTRIES)
    for name in (".20240101000000001", "_SUCCESS", "20240101000000000.bak", "readme"):
        shutil.copy(path, tmp_path / name)
    assert len(rows_of(reader(spark).load(str(tmp_path)))) == len(ENTRIES)


def test_an_empty_directory_and_empty_files_have_no_rows(spark, tmp_path):
    """A file without entries needs no geometry; an empty directory has a store around it."""
    with pytest.raises(AnalysisException, match=r"got an empty directory.* is the disk mounted"):
        reader(spark).load(str(tmp_path)).collect()
    (tmp_path / "store" / "index").mkdir(parents=True)
    (tmp_path / "store" / "commitlog").mkdir()
    assert reader(spark).load(str(tmp_path / "store")).collect() == []
    IndexFileWriter(tmp_path / "20240101000000000", Layout(97, 200)).close()
    assert reader(spark).load(str(tmp_path)).collect() == []


def test_a_missing_path_is_an_error_or_nothing(spark, tmp_path, store, store_entries):
    """As the options say."""
    missing = str(tmp_path / "missing")
    with pytest.raises(AnalysisException, match=f"RmqIndexError: {missing}: no such file"):
        reader(spark).load(missing).count()
    with pytest.raises(AnalysisException, match=r"RmqIndexError: .*\*: no file fits the pattern"):
        reader(spark).load(f"{missing}/*").count()
    lenient = reader(spark, ignoreMissingFiles="true")
    assert rows_of(lenient.load([missing, str(store)])) == store_entries


def test_a_path_is_asked_for_at_once(spark):
    """``load()`` alone fails where it stands."""
    with pytest.raises(AnalysisException, match="option 'path': expected a path, in load"):
        reader(spark).load()


def test_a_bad_option_fails_before_any_task(spark, store):
    """In ``load()``, with the allowed values."""
    with pytest.raises(AnalysisException, match="option 'pth': unknown; did you mean 'path'"):
        reader(spark, pth="x").load(str(store))
    with pytest.raises(AnalysisException, match="option 'mode': expected one of FAILFAST, DROP"):
        reader(spark, mode="PERMISSIVE").load(str(store))


def test_a_numeric_name_that_is_no_index_file_is_an_error(spark, tmp_path):
    """Not a guess."""
    (tmp_path / "20240101000000000").write_bytes(b"\x00" * 36 + b"\x00\x00\x00\x09" + b"x" * 1000)
    with pytest.raises(AnalysisException, match=r"Error: .*20240101000000000: no geometry fits"):
        reader(spark).load(str(tmp_path)).count()


@pytest.mark.parametrize(
    ("name", "data", "message"),
    [
        ("rocksdbstore/000013.sst", b"rocksdb.column.family.namedefault", "an index in RocksDB"),
        ("tiered_index_file/1700000000000", b"\xbc\xc5\x02\x89" + bytes(40), "tiered storage"),
    ],
)
def test_stores_of_other_kinds_are_told(spark, tmp_path, name, data, message):
    """By what is in their files."""
    (tmp_path / name).parent.mkdir()
    (tmp_path / name).write_bytes(data)
    with pytest.raises(AnalysisException, match=message):
        reader(spark).load(str(tmp_path)).count()


def damaged(path, offset, value):
    """Overwrite four bytes of a file."""
    data = bytearray(path.read_bytes())
    data[offset : offset + 4] = struct.pack(">i", value)
    path.write_bytes(data)


ENTRY_2 = 40 + 4 * 97 + 20 * 2


@pytest.mark.parametrize(
    ("offset", "value", "message"),
    [
        (ENTRY_2 + 12, -1, "time_diff at byte 480: expected"),
        pytest.param(
            ENTRY_2 + 16, 7, "prev_position at byte 484: expected", marks=pytest.mark.system
        ),
        pytest.param(ENTRY_2, -3, "key_hash at byte 468: expected", marks=pytest.mark.system),
        (36, 1000, "index_count at byte 36: expected at most 200, got 1000"),
    ],
)
def test_malformed_bytes_are_an_error_or_dropped(spark, tmp_path, offset, value, message):
    """The error names path, field, byte, what was expected and what is there."""
    path = write_file(tmp_path / "20240101000000000", ENTRIES)
    damaged(path, offset, value)
    options = {"maxHashSlotNum": "97", "maxIndexNum": "200"}
    with pytest.raises((PythonException, AnalysisException)) as caught:
        reader(spark, **options).load(str(tmp_path)).collect()
    last = str(caught.value).strip().splitlines()
    last = [line for line in last if not line.strip().startswith("SQLSTATE")][-1]
    assert last.startswith(f"rmqindex.errors.CorruptIndexError: {path}: {message}")
    sound = reader(spark, mode="DROPMALFORMED", **options).load(str(tmp_path))
    offsets = {row.phy_offset for row in sound.collect()}
    assert offsets - {0} == ({100, 200, 300} if offset == 36 else {100, 300})


def test_a_truncated_file_is_an_error_or_read_as_far_as_it_goes(spark, tmp_path):
    """Its size does not fit the geometry."""
    path = write_file(tmp_path / "20240101000000000", ENTRIES)
    path.write_bytes(path.read_bytes()[: ENTRY_2 + 20])
    options = {"maxHashSlotNum": "97", "maxIndexNum": "200"}
    with pytest.raises(
        (PythonException, AnalysisException), match=r"CorruptIndexError: .*file_size"
    ):
        reader(spark, **options).load(str(tmp_path)).collect()
    sound = reader(spark, mode="DROPMALFORMED", **options).load(str(tmp_path))
    assert [row.phy_offset for row in sound.collect()] == [100, 200]


def test_a_time_beyond_timestamp_is_an_error(spark, tmp_path):
    """Spark's TIMESTAMP has microseconds in 64 bits."""
    path = write_file(tmp_path / "20240101000000000", ENTRIES)
    data = bytearray(path.read_bytes())
    data[0:8] = struct.pack(">q", 2**62)
    path.write_bytes(data)
    options = {"maxHashSlotNum": "97", "maxIndexNum": "200"}
    with pytest.raises(PythonException, match="begin_timestamp at byte 0: expected store times"):
        reader(spark, **options).load(str(tmp_path)).collect()
    narrow = reader(spark, **options).schema("phy_offset BIGINT").load(str(tmp_path))
    assert [row[0] for row in narrow.collect()] == [100, 200, 300]


def test_the_first_entry_is_read_at_its_files_begin_timestamp(spark, tmp_path):
    """Whatever time_diff a rolled file gave it."""
    writer = IndexFileWriter(
        tmp_path / "20240101000000000",
        Layout(97, 200),
        prev_end_phy_offset=50,
        prev_end_timestamp=1_699_999_000_000,
    )
    with writer:
        writer.put_many([5, 6], [100, 200], [1_700_000_000_000, 1_700_000_001_000])
    rows = rows_of(reader(spark).load(str(tmp_path)))
    assert [(row[2], row[3]) for row in rows] == [(1_700_000_000_000, 1000), (1_700_000_001_000, 1)]


@pytest.mark.planned_once
def test_a_file_that_grows_gives_the_entries_counted_at_planning(spark, tmp_path):
    """A live broker appends while Spark reads: each counted entry comes exactly once."""
    path = write_file(tmp_path / "20240101000000000", ENTRIES)
    df = reader(spark).load(str(tmp_path))
    assert df.count() == 3
    with IndexFileWriter(path, Layout(97, 200)) as writer:
        writer.put_many([7], [400], [1_700_000_003_000])
    assert [row.phy_offset for row in df.collect()] == [100, 200, 300]
    assert reader(spark).load(str(tmp_path)).count() == 4


@pytest.mark.planned_once
def test_a_file_that_is_replaced_after_planning_is_an_error(spark, tmp_path):
    """Its rows would be those of another file."""
    path = write_file(tmp_path / "20240101000000000", ENTRIES)
    df = reader(spark).load(str(tmp_path))
    lenient = reader(spark, ignoreMissingFiles="true").load(str(tmp_path))
    assert df.count() == lenient.count() == 3
    path.unlink()
    with pytest.raises(PythonException, match="the file was removed since the query was planned"):
        df.collect()
    assert lenient.collect() == []
    write_file(path, [(5, 999, 1_800_000_000_000)])
    with pytest.raises(PythonException, match="the file was replaced since the query was planned"):
        df.collect()


@pytest.mark.system
def test_a_large_file_is_divided_by_entry_ranges(spark, tmp_path):
    """Every entry once, in partitions of the size asked for."""
    count = 200_000
    with IndexFileWriter(tmp_path / "20240101000000000", Layout(1000, count + 1)) as writer:
        writer.put_many(
            [n * 7919 % 2**31 for n in range(count)],
            range(count),
            [1_700_000_000_000 + n for n in range(count)],
        )
    df = reader(spark, maxPartitionBytes="1m").load(str(tmp_path))
    assert df.rdd.getNumPartitions() == 4
    total = df.selectExpr("count(*)", "sum(phy_offset)", "count(DISTINCT position)").collect()[0]
    assert tuple(total) == (count, count * (count - 1) // 2, count)


def test_a_thousand_small_files_are_a_few_partitions(spark, tmp_path):
    """One partition a file would take half a minute."""
    path = write_file(tmp_path / "20240101000000000", ENTRIES)
    for number in range(1, 300):
        shutil.copy(path, tmp_path / f"20240101{number:09}")
    df = reader(spark).load(str(tmp_path))
    assert df.rdd.getNumPartitions() == 1
    assert df.count() == 300 * len(ENTRIES)


def test_the_number_of_rows_a_scan_produced_is_in_sparks_metrics(spark, store, store_entries):
    """A lookup reads its entries and no more."""

    def scanned(df):
        df.collect()
        plan = df._jdf.queryExecution().executedPlan()
        while plan.children().size():
            plan = plan.children().apply(0)
        return plan.metrics().apply("numOutputRows").value()

    spark.conf.set("spark.sql.adaptive.enabled", "false")
    try:
        assert scanned(reader(spark).load(str(store))) == len(store_entries)
        lookup = reader(spark, topic="TopicTest", key="order-49").load(str(store))
        assert scanned(lookup) == lookup.count() == 11
        where = table(spark, store).where("topic = 'TopicTest' AND key = 'order-49'")
        assert scanned(where) == 11
    finally:
        spark.conf.unset("spark.sql.adaptive.enabled")


def test_last_plan_shows_what_a_load_reads(spark, store):
    """Files, entries and partitions, before the first query as well as after it."""
    df = reader(spark, logLevel="WARNING").load(str(store))
    plan = last_plan(df)
    df.count()
    assert last_plan(df) == plan
    assert (plan.pairs, plan.key_hashes, plan.filters) == (None, None, ())
    assert (plan.files_kept, plan.files_total, plan.entries, plan.partitions) == (5, 5, 959, 1)
    assert str(plan) == "scanning in 5 of 5 files (959 entries), 1 partition"


def test_last_plan_needs_one_relation_of_ours(spark, store):
    """It says so where there is none, or two."""
    df = reader(spark).load(str(store))
    with pytest.raises(
        ValueError, match=r"over one table\(\), load\(\) or lookup\(\), got one that reads no store"
    ):
        last_plan(spark.range(1))
    other = reader(spark).load(str(store / "index"))
    with pytest.raises(ValueError, match=r"or lookup\(\), got one over 2 of them"):
        last_plan(df.union(other))


def test_a_catalog_table_with_columns_takes_its_path_where_it_is_used(spark, store, store_entries):
    """With a list of columns CREATE TABLE loses options, WITH keeps them."""
    spark.sql("DROP TABLE IF EXISTS entries_table")
    spark.sql("CREATE TABLE entries_table (position INT, PHY_OFFSET BIGINT) USING rmqindex")
    try:
        counted = spark.sql(
            f"SELECT count(*), max(phy_offset) FROM entries_table WITH (path = '{store}')"
        )
        last = max(entry.phy_offset for entry in store_entries)
        assert tuple(counted.collect()[0]) == (len(store_entries), last)
        with pytest.raises(AnalysisException, match="option 'path': expected a path"):
            spark.sql("SELECT * FROM entries_table").collect()
    finally:
        spark.sql("DROP TABLE entries_table")


def test_a_temporary_view_keeps_its_options(spark, store, store_entries):
    """And may name columns."""
    spark.sql(
        "CREATE OR REPLACE TEMPORARY VIEW view_of_entries (position INT, phy_offset BIGINT) "
        f"USING rmqindex OPTIONS (path '{store}')"
    )
    got = spark.sql("SELECT count(*), max(phy_offset) FROM view_of_entries").collect()[0]
    assert tuple(got) == (len(store_entries), max(e.phy_offset for e in store_entries))


@pytest.mark.system
@pytest.mark.spark_pushdown
def test_a_script_prints_one_line_for_each_planned_scan(tmp_path, store):
    """On standard error, once, and not at all where the level says so."""
    script = tmp_path / "script.py"
    script.write_text(
        textwrap.dedent(
            """
            import os, sys
            os.environ.pop("PYSPARK_PYTHON", None)
            import pyspark_rmqindex
            assert os.environ["PYSPARK_PYTHON"] == sys.executable
            from pyspark.sql import SparkSession
            spark = (
                SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false")
                .config("spark.driver.host", "127.0.0.1").getOrCreate()
            )
            told = spark.read.format("rmqindex").option("logLevel", "INFO")
            load = told.load(sys.argv[1])
            print(load.count(), load.count())
            t = pyspark_rmqindex.table(spark, sys.argv[1], logLevel="INFO")
            print(t.where("topic = 'TopicTest' AND key = 'order-49'").count())
            print(spark.read.format("rmqindex").load(sys.argv[1]).count())
            """
        )
    )
    import os

    environment = {
        name: value
        for name, value in os.environ.items()
        if name not in {"PYSPARK_PYTHON", "RMQINDEX_LOG_LEVEL"}
    }
    done = subprocess.run(
        [sys.executable, str(script), str(store)],
        capture_output=True,
        text=True,
        timeout=120,
        env=environment,
        cwd=tmp_path,
        check=True,
    )
    assert done.stdout.split() == ["959", "959", "11", "959"]
    lines = [line for line in done.stderr.splitlines() if "pyspark_rmqindex" in line]
    assert [line.partition("pyspark_rmqindex: ")[2] for line in lines] == [
        "scanning in 5 of 5 files (959 entries), 1 partition",
        "looking up 1 pair [('TopicTest', 'order-49')] in 5 of 5 files (959 entries), 1 partition",
    ]
    assert all(" INFO " in line for line in lines)


@pytest.mark.planned_once
def test_a_commit_under_way_shows_the_old_state(spark, tmp_path):
    """While the journal stands, what the commit set aside is the truth."""
    index = tmp_path / "index"
    old = write_file(index / "20240101000000000", ENTRIES)
    root = tmp_path / ".index.rmqindex"
    saved = root / "job" / "old"
    saved.mkdir(parents=True)
    os.link(old, saved / old.name)
    write_file(old.with_name("20240102000000000"), ENTRIES)
    old.unlink()
    journal = {"job": "job", "created": False, "old": [old.name], "new": ["20240102000000000"]}
    (root / "journal.json").write_text(json.dumps(journal))
    df = reader(spark).load(str(index))
    assert {row[7] for row in rows_of(df)} == {str(old)}
    assert {row[7] for row in rows_of(reader(spark).load(str(old.parent / "2024*")))} == {str(old)}
    os.link(saved / old.name, old)  # rolled back after planning
    shutil.rmtree(root)
    assert {row[7] for row in rows_of(df)} == {str(old)}
