"""Files that are replaced between two actions of one kept DataFrame, through Spark itself."""

from __future__ import annotations

import pytest
from pyspark.errors import PySparkException
from test_replaced_files import KEYS, LAYOUT, build, rewrite_in_place

from pyspark_rmqindex import lookup, register, table
from rmqindex import Layout
from rmqindex.bulk import relayout_index
from streams import run_to_end

# Each change is beside each reader without Spark, too: test_replaced_files.py.
pytestmark = pytest.mark.system

GEOMETRY = {"maxHashSlotNum": str(LAYOUT.hash_slot_num), "maxIndexNum": str(LAYOUT.index_num)}


def scan(spark, path):
    """A plain load."""
    return spark.read.format("rmqindex").load(path)


def by_table(spark, path):
    """A WHERE that is pushed down."""
    return table(spark, path).where(f"topic = 'T' AND key IN {tuple(KEYS)}")


def by_lookup(spark, path):
    """Keys that are joined."""
    return lookup(spark.createDataFrame([("T", key) for key in KEYS], ["topic", "key"]), path)


def by_sql(spark, path):
    """The table function."""
    register(spark)
    return spark.sql(
        "SELECT l.* FROM VALUES ('k0'), ('k7') AS t(k), "
        f"LATERAL rmq_lookup('{path}', 'T', t.k) AS l"
    )


def audit(spark, path):
    """The audit."""
    return spark.read.format("rmqindex").option("audit", "true").load(path)


@pytest.mark.parametrize("read", [scan, by_table, by_lookup, by_sql, audit])
@pytest.mark.parametrize(
    "change",
    [
        pytest.param(rewrite_in_place, id="rewritten in place"),
        pytest.param(
            lambda index: relayout_index(index, Layout(11, 65), old_layout=LAYOUT), id="relayout"
        ),
    ],
)
def test_a_kept_dataframe_answers_as_before_or_names_the_file(spark, tmp_path, read, change):
    """Never with other rows, never with fewer; a fresh one reads what is there now."""
    index = build(tmp_path / "index")
    df = read(spark, str(index))
    planned = sorted(map(str, df.collect()))
    assert planned or read is audit
    change(index)
    try:
        assert sorted(map(str, df.collect())) == planned
    except PySparkException as error:
        assert str(index) in str(error)  # noqa: PT017
        assert "fresh DataFrame" in str(error)  # noqa: PT017
    assert (read(spark, str(index)).count() > 0) or read in {audit, by_table, by_lookup, by_sql}


def test_a_stream_that_finds_another_file_after_a_restart_names_it(spark, tmp_path):
    """The checkpoint holds the checksum of what it has handed out."""
    index = build(tmp_path / "index")
    seen = []

    def run():
        run_to_end(
            spark.readStream.format("rmqindex")
            .options(**GEOMETRY)
            .load(str(index))
            .writeStream.foreachBatch(lambda df, _: seen.append(df.count()))
            .option("checkpointLocation", str(tmp_path / "checkpoint"))
        )

    run()
    run()
    assert sum(seen) == 146
    with max(index.iterdir()).open("r+b") as file:
        file.seek(LAYOUT.entry_offset(5) + 4)
        file.write((77).to_bytes(8, "big"))
    with pytest.raises(PySparkException, match="the entries were written anew"):
        run()
    assert sum(seen) == 146
