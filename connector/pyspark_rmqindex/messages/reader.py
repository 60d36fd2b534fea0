"""The reader of the format ``rmqcommitlog``; divides log files at record boundaries."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from typing import TYPE_CHECKING

import pyarrow as pa
from pyspark.sql.datasource import InputPartition

from pyspark_rmqindex.files.slices import as_planned
from pyspark_rmqindex.files.stores import logs_of
from pyspark_rmqindex.log_lines import Warnings, log_warning, write_counts
from pyspark_rmqindex.messages.columns import MessageColumns, log_columns
from pyspark_rmqindex.options import LocalBound, planned_bound, task_range, time_texts
from pyspark_rmqindex.schema import STORE_COLUMN, PrunedReader, arrow_schema, check_not_null
from rmqindex import CommitLog, CorruptCommitLogError
from rmqindex.commitlog import (
    Selection,
    ensure_end,
    in_halves,
    marked_file,
    missing_parts,
    select_messages,
)
from rmqindex.storage import FileChangedError, path_text, read_steady
from rmqindex.times import zone_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from pyspark.sql.types import StructType

    from pyspark_rmqindex.options import MessageOptions
    from rmqindex import LogFile, RmqIndexError
    from rmqindex.messagestore import Range


@dataclass(frozen=True, slots=True)
class MessagePlan:
    """The last plan of a load of messages.

    Attributes:
        columns: The columns to read; others are neither read nor decoded.
        filters: What the options choose, as text.
        files_kept: The number of log files to read.
        files_total: The number of log files in the paths.
        bytes: The size of the parts of these files to read; within them, bodies of messages that
            are not asked for are skipped.
        partitions: The number of tasks.
        lacking: What the CommitLogs lack of the messages to which their stores lead; each is also
            logged as a warning.
    """

    columns: tuple[str, ...]
    filters: tuple[str, ...]
    files_kept: int
    files_total: int
    bytes: int
    partitions: int
    lacking: tuple[str, ...] = ()

    def __str__(self) -> str:
        """Return the plan as one line."""
        filters = f" where {' and '.join(self.filters)}" if self.filters else ""
        return (
            f"reading {', '.join(self.columns)} of the messages in {self.files_kept} of "
            f"{self.files_total} log files ({self.bytes} bytes), {self.partitions} "
            f"partition{'' if self.partitions == 1 else 's'}{filters}"
        )

    # What a notebook shows.
    __repr__ = __str__


# The most messages in a batch.
_MAX_MESSAGES = 32 * 1024
# A task needs the files next to its own, since the log derives the file size from their offsets;
# passing all files would make the plan of a log with many files large.
_NEIGHBOURS = 8


@dataclass(frozen=True, slots=True)
class LogPart:
    """A stretch of one file, from record boundary to record boundary, in offsets of the log."""

    file: LogFile
    start: int
    stop: int


@dataclass
class MessagePartition(InputPartition):
    """The work of one task.

    Attributes:
        store: The store of the log.
        files: The files of the log that the task needs.
        ranges: Start and stop of each stretch to read, offsets in bytes, at record boundaries.
        begin: A lower bound of store time, inclusive; None for none.
        end: An upper bound, likewise.
    """

    store: str
    files: tuple[LogFile, ...]
    ranges: tuple[tuple[int, int], ...]
    begin: int | LocalBound | None
    end: int | LocalBound | None


class MessageReader(PrunedReader):
    """Reads the messages that the options select."""

    def __init__(
        self,
        options: MessageOptions,
        schema: StructType,
        report: Callable[[MessagePlan], None] | None = None,
    ) -> None:
        """Store the request; ``report`` is called with the plan."""
        self._options = options
        self._schema = schema
        self._report = report

    def partitions(self) -> Sequence[InputPartition]:
        """Find the files and divide the work."""
        # A file that expires meanwhile is no part of the plan.
        return read_steady(", ".join(self._options.paths), self._planned)

    def _planned(self) -> Sequence[InputPartition]:
        options = self._options
        begin, end = planned_bound(options.begin, up=True), planned_bound(options.end, up=False)
        partitions: list[MessagePartition] = []
        kept, total, size = 0, 0, 0
        lacking: list[str] = []
        ends: list[RmqIndexError] = []
        for store, paths in logs_of(options.paths):
            with CommitLog(paths[0] if len(paths) == 1 else paths) as log:
                _warn_of_unagreed(store, log, options.end_offset)
                ensure_end(
                    log,
                    options.end_offset,
                    mode=options.mode,
                    on_malformed=ends.append,
                )
                missing = missing_parts(
                    log, paths, start=options.begin_offset, stop=options.end_offset
                )
                lacking += [part.text() for part in missing if part.part != "end"]
                parts = list(self._parts(log, begin, end))
                partitions += planned_partitions(
                    store, log, parts, (begin, end), options.max_partition_bytes
                )
                kept += len({part.file.start for part in parts})
                total += len(log.files)
                size += sum(part.stop - part.start for part in parts)
        lacking += map(str, ends)
        if self._report is not None:
            names, filters = tuple(self._schema.names), _filter_texts(options)
            self._report(
                MessagePlan(
                    names,
                    filters,
                    kept,
                    total,
                    size,
                    len(partitions),
                    tuple(dict.fromkeys(lacking)),
                )
            )
        return partitions

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Read the messages of one task."""
        if not isinstance(partition, MessagePartition):
            return  # Spark runs one task even if there is nothing to read
        times = task_range(partition.begin, partition.end)
        returned = 0
        for batch in as_planned(self._of_partition(partition, times)):
            returned += batch.num_rows
            yield batch
        size = sum(stop - start for start, stop in partition.ranges)
        write_counts({"bytes": size, "messages": returned})

    def _of_partition(self, partition: MessagePartition, times: Range) -> Iterator[pa.RecordBatch]:
        with CommitLog(partition.files) as log:
            for offsets in partition.ranges:
                yield from self._messages(log, partition.store, offsets, times)
                if offsets[0] < log.min_offset:  # it expired, and would be missing
                    file = next(each for each in log.files if offsets[0] < each.stop)
                    raise FileChangedError(file.path, "removed")
            log.ensure_same()

    def _messages(
        self,
        log: CommitLog,
        store: str,
        offsets: tuple[int, int],
        times: Range,
    ) -> Iterator[pa.RecordBatch]:
        options = self._options
        # Spark requires every batch to have exactly this schema.
        schema = arrow_schema(self._schema)
        names = [name.lower() for name in self._schema.names]
        columns = log_columns(names, decompress=options.unpacks_bodies)
        selection = Selection(
            topics=options.topics or (),
            queue_ids=options.queue_ids or (),
            tags=options.tags or (),
            begin=times.low,
            end=times.high,
            start=options.begin_offset,
            stop=options.end_offset,
        )
        warn = Warnings()
        for block in select_messages(
            log,
            selection,
            columns or ["size"],
            within=offsets,
            check_crc=options.check_crc,
            mode=options.mode,
            on_malformed=warn,
            max_records=_MAX_MESSAGES,
        ):
            if block.batch is not None:
                yield from in_halves(block.batch, partial(self._built, log, store, schema, warn))

    def _built(
        self, log: CommitLog, store: str, schema: pa.Schema, warn: Warnings, batch: pa.RecordBatch
    ) -> pa.RecordBatch:
        messages = MessageColumns(
            log,
            batch,
            mode=self._options.mode,
            decompress=self._options.unpacks_bodies,
            max_body_size=self._options.max_body_size,
            zone=zone_of(self._options.time_zone or "UTC"),
            on_bad=warn,
        )
        arrays = [
            pa.repeat(path_text(store), batch.num_rows)
            if field.name.lower() == STORE_COLUMN
            else messages.column(field.name.lower(), field.type)
            for field in schema
        ]
        check_not_null(schema, arrays)
        return pa.RecordBatch.from_arrays(arrays, schema=schema)

    def _parts(
        self, log: CommitLog, begin: int | LocalBound | None, end: int | LocalBound | None
    ) -> Iterator[LogPart]:
        """Divide the files that the options select at record boundaries."""
        options = self._options
        # Messages that a broker appends from now on are not part of this read.
        log_end = log.max_offset
        first = options.begin_offset
        behind = log_end if options.end_offset is None else min(log_end, options.end_offset)
        for file in self._files_of_time(log, begin, end):
            if file.stop <= first or file.start >= behind:
                continue
            starts = log.record_boundaries(file, options.max_partition_bytes)
            starts = [start for start in starts if start < log_end]
            for start, stop in pairwise([*starts, min(file.stop, log_end)]):
                if stop > first and start < behind:
                    yield LogPart(file, start, stop)

    def _files_of_time(
        self, log: CommitLog, begin: int | LocalBound | None, end: int | LocalBound | None
    ) -> Iterator[LogFile]:
        """Skip the files whose messages are all too old or too new.

        A clock can step back, so this allows for the largest step.
        """
        step = self._options.max_clock_step
        begin, end = (None if isinstance(each, LocalBound) else each for each in (begin, end))
        if step is None or (begin is None and end is None):
            yield from log.files
            return
        times = [log.first_store_timestamp(file) for file in log.files]
        for file, time, following in zip(log.files, times, [*times[1:], None], strict=True):
            too_old = begin is not None and following is not None and following + step < begin
            too_new = end is not None and time is not None and time - step > end
            if not too_old and not too_new:
                yield file


