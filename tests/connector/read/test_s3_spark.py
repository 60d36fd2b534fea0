"""Reading from S3 with Spark: what reaches the tasks, how much they ask for, what never shows."""

from __future__ import annotations

import json
import re

import pytest

from pyspark_rmqindex import last_plan, lookup, register, table, write_index
from pyspark_rmqindex.options import (
    OPTIONS,
    message_options,
    message_stream_options,
    queue_options,
    read_options,
    stream_options,
)
from recorded import MESSAGE_KINDS
from rmqindex.storage import S3Settings
from s3_server import ACCESS_KEY, BUCKET, SECRETS, by_kind
from streams import run_to_end

GEOMETRY = {"maxHashSlotNum": "97", "maxIndexNum": "200"}


@pytest.fixture
def far(s3):
    """The options by which the sample store is read; nothing is in the environment."""
    s3.recover()
    yield {**s3.options, **GEOMETRY}
    s3.recover()


def rows(df, *columns):
    """Return rows without the columns that name files."""
    kept = columns or [name for name in df.columns if name not in {"file_path", "store"}]
    return sorted(map(tuple, df.select(*kept).collect()), key=str)


class TestReads:
    """Each way to read gives what it gives locally, with options alone."""

    def test_a_scan(self, spark, far, s3_store, store):
        """Every column, and the file as it can be read again."""
        near = spark.read.format("rmqindex").load(str(store))
        df = spark.read.format("rmqindex").options(**far).load(s3_store)
        assert rows(df) == rows(near)
        paths = {row.file_path for row in df.select("file_path").distinct().collect()}
        assert len(paths) == 5
        assert all(re.fullmatch(rf"{s3_store}/index/\d+", path) for path in paths)
        assert spark.read.format("rmqindex").options(**far).load(sorted(paths)).count() == 959

    @pytest.mark.system
    def test_patterns(self, spark, far, s3_store):
        """Names are listed there as well."""
        read = spark.read.format("rmqindex").options(**far)
        assert read.load(f"{s3_store}/index/2026112018260[5-6]*").count() == 959
        assert read.load(s3_store.replace("s3://", "s3a://").replace("sample", "sam*")).count() > 0

    @pytest.mark.system
    def test_lookups_by_options_and_in_where(self, spark, far, s3_store, store):
        """With the CommitLog beside the index, too."""
        for log in ("none", "auto"):
            ask = {"topic": "TopicTest", "keys": '["order-49", "BB"]', "commitLog": log}
            load = spark.read.format("rmqindex").options(**ask)
            near = load.load(str(store))
            assert rows(load.options(**far).load(s3_store)) == rows(near)
            query = "topic = 'TopicTest' AND key IN ('order-49', 'BB')"
            found = table(spark, s3_store, commitLog=log, **far).where(query)
            assert rows(found, *near.drop("file_path").columns) == rows(near)

    @pytest.mark.system
    def test_a_join_and_the_function_of_sql(self, spark, far, s3_store):
        """Which list files where they are called."""
        keys = spark.createDataFrame([("TopicTest", "order-49")], "topic STRING, key STRING")
        assert lookup(keys, s3_store, **far).count() == 11
        register(spark)
        options = ", ".join(f"`{name}` => '{value}'" for name, value in far.items())
        query = f"SELECT * FROM rmq_lookup('{s3_store}', 'TopicTest', 'order-49', {options})"
        assert spark.sql(query).count() == 11

    @pytest.mark.system
    def test_a_catalog_table(self, spark, far, s3_store):
        """As the view in the guide to SQL; only the keys of the storage are left to WITH."""
        spark.conf.set("spark.sql.python.filterPushdown.enabled", "true")
        secret = {name: far[name] for name in far if name.endswith((".key", ".token"))}
        stored = {**far, "path": s3_store, "pushdown": "true"}
        options = ", ".join(
            f"`{name}` '{value}'" for name, value in stored.items() if name not in secret
        )
        spark.sql(f"CREATE TABLE far_lookup USING rmqindex OPTIONS ({options})")
        keys = ", ".join(f"'{name}' = '{value}'" for name, value in secret.items())
        try:
            found = spark.sql(
                f"SELECT * FROM far_lookup WITH ({keys})"
                " WHERE position >= 1 AND topic = 'TopicTest' AND key = 'order-49'"
            )
            assert found.count() == 11
        finally:
            spark.sql("DROP TABLE far_lookup")

    @pytest.mark.system
    def test_messages_queues_and_the_audit(self, spark, far, s3, s3_store, store):
        """The other formats, and findings."""
        only = s3.options
        near = spark.read.format("rmqcommitlog").load(str(store))
        df = spark.read.format("rmqcommitlog").options(**only).load(s3_store)
        assert rows(df, "phy_offset", "topic", "keys", "body") == rows(
            near, "phy_offset", "topic", "keys", "body"
        )
        audit = spark.read.format("rmqindex").options(**far).option("audit", "true")
        local = spark.read.format("rmqindex").options(**GEOMETRY).option("audit", "true")
        found = audit.option("commitLog", "auto").load(s3_store)
        assert rows(found, "rule") == rows(
            local.option("commitLog", "auto").load(str(store)), "rule"
        )
        kept = MESSAGE_KINDS / "store"
        uri = s3.put(kept, "spark-queues")
        queues = spark.read.format("rmqconsumequeue")
        assert rows(queues.options(**only).load(uri)) == rows(queues.load(str(kept)))

    @pytest.mark.system
    @pytest.mark.spark_streams
    def test_streams(self, spark, far, s3, s3_store):
        """Of entries and of messages, to their ends."""
        for name, options, expected in (
            ("rmqindex", far, 959),
            ("rmqcommitlog", s3.options, None),
        ):
            run_to_end(
                spark.readStream.format(name)
                .options(**options)
                .load(s3_store)
                .writeStream.format("memory")
                .queryName(f"far_{name}")
            )
            counted = spark.table(f"far_{name}").count()
            assert counted == (
                expected or spark.read.format(name).options(**options).load(s3_store).count()
            )


