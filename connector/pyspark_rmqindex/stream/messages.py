"""The stream of messages: ``spark.readStream.format("rmqcommitlog")``.

An offset is a position in a CommitLog, as in the broker's own ``ReputMessageService``;
:mod:`pyspark_rmqindex.stream.entries` explains how Spark calls the reader of a stream.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import pairwise
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadMaxBytes,
    ReadMaxRows,
    SupportsTriggerAvailableNow,
)

from pyspark_rmqindex.files.stores import logs_of
from pyspark_rmqindex.log_lines import log_warning
from pyspark_rmqindex.messages.reader import (
    LogPart,
    MessagePartition,
    MessageReader,
    planned_partitions,
)
from pyspark_rmqindex.options import planned_bound
from pyspark_rmqindex.stream.checkpoint import (
    CheckpointedReader,
    offsets_from_json,
    offsets_to_json,
)
from rmqindex import CommitLog, RmqIndexError
from rmqindex.commitlog import LogMark, follow, has_room, next_record, place_of, written_end
from rmqindex.storage import from_json, read_steady, to_json
from rmqindex.transaction import exists

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    import pyarrow as pa
    from pyspark.sql.datasource import InputPartition
    from pyspark.sql.streaming.datasource import ReadLimit
    from pyspark.sql.types import StructType

    from pyspark_rmqindex.options import MessageStreamOptions

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class LogOffset:
    """How far a stream has come in the CommitLog of one store."""

    SOURCE: ClassVar[str] = "rmqcommitlog"

    offset: int
    # The mark of the last message before, which shows whether the log is still the same; None
    # if it was not recorded.
    last: LogMark | None = None

    def to_json(self) -> dict[str, int]:
        """Return the offset as JSON for the checkpoint."""
        last = self.last
        stored = _StoredOffset(self.offset)
        if last is not None:
            marked = (last.phy_offset, last.store_timestamp, last.checksum, last.size, last.crc)
            stored = _StoredOffset(self.offset, *marked)
        return {name: value for name, value in to_json(stored).items() if value is not None}

    @classmethod
    def from_json(cls, data: object) -> LogOffset:
        """Read what :meth:`to_json` returned."""
        present = from_json(dict[str, int], data)  # what is not known is left out, and never null
        stored = from_json(_StoredOffset, present)
        if stored.last_offset is None:
            return cls(stored.offset)
        if stored.last_store_timestamp is None:
            raise ValueError("last_store_timestamp: expected this field, got none")
        last = LogMark(
            stored.last_offset,
            stored.last_store_timestamp,
            stored.last_size,
            stored.last_crc,
            stored.last_checksum,
        )
        return cls(stored.offset, last)


@dataclass(frozen=True, slots=True)
class _StoredOffset:
    """An offset in the checkpoint; earlier releases stored a checksum, or nothing of the last."""

    offset: int
    last_offset: int | None = None
    last_store_timestamp: int | None = None
    last_checksum: int | None = None
    last_size: int | None = None
    last_crc: int | None = None


class MessageStreamReader(CheckpointedReader, SupportsTriggerAvailableNow):
    """Follows CommitLogs that brokers write to."""

    def __init__(self, options: MessageStreamOptions, schema: StructType) -> None:
        """Store the request; nothing is read yet."""
        super().__init__(options)
        self._options = options
        self._reader = MessageReader(options, schema)
        self._target: dict[str, int] | None = None

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802  (Spark's name)
        """Return where a new stream begins."""
        return offsets_to_json(
            {store: self._first(store, log) for store, log in self._logs() if log.files}
        )

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802  (Spark's name)
        """Return the limit in the options; depending on the trigger, Spark passes it or none."""
        if self._options.max_messages is not None:
            return ReadMaxRows(self._options.max_messages)
        if self._options.max_bytes is not None:
            return ReadMaxBytes(self._options.max_bytes)
        return ReadAllAvailable()

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802  (Spark's name)
        """Remember where the logs end now, where the stream will stop."""
        self._target = self._steady(
            lambda: {
                store: self._end_of(store, log).offset for store, log in self._logs() if log.files
            }
        )

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:  # noqa: N802
        """Return where the next batch ends."""
        bounded = not isinstance(limit, ReadAllAvailable)
        return self._steady(lambda: self._latest(start, bounded=bounded))

    def _latest(self, start: dict[str, Any], *, bounded: bool) -> dict[str, Any]:
        offsets = offsets_from_json(LogOffset, start)
        for store, log in self._logs():
            target = None if self._target is None else self._target.get(store, 0)
            if not log.files or target == 0:
                continue
            if store not in offsets:
                self._ensure_not_moved(store, log, offsets)
            begin = self._begin(store, log, offsets.get(store))
            if offsets.get(store) not in {None, begin}:
                # An empty batch of its own skips what is lost.
                offsets[store] = begin
                continue
            progress = follow(
                log,
                begin.offset,
                last=begin.last,
                stop=target,
                max_records=self._options.max_messages if bounded else None,
                max_bytes=self._options.max_bytes if bounded else None,
                mode=self._options.mode,
                on_malformed=self._warn,
            )
            self._tell_wait(store, progress.wait)
            if progress.end > begin.offset:
                offsets[store] = LogOffset(progress.end, progress.last)
        return offsets_to_json(offsets)

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        """Divide a batch among tasks."""
        return self._steady(lambda: self._planned(start, end))

    def _planned(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        begins, ends = offsets_from_json(LogOffset, start), offsets_from_json(LogOffset, end)
        if begins == ends:
            return []
        options = self._options
        first, last = planned_bound(options.begin, up=True), planned_bound(options.end, up=False)
        partitions = []
        for store, log in self._logs():
            until = ends.pop(store, None)
            if until is None or until == begins.get(store):
                continue
            parts = self._parts(store, log, begins.get(store), until)
            partitions += planned_partitions(
                store, log, parts, (first, last), options.max_partition_bytes
            )
        for store, until in ends.items():
            since = begins.get(store)
            if since != until:
                begin = 0 if since is None else since.offset
                self._report_loss(
                    _lost(store, begin, until.offset, "no path stands for the log any more")
                )
        return partitions

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Read the messages of one task."""
        if isinstance(partition, MessagePartition) and not self._options.fail_on_data_loss:
            partition = self._without_expired(partition)
        yield from self._reader.read(partition)

    def _steady(self, read: Callable[[], T]) -> T:
        """Repeat a reading during which a file expired, which the next one finds lost."""
        return read_steady(", ".join(self._options.paths), read)

    def _logs(self) -> Iterator[tuple[str, CommitLog]]:
        for store, paths in logs_of(self._options.paths):
            with CommitLog(paths[0] if len(paths) == 1 else paths) as log:
                yield store, log

    def _ensure_not_moved(
        self, store: str, log: CommitLog, offsets: Mapping[str, LogOffset]
    ) -> None:
        """Refuse a log that was read before under another path: all would come again."""
        present = {name for name, _ in logs_of(self._options.paths)}
        for former in sorted(offsets.keys() - present):
            offset = offsets[former]
            if offset.last is not None and offset.last.is_of(log, offset.offset):
                raise RmqIndexError(
                    f"{store}: expected this CommitLog at {former}, where the checkpoint has it "
                    f"as read up to offset {offset.offset}, got the same log at another path; "
                    "give the former path, by a link for instance, or start with a new "
                    "checkpoint, which returns all messages again"
                )

    def _end_of(self, store: str, log: CommitLog) -> LogOffset:
        progress = written_end(log, self._options.mode)
        self._tell_wait(store, progress.wait)
        return LogOffset(progress.end, progress.last)

    def _tell_wait(self, store: str, wait: str | None) -> None:
        """Log once that a log's last message waits, where it does."""
        if wait is not None:
            self._warn(f"{store}: {wait}")

    def _first(self, store: str, log: CommitLog) -> LogOffset:
        """Return where a new stream begins in one log."""
        position = self._options.starting_position
        if position == "earliest":
            return LogOffset(log.min_offset)
        end = self._end_of(store, log)
        if position in {"latest", end.offset}:
            return end
        offset = int(position)
        (state,) = log.read_at([offset], ["phy_offset"]).column("state").to_pylist()
        if state != "record":
            raise RmqIndexError(
                f"option 'startingPosition': expected an offset from {log.min_offset} to "
                f"{end.offset} where a message starts, got {offset} ({state})"
            )
        return LogOffset(offset)

    def _begin(self, store: str, log: CommitLog, offset: LogOffset | None) -> LogOffset:
        """Return where to continue, which is after any lost messages."""
        if offset is None:
            return LogOffset(log.min_offset)
        begin = place_of(log, offset.offset)
        if begin > offset.offset:
            if has_room(offset.offset, begin):
                self._report_loss(_lost(store, offset.offset, begin, "the files are gone"))
            return LogOffset(begin)
        if begin == offset.offset and (
            offset.last is None or offset.last.is_of(log, offset.offset) or offset.last.is_gone(log)
        ):
            return offset
        self._report_loss(
            f"{store}: expected the log of which the messages before offset {offset.offset} were "
            f"read, got one that was truncated or replaced; it is read from the next message on"
        )
        found = next_record(log, offset.offset)
        return LogOffset(found.end, found.last)

    def _parts(
        self, store: str, log: CommitLog, since: LogOffset | None, until: LogOffset
    ) -> list[LogPart]:
        if since is not None and until.offset <= since.offset:
            return []
        begin = self._begin(store, log, since).offset
        mark = until.last
        if mark is not None and not (mark.is_of(log, until.offset) or mark.is_gone(log)):
            self._report_loss(
                _lost(store, begin, until.offset, "the log was truncated or replaced since then")
            )
            return []
        behind = log.files[-1].stop if log.files else begin
        if behind < until.offset:
            self._report_loss(_lost(store, behind, until.offset, "the files are gone"))
        size = self._options.max_partition_bytes
        parts = []
        for file in log.files:
            start, stop = max(begin, file.start), min(until.offset, file.stop)
            if start >= stop:
                continue
            cuts = [start, stop]
            if stop - start > size:
                inner = log.record_boundaries(file, size)
                cuts = sorted({start, stop, *(cut for cut in inner if start < cut < stop)})
            parts += [LogPart(file, *pair) for pair in pairwise(cuts)]
        return parts

    def _without_expired(self, partition: MessagePartition) -> MessagePartition:
        """Drop the ranges of files that were deleted since the batch was planned."""
        ranges = []
        for start, stop in partition.ranges:
            file = next(file for file in partition.files if file.start <= start < file.stop)
            if exists(file.path):
                ranges.append((start, stop))
            else:
                log_warning(_lost(partition.store, start, stop, "the file is gone"))
        return replace(partition, ranges=tuple(ranges))


def _lost(store: str, start: int, stop: int, why: str) -> str:
    return f"{store}: the messages from offset {start} to {stop} are lost: {why}"
