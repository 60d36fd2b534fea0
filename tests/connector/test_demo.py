"""The main job shows what it does."""

import pytest

from pyspark_rmqindex.demo import run_steps


@pytest.mark.system
def test_each_step_prints_what_it_gave(spark, tmp_path, capsys):
    """A scan, a lookup, a write and a read back, each with its rows."""
    try:
        run_steps(spark, tmp_path)
    finally:
        spark.catalog.dropTempView("entries")
        spark.catalog.dropTempView("messages")
    out = capsys.readouterr().out
    assert "|20261120182605197|199    |81          |2023-11-14 22:13:24.511|" in out
    assert "|TopicTest|order-49|112033    |2023-11-15 04:32:59.031|" in out
    assert "looking up 1 pair [('TopicTest', 'order-49')] in 5 of 5 files" in out
    assert "20231114221320000  14036 bytes, 599 entries" in out
    assert "3000 entries in all (each message has three keys), 143 of customer-3" in out