@pytest.mark.system
class TestRequests:
    """What Spark's processes ask of the store."""

    def test_a_lookup_reads_no_more_than_its_chains(self, spark, far, s3, s3_store):
        """After each file's header for the plan: again the header, a slot, a few entries.

        A file is asked for its size in the plan, when it is opened and when it has been read.
        """
        read = spark.read.format("rmqindex").options(**far)
        one = read.option("topic", "TopicTest").option("key", "order-49")
        with s3.counted() as requests:
            assert one.load(s3_store).count() == 11
        assert {request.access_key for request in requests} == {ACCESS_KEY}
        reads = [request for request in requests if request.span]
        assert len(reads) <= 5 * (1 + 4)
        listing = [
            request for request in requests if not request.span and "index/2" not in request.key
        ]
        assert len(listing) <= 24
        asked = by_kind(requests)
        assert asked["HEAD"] <= 5 * 3 + 5
        assert asked["LIST"] <= 24

    def test_a_scan_reads_each_entry_once(self, spark, far, s3, s3_store):
        """And each header twice: for the plan and for the task."""
        read = spark.read.format("rmqindex").options(**far)
        with s3.counted() as requests:
            assert read.load(s3_store).count() == 959
        reads = sum(request.sent for request in requests if request.span)
        # Eight places behind the entries of the one file that is not full.
        assert reads == (959 + 8) * 20 + 5 * 2 * 40

    def test_failures_are_survived_and_beyond_that_named(self, spark, far, s3, s3_store):
        """By tasks as by plans."""
        read = spark.read.format("rmqindex").options(**far)
        s3.fail(2, "503", "GET")
        s3.fail(1, "cut", "GET", "index/2")
        assert read.load(s3_store).count() == 959
        s3.recover()
        s3.fail(1000, "503", "GET", "index/2")
        with pytest.raises(Exception, match="expected bytes 0 to 39, got AWS Error") as caught:
            read.option("fs.s3a.attempts.maximum", 2).load(s3_store).count()
        assert f"{s3_store}/index/2" in str(caught.value)
        assert "sent at most 2 times" in str(caught.value)


class TestWrites:
    """With Spark, the same files as locally; all else about writing needs no Spark."""

    @pytest.mark.system
    def test_both_ways_to_write(self, spark, s3, tmp_path):
        """Append, continue and overwrite, in tasks of other processes."""
        s3.recover()
        options = {**GEOMETRY, "timeZone": "UTC"}
        for number, path in enumerate((f"s3://{BUCKET}/spark-write/index", tmp_path / "index")):
            reach = {} if number else s3.options
            messages = spark.range(700).selectExpr(
                "'T' AS topic",
                "concat('key-', id) AS key",
                "id * 100 AS phy_offset",
                "1700000000000 + id * 1000 AS store_timestamp",
            )
            entries = spark.range(700, 900).selectExpr(
                "CAST(id AS INT) AS key_hash",
                "id * 100 AS phy_offset",
                "1700000000000 + id * 1000 AS store_timestamp",
            )
            write_index(messages.repartition(3), path, mode="overwrite", **options, **reach)
            writer = entries.write.format("rmqindex").mode("append")
            writer.options(**options, **reach).save(str(path))
        keys = s3.keys("spark-write/index")
        assert keys == {file.name: 4428 for file in (tmp_path / "index").iterdir()}
        for name in keys:
            data = (tmp_path / "index" / name).read_bytes()
            assert s3.read(f"spark-write/index/{name}") == data


