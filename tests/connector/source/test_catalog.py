"""Catalog tables keep their options, so that each reads its own store whatever stands beside it."""

from __future__ import annotations

import contextlib
import shutil
import threading

import pytest
from pyspark.errors import AnalysisException, PythonException
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition

import pyspark_rmqindex
from kinds import sampled
from pyspark_rmqindex.schema import full_schema
from pyspark_rmqindex.source.catalog import (
    check_paths,
    created_options,
    relation_options,
    stored_options,
    with_options,
)
from streams import run_to_end

PUSHDOWN_CONF = "spark.sql.python.filterPushdown.enabled"
KEY = "topic = 'TopicTest' AND key = 'order-49'"
OTHER = "topic = 'TopicTest' AND key = 'a#b'"

# Of two views, what each statement must give: counts of KEY and OTHER in the first and the second.
SHAPES = {
    "scalar subqueries": "SELECT (SELECT count(*) FROM {a} WHERE {key}), "
    "(SELECT count(*) FROM {b} WHERE {key}), (SELECT count(*) FROM {a} WHERE {other}), "
    "(SELECT count(*) FROM {b} WHERE {other})",
    "union all": "SELECT count_if(s = 'a' AND {key}), count_if(s = 'b' AND {key}), "
    "count_if(s = 'a' AND {other}), count_if(s = 'b' AND {other}) FROM ("
    "SELECT 'a' AS s, topic, key FROM {a} WHERE {key} UNION ALL "
    "SELECT 'b', topic, key FROM {b} WHERE {key} UNION ALL "
    "SELECT 'a', topic, key FROM {a} WHERE {other} UNION ALL "
    "SELECT 'b', topic, key FROM {b} WHERE {other})",
    "CTEs": "WITH x AS (SELECT * FROM {a} WHERE topic = 'TopicTest' AND key IN ('order-49', "
    "'a#b')), y AS (SELECT * FROM {b} WHERE topic = 'TopicTest' AND key IN ('order-49', 'a#b')) "
    "SELECT (SELECT count(*) FROM x WHERE key = 'order-49'), "
    "(SELECT count(*) FROM y WHERE key = 'order-49'), "
    "(SELECT count(*) FROM x WHERE key = 'a#b'), (SELECT count(*) FROM y WHERE key = 'a#b')",
    "a join": "SELECT count(DISTINCT x.file_path, x.position) FILTER (WHERE x.key = 'order-49'), "
    "count(DISTINCT y.file_path, y.position) FILTER (WHERE y.key = 'order-49'), "
    "count(DISTINCT x.file_path, x.position) FILTER (WHERE x.key = 'a#b'), "
    "count(DISTINCT y.file_path, y.position) FILTER (WHERE y.key = 'a#b') "
    "FROM (SELECT * FROM {a} WHERE topic = 'TopicTest' AND key IN ('order-49', 'a#b')) x "
    "JOIN (SELECT * FROM {b} WHERE topic = 'TopicTest' AND key IN ('order-49', 'a#b')) y "
    "ON x.topic = y.topic",
    "a self-join": "SELECT count(DISTINCT x.file_path, x.position), "
    "(SELECT count(*) FROM {b} WHERE {key}), count(DISTINCT y.file_path, y.position), "
    "(SELECT count(*) FROM {b} WHERE {other}) "
    "FROM (SELECT * FROM {a} WHERE {key}) x JOIN (SELECT * FROM {a} WHERE {other}) y "
    "ON x.topic = y.topic",
    "a pivot": "SELECT coalesce(a_k, 0), coalesce(b_k, 0), coalesce(a_o, 0), coalesce(b_o, 0) FROM "
    "(SELECT concat('a', key) AS s FROM {a} WHERE topic = 'TopicTest' AND key IN ('order-49', "
    "'a#b') UNION ALL SELECT concat('b', key) FROM {b} WHERE topic = 'TopicTest' AND key IN "
    "('order-49', 'a#b')) PIVOT (count(*) FOR s IN ('aorder-49' AS a_k, 'border-49' AS b_k, "
    "'aa#b' AS a_o, 'ba#b' AS b_o))",
}


def counts(spark, text, a, b):
    """Return the one row of a shape."""
    text = text.format(a=a, b=b, key=KEY, other=OTHER)
    return tuple(spark.sql(text).collect()[0])


@pytest.fixture(scope="module")
def stores(store, tmp_path_factory):
    """Return two stores: the sample store, and one with two of its five index files."""
    root = tmp_path_factory.mktemp("stores")
    for name in ("a", "b"):
        shutil.copytree(store, root / name)
    for file in sorted((root / "b" / "index").iterdir())[2:]:
        file.unlink()
    return root / "a", root / "b"


