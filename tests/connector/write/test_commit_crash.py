"""A commit whose process dies at any step: the old state or the new one, and a retry that works."""

from __future__ import annotations

import itertools
import subprocess
import sys
import time

import pyarrow as pa
import pytest
from pyspark.sql.types import IntegerType, LongType, StructType
from tests.system.faults.families import family_of, kill

from killing import assert_one_turn, kill_before, lives, script_environment
from pyspark_rmqindex.write.job import IndexWriter
from rmqindex import IndexFile, Layout, RmqIndexError
from rmqindex.store import Store
from rmqindex.transaction import effective_listing, exists

pytestmark = pytest.mark.system

SCHEMA = (
    StructType()
    .add("key_hash", IntegerType())
    .add("phy_offset", LongType())
    .add("store_timestamp", LongType())
)
LAYOUT = Layout(7, 11)
GEOMETRY = {"maxHashSlotNum": "7", "maxIndexNum": "11"}
OLD = list(range(15))
ADDED = list(range(15, 40))


def write(directory, offsets, *, overwrite=False):
    """Run a job of one task."""
    options = {"path": str(directory), "onIndexed": "skip", **GEOMETRY}
    writer = IndexWriter(SCHEMA, overwrite, options)
    columns = [
        pa.array(offsets, pa.int32()),
        pa.array(offsets, pa.int64()),
        pa.array([1_700_000_000_000] * len(offsets), pa.int64()),
    ]
    message = writer.write(iter([pa.record_batch(columns, names=SCHEMA.names)]))
    writer.commit([message])


def seen(directory):
    """Return the offsets that a reader finds; every file must be whole."""
    offsets = []
    for _, path in sorted(effective_listing(directory).items()):
        with IndexFile(path, LAYOUT) as file:
            rows = [row for batch in file.scan() for row in batch.to_pylist()]
            found = file.lookup([row["key_hash"] for row in rows])
        assert found["phy_offset"].to_pylist() == [row["phy_offset"] for row in rows]
        offsets += [row["phy_offset"] for row in rows]
    return offsets


def write_and_die(directory, overwrite, fatal):
    """Run the second job in this process, which is killed before its n-th step."""
    kill_before(fatal)
    write(directory, ADDED, overwrite=overwrite)


def test_a_first_job_killed_at_any_step_leaves_no_index_or_a_whole_one(tmp_path):
    """The directory that a dead commit made is not there: to readers, and to the next write."""
    outcomes = []
    for fatal in itertools.count(1):
        directory = tmp_path / str(fatal) / "index"
        finished = lives(write_and_die, directory, False, fatal)
        is_there = exists(directory)
        if is_there:
            assert seen(directory) == ADDED, f"killed before step {fatal}"
        else:
            with pytest.raises(RmqIndexError, match=f"{directory}: no such file or directory"):
                Store.open(directory)
        outcomes.append(is_there)
        write(directory, ADDED)
        assert seen(directory) == ADDED
        assert [path.name for path in directory.parent.iterdir()] == ["index"]
        if finished:
            break
    assert_one_turn(outcomes, more_than=20)


@pytest.mark.parametrize("overwrite", [False, True])
def test_a_job_killed_at_any_step_leaves_the_old_rows_or_the_new_ones(tmp_path, overwrite):
    """Kill a job at every step: readers, its retry and the clean-up all find order."""
    new = ADDED if overwrite else OLD + ADDED
    outcomes = []
    for fatal in itertools.count(1):
        directory = tmp_path / str(fatal) / "index"
        write(directory, OLD)
        finished = lives(write_and_die, directory, overwrite, fatal)
        state = seen(directory)
        assert state in (OLD, new), f"killed before step {fatal}"
        outcomes.append(state == new)
        write(directory, ADDED, overwrite=overwrite)
        assert seen(directory) == new
        assert [path.name for path in directory.parent.iterdir()] == ["index"]
        if finished:
            break
    assert_one_turn(outcomes, more_than=30)


APPLICATION = """
import sys
from pathlib import Path
import pyarrow as pa
from pyspark.sql import SparkSession
from pyspark.sql.datasource import DataSource

import pyspark_rmqindex
from pyspark_rmqindex import DefaultSource
from pyspark_rmqindex.write import IndexWriter

class SlowWriter(IndexWriter):
    def commit(self, messages):
        import time
        from pathlib import Path
        from killing import before_each_change
        def stop(call, path):
            if path.name == "journal.json":
                Path(sys_argv[2]).write_text("half way")
                time.sleep(120)
        with before_each_change(stop):
            super().commit(messages)

sys_argv = sys.argv

class SlowSource(DefaultSource):
    @classmethod
    def name(cls):
        return "slow"
    def writer(self, schema, overwrite):
        return SlowWriter(schema, overwrite, self.options)

spark = (
    SparkSession.builder.master("local[2]")
    .config("spark.ui.enabled", "false")
    .config("spark.driver.bindAddress", "127.0.0.1")
    .config("spark.driver.host", "127.0.0.1")
    .getOrCreate()
)
spark.dataSource.register(SlowSource)
df = spark.range(15, 40).selectExpr(
    "CAST(id AS INT) AS key_hash", "id AS phy_offset", "1700000000000 AS store_timestamp"
)
df.write.format("slow").options(maxHashSlotNum=7, maxIndexNum=11).mode("append").save(sys.argv[1])
"""


@pytest.mark.parametrize("whole", [True, False], ids=["everything", "only the JVM"])
def test_a_driver_killed_in_the_middle_of_a_commit_is_undone(tmp_path, whole):
    """Kill a Spark application that has replaced files and not yet committed."""
    directory, half_way = tmp_path / "store" / "index", tmp_path / "half-way"
    write(directory, OLD)
    with subprocess.Popen(
        [sys.executable, "-c", APPLICATION, directory, half_way],
        env=script_environment(),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    ) as application:
        deadline = time.monotonic() + 200
        while not half_way.exists() and time.monotonic() < deadline:
            assert application.poll() is None
            time.sleep(0.1)
        family = family_of(application.pid)
        for process, command in family:
            if whole or command == "java":
                kill(process)
        # All is in place but the commit point: readers still see the old rows.
        assert len(list(directory.iterdir())) == 4
        assert seen(directory) == OLD
        application.kill()
    if whole:  # what runs still may come back, so its staging is left alone
        while not all(process.is_gone for process, _ in family):
            time.sleep(0.01)
    # Where only the JVM was killed, this waits until the commit has died of that.
    write(directory, ADDED)
    assert seen(directory) == OLD + ADDED
    assert [path.name for path in directory.parent.iterdir()] == ["index"]
    for process, _ in family:
        kill(process)