def _warn_of_unagreed(store: str, log: CommitLog, end: int | None) -> None:
    """Say which messages another leader of a DLedger group may replace, or why nothing tells."""
    try:
        tail = log.unagreed_tail(end)
    except CorruptCommitLogError as error:
        log_warning(f"{store}: nothing tells on which messages the DLedger group agreed: {error}")
        return
    if tail is not None:
        log_warning(
            f"{store}: this read includes {tail}. To rebuild an index, leave them out with the "
            f"option endOffset={tail.offset}"
        )


def _filter_texts(options: MessageOptions) -> tuple[str, ...]:
    """Return what the options choose, as text."""
    chosen = {
        "topic": options.topics,
        "queue_id": options.queue_ids,
        "tags": options.tags,
    }
    texts = [f"{name} IN {list(values)}" for name, values in chosen.items() if values is not None]
    if options.begin_offset:
        texts.append(f"phy_offset >= {options.begin_offset}")
    if options.end_offset is not None:
        texts.append(f"phy_offset < {options.end_offset}")
    return (*texts, *time_texts(options))


def planned_partitions(
    store: str,
    log: CommitLog,
    parts: Sequence[LogPart],
    times: tuple[int | LocalBound | None, int | LocalBound | None],
    max_bytes: int,
) -> list[MessagePartition]:
    """Divide parts of one log among tasks, grouping small parts.

    One task reads at most ``max_bytes``, unless a single part is larger.
    """
    return [
        MessagePartition(
            store,
            _files_of(log, pack),
            tuple((part.start, part.stop) for part in pack),
            *times,
        )
        for pack in _pack(parts, max_bytes)
    ]


def _pack(parts: Sequence[LogPart], max_bytes: int) -> Iterator[list[LogPart]]:
    pack: list[LogPart] = []
    filled = 0
    for part in parts:
        size = part.stop - part.start
        if pack and filled + size > max_bytes:
            yield pack
            pack, filled = [], 0
        pack.append(part)
        filled += size
    if pack:
        yield pack


def _files_of(log: CommitLog, parts: Sequence[LogPart]) -> tuple[LogFile, ...]:
    """Return the files needed to read some parts: their own, the neighbours, and the last.

    The files that are opened, which are their own and those at the log's end, are marked.
    """
    places = [log.files.index(part.file) for part in parts]
    first, behind = max(0, places[0] - _NEIGHBOURS), places[-1] + 1 + _NEIGHBOURS
    last = log.last_with_data()
    files = []
    for place in sorted({*range(first, min(behind, len(log.files))), last}):
        file = log.files[place]
        if place in places or place >= last:
            ranges = [(part.start, part.stop) for part in parts if part.file == file]
            file = marked_file(file, log.source(file), ranges)
        files.append(file)
    return tuple(files)