@pytest.fixture(scope="module")
def truth(spark, stores):
    """Return the counts of the shapes, each from a ``table()`` of its own."""

    def count(path, where):
        return pyspark_rmqindex.table(spark, path).where(where).count()

    expected = tuple(count(path, where) for where in (KEY, OTHER) for path in stores)
    assert len(set(expected)) > 2
    return expected


@pytest.fixture
def views(spark, stores):
    """Make the documented tables and views, and return the views' names."""
    spark.conf.set(PUSHDOWN_CONF, "true")
    names = ("broker_a", "broker_b")
    for name, path in zip(names, stores, strict=True):
        spark.sql(f"DROP VIEW IF EXISTS {name}")
        spark.sql(f"DROP TABLE IF EXISTS {name}_files")
        spark.sql(
            f"CREATE TABLE {name}_files USING rmqindex OPTIONS (path '{path}', pushdown 'true')"
        )
        spark.sql(f"CREATE VIEW {name} AS SELECT * FROM {name}_files WHERE position >= 1")
    yield names
    for name in names:
        spark.sql(f"DROP VIEW {name}")
        spark.sql(f"DROP TABLE {name}_files")


@pytest.fixture
def scratch(spark):
    """Drop the table ``scratch`` before and after a test, and return its name."""
    spark.sql("DROP TABLE IF EXISTS scratch")
    yield "scratch"
    spark.sql("DROP TABLE IF EXISTS scratch")


