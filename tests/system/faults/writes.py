"""Every kind of write, as a function; where it has tasks, they run one after the other.

There is no Spark here, only its part is played.
"""

from __future__ import annotations

import contextlib
import io
import os
import shutil
import signal
import sys
from dataclasses import dataclass, field
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd  # noqa: F401  (which PySpark imports late: kills are to fall into the writes)
import pyarrow as pa
from pyspark.sql.types import IntegerType, LongType, StructType
from tests.support.killing import before_each_change
from tests.support.limits import small
from tests.support.tasks import in_batch
from tests.system.simulator.users.outcome import REFUSED, Outcome

import rmqindex
from pyspark_rmqindex import write_index
from pyspark_rmqindex.stream import IndexStreamWriter
from pyspark_rmqindex.write import IndexWriter
from rmqindex import RmqIndexError
from rmqindex.cli import main
from rmqindex.storage import write_own

from .states import LAYOUT, SMALL

if TYPE_CHECKING:
    from collections.abc import Callable

SCHEMA = (
    StructType()
    .add("key_hash", IntegerType())
    .add("phy_offset", LongType())
    .add("store_timestamp", LongType())
)
GEOMETRY = {"maxHashSlotNum": str(LAYOUT.hash_slot_num), "maxIndexNum": str(LAYOUT.index_num)}
BEGIN = 1_700_000_000_000
OLD = range(330)
ADDED = range(330, 1000)
BATCHES = 12
_HASHES = 613
_TASKS = 3
# So few rows that tasks stage files and build some themselves.
_FEW_ROWS = 40


@dataclass(frozen=True)
class Write:
    """One kind of write.

    Attributes:
        name: What it is called in the table.
        run: The write, given a folder; again it must be harmless, and end in the same state.
        prepare: Makes what is there before, in an empty folder.
        index: Where the index is in the folder.
        stages: The states on the way, as arguments of ``run``; by default none but the last.
        in_place: Whether files grow where they are, so that any beginning of the rows may be seen.
        queues: Whether it writes ConsumeQueues instead.
        is_stream: Whether it leaves a ledger.
    """

    name: str
    run: Callable[..., None]
    prepare: Callable[[Path], None]
    index: str = "store/index"
    stages: tuple[int, ...] = field(default=())
    in_place: bool = False
    queues: bool = False
    is_stream: bool = False


def batch_of(offsets):
    """Return rows whose hashes repeat."""
    numbers = np.asarray(offsets, np.int64)
    columns = [
        pa.array((numbers * 7919 % _HASHES).astype(np.int32)),
        pa.array(numbers * 100),
        pa.array(BEGIN + numbers * 700),
    ]
    return pa.record_batch(columns, names=SCHEMA.names)


def parts_of(offsets):
    """Deal rows to tasks, in stretches."""
    cuts = np.linspace(0, len(offsets), _TASKS + 1).astype(int).tolist()
    return [offsets[start:stop] for start, stop in pairwise(cuts)]


def options_of(folder, on_indexed="skip", geometry=GEOMETRY):
    """Return the options of a write, as Spark passes them."""
    path = str(folder / "store" / "index")
    return {"path": path, "timeZone": "UTC", "onIndexed": on_indexed, **geometry}


def df_write_few(folder):
    """Play a write whose tasks take so few rows at a time that some build files themselves."""
    with small(run_rows=_FEW_ROWS):
        df_write(folder)


def df_write(folder, offsets=ADDED, *, overwrite=False, **options):
    """Play ``df.write.format("rmqindex")``."""
    writer = IndexWriter(SCHEMA, overwrite, options_of(folder, **options))
    messages = []
    try:
        messages += [writer.write(iter([batch_of(part)])) for part in parts_of(offsets)]
        writer.commit(messages)
    except BaseException:
        writer.abort(messages)
        raise


