"""Datasets of Arrow that push filters down, for engines that read a ``pyarrow.dataset``.

DuckDB, Polars and DataFusion hand over the columns that they need and the filter, and trust the
dataset to apply it.
"""

from __future__ import annotations

import atexit
import math
import os
import threading
import time
import weakref
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NoReturn, Protocol, Self

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as pds

from rmqindex.commitlog.bodies import BODY_TEXT
from rmqindex.commitlog.selection import Selection
from rmqindex.commitlog.snapshot import missing_beside
from rmqindex.consumequeue.reader import ConsumeQueue, read_units
from rmqindex.errors import RmqIndexError
from rmqindex.export.formats import DEFAULT_COLUMNS
from rmqindex.layout.index_file import INT64_MAX
from rmqindex.layout.queue import CONSUME_QUEUE_SCHEMA
from rmqindex.messagestore.answers import incomplete_log
from rmqindex.messagestore.entry_rows import EntryRows
from rmqindex.messagestore.wanted import Range, condition_of
from rmqindex.store.store import Store

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from rmqindex.consumequeue.paths import QueueFile
    from rmqindex.messagestore.source import StoreSource
    from rmqindex.messagestore.wanted import Wanted


class _Rows(Protocol):
    """What a dataset reads."""

    @property
    def schema(self) -> pa.Schema:
        """All columns; the first is the cheapest, as DuckDB counts rows by it."""

    def read(self, names: Sequence[str], wanted: Wanted) -> pa.RecordBatchReader:
        """Return a reader of some columns, at least one, of at least the wanted rows."""


@dataclass(frozen=True, slots=True)
class _MessageRows:
    """The messages of a CommitLog."""

    source: StoreSource

    @property
    def schema(self) -> pa.Schema:
        columns = ["phy_offset", *(name for name in DEFAULT_COLUMNS if name != "phy_offset")]
        return self.source.messages(Selection(), [*columns, BODY_TEXT]).schema

    def read(self, names: Sequence[str], wanted: Wanted) -> pa.RecordBatchReader:
        with self.source.needed_log() as log:
            incomplete_log(missing_beside(self.source.path, log, self.source.commit_log))
        offsets = wanted.phy_offset & Range(0, INT64_MAX - 1)
        if wanted.is_empty or offsets.is_empty:
            offsets = Range(0, -1)
        high = offsets.high
        selection = Selection(
            tuple(sorted(wanted.topics or ())),
            tuple(sorted(wanted.queue_ids or ())),
            tuple(sorted(wanted.tags or ())),
            wanted.time.low,
            wanted.time.high,
            offsets.low,
            None if high is None else high + 1,
        )
        # DataFusion refuses a schema whose metadata are not those of the dataset.
        return self.source.messages(selection, names)


@dataclass(frozen=True, slots=True)
class _QueueRows:
    """The units of all ConsumeQueues."""

    source: StoreSource

    @property
    def schema(self) -> pa.Schema:
        names = CONSUME_QUEUE_SCHEMA.names
        first = "queue_offset"
        ordered = [first, *(name for name in names if name != first)]
        return pa.schema([CONSUME_QUEUE_SCHEMA.field(name) for name in ordered])

    def read(self, names: Sequence[str], wanted: Wanted) -> pa.RecordBatchReader:
        root = Store.open(self.source.path, needs_index=False, allow_empty=True).root
        queues = ConsumeQueue.find(root)
        schema = pa.schema([CONSUME_QUEUE_SCHEMA.field(name) for name in names])
        chosen = [queue for queue in queues if _is_wanted(queue, wanted)]
        return pa.RecordBatchReader.from_batches(schema, _units(chosen, names, wanted))


def _is_wanted(queue: ConsumeQueue, wanted: Wanted) -> bool:
    return (
        not wanted.is_empty
        and (wanted.topics is None or queue.topic in wanted.topics)
        and (wanted.queue_ids is None or queue.queue_id in wanted.queue_ids)
    )


def _units(
    queues: Iterable[ConsumeQueue], names: Sequence[str], wanted: Wanted
) -> Iterator[pa.RecordBatch]:
    for queue in queues:
        for file in queue.files:
            # The units of a batch queue tell their places themselves.
            if queue.is_batch or not (_places(file, queue) & wanted.queue_offset).is_empty:
                for batch in read_units(
                    file, queue.topic, queue.queue_id, is_batch=queue.is_batch, blanks=False
                ):
                    yield batch.select(list(names))


