"""``table()`` on a Spark that plans each scan by itself, as Spark 5.0 does, without a Spark."""

from __future__ import annotations

import json
import pickle
import re
from pathlib import Path

import pyarrow as pa
import pyspark.version
import pytest
from pyspark.sql import datasource
from pyspark.sql.datasource import (
    DataSourceReader,
    EqualTo,
    GreaterThanOrEqual,
    In,
    IsNotNull,
    LessThanOrEqual,
)
from pyspark.sql.types import StructType

from pyspark_rmqcommitlog import DefaultSource as MessageSource
from pyspark_rmqconsumequeue import DefaultSource as QueueSource
from pyspark_rmqindex import DefaultSource
from pyspark_rmqindex.read.filters import MAX_PAIRS
from pyspark_rmqindex.read.plan_leak_reader import SharedPlanReader
from pyspark_rmqindex.read.plan_log import state_directory
from pyspark_rmqindex.read.reader import IndexReader, PushdownReader
from pyspark_rmqindex.spark_version import plans_each_scan
from rmqindex import sample_store

pytestmark = pytest.mark.spark_pushdown

STORE = str(sample_store())
ALWAYS = GreaterThanOrEqual(("position",), 1)
TOPIC = EqualTo(("topic",), "TopicTest")


def key(*names):
    """Return the filters that bind the topic and some keys."""
    return [IsNotNull(("topic",)), TOPIC, In(("key",), list(names)), ALWAYS]


class Planner:
    """What Spark 5.0 does for one relation: readers travel as copies, and no plan is shared.

    With limits on, it asks for the filters once to learn which are left to it, and once more, of
    another reader, to plan.
    """

    def __init__(self, source, options, *, limits):
        """Create the relation, which infers its columns."""
        made = source({"path": STORE, **options})
        self.columns = made.schema()
        self.source = pickle.dumps(made)
        self.limits = limits

    def reader(self, filters):
        """Make a reader in a fresh process, and push the filters, if there are any."""
        made = pickle.loads(self.source).reader(self.columns)
        left = made.pushFilters(filters) if filters else []
        return made, list(left)

    def scan(self, filters):
        """Plan a scan, and return what runs it: its rows."""
        made, left = self.reader(filters)
        if self.limits:
            made, again = self.reader(filters)
            assert again == left, "pushFilters() must be deterministic"
        packed = pickle.dumps(made)
        partitions = [pickle.dumps(each) for each in made.partitions()]

        def run():
            reader = pickle.loads(packed)
            return [
                row
                for each in partitions
                for batch in reader.read(pickle.loads(each))
                for row in batch.to_pylist()
            ]

        return run


@pytest.fixture
def new_spark(monkeypatch, tmp_path):
    """A PySpark that has ``pushLimit``, and its number; states go to an empty directory."""
    monkeypatch.setattr(DataSourceReader, "pushLimit", lambda _, __: False, raising=False)
    monkeypatch.setattr(pyspark.version, "__version__", "5.0.0")
    monkeypatch.setenv("SPARK_LOCAL_DIRS", str(tmp_path))


@pytest.fixture(params=[False, True], ids=["filters alone", "limits on"])
def relation(new_spark, request):  # noqa: ARG001
    """One relation of ``table()``."""
    options = {"pushdown": "true", "keyColumns": "true", "relation": "one", "commitLog": "none"}
    return Planner(DefaultSource, options, limits=request.param)


def offsets(rows, *keys):
    """Return the offsets of some keys, which Spark's own filter keeps."""
    return sorted(row["phy_offset"] for row in rows if row["key"] in keys)


def loaded(*keys):
    """Return the offsets that a load with options finds."""
    options = {"path": STORE, "topic": "TopicTest", "keys": json.dumps(keys)}
    made = DefaultSource(options)
    reader = made.reader(made.schema())
    return sorted(
        row["phy_offset"]
        for each in reader.partitions()
        for batch in reader.read(each)
        for row in batch.to_pylist()
    )


def test_each_scan_reads_its_own_keys_alone(relation):
    """Two scans of one relation, planned before either runs: the second is not the wider."""
    one, other = relation.scan(key("order-49")), relation.scan(key("BB"))
    rows = other()
    assert {row["key"] for row in rows} == {"BB"}
    assert offsets(rows, "BB") == loaded("BB") != []
    rows = one()
    assert {row["key"] for row in rows} == {"order-49"}
    assert offsets(rows, "order-49") == loaded("order-49") != []


def test_nothing_is_recorded(relation):
    """Neither when the relation is made nor when it is planned."""
    relation.scan(key("order-49"))
    assert not [path.name for path in Path(state_directory()).glob("relation-*")]


def test_the_life_of_a_table_has_no_bound_of_pairs(relation):
    """Each query has one of its own."""
    for half in range(2):
        many = [f"absent-{half}-{number}" for number in range(MAX_PAIRS - 1)]
        rows = relation.scan(key(*many, "BB"))()
        assert offsets(rows, "BB") == loaded("BB")
    with pytest.raises(ValueError, match=f"{MAX_PAIRS + 1} pairs .* in one query"):
        relation.scan(key(*map(str, range(MAX_PAIRS + 1))))