class LocalFrame:
    """What ``write_index`` uses of a DataFrame, without Spark."""

    def __init__(self, parts, schema=SCHEMA):
        """Hold one record batch a partition."""
        self.schema = schema
        self._parts = parts
        self._function = None

    @property
    def sparkSession(self):  # noqa: N802  (Spark's name)
        """What makes a DataFrame of numbers."""
        return self

    def getTags(self):  # noqa: N802  (Spark's name)
        """No job of it has a tag."""
        return set()

    def addTag(self, tag):  # noqa: N802  (Spark's name)
        """Tag nothing: there are no jobs."""

    removeTag = addTag  # noqa: N815  (Spark's name)

    def range(self, start, stop, _step, _parts):
        """Return numbers, one a partition."""
        ids = [pa.record_batch([pa.array([n])], names=["id"]) for n in range(start, stop)]
        return LocalFrame(ids)

    def mapInArrow(self, function, _schema):  # noqa: N802  (Spark's name)
        """Apply a function to each partition."""
        mapped = LocalFrame(self._parts, None)
        mapped._function = function
        return mapped

    def collect(self):
        """Run one task a partition."""
        return [(text,) for part in self._parts for text in self._task(part)]

    def _task(self, part):
        return [text for b in self._function(iter([part])) for text in b.column(0).to_pylist()]


def play_write_index(folder, offsets=ADDED, *, mode="append", few=False, **given):
    """Play ``write_index``."""
    options = options_of(folder, **given)
    frame = LocalFrame([batch_of(part) for part in parts_of(offsets)])
    limits = {"write_index_run_rows": _FEW_ROWS, "commit_rows": 0} if few else {}
    with small(**limits):
        write_index(frame, options.pop("path"), mode=mode, **options)


def stream_large(folder, until=BATCHES):
    """Play a query whose every batch is too large for its answers, and is staged in files."""
    with small(inline_rows=0):
        stream(folder, until)


def stream(folder, until=BATCHES):
    """Play a query with a checkpoint: batches from the first that it does not know as done."""
    checkpoint = folder / "commits"
    done = int(checkpoint.read_text()) if checkpoint.exists() else 0
    given = options_of(folder, on_indexed="error")
    for number in range(done, until):
        with in_batch("query", number):
            writer = IndexStreamWriter(SCHEMA, False, given)
            parts = parts_of(rows_in(number))
            messages = [writer.write(iter([batch_of(part)])) for part in parts]
            IndexStreamWriter(SCHEMA, False, given).commit(messages, number)
        write_own(folder / "commits.next", str(number + 1).encode())
        (folder / "commits.next").replace(checkpoint)


def rows_in(number):
    """Return the rows of a batch: few in most, many in some."""
    sizes = [25, 3, 190, 7]
    start = len(OLD) + sum(sizes[n % 4] for n in range(number))
    return range(start, start + sizes[number % 4])


@contextlib.contextmanager
def silent():
    """Keep what commands print; yields it."""
    text = io.StringIO()
    with contextlib.redirect_stdout(text), contextlib.redirect_stderr(text):
        yield text


def outcome_of(run, *arguments):
    """Run a write; return that it is done, or what refused it."""
    outcome = Outcome("a writer", "written", {})
    with silent() as printed:
        try:
            run(*arguments)
        except (RmqIndexError, ValueError, OSError, SystemExit) as error:
            outcome.status = REFUSED
            outcome.text = f"{printed.getvalue()} {type(error).__name__}: {error}"
    return outcome


def command(folder, *arguments):
    """Run ``rmqindex`` on the folder's store."""
    name, *rest = arguments
    typed(name, str(folder / "store"), *rest)


def typed(*arguments):
    """Run ``rmqindex`` with these arguments."""
    sys.argv = ["rmqindex", *arguments]
    try:
        main()
    except SystemExit as ended:
        if ended.code:
            raise


def nothing(folder):
    """Prepare a store without an index."""
    (folder / "store").mkdir()


def some_rows(folder):
    """Prepare an index of some rows, its last file not full."""
    df_write(folder, OLD)


def logged(folder):
    """Prepare the sample store, with nothing but its CommitLog."""
    shutil.copytree(Path(rmqindex.sample_store()) / "commitlog", folder / "store" / "commitlog")