class TestLookups:
    """Views of catalog tables with pushdown."""

    @pytest.mark.parametrize("shape", sampled(SHAPES, "union all", "a join"))
    def test_each_view_reads_its_own_store_in_one_statement(self, spark, views, truth, shape):
        """Whichever of the two comes first."""
        a, b = views
        assert counts(spark, SHAPES[shape], a, b) == truth
        first_a, first_b, second_a, second_b = truth
        if shape != "a self-join":
            turned = (first_b, first_a, second_b, second_a)
            assert counts(spark, SHAPES[shape], b, a) == turned

    @pytest.mark.system
    def test_temporary_views_with_options_read_their_own_stores(self, spark, stores, truth):
        """A temporary view over files keeps its options; a second one adds the filter."""
        spark.conf.set(PUSHDOWN_CONF, "true")
        for name, path in zip(("a", "b"), stores, strict=True):
            spark.sql(
                f"CREATE OR REPLACE TEMPORARY VIEW temp_{name}_files USING rmqindex "
                f"OPTIONS (path '{path}', pushdown 'true')"
            )
            spark.sql(
                f"CREATE OR REPLACE TEMPORARY VIEW temp_{name} AS "
                f"SELECT * FROM temp_{name}_files WHERE position >= 1"
            )
        for shape in SHAPES.values():
            assert counts(spark, shape, "temp_a", "temp_b") == truth

    @pytest.mark.system
    def test_threads_with_a_statement_each_are_right(self, spark, views, truth):
        """Each statement resolves the tables for itself."""
        results = []

        def run(shape):
            results.append(counts(spark, SHAPES[shape], *views))

        threads = [threading.Thread(target=run, args=(shape,)) for shape in list(SHAPES)[:4]]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert results == [truth] * 4

    def test_a_dataframe_of_a_view_may_be_reused(self, spark, views, truth):
        """Each of its queries has all rows."""
        reused = spark.table(views[0])
        one, other = reused.where(KEY), reused.where(OTHER)
        with contextlib.redirect_stdout(None):
            one.explain()
            other.explain()
        assert (one.count(), other.count(), one.count()) == (truth[0], truth[2], truth[0])
        assert one.unionAll(other).count() == truth[0] + truth[2]

    def test_last_plan_knows_a_catalog_table(self, spark, views, truth):
        """By the options that its columns carry."""
        found = spark.sql(f"SELECT * FROM {views[1]} WHERE {KEY}")
        assert found.count() == truth[1]
        plan = pyspark_rmqindex.last_plan(found)
        assert (plan.pairs, plan.files_total) == (None, 2)

    def test_a_table_without_the_filter_on_position_has_all_its_rows(self, spark, views, truth):
        """In whatever order it and its view are used, in one statement too, and kept."""
        view, files = views[0], f"{views[0]}_files"
        kept = spark.table(files)
        assert kept.where(KEY).where("position >= 1").count() == truth[0]
        assert kept.count() == 959
        assert kept.where(f"({KEY}) OR ({OTHER})").count() == truth[0] + truth[2]
        one = f"SELECT (SELECT count(*) FROM {view} WHERE {KEY}), (SELECT count(*) FROM {files})"
        assert tuple(spark.sql(one).first()) == (truth[0], 959)

    @pytest.mark.parametrize("keys", ["true", "false"])
    def test_a_temporary_view_or_a_load_with_pushdown_has_all_its_rows(
        self, spark, stores, truth, keys
    ):
        """Also after a lookup, whose plan Spark keeps for scans that push no filter."""
        spark.conf.set(PUSHDOWN_CONF, "true")
        spark.sql(
            f"CREATE OR REPLACE TEMPORARY VIEW all_files USING rmqindex "
            f"OPTIONS (path '{stores[0]}', pushdown 'true', keyColumns '{keys}')"
        )
        where = KEY if keys == "true" else "key_hash = rmq_key_hash('TopicTest', 'order-49')"
        pyspark_rmqindex.register(spark)
        load = spark.read.format("rmqindex").options(pushdown="true", keyColumns=keys)
        for frame in (spark.table("all_files"), load.load(str(stores[0]))):
            assert frame.count() == 959
            assert frame.where(where).where("position >= 1").count() == truth[0]
            assert frame.count() == 959

    def test_pushdown_whose_keys_nobody_knows_is_refused(self, spark, stores, tmp_path):
        """Without a CommitLog, a scan cannot fill the columns; table() can look the key up."""
        spark.conf.set(PUSHDOWN_CONF, "true")

        def load(path, **options):
            return spark.read.format("rmqindex").options(pushdown="true", **options).load(str(path))

        with pytest.raises(AnalysisException, match=r"got commitLog=none: on Spark 4\.1 to 4\.3"):
            load(stores[0], commitLog="none").count()
        shutil.copytree(stores[0] / "index", tmp_path / "index")
        with pytest.raises(PythonException, match="option unverified=keep returns such entries"):
            load(tmp_path).where(KEY).count()
        kept = load(tmp_path, unverified="keep")
        assert (kept.count(), kept.where(KEY).count()) == (959, 0)

    @pytest.mark.spark_pushdown
    def test_pushdown_by_with_is_refused(self, spark, stores, scratch):
        """The path could be that of another WITH on the table."""
        spark.conf.set(PUSHDOWN_CONF, "true")
        spark.sql(f"CREATE TABLE {scratch} (topic STRING, key STRING, position INT) USING rmqindex")
        with pytest.raises(AnalysisException, match="Create one table for each store, without col"):
            spark.sql(
                f"SELECT * FROM {scratch} WITH (path = '{stores[0]}', pushdown = 'true') "
                f"WHERE position >= 1 AND {KEY}"
            ).collect()

    @pytest.mark.spark_pushdown
    def test_pushdown_with_a_list_of_columns_is_refused(self, spark, stores):
        """Which looks like a catalog table that is read by WITH."""
        spark.conf.set(PUSHDOWN_CONF, "true")
        spark.sql(
            "CREATE OR REPLACE TEMPORARY VIEW listed (topic STRING, key STRING, position INT) "
            f"USING rmqindex OPTIONS (path '{stores[0]}', pushdown 'true')"
        )
        with pytest.raises(AnalysisException, match="or a list of columns"):
            spark.sql(f"SELECT * FROM listed WHERE position >= 1 AND {KEY}").collect()


