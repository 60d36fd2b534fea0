"""What all lines of one run share: sizes, files and the Spark session."""

from __future__ import annotations

import functools
import os
import shutil
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from benchmarks._data import FILE_NAME, Sizes, make_file, make_keys, make_messages
from benchmarks._log_data import make_store
from rmqindex import Layout

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["Context"]

_CORES = 2
_KEY = "key"


@dataclass(frozen=True)
class Context:
    """One run.

    Attributes:
        work: Where data are made and kept for the next run.
        sizes: How much is measured.
        output: Where a line puts a table or a chart of its own.
    """

    work: Path
    sizes: Sizes
    output: Path

    @property
    def cores(self) -> int:
        """How many cores Spark has."""
        return _CORES

    @functools.cached_property
    def index(self) -> Path:
        """An index directory with one full file."""
        directory = self.work / "index"
        make_file(directory / FILE_NAME, self.sizes.layout, 0, self.sizes.rows)
        return directory

    @property
    def index_file(self) -> Path:
        """The full file."""
        return self.index / FILE_NAME

    def many_files(self, directory: Path, count: int) -> None:
        """Fill a directory with the full file under many names: each is opened by itself."""
        shutil.rmtree(directory, ignore_errors=True)
        directory.mkdir(parents=True)
        for number in range(count):
            (directory / str(int(FILE_NAME) + number)).hardlink_to(self.index_file)

    @property
    def join_entries(self) -> int:
        """How many entries each file of the index of several files has; the last may have fewer."""
        return -(-self.sizes.rows // self.sizes.join_files)

    @functools.cached_property
    def join_index(self) -> Path:
        """An index directory with the messages of the full file in several files."""
        directory = self.work / "join-index"
        slots = self.join_entries // 4 + 1
        for first in range(0, self.sizes.rows, self.join_entries):
            name = str(int(FILE_NAME) + first // self.join_entries)
            count = min(self.join_entries, self.sizes.rows - first)
            make_file(directory / name, Layout(slots, 4 * slots), first, count)
        return directory

    def keys(self, count: int) -> Path:
        """Return keys in random order as Parquet, half of them those of no message."""
        rows = self.sizes.rows
        return _keys(self.work / f"keys-{count}.parquet", count, rows, rows)

    @functools.cached_property
    def log_keys(self) -> Path:
        """As many keys as the log has records, half of them those of no message of it."""
        count = self.sizes.messages
        # The last record is a blank one, which has no keys.
        return _keys(self.work / f"log-keys-{count}.parquet", count, count - 1, 2 * count)

    @functools.cached_property
    def log_messages(self) -> Path:
        """The keys of the log's messages, two each, as Parquet."""
        path = self.work / "log-messages.parquet"
        make_messages(path, np.arange(2 * self.sizes.messages, dtype=np.uint64))
        return path

    def store(self, size: int = 0) -> Path:
        """Return a store with a log of messages of so many bytes, and its index."""
        size = size or self.sizes.message_sizes[0]
        return make_store(self.work / f"store-{size}", self.sizes.messages, size)

    @functools.cached_property
    def messages(self) -> Path:
        """The messages of the full file as Parquet, in the order of their offsets."""
        path = self.work / "messages.parquet"
        make_messages(path, np.arange(self.sizes.rows, dtype=np.uint64))
        return path

    @functools.cached_property
    def shuffled(self) -> Path:
        """The messages in random order."""
        path = self.work / "shuffled.parquet"
        numbers = np.random.default_rng(3).permutation(self.sizes.rows)
        make_messages(path, numbers.astype(np.uint64))
        return path

    @functools.cached_property
    def entries(self) -> Path:
        """The entries of the full file as Spark writes them to Parquet."""
        path = self.work / "entries.parquet"
        if not path.exists():
            part = path.with_suffix(".part")
            scanned = self.spark.read.format("rmqindex").load(str(self.index))
            scanned.write.mode("overwrite").parquet(str(part))
            part.rename(path)
        return path

    @functools.cached_property
    def bloom(self) -> Path:
        """The messages as Spark writes them to Parquet, with a bloom filter on the key."""
        path = self.work / "bloom.parquet"
        if not path.exists():
            part = path.with_suffix(".part")
            (
                self.spark.read.parquet(str(self.messages))
                .write.mode("overwrite")
                .option(f"parquet.bloom.filter.enabled#{_KEY}", "true")
                .option(f"parquet.bloom.filter.expected.ndv#{_KEY}", str(self.sizes.rows))
                .parquet(str(part))
            )
            part.rename(path)
        return path

    @functools.cached_property
    def spark(self) -> SparkSession:
        """A local session on two cores."""
        root = Path(__file__).parent.parent
        paths = [str(root), *filter(None, [os.environ.get("PYTHONPATH")])]
        os.environ["PYTHONPATH"] = os.pathsep.join(paths)  # for the workers: the floors' module
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
        os.environ.setdefault("RMQINDEX_LOG_LEVEL", "WARNING")
        from pyspark.sql import SparkSession  # noqa: PLC0415  (only some lines need it)

        from benchmarks._floor import FLOORS  # noqa: PLC0415

        spark = (
            SparkSession.builder.master(f"local[{_CORES}]")
            .appName("rmqindex benchmarks")
            .config("spark.ui.enabled", "false")
            .config("spark.ui.showConsoleProgress", "false")
            .config("spark.driver.memory", "4g")
            .config("spark.driver.host", "127.0.0.1")
            .config("spark.driver.bindAddress", "127.0.0.1")
            .config("spark.local.dir", str(self.work / "spark"))
            .config("spark.sql.warehouse.dir", str(self.work / "warehouse"))
            .config("spark.sql.session.timeZone", "UTC")
            .getOrCreate()
        )
        spark.sparkContext.setLogLevel("ERROR")
        spark.conf.set("spark.sql.python.filterPushdown.enabled", "true")
        for source in FLOORS:
            spark.dataSource.register(source)
        return spark


def _keys(path: Path, count: int, there: int, absent: int) -> Path:
    """Make so many keys in random order, half of them below a number, the others from one on."""
    rng = np.random.default_rng(count)
    numbers = [rng.choice(there, count // 2, replace=False), absent + np.arange(count - count // 2)]
    make_keys(path, rng.permutation(np.concatenate(numbers)).astype(np.uint64))
    return path