class TestSecrets:
    """Keys show in nothing that is shown."""

    @pytest.mark.system
    def test_plans_columns_and_errors_do_not_show_them(
        self, spark, far, s3, s3_store, capfd, monkeypatch
    ):
        """EXPLAIN, the last plan, rows, logs, and what fails on the way."""
        monkeypatch.setenv("RMQINDEX_LOG_LEVEL", "INFO")
        options = {**far, "logLevel": "INFO"}
        messages = table(spark, s3_store, **options)
        query = messages.where("topic = 'TopicTest' AND key = 'order-49'")
        texts = [str(last_plan(query)), str(query.collect()), str(query.schema)]
        query.explain("extended")
        query.explain("formatted")
        query.explain("cost")
        texts.append(str(query._jdf.queryExecution().toString()))
        attempts = (
            lambda: (
                spark.read.format("rmqindex").options(**far).load(f"s3://{BUCKET}/none").count()
            ),
            lambda: spark.read.format("rmqindex").options(**far).load("s3://nothing/none").count(),
            lambda: spark.read.format("rmqindex").options(**far, wrong="1").load(s3_store).count(),
            lambda: spark.read.format("rmqindex").options(**far).option("mode", "x").load(s3_store),
            lambda: (
                spark.read.format("rmqindex").load(f"s3://{SECRETS[0]}:{SECRETS[1]}@b/x").count()
            ),
            lambda: messages.where("topic = 'a'").count(),
        )
        for attempt in attempts:
            with pytest.raises(Exception, match=r".") as caught:
                attempt()
            texts.append(f"{caught.value} {caught.value!r}")
        s3.fail(1000, "403", "GET", "index/2")
        with pytest.raises(Exception, match="AWS Error") as caught:
            spark.read.format("rmqindex").options(**far).load(s3_store).count()
        texts.append(str(caught.value))
        out, err = capfd.readouterr()
        for text in (*texts, out, err):
            assert not any(secret in text for secret in SECRETS), text

    def test_options_do_not_show_them(self):
        """Neither their text nor the error of a bad one."""
        raw = {
            "path": "s3://b/a",
            "fs.s3a.access.key": SECRETS[0],
            "fs.s3a.secret.key": SECRETS[1],
            "fs.s3a.session.token": SECRETS[2],
        }
        for parse in (
            read_options,
            message_options,
            queue_options,
            stream_options,
            message_stream_options,
        ):
            text = repr(parse(raw))
            assert "s3://b/a" in text
            assert not any(secret in text for secret in SECRETS)
        with pytest.raises(ValueError, match=r"unknown.* did you mean 'fs\.s3a\.secret\.key'") as e:
            read_options({"path": "s3://b/a", "fs.s3a.secret.kee": SECRETS[1]})
        assert SECRETS[1] not in str(e.value)
        for name in ("path", "commitLog"):
            with pytest.raises(ValueError, match="expected a bucket behind") as e:
                read_options({"path": "s3://b/a", name: f"s3://{SECRETS[0]}:{SECRETS[1]}@b/a"})
            assert SECRETS[1] not in str(e.value)
        with pytest.raises(ValueError, match="expected a bucket behind") as e:
            read_options({"paths": json.dumps([f"s3://{SECRETS[0]}:{SECRETS[1]}@b/a"])})
        assert SECRETS[1] not in str(e.value)

    def test_an_empty_key_is_an_error(self):
        """Which cannot show it, as no error of these options does."""
        secret = [option for option in OPTIONS if option.secret]
        assert [option.name for option in secret] == [
            "fs.s3a.access.key",
            "fs.s3a.secret.key",
            "fs.s3a.session.token",
        ]
        with pytest.raises(ValueError, match="expected some text, got another text"):
            read_options({"path": "/a", "fs.s3a.secret.key": ""})


def test_options_become_settings():
    """Hadoop's names, its units, and the defaults."""
    raw = {
        "path": "s3a://b/a",
        "fs.s3a.endpoint": "minio:9000",
        "fs.s3a.endpoint.region": "eu-west-3",
        "fs.s3a.connection.ssl.enabled": "false",
        "fs.s3a.path.style.access": "true",
        "fs.s3a.attempts.maximum": "9",
        "fs.s3a.connection.establish.timeout": "2500",
        "fs.s3a.connection.timeout": "1m",
    }
    assert read_options(raw).storage.s3 == S3Settings(
        endpoint="minio:9000",
        region="eu-west-3",
        ssl=False,
        path_style=True,
        attempts=9,
        connect_timeout=2.5,
        request_timeout=60.0,
    )
    assert read_options({"path": "/a"}).storage.s3 == S3Settings()
    for wrong in ("soon", "0", "0s", "-5", "5h", "2147483648", "40000m", "9" * 5000):
        with pytest.raises(ValueError, match=r"connection\.timeout': expected a time from 1 to 2"):
            read_options({**raw, "fs.s3a.connection.timeout": wrong})
    longest = read_options({**raw, "fs.s3a.connection.timeout": "2147483647"})
    assert longest.storage.s3.request_timeout == 2147483.647