class TestScans:
    """Catalog tables without pushdown, of every format."""

    @pytest.mark.parametrize("source", ["rmqindex", "rmqcommitlog", "rmqconsumequeue"])
    def test_tables_of_two_stores_in_one_statement(self, spark, stores, store, source):
        """Each has the rows that a load of its path has."""
        paths = stores if source == "rmqindex" else (stores[0], store)
        expected = [spark.read.format(source).load(str(path)).count() for path in paths]
        for name, path in zip(("scan_a", "scan_b"), paths, strict=True):
            spark.sql(f"DROP TABLE IF EXISTS {name}")
            spark.sql(f"CREATE TABLE {name} USING {source} LOCATION '{path}'")
        try:
            united = spark.sql("SELECT 'a' AS s, * FROM scan_a UNION ALL SELECT 'b', * FROM scan_b")
            grouped = united.groupBy("s").count().orderBy("s").collect()
            assert [row[1] for row in grouped] == expected
        finally:
            spark.sql("DROP TABLE scan_a")
            spark.sql("DROP TABLE scan_b")
        assert all((path / "commitlog").is_dir() for path in paths)  # no table owns its files

    @pytest.mark.system
    def test_options_at_the_reference_are_refused(self, spark, stores, scratch):
        """In SQL and in Python, a path and anything else."""
        a, b = stores
        spark.sql(f"CREATE TABLE {scratch} USING rmqindex OPTIONS (path '{a}')")
        for given in (f"path = '{b}'", "mode = 'DROPMALFORMED'"):
            name = given.split(" ")[0]
            with pytest.raises(AnalysisException, match=f"option '{name}': not for a catalog tabl"):
                spark.sql(f"SELECT * FROM {scratch} WITH ({given})").collect()
        with pytest.raises(AnalysisException, match="option 'path': not for a catalog table"):
            spark.read.option("path", str(b)).table(scratch).collect()
        columns = spark.table(scratch).schema
        with pytest.raises(AnalysisException, match="option 'path': not for a catalog table"):
            spark.read.format("rmqindex").schema(columns).load(str(b)).collect()

    @pytest.mark.system
    def test_a_table_that_is_made_anew_reads_its_new_path(self, spark, stores, scratch):
        """Also where the old one was cached."""
        for path in (*stores, stores[0]):
            spark.sql(f"DROP TABLE IF EXISTS {scratch}")
            spark.sql(f"CREATE TABLE {scratch} USING rmqindex OPTIONS (path '{path}')")
            spark.sql(f"CACHE TABLE {scratch}")
            assert spark.table(scratch).count() == (
                spark.read.format("rmqindex").load(str(path)).count()
            )

    @pytest.mark.system
    def test_what_the_catalog_would_lose_or_change_is_refused(self, spark, scratch):
        """When the table is created, or at its first use."""
        for options, message in [
            ("", "option 'path': expected a path"),
            ("OPTIONS (path 'store')", "option 'path': expected an absolute path"),
            ('OPTIONS (paths \'["/a", "b"]\')', "expected an absolute path in CREATE TABLE, got b"),
            ("OPTIONS (path '/a', pth 'b')", "option 'pth': unknown; did you mean 'path'"),
            ("OPTIONS (path '/a', `fs.s3a.secret.key` 'k')", "fs.s3a.secret.key': not in CREATE"),
        ]:
            with pytest.raises(AnalysisException, match=message):
                spark.sql(f"CREATE TABLE {scratch} USING rmqindex {options}")
        spark.sql(f"CREATE TABLE {scratch} (position INT) USING rmqindex OPTIONS (path '/a')")
        with pytest.raises(AnalysisException, match="created without a list of columns"):
            spark.sql(f"SELECT * FROM {scratch}").collect()

    @pytest.mark.system
    def test_what_a_table_holds_can_be_written(self, spark, stores, scratch, tmp_path):
        """The options in its columns are no options of the write."""
        spark.sql(f"CREATE TABLE {scratch} USING rmqindex OPTIONS (path '{stores[0]}')")
        table = spark.table(scratch)
        table.write.format("rmqindex").options(maxHashSlotNum=97, maxIndexNum=200).mode(
            "append"
        ).save(str(tmp_path / "index"))
        written = spark.read.format("rmqindex").load(str(tmp_path / "index"))
        assert written.count() == table.count()
        with pytest.raises(AnalysisException, match="option 'path': expected a path, in save"):
            spark.sql(f"INSERT INTO {scratch} SELECT * FROM {scratch}")

    @pytest.mark.system
    @pytest.mark.spark_streams
    def test_a_stream_of_a_table(self, spark, stores, scratch):
        """It reads the table's own store."""
        spark.sql(f"CREATE TABLE {scratch} USING rmqindex OPTIONS (path '{stores[1]}')")
        stream = spark.readStream.table(scratch).writeStream.format("memory")
        run_to_end(stream.queryName("of_table"))
        expected = spark.read.format("rmqindex").load(str(stores[1])).count()
        assert spark.table("of_table").count() == expected


