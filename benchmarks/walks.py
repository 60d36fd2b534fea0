"""Count what five walks through the code run: modules, functions, and calls of the kernel.

python -m benchmarks.walks           on the sample store, each walk once warm, without Spark

Readers and writers are called as Spark calls them: pickled once, one task for each partition.
"""

from __future__ import annotations

import contextlib
import io
import itertools
import pickle
import shutil
import sys
import tempfile
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING
from unittest import mock

import pyarrow as pa
from pyspark.sql.datasource import EqualTo, Filter, GreaterThanOrEqual
from pyspark.sql.types import IntegerType, LongType, StructType

from pyspark_rmqindex import DefaultSource
from rmqindex import Layout, MessageStore, rebuild_index
from rmqindex.cli import main as run_command

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import FrameType

__all__ = ["WALKS", "Walk", "walk"]

_TOPIC, _KEY = "TopicTest", "BB"
_LINE = "{:<28}{:>8}{:>6}{:>11}{:>7}{:>10}"
_PACKAGES = ("/rmqindex/", "/pyspark_rmqindex/")
_STATS, _LISTINGS = {"stat", "lstat"}, {"scandir", "listdir"}
_OFFSETS = itertools.count(1)


@dataclass
class Walk:
    """What one walk ran."""

    modules: set[str] = field(default_factory=set)
    functions: set[tuple[str, str]] = field(default_factory=set)
    kernel: Counter[str] = field(default_factory=Counter)

    def __call__(self, frame: FrameType, event: str, called: object) -> None:
        """Take an event of the interpreter's profiler."""
        if event == "call":
            code = frame.f_code
            if any(package in code.co_filename for package in _PACKAGES):
                self.modules.add(code.co_filename)
                self.functions.add((code.co_filename, code.co_qualname))
        elif event == "c_call":
            self.kernel[getattr(called, "__name__", "")] += 1

    @property
    def stats(self) -> int:
        """Calls of stat(2) and lstat(2)."""
        return sum(self.kernel[name] for name in _STATS)

    @property
    def listings(self) -> int:
        """Folders listed."""
        return sum(self.kernel[name] for name in _LISTINGS)


def walk(run: Callable[[], object]) -> Walk:
    """Run twice, and profile the second run.

    Args:
        run: What is to be profiled; the first run imports modules and fills caches.

    Returns:
        The modules and functions of both packages that ran.
    """
    run()
    seen = Walk()
    sys.setprofile(seen)
    try:
        run()
    finally:
        sys.setprofile(None)
    return seen


def where(store: Path) -> None:
    """``table()`` with a WHERE on topic and key, to its batch."""
    options = {"path": str(store), "commitLog": "auto", "pushdown": "true", "relation": "walk"}
    source = pickle.loads(pickle.dumps(DefaultSource(options)))
    reader = source.reader(source.schema())
    filters: list[Filter] = [EqualTo(("topic",), _TOPIC), EqualTo(("key",), _KEY)]
    filters.append(GreaterThanOrEqual(("position",), 1))
    if hasattr(reader, "pushFilters"):
        list(reader.pushFilters(filters))
    for partition in reader.partitions():
        list(pickle.loads(pickle.dumps(reader)).read(partition))


def row_to_commit(store: Path) -> None:
    """A row that ``df.write`` appends, to its commit."""
    columns = [pa.array([7], pa.int32()), *[pa.array([next(_OFFSETS)], pa.int64())] * 2]
    target = store.parent / "written"
    schema = StructType().add("key_hash", IntegerType()).add("phy_offset", LongType())
    schema = schema.add("store_timestamp", LongType())
    source = DefaultSource({"path": str(target), "maxHashSlotNum": "97", "maxIndexNum": "200"})
    writer = source.writer(schema, overwrite=False)
    message = pickle.loads(pickle.dumps(writer)).write(
        iter([pa.record_batch(columns, schema.names)])
    )
    writer.commit([message])


def _command(*arguments: object) -> None:
    """Run the command line in this process."""
    with (
        mock.patch("sys.argv", ["rmqindex", *map(str, arguments)]),
        mock.patch("sys.meta_path", [*sys.meta_path]),
        contextlib.redirect_stdout(io.StringIO()),
        contextlib.suppress(SystemExit),
    ):
        run_command()


def lookup(store: Path) -> None:
    """``rmqindex lookup`` of one key."""
    _command("lookup", store, _TOPIC, _KEY)


def rebuild(store: Path) -> None:
    """``rebuild_index`` from the CommitLog into a new folder."""
    target = store.parent / "rebuilt"
    shutil.rmtree(target, ignore_errors=True)
    rebuild_index(store, target, Layout(97, 200))


def stream(store: Path) -> None:
    """A stream from its first offset to the partitions of a batch."""
    source = DefaultSource({"path": str(store)})
    reader = source.streamReader(source.schema())
    first = reader.initialOffset()
    end = reader.latestOffset(first, reader.getDefaultReadLimit())
    reader.partitions(first, end)


#: Each walk with how many modules the plan of the house gives it.
WALKS: dict[str, tuple[Callable[[Path], None], int]] = {
    "a WHERE to its batch": (where, 40),
    "a row to its commit": (row_to_commit, 35),
    "rmqindex lookup": (lookup, 30),
    "a rebuild": (rebuild, 40),
    "a stream to its partitions": (stream, 35),
}


def main() -> None:
    """Print a table of the walks."""
    with tempfile.TemporaryDirectory() as folder:
        store = Path(folder) / "store"
        _command("sample", store)
        opened = MessageStore(store)
        walks = {name: (lambda run=run: run(store), goal) for name, (run, goal) in WALKS.items()}
        walks["MessageStore.lookup"] = (lambda: opened.lookup(_TOPIC, _KEY), 30)
        print(_LINE.format("walk", "modules", "goal", "functions", "stats", "listings"))
        for name, (run, goal) in walks.items():
            seen = walk(run)
            numbers = (len(seen.modules), goal, len(seen.functions), seen.stats, seen.listings)
            print(_LINE.format(name, *numbers))


if __name__ == "__main__":
    main()