@pytest.mark.parametrize("filters", [[], [ALWAYS], [TOPIC, ALWAYS]], ids=["none", "ever", "topic"])
def test_a_scan_without_bound_keys_is_refused(relation, filters):
    """As on every Spark, with what to write."""
    with pytest.raises(ValueError, match=r"key not bound: a query on table\(\) must bind both"):
        relation.scan(filters)


def test_a_reader_that_is_asked_twice_answers_the_same(new_spark):  # noqa: ARG001
    """The second answer replaces the first, and adds nothing to it."""
    source = DefaultSource({"path": STORE, "pushdown": "true", "relation": "one"})
    reader = source.reader(source.schema())
    assert isinstance(reader, PushdownReader)
    assert list(reader.pushFilters(key("a"))) == key("a")
    assert list(reader.pushFilters(key("order-49"))) == key("order-49")
    (once,) = reader.partitions()
    assert once.query.pairs == (("TopicTest", "order-49"),)


def test_a_table_without_keys_scans_whatever_is_asked_of_it(new_spark):  # noqa: ARG001
    """It needs no filter that is always true."""
    options = {"pushdown": "true", "keyColumns": "false", "relation": "one", "commitLog": "none"}
    relation = Planner(DefaultSource, options, limits=False)
    everything = relation.scan([])()
    few = relation.scan([LessThanOrEqual(("position",), 3)])()
    assert len(everything) > len(few) > 0
    assert {row["position"] for row in few} == {1, 2, 3}
    assert relation.scan([])() == everything


@pytest.mark.parametrize("number", ["4.3.0", "5.0.0"])
@pytest.mark.parametrize("has_limit", [False, True])
def test_only_a_spark_with_both_marks_plans_each_scan(monkeypatch, tmp_path, number, has_limit):
    """The number alone may be a vendor's, and the method a draft's, which leaked."""
    monkeypatch.setenv("SPARK_LOCAL_DIRS", str(tmp_path))
    monkeypatch.setattr(pyspark.version, "__version__", number)
    monkeypatch.delattr(DataSourceReader, "pushLimit", raising=False)
    if has_limit:
        monkeypatch.setattr(DataSourceReader, "pushLimit", lambda _, __: False, raising=False)
    own = has_limit and number == "5.0.0"
    assert plans_each_scan() == own
    source = DefaultSource({"path": STORE, "pushdown": "true", "relation": "one"})
    assert type(source.reader(source.schema())) is (PushdownReader if own else SharedPlanReader)


@pytest.mark.parametrize("source", [DefaultSource, MessageSource, QueueSource])
@pytest.mark.parametrize("pushdown", ["false", "true"])
def test_no_reader_takes_a_limit(new_spark, source, pushdown):  # noqa: ARG001
    """Spark 5.0 refuses every read of a reader that does, unless the conf of limits is on."""
    options = {"pushdown": pushdown, "relation": "one"} if source is DefaultSource else {}
    made = source({"path": STORE, **options})
    assert type(made.reader(made.schema())).pushLimit is datasource.DataSourceReader.pushLimit


@pytest.mark.parametrize("source", [DefaultSource, MessageSource, QueueSource])
@pytest.mark.parametrize("as_arrow", [False, True], ids=["Spark", "Arrow"])
def test_a_reader_reads_the_columns_that_an_engine_asks_for(source, as_arrow):
    """In their order, with the rows of a whole read."""
    made = source({"path": STORE})
    columns = made.schema()
    names = [columns.names[3], columns.names[1]]

    def rows(names):
        reader = made.reader(columns)
        if names:
            asked = StructType([columns[name] for name in names])
            if as_arrow:
                asked = pa.schema([pa.field(name, pa.null()) for name in names])
            assert reader.pruneColumns(asked).names == names
        partitions = reader.partitions()
        packed = pickle.loads(pickle.dumps(reader))
        return pa.Table.from_batches([batch for each in partitions for batch in packed.read(each)])

    assert rows(names).column_names == names
    assert rows(names) == rows([]).select(names)


@pytest.mark.parametrize("source", [DefaultSource, MessageSource, QueueSource])
def test_a_count_of_no_columns_is_declined(source):
    """Sail then reads the columns that the reader had, whose batches carry the rows' number."""
    made = source({"path": STORE})
    reader = made.reader(made.schema())
    with pytest.raises(NotImplementedError):
        reader.pruneColumns(pa.schema([]))
    counts = [batch for each in reader.partitions() for batch in reader.read(each)]
    assert {tuple(batch.schema.names) for batch in counts} == {tuple(made.schema().names)}


def test_an_unknown_column_is_refused():
    """With the names of those that are there."""
    made = DefaultSource({"path": STORE})
    reader = made.reader(made.schema())
    assert isinstance(reader, IndexReader)
    sentence = "pruneColumns: expected columns among key_hash, phy_offset,"
    with pytest.raises(ValueError, match=f"^{re.escape(sentence)}.* got 'offset'$"):
        reader.pruneColumns(pa.schema([pa.field("offset", pa.int64())]))
