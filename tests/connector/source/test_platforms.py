"""Platforms that nobody can run here, as far as they are described: each has a stand-in.

``docs/project/tested-versions.md`` says which platform each of them stands for.
"""

from __future__ import annotations

import importlib.util
import pickle
import re
import sys
from types import SimpleNamespace

import pyarrow as pa
import pytest
from pyspark.errors import AnalysisException
from pyspark.sql import datasource, types

from pyspark_rmqindex import DefaultSource, lookup, table
from pyspark_rmqindex.source.messages import MessageSource
from pyspark_rmqindex.source.queues import QueueSource
from pyspark_rmqindex.spark_version import plans_each_scan
from rmqindex import sample_store

STORE = str(sample_store())
TOPIC, KEY = "TopicTest", "order-49"
INSTEAD = "use pyspark_rmqindex.lookup(df, path), or load(path) with the options topic and key"


class Unavailable:
    """Configuration that can be neither read nor set."""

    def get(self, name, default=None):  # noqa: ARG002
        """Fail as such a session does."""
        raise AnalysisException(f"[CONFIG_NOT_AVAILABLE] Configuration {name} is not available.")

    set = get


class Serverless:
    """A session whose configuration is out of reach."""

    conf = Unavailable()

    def __init__(self, spark):
        """Leave everything else to a session."""
        self._spark = spark

    def __getattr__(self, name):
        """Return what the session has."""
        return getattr(self._spark, name)


@pytest.fixture
def keys(spark, monkeypatch):
    """One key, as a DataFrame whose session's configuration is out of reach."""
    frame = spark.createDataFrame([(TOPIC, KEY)], "topic STRING, key STRING")
    monkeypatch.setattr(type(frame), "sparkSession", property(lambda _: Serverless(spark)))
    return frame


@pytest.mark.spark_pushdown
def test_table_is_refused_where_pushdown_cannot_be_turned_on():
    """With what works there, whatever its options are."""
    for options in ({}, {"beginTimestamp": "2023-11-14T00:00:00"}):
        with pytest.raises(ValueError, match=re.escape(INSTEAD)) as refused:
            table(Serverless(SimpleNamespace()), STORE, **options)
        assert str(refused.value).startswith("table(): expected a session in which")
        assert "[CONFIG_NOT_AVAILABLE]" in str(refused.value)


def test_lookup_needs_no_configuration(keys):
    """Unless a time names no zone."""
    assert lookup(keys, STORE).count() == 11
    begin = {"beginTimestamp": "2023-11-15T00:00:00"}
    found = lookup(keys, STORE, **begin, timeZone="UTC").count()
    assert 0 < found == lookup(keys, STORE, beginTimestamp="2023-11-15T00:00:00Z").count() < 11
    with pytest.raises(ValueError, match=r"time zone cannot be read.* give the option 'timeZone'"):
        lookup(keys, STORE, **begin)


def rows_of(reader):
    """Return the rows of a reader whose runtime never calls ``pushFilters``."""
    partitions = reader.partitions()
    packed = pickle.loads(pickle.dumps(reader))
    return sum(batch.num_rows for each in partitions for batch in packed.read(each))


@pytest.mark.spark_pushdown
def test_a_runtime_that_never_calls_pushfilters_is_refused(tmp_path, monkeypatch):
    """A table could only read everything, and its columns topic and key are what is looked up."""
    monkeypatch.setenv("SPARK_LOCAL_DIRS", str(tmp_path))
    made = DefaultSource(
        {"path": STORE, "pushdown": "true", "keyColumns": "true", "relation": "one"}
    )
    reader = made.reader(made.schema())
    if plans_each_scan():
        pytest.skip("that runtime is older")
    with pytest.raises(ValueError, match=re.escape(INSTEAD)) as refused:
        reader.partitions()
    assert "got one that never calls pushFilters, as Databricks Runtime 16.4" in str(refused.value)


def test_options_need_no_pushfilters():
    """They are read with the load."""
    made = DefaultSource({"path": STORE, "topic": TOPIC, "key": KEY})
    reader = made.reader(made.schema())
    assert "pushFilters" not in type(reader).__dict__
    assert rows_of(reader) == 11


