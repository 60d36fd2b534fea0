"""On PySpark 4.0, which lacks filters and parts of streams, everything else works."""

from __future__ import annotations

import re
import subprocess
import sys
from unittest import mock

import pyspark
import pytest
from pyspark.sql import datasource
from pyspark.sql.types import IntegerType, StructType

import pyspark_rmqindex
from pyspark_rmqindex import DefaultSource
from rmqindex import CommitLog, sample_store
from spark_versions import lacking

# What PySpark 4.0 lacks of the modules that this package imports; then all that can be imported.
IMPORTS = """
import pkgutil, sys
from importlib import import_module
from pyspark.sql import datasource, functions
from pyspark.sql.pandas import functions as pandas_functions
for name in dir(datasource):
    kind = getattr(datasource, name)
    if name == "DataSourceStreamArrowWriter" or (
        isinstance(kind, type) and kind is not datasource.Filter
        and issubclass(kind, getattr(datasource, "Filter"))
    ):
        delattr(datasource, name)
del datasource.Filter
del pandas_functions.arrow_udf
sys.modules["pyspark.sql.streaming.datasource"] = None
import pyspark_rmqindex
for found in pkgutil.walk_packages(pyspark_rmqindex.__path__, "pyspark_rmqindex."):
    try:
        import_module(found.name)
    except ImportError:
        print(found.name)
"""
INSTEAD = "use pyspark_rmqindex.lookup(df, path), or load(path) with the options topic and key"


@pytest.fixture
def no_filters(monkeypatch):
    """A PySpark that hands no filters to data sources."""
    monkeypatch.delattr(datasource, "EqualTo", raising=False)


def test_only_the_modules_of_streams_need_a_later_one():
    """Whatever else is imported, by Spark's own search for data sources too, can be."""
    if not hasattr(datasource, "EqualTo"):
        pytest.skip("this is such a PySpark")
    done = subprocess.run(
        [sys.executable, "-c", IMPORTS], capture_output=True, text=True, check=True
    )
    assert done.stdout.split() == [
        "pyspark_rmqindex.stream.entries",
        "pyspark_rmqindex.stream.messages",
        "pyspark_rmqindex.stream.writer",
    ]


@pytest.mark.usefixtures("no_filters")
def test_a_table_is_refused_with_what_to_use():
    """Before anything is asked of the session."""
    with pytest.raises(ValueError, match=re.escape(INSTEAD)) as refused:
        pyspark_rmqindex.table(mock.Mock(), "/store")
    sentence = f"table(): expected PySpark 4.1 or later, got {pyspark.__version__}; {INSTEAD}"
    assert str(refused.value) == f"{sentence}, or keys"


@pytest.mark.parametrize(
    "asked",
    [DefaultSource.schema, lambda made: made.reader(StructType().add("position", IntegerType()))],
    ids=["schema", "reader"],
)
@pytest.mark.usefixtures("no_filters")
def test_the_option_pushdown_is_refused_with_what_to_use(store, asked):
    """Whether Spark asks for the columns or the user gave them."""
    made = DefaultSource({"path": str(store), "pushdown": "true"})
    with pytest.raises(ValueError, match=re.escape(INSTEAD)) as refused:
        asked(made)
    assert str(refused.value).startswith("option 'pushdown': expected PySpark 4.1 or later, got")


def test_writing_a_stream_is_refused_with_what_to_use(monkeypatch):
    """Each batch can be written as a DataFrame."""
    monkeypatch.delattr(datasource, "DataSourceStreamArrowWriter", raising=False)
    with pytest.raises(ValueError, match=r"^writeStream: expected PySpark 4\.1 .* foreachBatch"):
        DefaultSource({}).streamWriter(StructType(), overwrite=False)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("E ValueError: table(): expected PySpark 4.1 or later, got 4.0.2; use ..",) * 2,
        ("E ImportError: cannot import name 'EqualTo' from 'pyspark.sql.datasource' (/x)",) * 2,
        ("E AssertionError: assert 1 == 2", None),
        ("E ImportError: cannot import name 'table' from 'pyspark_rmqindex'", None),
    ],
)
def test_only_what_is_lacking_is_skipped(text, reason):
    """Another failure of a test remains one."""
    found = lacking(text)
    assert found is None if reason is None else found is not None and found in text


@pytest.mark.system
def test_every_way_without_pushdown_works(spark, tmp_path):
    """A load with options, ``lookup()``, messages, queues, an audit and a write, on any PySpark."""
    store = str(sample_store())
    topic, key = "TopicTest", "order-49"
    load = spark.read.format("rmqindex")
    entries = load.option("topic", topic).option("key", key).load(store).count()
    keys = spark.createDataFrame([(topic, key)], "topic string, key string")
    assert pyspark_rmqindex.lookup(keys, store).count() == entries > 0
    with CommitLog(store) as log:
        messages = sum(batch.num_rows for batch in log.scan(columns=["phy_offset"]))
    assert spark.read.format("rmqcommitlog").load(store).count() == messages > 0
    assert spark.read.format("rmqconsumequeue").load(store).count() > 0
    assert spark.read.format("rmqindex").option("audit", "true").load(store).count() > 0
    everything = spark.read.format("rmqindex").load(store)
    written = str(tmp_path / "index")
    options = {"maxHashSlotNum": "499", "maxIndexNum": "600"}
    everything.write.format("rmqindex").mode("append").options(**options).save(written)
    again = spark.read.format("rmqindex").load(written)
    assert again.count() == everything.count()
    pyspark_rmqindex.register(spark)
    hashes = spark.sql("SELECT rmq_key_hash('t', 'k') = rmq_key_hashes('t', 'k')").collect()
    assert hashes[0][0] is True
