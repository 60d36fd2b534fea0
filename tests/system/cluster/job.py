"""What runs on the cluster, by ``spark-submit --py-files``: reads, writes and streams.

Its arguments are a store, a shared directory for what it writes, S3 as JSON, and ``all``, ``quick``
or names of steps; each step prints its name and what it found, or fails the job.
Of S3 it is told the ``store``, a ``target`` for what it writes, and the ``options``.
In the directory, a task that is to die writes the directory of its worker into ``<step>.victim``
and waits for ``<step>.dead``.
"""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

from pyspark.sql import SparkSession

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    import pyarrow as pa
    from pyspark.sql import DataFrame

STORE, SHARED, FAR = Path(sys.argv[1]), Path(sys.argv[2]), json.loads(sys.argv[3])
LAYOUT = {"maxHashSlotNum": 97, "maxIndexNum": 200}
GEOMETRY = {**LAYOUT, "timeZone": "UTC"}
WANTED = ["topic", "uniq_key", "keys", "sys_flag", "phy_offset", "store_timestamp"]
PATIENCE = 120.0


def imports(spark: SparkSession) -> str:
    """Both workers run tasks, and have the package from what Spark sent them."""

    def look(_: object) -> tuple[str, str]:
        import rmqindex

        time.sleep(0.5)
        here = Path.cwd()
        return here.parts[-3], str(Path(rmqindex.__file__).absolute().relative_to(here))

    workers: set[str] = set()
    end = time.monotonic() + PATIENCE
    while len(workers) < 2:
        assert time.monotonic() < end, workers
        found = spark.sparkContext.parallelize(range(4), 4).map(look).collect()
        workers |= {worker for worker, _ in found}
    return f"{sorted(workers)}, rmqindex from {found[0][1]}"


def load(spark: SparkSession) -> str:
    """Every entry."""
    return str(spark.read.format("rmqindex").load(str(STORE)).count())


def table(spark: SparkSession) -> str:
    """WHERE, pushed down."""
    from pyspark_rmqindex import table

    rows = table(spark, str(STORE)).where("topic = 'TopicTest' AND key IN ('BB', 'order-49')")
    return str(sorted((row.key, row["count"]) for row in rows.groupBy("key").count().collect()))


def lookup(spark: SparkSession) -> str:
    """A join of keys."""
    from pyspark_rmqindex import lookup

    keys = spark.createDataFrame(
        [("TopicTest", "BB"), ("TopicTest", "order-49"), ("TopicTest", "absent")],
        "topic STRING, key STRING",
    )
    rows = lookup(keys, str(STORE)).groupBy("key").count().collect()
    return str(sorted((row.key, row["count"]) for row in rows))


def sql(spark: SparkSession) -> str:
    """The table function."""
    found = spark.sql(f"SELECT * FROM rmq_lookup('{STORE}', 'TopicTest', 'BB')")
    return str(found.count())


def messages(spark: SparkSession) -> str:
    """The CommitLog."""
    return str(spark.read.format("rmqcommitlog").load(str(STORE)).count())


def queues(spark: SparkSession) -> str:
    """The ConsumeQueues."""
    return str(spark.read.format("rmqconsumequeue").load(str(STORE)).count())


def overwrite(spark: SparkSession) -> str:
    """An index from one, by ``df.write``."""
    target = str(SHARED / "written")
    rows = spark.read.format("rmqindex").load(str(STORE))
    first = rows.where("phy_offset < 60000").coalesce(1).sortWithinPartitions("phy_offset")
    first.write.format("rmqindex").mode("overwrite").options(**GEOMETRY).save(target)
    rest = rows.where("phy_offset >= 60000").coalesce(1).sortWithinPartitions("phy_offset")
    rest.write.format("rmqindex").mode("append").options(**GEOMETRY).save(target)
    assert not surplus(spark, spark.read.format("rmqindex").load(target))
    return f"{first.count()} and {rest.count()}"


def rebuild(spark: SparkSession) -> str:
    """The broker's own files, from its CommitLog."""
    from pyspark_rmqindex import write_index

    target = SHARED / "rebuilt"
    write_index(spark.read.format("rmqcommitlog").load(str(STORE)), str(target), **GEOMETRY)
    return same_bytes(target)


