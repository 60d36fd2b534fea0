"""Readers of every kind, each of which gives the rows that it finds, or refuses by name."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException

from pyspark_rmqconsumequeue import DefaultSource as QueueSource
from pyspark_rmqindex import DefaultSource
from rmqindex import ConsumeQueue, IndexDirectory, IndexFile, RmqIndexError
from rmqindex.store import index_files

from .states import LAYOUTS

# Longer than a reader may take on a machine that has other work.
_LONGEST = 180
# The positions tell an index from another with the same entries in other files.
_COLUMNS = ["phy_offset", "key_hash", "position"]


class RefusedError(Exception):
    """A reader's refusal, in its own words."""


class HangError(Exception):
    """A reader that does not come to an end."""


def index_file(path):
    """Read with ``IndexFile``: all entries, each of which its slot must lead to."""
    rows = []
    for entry in index_files(path):
        with IndexFile(entry.path, LAYOUTS.get(entry.size)) as file:
            found = _rows(file.scan(columns=_COLUMNS))
            hashes = sorted({key_hash for _, key_hash, _ in found})
            assert file.lookup(hashes).num_rows == len(found), f"{entry.path}: broken chains"
            rows += found
    return rows


def index_directory(path):
    """Read with ``IndexDirectory``."""
    with IndexDirectory(path) as directory:
        return [row for file in directory.files for row in _rows(file.scan(columns=_COLUMNS))]


def command_line(path):
    """Read with ``rmqindex scan``, as a process of its own."""
    command = [sys.executable, "-m", "rmqindex", "scan", str(path), "--json"]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=_LONGEST, check=False)
    if ended.returncode:
        raise RefusedError(ended.stderr)
    documents = map(json.loads, ended.stdout.splitlines())
    return [tuple(document[name] for name in _COLUMNS) for document in documents]


def spark_reader(path):
    """Read with the data source's reader, as tasks do."""
    source = DefaultSource({"path": str(path)})
    reader = source.reader(source.schema())
    batches = [batch for part in reader.partitions() for batch in reader.read(part)]
    return _rows(batches)


def spark_stream(path):
    """Read with the reader of a stream, from the beginning to the latest offset."""
    source = DefaultSource({"path": str(path)})
    reader = source.streamReader(source.schema())
    start = reader.initialOffset()
    end = reader.latestOffset(start, reader.getDefaultReadLimit())
    batches = [batch for part in reader.partitions(start, end) for batch in reader.read(part)]
    return _rows(batches)


def queues(path):
    """Read ConsumeQueues with ``ConsumeQueue``."""
    return [
        (queue.topic, queue.queue_id, row["phy_offset"])
        for queue in ConsumeQueue.find(path)
        for batch in queue.scan()
        for row in batch.to_pylist()
    ]


def spark_queues(path):
    """Read ConsumeQueues with the data source's reader."""
    source = QueueSource({"path": str(path)})
    reader = source.reader(source.schema())
    return [
        (row["topic"], row["queue_id"], row["phy_offset"])
        for part in reader.partitions()
        for batch in reader.read(part)
        for row in batch.to_pylist()
    ]


def in_session(spark, kind):
    """Return a reader that is a query of a Spark session."""

    def read(path):
        frame = spark.read.format(kind).load(str(path))
        names = _COLUMNS if kind == "rmqindex" else ["topic", "queue_id", "phy_offset"]
        return [tuple(row) for row in frame.select(*names).collect()]

    return read


#: What readers that refused have said, since somebody has emptied it.
REFUSALS: list[str] = []
QUICK = {
    "IndexFile": index_file,
    "IndexDirectory": index_directory,
    "Spark reader": spark_reader,
    "Spark stream reader": spark_stream,
}
QUICK_OF_QUEUES = {"ConsumeQueue": queues, "Spark reader of queues": spark_queues}


def answer(read, path):
    """Return what a reader finds, as a tuple; None where it refuses and names the path.

    Raises:
        HangError: It takes three minutes.
        Exception: Anything else that is wrong.
    """
    try:
        with _alarm():
            return tuple(read(path))
    except (RmqIndexError, RefusedError, PySparkException, Py4JError) as error:
        if str(path) not in str(error) and str(Path(path).parent) not in str(error):
            raise
        REFUSALS.append(str(error))
        return None


def _rows(batches):
    return [
        row
        for batch in batches
        for row in zip(*(batch[name].to_pylist() for name in _COLUMNS), strict=True)
    ]


@contextmanager
def _alarm():
    def ring(*_):
        raise HangError(f"no answer within {_LONGEST} s")

    before = signal.signal(signal.SIGALRM, ring)
    signal.setitimer(signal.ITIMER_REAL, _LONGEST)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