@pytest.fixture(scope="module")
def second():
    """Return a second copy of PySpark's types and filters, equal to none of the first."""
    copies = {}
    for module in (types, datasource):
        name = f"_engine_{module.__name__}"
        spec = importlib.util.spec_from_file_location(name, module.__file__)
        copies[module] = importlib.util.module_from_spec(spec)
        # Its dataclasses look for their module while they are made.
        sys.modules[name] = copies[module]
        spec.loader.exec_module(copies[module])
    yield SimpleNamespace(types=copies[types], datasource=copies[datasource])
    for copied in copies.values():
        del sys.modules[copied.__name__]


@pytest.mark.parametrize(
    ("source", "count"), [(DefaultSource, 959), (MessageSource, 430), (QueueSource, 406)]
)
def test_a_reader_takes_the_columns_of_a_second_copy(second, source, count):
    """Whose types are no instances of the first."""
    made = source({"path": STORE})
    columns = second.types.StructType.fromJson(made.schema().jsonValue())
    assert not isinstance(columns, types.StructType)
    assert rows_of(made.reader(columns)) == count
    with pytest.raises(ValueError, match=r"column 'phy_offset': expected BIGINT, got STRING"):
        made.reader(second.types.StructType().add("phy_offset", second.types.StringType()))


def test_a_writer_takes_the_columns_of_a_second_copy(second, tmp_path):
    """And refuses what the first would."""
    made = DefaultSource({"path": str(tmp_path / "store")})
    columns = second.types.StructType().add("key_hash", second.types.StringType())
    with pytest.raises(ValueError, match=r"column 'key_hash': expected INT.*, got STRING"):
        made.writer(columns, overwrite=False)


@pytest.mark.spark_pushdown
def test_filters_of_a_second_copy_are_understood(second, tmp_path, monkeypatch):
    """By their names, so that a table there looks up what it looks up here."""
    monkeypatch.setenv("SPARK_LOCAL_DIRS", str(tmp_path))
    made = DefaultSource(
        {"path": STORE, "pushdown": "true", "keyColumns": "true", "relation": "one"}
    )
    reader = made.reader(made.schema())
    theirs = second.datasource
    filters = [
        theirs.GreaterThanOrEqual(("position",), 1),
        theirs.IsNotNull(("key",)),
        theirs.EqualTo(("topic",), TOPIC),
        theirs.In(("key",), [KEY, "BB"]),
    ]
    assert not isinstance(filters[0], datasource.Filter)
    assert reader.pushFilters(filters) == filters
    assert rows_of(reader) == 26


def test_an_arrow_schema_is_columns_too():
    """As Sail hands it over, in the zone of its session."""
    made = DefaultSource({"path": STORE})
    asked = pa.schema([("store_timestamp", pa.timestamp("us", "Asia/Shanghai"))])
    reader = made.reader(asked)
    (batch, *_) = reader.read(reader.partitions()[0])
    assert batch.schema == asked
    assert pa.schema(made.schema()).field("store_timestamp").type == pa.timestamp("us", "UTC")


@pytest.mark.spark_pushdown
def test_a_table_leaves_no_record_of_its_queries_where_none_is_needed(tmp_path, monkeypatch):
    """As on Sail, which plans each scan by itself; nor does the question for its last plan."""
    monkeypatch.setenv("SPARK_LOCAL_DIRS", str(tmp_path))
    options = {"path": STORE, "pushdown": "true", "keyColumns": "true", "relation": "one"}
    made = DefaultSource(options)
    asked = pa.schema([("position", pa.int32())])
    for key, count in ((KEY, 11), ("BB", 15)):
        reader = made.reader(asked)
        reader.pushFilters(
            [datasource.EqualTo(("topic",), TOPIC), datasource.EqualTo(("key",), key)]
        )
        assert rows_of(reader) == count
    DefaultSource({**options, "lastPlan": "true"}).schema()
    pa.schema(DefaultSource(options).schema())  # a view, or df.columns
    assert not list(tmp_path.rglob("relation-*"))