def stream(spark: SparkSession) -> str:
    """A CommitLog followed into an index."""
    target = SHARED / "streamed"
    query = (
        spark.readStream.format("rmqcommitlog")
        .option("maxBytesPerTrigger", 40_000)
        .load(str(STORE))
        .writeStream.format("rmqindex")
        .option("checkpointLocation", str(SHARED / "checkpoint"))
        .options(**GEOMETRY)
        .trigger(availableNow=True)
        .start(str(target))
    )
    query.awaitTermination()
    return f"{len(query.recentProgress)} batches, {same_bytes(target)}"


def killed_read(spark: SparkSession) -> str:
    """A worker dies while a task of it reads."""
    rows = spark.read.format("rmqindex").option("maxPartitionBytes", 2000).load(str(STORE))
    found = rows.mapInArrow(dies_once("killed_read"), rows.schema).collect()
    wanted = spark.read.format("rmqindex").load(str(STORE)).collect()
    assert sorted(found) == sorted(wanted)
    return f"{len(found)} entries, each once"


def killed_write(spark: SparkSession) -> str:
    """A worker dies while a task of it stages a file."""
    target = SHARED / "killed"
    rows = spark.read.format("rmqcommitlog").load(str(STORE))
    rows = rows.select(WANTED).coalesce(1).sortWithinPartitions("phy_offset")
    rows = rows.mapInArrow(dies_once("killed_write"), rows.schema)
    rows.write.format("rmqindex").mode("overwrite").options(**GEOMETRY).save(str(target))
    beside = sorted(path.name for path in SHARED.iterdir() if "killed" in path.name)
    assert not [name for name in beside if name.startswith(".")], beside
    return same_bytes(target)


def killed_build(spark: SparkSession) -> str:
    """A worker dies while ``write_index`` reads its rows."""
    from pyspark_rmqindex import write_index

    target = SHARED / "built"
    rows = spark.read.format("rmqcommitlog").load(str(STORE)).select(WANTED)
    rows = rows.mapInArrow(dies_once("killed_build"), rows.schema)
    write_index(rows, str(target), **GEOMETRY)
    return same_bytes(target)


def s3_read(spark: SparkSession) -> str:
    """Entries, two keys and messages, whose options travel to the workers."""
    from pyspark_rmqindex import table

    options = {**FAR["options"], **LAYOUT}
    entries = spark.read.format("rmqindex").options(**options).load(FAR["store"])
    assert not surplus(spark, entries)
    rows = table(spark, FAR["store"], **options)
    rows = rows.where("topic = 'TopicTest' AND key IN ('BB', 'order-49')")
    messages = spark.read.format("rmqcommitlog").options(**FAR["options"]).load(FAR["store"])
    return f"{entries.count()} entries, {rows.count()} of two keys, {messages.count()} messages"


def s3_write(spark: SparkSession) -> str:
    """An index from one, by ``df.write``: two tasks, then one that appends."""
    target = f"{FAR['target']}/written"
    options = {**FAR["options"], **GEOMETRY}
    rows = spark.read.format("rmqindex").load(str(STORE))
    first = rows.where("phy_offset < 60000").coalesce(1).sortWithinPartitions("phy_offset")
    first.write.format("rmqindex").mode("overwrite").options(**options).save(target)
    rest = rows.where("phy_offset >= 60000").coalesce(1).sortWithinPartitions("phy_offset")
    rest.write.format("rmqindex").mode("append").options(**options).save(target)
    read = spark.read.format("rmqindex").options(**FAR["options"], **LAYOUT)
    assert not surplus(spark, read.load(target))
    return f"{first.count()} and {rest.count()}, {len(objects(target))} objects"


def s3_rebuild(spark: SparkSession) -> str:
    """The broker's own files, from its CommitLog on S3 to an index on S3."""
    from pyspark_rmqindex import write_index

    target = f"{FAR['target']}/rebuilt"
    rows = spark.read.format("rmqcommitlog").options(**FAR["options"]).load(FAR["store"])
    write_index(rows, target, **FAR["options"], **GEOMETRY)
    return same_objects(target)