def _places(file: QueueFile, queue: ConsumeQueue) -> Range:
    """Return which places of a queue a file can hold; a broker may have appended to it."""
    first = file.start // queue.unit_size
    return Range(first, first + file.size // queue.unit_size - 1)


class _UntilExit:
    """The batches of a reader; there are no more of them once the interpreter ends.

    Arrow reads ahead in a thread of its own, also behind the last row that was asked for. It would
    still do so while the interpreter is taken down, and end the process by ``abort``, or never.
    """

    #: When any of them was asked last, s of the monotonic clock.
    last_asked = -math.inf

    def __init__(self, reader: pa.RecordBatchReader) -> None:
        self._reader = reader
        self._lock = threading.Lock()
        # One that another function begins at exit, or a thread of its own, is read as ever.
        self.has_more = threading.current_thread().daemon or not _IS_ENDING.is_set()
        if self.has_more:
            _READING.add(self)

    def __iter__(self) -> Self:
        """Return itself."""
        return self

    def __next__(self) -> pa.RecordBatch:
        """Return the next batch."""
        with self._lock:
            try:
                return self._read()
            except BaseException:
                self.has_more = False
                raise
            finally:
                _UntilExit.last_asked = time.monotonic()

    def _read(self) -> pa.RecordBatch:
        if _IS_ENDING.is_set() and self in _READING:
            raise RmqIndexError("MessageStore.dataset(): the process ends before all was read")
        return self._reader.read_next_batch()

    def finish(self, start: float) -> None:
        """Wait until Arrow has met the end; it may never ask, where its own queue is full."""
        deadline = start + _LAST_SECONDS
        if self._lock.locked():  # a read is under way, behind which it asks again
            left = start + _READ_SECONDS - time.monotonic()
            if self._lock.acquire(timeout=max(left, 0)):
                self._lock.release()
            deadline = time.monotonic() + _LAST_SECONDS
        while self.has_more and time.monotonic() < deadline:
            time.sleep(_POLL_SECONDS)


_READING: weakref.WeakSet[_UntilExit] = weakref.WeakSet()
_IS_ENDING = threading.Event()
# How long reads of batches may take; how long Arrow is waited for, which asks within microseconds,
# or not at all; and until its thread has left the interpreter, s.
_READ_SECONDS = 10.0
_LAST_SECONDS, _POLL_SECONDS, _LEAVE_SECONDS = 0.2, 0.001, 0.1


@atexit.register
def _end() -> None:
    _IS_ENDING.set()
    start = time.monotonic()
    for reading in list(_READING):
        reading.finish(start)
    if time.monotonic() - _UntilExit.last_asked < _LAST_SECONDS:
        time.sleep(_LEAVE_SECONDS)


os.register_at_fork(after_in_child=_READING.clear)  # Arrow's threads are the parent's


def _park_at_exit() -> None:
    """Let a daemon thread begin nothing once the process ends, and wait as such threads then do."""
    while _IS_ENDING.is_set() and threading.current_thread().daemon:
        time.sleep(_LAST_SECONDS)


def _until_exit(reader: pa.RecordBatchReader) -> pa.RecordBatchReader:
    return pa.RecordBatchReader.from_batches(reader.schema, _UntilExit(reader))


def _refuse(*_: object) -> NoReturn:
    raise ValueError(
        "MessageStore.dataset(): expected a caller of scanner(), to_batches(), to_table() or "
        "head(), got one that reads files; write dataset.to_table(columns=.., filter=..) first"
    )


class _Refusal:
    """The bytes that Arrow asks for where it goes round :meth:`_StoreDataset.scanner`."""

    closed = False
    mode = "rb"
    read = seek = tell = size = _refuse


class _StoreDataset(pds.FileSystemDataset):  # type: ignore[misc]  # PyArrow has no types
    """Rows of a store.

    What Arrow's own classes do with a dataset without asking its methods, as joins and unions, is
    refused by the one file that it has for them.
    """

    # Arrow has no file system for a file of its own, and ends the process where it is asked for.
    files = filesystem = property(_refuse)

    def __init__(self, rows: _Rows, condition: pc.Expression | None = None) -> None:
        """Read rows that meet a condition."""
        kind = pds.IpcFileFormat()
        file = pa.PythonFile(_Refusal(), mode="r")
        super().__init__([kind.make_fragment(file)], rows.schema, kind)
        self._rows = rows
        self._condition = condition

    def scanner(
        self,
        columns: Sequence[str] | Mapping[str, pc.Expression] | None = None,
        filter: pc.Expression | None = None,  # noqa: A002  (Arrow's name)
        **options: Any,  # noqa: ANN401  (those of Arrow)
    ) -> pds.Scanner:
        """List the files and return a scanner, which opens them when it is first asked.

        Args:
            columns: Names of columns, or expressions by name; None for all.
            filter: Which rows.
            **options: As ``pyarrow.dataset.Scanner.from_batches`` takes them.

        Raises:
            ValueError: An unknown column.
            RmqIndexError: The files cannot be listed, or the filter binds too little.
        """
        _park_at_exit()
        whole = _both(self._condition, filter)
        read, wanted = condition_of(whole)
        asked = _columns_of(columns, self.schema.names)
        used = set(self.schema.names) if read is None or asked is None else read | asked
        unknown = sorted(used.difference(self.schema.names))
        if unknown:
            known = ", ".join(self.schema.names)
            raise ValueError(f"columns: expected some of {known}, got {', '.join(unknown)}")
        names = [name for name in self.schema.names if name in used]
        reader = _until_exit(self._rows.read(names or self.schema.names[:1], wanted))
        chosen = columns if columns is not None else names
        return pds.Scanner.from_batches(reader, columns=chosen, filter=whole, **options)

    def count_rows(self, filter: pc.Expression | None = None, **options: Any) -> int:  # noqa: A002, ANN401
        """Return how many rows there are; only what the filter reads is decoded."""
        count: int = self.scanner([], filter, **options).count_rows()
        return count

    def filter(self, expression: pc.Expression) -> _StoreDataset:
        """Return the rows that also meet another condition."""
        return _StoreDataset(self._rows, _both(self._condition, expression))

    def get_fragments(self, filter: pc.Expression | None = None) -> Iterator[_Whole]:  # noqa: A002, ARG002
        """Yield the dataset as its only fragment, whose scanner applies a filter itself."""
        yield _Whole(self)

    def __reduce__(self) -> tuple[type[_StoreDataset], tuple[object, ...]]:
        """Pickle where the rows are and the condition."""
        return _StoreDataset, (self._rows, self._condition)


class _Whole:
    """A dataset as a fragment."""

    def __init__(self, dataset: _StoreDataset) -> None:
        self._dataset = dataset
        self.physical_schema = dataset.schema
        self.partition_expression = pc.scalar(True)

    def scanner(self, schema: pa.Schema | None = None, **options: Any) -> pds.Scanner:  # noqa: ANN401, ARG002
        """Return what the dataset's own returns."""
        return self._dataset.scanner(**options)


def _both(one: pc.Expression | None, other: pc.Expression | None) -> pc.Expression | None:
    if isinstance(other, pa.Scalar):  # DataFusion's form of a condition that it has decided
        other = pc.scalar(other)
    if one is None or other is None:
        return other if one is None else one
    return one & other


def _columns_of(
    columns: Sequence[str] | Mapping[str, pc.Expression] | None, every: Sequence[str]
) -> set[str] | None:
    """Return the columns that are asked for; None where that cannot be told."""
    if columns is None:
        return set(every)
    if not isinstance(columns, Mapping):
        return set(columns)
    found: set[str] = set()
    for expression in columns.values():
        read = condition_of(expression).columns
        if read is None:
            return None
        found |= read
    return found


_KINDS: dict[str, Callable[[StoreSource], _Rows]] = {
    "entries": EntryRows,
    "messages": _MessageRows,
    "queues": _QueueRows,
}


def store_dataset(source: StoreSource, what: str) -> pds.Dataset:
    """Return a dataset of ``entries``, ``messages`` or ``queues``."""
    if what not in _KINDS:
        raise ValueError(f"what: expected one of {', '.join(_KINDS)}, got {what!r}")
    return _StoreDataset(_KINDS[what](source))
