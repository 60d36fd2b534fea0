"""The table of refusals in the documentation: what is written, what is told, and that it works."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from pyspark.errors import AnalysisException

import pyspark_rmqindex
from kinds import sampled
from pyspark_rmqindex.options import OPTIONS, scopes_of
from pyspark_rmqindex.read.refusals import Calls

PAGE = Path(__file__).resolve().parents[3] / "docs" / "project" / "refusals.md"
PATH = "/data/store"
ROWS = [
    tuple(cells)
    for line in PAGE.read_text(encoding="utf-8").splitlines()
    if (len(cells := re.findall(r"`([^`]*)`", line)) == 3 and line.startswith("| `SELECT "))
    or (len(cells := re.findall(r"`([^`]*)`", line)) == 3 and line.startswith("| `WITH "))
]
ORDERS = [("TopicTest", "order-49"), ("TopicTest", "k"), ("TopicOrder", "absent")]


@pytest.fixture
def names(spark, store):
    """The names that the page uses, as a reader has them."""
    pyspark_rmqindex.register(spark)
    pyspark_rmqindex.table(spark, store).createOrReplaceTempView("messages")
    known = spark.read.format("rmqindex").option("commitLog", "auto").load(str(store))
    known.createOrReplaceTempView("known")
    spark.read.format("rmqindex").load(str(store)).createOrReplaceTempView("pyspark_entries")
    orders = spark.createDataFrame(ORDERS, "topic STRING, key STRING")
    orders.createOrReplaceTempView("orders")
    return {
        "spark": spark,
        "pyspark_rmqindex": pyspark_rmqindex,
        "orders": orders,
        "store": str(store),
    }


def rows_of(frame):
    """Return rows in one order."""
    return sorted(map(tuple, frame.collect()), key=repr)


def answer(text, names):
    """Run a statement of SQL, or an expression of Python."""
    if text.startswith(("SELECT", "WITH")):
        return names["spark"].sql(text.replace(PATH, names["store"]))
    return eval(text, names)


def told_lines(error):
    """Return the lines to write that an error has, with those that belong together."""
    return [line.strip() for line in str(error).splitlines()]


# A value of each option that a table() takes.
GIVEN = {
    "beginTimestamp": "2023-11-14 23:00:00",
    "bodyText": "true",
    "checkCrc": "true",
    "columns": "topic,key,position,phy_offset",
    "commitLog": "none",
    "decompressBody": "true",
    "endTimestamp": "2023-11-15 03:00:00",
    "fs.s3a.attempts.maximum": "3",
    "fs.s3a.connection.establish.timeout": "3s",
    "fs.s3a.connection.ssl.enabled": "false",
    "fs.s3a.connection.timeout": "20s",
    "fs.s3a.endpoint": "localhost:1",
    "fs.s3a.endpoint.region": "eu-west-1",
    "fs.s3a.path.style.access": "true",
    "ignoreMissingFiles": "true",
    "logLevel": "WARNING",
    "maxBodySize": "1m",
    "maxHashSlotNum": "97",
    "maxIndexNum": "200",
    "maxPartitionBytes": "1k",
    "message": "true",
    "mode": "DROPMALFORMED",
    "pathGlobFilter": "20*",
    "recursiveFileLookup": "true",
    "storeColumn": "true",
    "timeZone": "Asia/Shanghai",
    "unverified": "drop",
}
TOGETHER = {
    "maxHashSlotNum": ("maxIndexNum",),
    "maxIndexNum": ("maxHashSlotNum",),
    "recursiveFileLookup": ("ignoreMissingFiles",),
    "timeZone": ("beginTimestamp", "endTimestamp"),
}
BOUND = "topic = 'TopicTest' AND key IN ('order-49', 'ORDER:68')"
KEYS = [("TopicTest", "order-49"), ("TopicTest", "ORDER:68")]


def given_with(option):
    """Return options of a table() with this one."""
    given = {name: GIVEN[name] for name in (option, *TOGETHER.get(option, ()))}
    return given if "timeZone" in given else {**given, "timeZone": "UTC"}


def lines_of(store, given):
    """Return the lines of the refusal of a table() with some options."""
    told = Calls(str(store), {"pushdown": "true", **given}).for_unbound(["key"], "nothing")
    return [line.strip() for line in told.splitlines() if line.startswith("    ")]


def test_every_option_of_a_table_has_a_value_here():
    """So that none is left out below."""
    known = {
        option.name
        for option in OPTIONS
        if "table" in scopes_of(option) and not option.secret and not option.internal
    }
    assert set(GIVEN) == known - {"path", "pushdown"}


@pytest.mark.parametrize(
    "option",
    # Of each kind of value: a number with another, a word, a pattern, and one that needs another.
    sampled(sorted(GIVEN), "maxIndexNum", "mode", "pathGlobFilter", "recursiveFileLookup"),
)
def test_every_line_is_accepted_with_every_option_of_the_table(spark, store, option):
    """It is typed as it is, and Spark resolves its columns."""
    pyspark_rmqindex.register(spark)
    given = given_with(option)
    pyspark_rmqindex.table(spark, store, **given).createOrReplaceTempView("messages")
    lines = lines_of(store, given)
    names = {"spark": spark, "pyspark_rmqindex": pyspark_rmqindex}
    for line in lines:
        if line.startswith("keys = "):
            exec(line, names)
        elif line.startswith(("WHERE", "FROM")):
            prefix = "SELECT * FROM messages " if line.startswith("WHERE") else "SELECT * "
            assert spark.sql(prefix + line).columns
        else:
            assert eval(line, names).columns
    assert len(lines) == 8


@pytest.mark.parametrize("option", ["beginTimestamp", "endTimestamp", "timeZone", "unverified"])
def test_the_lines_mean_the_rows_of_a_table_with_times(spark, store, option):
    """Lookups of the same keys, and scans that are cut to them, give the same rows."""
    pyspark_rmqindex.register(spark)
    given = given_with(option)
    expected = rows_of(
        pyspark_rmqindex.table(spark, store, **given).where(BOUND).select("file_path", "position")
    )
    lines = lines_of(store, given)
    names = {
        "spark": spark,
        "pyspark_rmqindex": pyspark_rmqindex,
        "keys": spark.createDataFrame(KEYS, "topic STRING, key STRING"),
    }
    lookup = next(line for line in lines if line.startswith("pyspark_rmqindex.lookup("))
    lateral = next(line for line in lines if "LATERAL" in line)
    lateral = lateral.replace("'A', 'x'", "'TopicTest', 'order-49'")
    lateral = lateral.replace("'B', 'y'", "'TopicTest', 'ORDER:68'")
    loads = {line.partition(".where")[0] for line in lines if line.startswith("spark.read")}
    answers = [
        eval(lookup, names),
        spark.sql(f"SELECT m.file_path, m.position {lateral}"),
        *(eval(load, names).where(BOUND) for load in loads),
    ]
    for answer_ in answers:
        assert rows_of(answer_.select("file_path", "position")) == expected


def run_line(line, lines, names):
    """Run a line of an error as it is, pasted where its kind belongs."""
    if line.startswith("WHERE"):
        return names["spark"].sql(f"SELECT * FROM messages {line}").collect()
    if line.startswith("FROM"):
        return names["spark"].sql(f"SELECT * {line}").collect()
    if "keys," in line:
        exec(next(each for each in lines if each.startswith("keys = ")), names)
    return eval(line, names).collect() if "keys=False" not in line else eval(line, names).count()


def test_the_page_has_rows():
    """So that the tests below are not of nothing."""
    assert len(ROWS) == 18


@pytest.mark.parametrize("row", sampled(ROWS, *ROWS[:1]), ids=[row[0][:60] for row in ROWS])
def test_a_refusal_has_the_line_that_works(spark, names, row):
    """It is in the error, it runs as it is, and the query in its form gives the right rows."""
    written, told, instead = row
    line = told.replace(PATH, names["store"])
    with pytest.raises(AnalysisException, match="not bound") as caught:
        spark.sql(written).collect()
    lines = told_lines(caught.value)
    assert line in lines or f"such as {line}." in str(caught.value)
    run_line(line, lines, names)
    expected = spark.sql(re.sub(r"\bmessages\b", "known", written))
    assert rows_of(answer(instead, names)) == rows_of(expected)


def test_too_many_keys_have_a_line_that_works(spark, store, names):
    """In one query, and over the life of one table."""
    many = ", ".join(f"'{number}'" for number in range(4097))
    with pytest.raises(AnalysisException, match="at most 4096 in one query") as caught:
        spark.sql(f"SELECT * FROM messages WHERE topic = 'T' AND key IN ({many})").collect()
    lines = told_lines(caught.value)
    run_line(f"pyspark_rmqindex.lookup(keys, '{store}')", lines, names)
    assert f"pyspark_rmqindex.lookup(keys, '{store}')" in lines


@pytest.mark.system
def test_the_lines_repeat_the_options_of_the_table(spark, store, names):
    """But none that holds a secret, and none of this package's own."""
    given = {"commitLog": "none", "maxHashSlotNum": 97, "maxIndexNum": 200}
    secret = {"fs.s3a.secret.key": "hidden", "fs.s3a.access.key": "hidden"}
    with pytest.raises(AnalysisException, match="not bound") as caught:
        pyspark_rmqindex.table(spark, store, **given, **secret).collect()
    lines = told_lines(caught.value)
    lookup = next(line for line in lines if line.startswith("pyspark_rmqindex.lookup"))
    for name, value in given.items():
        assert f"{name}={str(value)!r}" in lookup
    assert "hidden" not in str(caught.value)
    assert "relation" not in lookup
    run_line(lookup, lines, names)
    lateral = next(line for line in lines if line.startswith("FROM VALUES"))
    run_line(lateral, lines, names)