class TestOptions:
    """What CREATE TABLE gives, and what its columns carry."""

    def test_create_table_gives_options_beside_properties(self):
        """Spark puts ``option.`` before their names, and ``file:`` before a local path."""
        raw = {
            "provider": "rmqindex",
            "owner": "me",
            "comment": "none",
            "mode": "FAILFAST",
            "option.mode": "FAILFAST",
            "keys": "a property",
            "location": "file:/data/with space",
            "path": "file:/data/with space",
        }
        assert created_options(raw) == {"mode": "FAILFAST", "path": "/data/with space"}
        for path in ("/data", "file:/data", "file:///data"):
            assert created_options({"provider": "rmqindex", "path": path}) == {"path": "/data"}
        with pytest.raises(ValueError, match="expected a file URI of this machine"):
            created_options({"provider": "rmqindex", "path": "file://host/data"})
        assert created_options({"path": "/data"}) is None

    @pytest.mark.parametrize("path", ["file:/a%20b", "s3://b/x?endpoint_override=http:/h"])
    def test_paths_that_spark_may_have_changed_are_refused(self, path):
        """And what to give instead is named."""
        with pytest.raises(ValueError, match="give the option paths as a JSON list"):
            created_options({"provider": "rmqindex", "path": path})
        kept = {"provider": "rmqindex", "option.paths": f'["{path}"]'}
        assert created_options(kept) == {"paths": f'["{path}"]'}

    def test_columns_carry_options(self):
        """All of them, so that a subset of the columns does as well."""
        options = {"path": "/data/store", "commitlog": "none"}
        schema = with_options(full_schema(keys=True), options)
        assert schema.fieldNames() == full_schema(keys=True).fieldNames()
        assert stored_options(schema) == options
        assert relation_options(schema[2:4], {}) == options
        assert stored_options(full_schema(keys=True)) is None
        assert relation_options(full_schema(keys=True), {"Path": "/x"}) == {"path": "/x"}

    def test_only_keys_of_storage_may_be_added(self):
        """The catalog must not hold them, and they change no row."""
        schema = with_options(full_schema(keys=False), {"path": "s3://bucket/store"})
        secret = {"fs.s3a.secret.key": "text"}
        given = {"path": "s3://bucket/store", "fs.s3a.Secret.Key": "text"}
        assert stored_options(with_options(schema, given)) == {"path": "s3://bucket/store"}
        assert relation_options(schema, secret) == {"path": "s3://bucket/store", **secret}
        with pytest.raises(ValueError, match="option 'path': not for a catalog table"):
            relation_options(schema, {"path": "s3://bucket/other"})

    def test_columns_of_two_tables_are_no_relation(self):
        """Whose options would count is not known."""
        one = with_options(full_schema(keys=False), {"path": "/a"})
        two = with_options(full_schema(keys=False), {"path": "/b"})
        mixed = one[:2].add(two["position"])
        with pytest.raises(ValueError, match="of one catalog table, got those of several"):
            stored_options(mixed)

    def test_a_missing_path_says_how_a_table_keeps_it(self):
        """It may be a catalog table with a list of columns."""
        with pytest.raises(ValueError, match="without a list of columns"):
            check_paths(())


def echoing_source():
    """Return a source whose one row is its path; local, so that workers need no module."""

    class Reader(DataSourceReader):
        def __init__(self, path):
            self.path = path

        def partitions(self):
            return [InputPartition(self.path)]

        def read(self, partition):
            yield (partition.value,)

    class Echoing(DataSource):
        @classmethod
        def name(cls):
            return "rmqindex_echoing"

        def schema(self):
            return "path STRING"

        def reader(self, schema):  # noqa: ARG002
            return Reader(self.options.get("path"))

    return Echoing


@pytest.fixture
def echoes(spark, scratch):
    """Make one table of the echoing source with two views, each with a path of its own."""
    spark.dataSource.register(echoing_source())
    spark.sql(f"CREATE TABLE {scratch} (path STRING) USING rmqindex_echoing")
    for path in ("a", "b"):
        spark.sql(f"CREATE VIEW echo_{path} AS SELECT * FROM {scratch} WITH (path = '{path}')")
    yield scratch
    for path in ("a", "b"):
        spark.sql(f"DROP VIEW echo_{path}")


@pytest.mark.system
@pytest.mark.xfail(strict=True, reason="Spark 4.1 to 4.3 resolve a table once in a statement")
def test_each_with_on_one_table_keeps_its_options(spark, echoes):  # noqa: ARG001
    """The day it does, WITH need not be refused."""
    found = spark.sql("SELECT path FROM echo_a UNION ALL SELECT path FROM echo_b").collect()
    assert sorted(row[0] for row in found) == ["a", "b"]


@pytest.mark.system
@pytest.mark.xfail(strict=True, reason="Spark 4.1 to 4.3 take a cached table for its other options")
def test_a_cached_reference_does_not_stand_for_another(spark, echoes):
    """Nor in another statement."""
    assert spark.read.option("path", "a").table(echoes).cache().first()[0] == "a"
    assert spark.read.option("path", "b").table(echoes).first()[0] == "b"


@pytest.mark.system
def test_one_with_on_a_table_keeps_its_options(spark, echoes):  # noqa: ARG001
    """So that the two tests above fail for the reason they name."""
    assert spark.sql("SELECT path FROM echo_a").first()[0] == "a"
    assert spark.sql("SELECT path FROM echo_b").first()[0] == "b"
