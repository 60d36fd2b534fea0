"""What a session of Spark, or of Sail, is asked beside other engines; Sail in its own process.

Sail's client is an older PySpark than the one that is measured.
"""

from __future__ import annotations

import json
import subprocess
import sys
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from itertools import cycle
from pathlib import Path
from typing import TYPE_CHECKING

from pyspark.sql import functions as sf
from tests.support.sail import sail_environment

from benchmarks._data import TOPIC
from benchmarks._floor import FLOORS, load_floor
from benchmarks._rounds import timed
from pyspark_rmqindex import lookup, register, table

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from pyspark.sql import DataFrame, SparkSession

__all__ = ["EMPTY", "Place", "Questions", "sail", "session_questions"]

#: What an engine is asked, by the work and by where the rows are; each returns how many it found.
Questions = dict[str, "Callable[[], int]"]

EMPTY = "an almost empty Python source"
# The milliseconds of a full file have a sum of more than 64 bits, which Spark refuses.
_SUMS = ("key_hash", "phy_offset", "unix_seconds(store_timestamp)", "position")


@dataclass(frozen=True, slots=True)
class Place:
    """Where the rows are.

    Attributes:
        index: The index directory.
        scanned: Four columns of its entries, in Parquet.
        found: The messages of the entries in Parquet, with their keys.
        keys: The keys of a join in Parquet.
        listed: The keys of an ``IN``; one key is one of them.
    """

    index: str
    scanned: str
    found: str
    keys: str
    listed: list[str]


def session_questions(spark: SparkSession, place: Place) -> tuple[Questions, Questions]:
    """Return what a session is asked of an index, and of Parquet."""
    scanned, found = (spark.read.parquet(path) for path in (place.scanned, place.found))
    keys = spark.read.parquet(place.keys).select("topic", "key")

    def entries() -> DataFrame:
        return table(spark, place.index, commitLog="none")

    def scan(rows: DataFrame) -> int:
        sums = [sf.expr(f"sum({name})") for name in _SUMS]
        return int(rows.agg(sf.count("*"), *sums).collect()[0][0])

    def find(rows: DataFrame, one: str) -> int:
        chosen = rows.where((sf.col("topic") == TOPIC) & (sf.col("key") == one))
        return len(chosen.select("phy_offset").collect())

    def find_many(rows: DataFrame) -> int:
        chosen = rows.where((sf.col("topic") == TOPIC) & sf.col("key").isin(place.listed))
        return len(chosen.select("phy_offset").collect())

    def join(rows: DataFrame) -> int:
        return int(rows.agg(sf.count("*"), sf.sum("phy_offset")).collect()[0][0])

    mine, theirs = cycle(place.listed), cycle(place.listed)
    columns = "key_hash INT, phy_offset BIGINT, store_timestamp TIMESTAMP, position INT"
    load = spark.read.format("rmqindex").schema(columns)
    return {
        "one key": lambda: find(entries(), next(mine)),
        "IN": lambda: find_many(entries()),
        "scan": lambda: scan(load.load(place.index)),
        "join": lambda: join(lookup(keys, place.index, commitLog="none")),
    }, {
        "one key": lambda: find(found, next(theirs)),
        "IN": lambda: find_many(found),
        "scan": lambda: scan(scanned),
        "join": lambda: join(keys.join(found, ["topic", "key"])),
    }


@contextmanager
def sail(place: Place, wheels: Path) -> Iterator[Callable[[str, str], tuple[float, int]]]:
    """Run Sail; yields what asks it by the work and where, and returns seconds and rows."""
    root = Path(__file__).parent.parent
    environment = sail_environment(wheels)
    command = [sys.executable, "-m", "benchmarks._engine_sessions", json.dumps(asdict(place))]
    with subprocess.Popen(
        command,
        cwd=root,
        env=environment,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        asked, answers = process.stdin, process.stdout

        def ask(work: str, where: str) -> tuple[float, int]:
            print(json.dumps([work, where]), file=asked, flush=True)
            seconds, rows = json.loads(answers.readline())
            return seconds, rows

        try:
            yield ask
        finally:
            process.kill()


def main(place: Place) -> None:
    """Answer questions, a line each, as long as there are any."""
    from pysail.spark import SparkConnectServer  # noqa: PLC0415  (only this process has it)
    from pyspark.sql import SparkSession  # noqa: PLC0415

    server = SparkConnectServer()
    server.start(background=True)
    _, port = server.listening_address
    spark = SparkSession.builder.remote(f"sc://127.0.0.1:{port}").getOrCreate()
    register(spark)
    for source in FLOORS:
        spark.dataSource.register(source)
    ours, theirs = session_questions(spark, place)
    like = table(spark, place.index, commitLog="none").select("topic", "key", "phy_offset")
    floor = load_floor(like, 1)
    questions = {
        "ours": ours,
        "Parquet": theirs,
        EMPTY: {"one key": lambda: len(floor.collect())},
    }
    rows: list[int] = []
    for line in sys.stdin:
        work, where = json.loads(line)
        seconds = timed(lambda: rows.append(questions[where][work]()))()  # noqa: B023
        print(json.dumps([seconds, rows.pop()]), flush=True)


if __name__ == "__main__":
    main(Place(**json.loads(sys.argv[1])))