def s3_killed_write(spark: SparkSession) -> str:
    """A worker dies while a task of it stages an object."""
    target = f"{FAR['target']}/killed"
    rows = spark.read.format("rmqcommitlog").options(**FAR["options"]).load(FAR["store"])
    rows = rows.select(WANTED).coalesce(1).sortWithinPartitions("phy_offset")
    rows = rows.mapInArrow(dies_once("s3_killed_write"), rows.schema)
    write = rows.write.format("rmqindex").mode("overwrite")
    write.options(**FAR["options"], **GEOMETRY).save(target)
    return same_objects(target)


def dies_once(step: str) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """Pass rows on; the first task that comes here has its worker killed in the middle."""
    victim, dead = str(SHARED / f"{step}.victim"), SHARED / f"{step}.dead"
    patience = PATIENCE

    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            half = batch.num_rows // 2
            yield batch.slice(0, half)
            try:
                handle = os.open(victim, os.O_CREAT | os.O_EXCL | os.O_WRONLY)
            except FileExistsError:
                pass
            else:
                os.write(handle, str(Path.cwd()).encode())
                os.close(handle)
                end = time.monotonic() + patience
                while time.monotonic() < end:
                    time.sleep(0.05)
                # The rest must come from the task's second attempt.
                raise RuntimeError(f"this worker was to die; {dead} there: {dead.exists()}")
            yield batch.slice(half)

    return run


def surplus(spark: SparkSession, entries: DataFrame) -> list[object]:
    """Return the entries that only one of the store and an index has."""
    columns = ["key_hash", "phy_offset"]
    mine = entries.select(columns)
    theirs = spark.read.format("rmqindex").load(str(STORE)).select(columns)
    return [*mine.exceptAll(theirs).collect(), *theirs.exceptAll(mine).collect()]


def same_bytes(target: Path) -> str:
    """Say that the files are the broker's, or fail."""
    found = [path.read_bytes() for path in sorted(target.iterdir())]
    wanted = [path.read_bytes() for path in sorted((STORE / "index").iterdir())]
    assert found == wanted, sorted(path.name for path in target.iterdir())
    return f"the broker's bytes, {len(found)} files"


def objects(target: str) -> dict[str, bytes]:
    """Return the objects below a URI, by what follows it."""
    import pyarrow.fs as pafs

    s3 = pafs.S3FileSystem(
        access_key=FAR["options"]["fs.s3a.access.key"],
        secret_key=FAR["options"]["fs.s3a.secret.key"],
        endpoint_override=FAR["options"]["fs.s3a.endpoint"],
        region="us-east-1",
    )
    prefix = target.removeprefix("s3://")
    infos = s3.get_file_info(pafs.FileSelector(prefix, recursive=True))
    found = {}
    for info in infos:
        if info.is_file:
            with s3.open_input_stream(info.path) as stream:
                found[info.path.removeprefix(f"{prefix}/")] = stream.read()
    return found


def same_objects(target: str) -> str:
    """Say that the objects are the broker's files and no others, or fail."""
    found = objects(target)
    wanted = [path.read_bytes() for path in sorted((STORE / "index").iterdir())]
    assert [found[name] for name in sorted(found)] == wanted, sorted(found)
    return f"the broker's bytes, {len(found)} objects"


QUICK = (imports, load, table, rebuild, s3_read, s3_rebuild, killed_read)
STEPS = (
    imports,
    load,
    table,
    lookup,
    sql,
    messages,
    queues,
    overwrite,
    rebuild,
    stream,
    killed_read,
    killed_write,
    killed_build,
    s3_read,
    s3_write,
    s3_rebuild,
    s3_killed_write,
)


def main() -> None:
    """Run the steps that were asked for."""
    asked = sys.argv[4:]
    chosen = QUICK if asked == ["quick"] else STEPS
    if asked not in (["quick"], ["all"]):
        chosen = tuple(step for step in STEPS if step.__name__ in asked)
    spark = SparkSession.builder.getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    from pyspark_rmqindex import register

    register(spark)
    for step in chosen:
        start = time.monotonic()
        found = step(spark)
        print(f"{step.__name__}: {found}  [{time.monotonic() - start:.1f} s]", flush=True)
    print("all done", flush=True)
    spark.stop()


if __name__ == "__main__":
    main()