def logged_and_indexed(folder):
    """Prepare the sample store with an index of another geometry."""
    logged(folder)
    command(folder, "rebuild", *_geometry(SMALL))


def logged_and_begun(folder):
    """Prepare the sample store with an index of the beginning of its CommitLog."""
    logged(folder)
    command(folder, "rebuild", "--to", "20000", *_geometry(LAYOUT))


def logged_and_queued(folder):
    """Prepare the sample store with queues of files of another size."""
    logged(folder)
    command(folder, "rebuild-queues", "--file-size", "2000")


def _geometry(layout):
    slots, entries = str(layout.hash_slot_num), str(layout.index_num)
    return ["--max-hash-slot-num", slots, "--max-index-num", entries, "--time-zone", "UTC"]


def rebuild(folder, *options):
    """Run ``rmqindex rebuild``, or go on with one that died."""
    command(folder, "rebuild", "--resume", *options, *_geometry(LAYOUT))


def rebuild_aside(folder):
    """Run ``rmqindex rebuild --replace``."""
    command(folder, "rebuild", "--replace", *_geometry(LAYOUT))


def rebuild_range(folder):
    """Index the CommitLog a range at a time, each behind the one before."""
    for stop in ("40000", "60000", "9999999"):
        rebuild(folder, "--to", stop)


def relayout(folder):
    """Run ``rmqindex relayout``."""
    slots, entries = str(LAYOUT.hash_slot_num), str(LAYOUT.index_num)
    zone = ["--time-zone", "UTC"]
    command(folder, "relayout", "--slots", slots, "--entries", entries, *zone)


def rebuild_queues(folder):
    """Run ``rmqindex rebuild-queues``."""
    command(folder, "rebuild-queues", "--replace", "--file-size", "4000")


def expire(folder):
    """Run ``rmqindex expire``."""
    command(folder, "expire", "--before", "60000", "--allow-loss")


def some_rows_and_a_dead_commit(folder):
    """Prepare an index of some rows, and an overwrite of it that died before its last step."""
    some_rows(folder)
    pid = os.fork()
    if not pid:

        def die(_, path):
            if path.name == "journal.json":
                os.kill(os.getpid(), signal.SIGKILL)

        try:
            with before_each_change(die):
                df_write(folder, overwrite=True)
        finally:
            os._exit(1)
    _, status = os.waitpid(pid, 0)
    assert os.WIFSIGNALED(status)


def recover(folder):
    """Run ``rmqindex recover``."""
    command(folder, "recover")


STAGES = tuple(range(1, BATCHES + 1))
WRITES = (
    Write("df.write, append", df_write, some_rows),
    Write(
        "df.write, append, tasks that build files",
        df_write_few,
        some_rows,
    ),
    Write("df.write, overwrite", partial(df_write, overwrite=True), some_rows),
    Write("df.write, a new index", df_write, nothing),
    Write("write_index, append", play_write_index, some_rows),
    Write(
        "write_index, append, tasks that continue a file",
        partial(play_write_index, few=True),
        some_rows,
    ),
    Write(
        "write_index, overwrite",
        partial(play_write_index, mode="overwrite"),
        some_rows,
    ),
    Write("writeStream", stream, some_rows, stages=STAGES, is_stream=True),
    Write(
        "writeStream, large batches",
        stream_large,
        some_rows,
        stages=STAGES,
        is_stream=True,
    ),
    Write("rmqindex rebuild", rebuild, logged, in_place=True),
    Write("rmqindex rebuild --resume, ranges", rebuild_range, logged_and_begun, in_place=True),
    Write("rmqindex rebuild --replace", rebuild_aside, logged_and_indexed),
    Write("rmqindex relayout", relayout, logged_and_indexed),
    Write("rmqindex expire", expire, logged_and_indexed),
    Write("rmqindex rebuild-queues", rebuild_queues, logged_and_queued, queues=True),
)
# What undoes a commit that died.
RECOVERIES = (
    Write("rmqindex recover", recover, some_rows_and_a_dead_commit),
    Write("df.write, append, after a commit that died", df_write, some_rows_and_a_dead_commit),
)
