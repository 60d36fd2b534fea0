"""Messages by topic, queue, tag, time and offset, in either direction, without an index.

Also those whose topic or properties lost bytes to zeros, though their records still parse.
No CRC covers these fields, but where a broker from 5.2.0 on appends one. So a page of zeros there
takes a message's keys away without a trace in the record; the entries that the index has of them
are the trace.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np
import pyarrow as pa

from rmqindex.arguments import int_or_none
from rmqindex.commitlog.files import ExpiredFileError
from rmqindex.commitlog.reading import DEFAULT_MAX_RECORDS
from rmqindex.keys.hash_set import distinct
from rmqindex.keys.utf8 import check_text
from rmqindex.layout.index_file import INT64_MAX, INT64_MIN
from rmqindex.record.batches import schema_of
from rmqindex.storage.identity import FileChangedError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from numpy.typing import NDArray

    from rmqindex.commitlog.log import CommitLog
    from rmqindex.errors import CorruptCommitLogError
    from rmqindex.indexfile.entries import Mode

# Of a file that is read from its end, bytes: the newest messages are found after a part of it.
_BACKWARD_CHUNK = 8 * 1024 * 1024
# Where a message is, which is always read.
_PLACE = ("phy_offset", "size")
# Fewer messages of a block than this share are read one by one.
_SPARSE = 1 / 8


@dataclass(frozen=True, slots=True)
class MissingPart:
    """A range of offsets that no file of a CommitLog has, though it had messages there.

    Attributes:
        part: ``start``: before the log's first file; ``middle``: between two; ``end``: behind the
            log's end; ``older``: the same, which nothing proves but older records behind it;
            ``misnamed``: of a file behind the log's end by its name, which has other messages.
        folder: The folder of the log's files.
        start: The first offset that is missing, bytes; None for ``start``, where nothing tells.
        stop: The offset behind the last one, bytes; None for ``end`` and ``older``, where nothing
            tells.
        proof: The IndexFile, or the file of a ConsumeQueue, that leads there; the file of the log
            behind the hole for ``middle``, and that with the records for ``older`` and
            ``misnamed``.
        phy_offset: The offset of the message to which ``proof`` leads, bytes; None for ``middle``
            and ``misnamed``.
        advice: What gives ``misnamed`` its own name.
    """

    part: Literal["start", "middle", "end", "older", "misnamed"]
    folder: str
    start: int | None
    stop: int | None
    proof: str
    phy_offset: int | None
    advice: str = ""

    def text(self, what: str = "the answer") -> str:
        """Return what comes of the log without these messages, and what to do about it."""
        if self.part == "start":
            return (
                f"{self.folder}: no file has offsets before {self.stop}, but {self.proof} is "
                f"of older messages alone, up to the one at {self.phy_offset}, and a broker "
                "deletes such a file within seconds after the messages. If they have not expired, "
                "the oldest files of the CommitLog are lost and their messages are missing from "
                f"{what}; restore the files from a replica or a backup"
            )
        if self.part == "middle":
            return (
                f"{self.folder}: no file has the offsets from {self.start} to before {self.stop}. "
                f"Their messages are missing from {what}; restore the files from a replica or a "
                "backup"
            )
        if self.part == "older":
            return (
                f"{self.proof}: the CommitLog ends at offset {self.start}, and older messages "
                f"follow, from offset {self.phy_offset} on. Unless an earlier life of the log left "
                f"them, the broker's clock stepped back, and they are missing from {what}; restore "
                "the file from a replica or a backup"
            )
        if self.part == "misnamed":
            return (
                f"{self.proof}: expected a message at the offset of its name, got one at offset "
                f"{self.start}. Its messages are missing from {what}. While no broker runs, "
                f"{self.advice}"
            )
        end = f"ends at offset {self.start}" if self.start else "has no messages"
        return (
            f"{self.folder}: the CommitLog {end}, but {self.proof} leads to a message at "
            f"{self.phy_offset}. Unless that file is another store's, the messages from offset "
            f"{self.start} on are missing from {what}; restore the newest files of the CommitLog "
            "from a replica or a backup"
        )

    def without(self, start: int, stop: int) -> MissingPart | None:
        """Return the part without a range of offsets; None if nothing is left of it.

        Args:
            start: The first offset of the range, bytes.
            stop: The offset behind it.
        """
        if self.part == "start":
            is_inside = self.phy_offset is not None and self.phy_offset >= start
            return None if is_inside else replace(self, stop=min(start, self.stop or start))
        if self.stop is None or self.start is None or self.start >= stop:
            return self
        if self.stop <= stop:
            return None
        return replace(self, start=stop)


@dataclass(frozen=True, slots=True)
class Selection:
    """Which messages are asked for; None and an empty tuple stand for all.

    Attributes:
        topics: Names of topics.
        queue_ids: Numbers of queues.
        tags: Values of the property TAGS.
        begin: The earliest store time, epoch milliseconds.
        end: The latest store time, epoch milliseconds.
        start: The first offset, bytes.
        stop: The offset from which on messages are left out, bytes.
    """

    topics: tuple[str, ...] = ()
    queue_ids: tuple[int, ...] = ()
    tags: tuple[str, ...] = ()
    begin: int | None = None
    end: int | None = None
    start: int | None = None
    stop: int | None = None

    def __post_init__(self) -> None:
        """Refuse texts that no message can have, and numbers that are none.

        Raises:
            ValueError: A topic or a tag is not UTF-8, or an offset is negative.
            TypeError: Not texts, or not ints.
        """
        for name in ("topics", "tags"):
            for text in getattr(self, name):
                check_text(name, text)
        for name, least in (("begin", INT64_MIN), ("end", INT64_MIN), ("start", 0), ("stop", 0)):
            object.__setattr__(self, name, int_or_none(name, getattr(self, name), least))

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns of a message that tell whether it is asked for; offset and size are not."""
        found = [
            name
            for name, wanted in (
                ("topic", self.topics),
                ("queue_id", self.queue_ids),
                ("tags", self.tags),
            )
            if wanted
        ]
        if self.begin is not None or self.end is not None:
            found.append("store_timestamp")
        return tuple(found)

    def matches(self, batch: pa.RecordBatch) -> NDArray[np.bool_]:
        """Return which rows of a batch with :attr:`columns` are asked for, by all but offsets."""
        keep = np.ones(batch.num_rows, bool)
        for name, wanted in (("topic", self.topics), ("tags", self.tags)):
            if wanted:
                keep &= _equals_any(batch.column(name), wanted)
        if self.queue_ids:
            keep &= np.isin(batch.column("queue_id").to_numpy(), self.queue_ids)
        if self.begin is not None:
            keep &= batch.column("store_timestamp").to_numpy() >= self.begin
        if self.end is not None:
            keep &= batch.column("store_timestamp").to_numpy() <= self.end
        return keep

    def document(self) -> dict[str, Any]:
        """Return the selection as JSON values."""
        return {
            name: list(value) if isinstance(value, tuple) else value
            for name, value in asdict(self).items()
        }


class Block(NamedTuple):
    """Messages that are asked for, and how far the log was read for them.

    Attributes:
        batch: The messages; None where none of those that were read is asked for.
        first: The offset of the first message that was read, bytes.
        last: The offset of the last message that was read, bytes.
        stop: The offset behind it, bytes.
    """

    batch: pa.RecordBatch | None
    first: int
    last: int
    stop: int


def select_messages(
    log: CommitLog,
    selection: Selection,
    columns: Sequence[str],
    *,
    within: tuple[int, int | None] | None = None,
    check_crc: bool = False,
    mode: Mode = "FAILFAST",
    on_malformed: Callable[[CorruptCommitLogError], None] | None = None,
    max_records: int = DEFAULT_MAX_RECORDS,
) -> Iterator[Block]:
    """Read the messages that are asked for, in the order of their offsets.

    Where columns are asked for by which nothing is chosen, they are decoded only for the messages
    that are asked for: the bodies of others are not read.

    Args:
        log: The log.
        selection: Which messages.
        columns: Names of ``COMMITLOG_SCHEMA``; only messages that are asked for have them decoded.
        within: Read only this part of the log, at whose begin a message starts, and at whose end
            one starts or the log ends; None as end for the log's end.
        check_crc: As :meth:`rmqindex.CommitLog.scan` takes it, for every message, asked for or
            not.
        mode: As :meth:`rmqindex.CommitLog.scan` takes it.
        on_malformed: As :meth:`rmqindex.CommitLog.scan` takes it.
        max_records: The most messages that are read at a time.

    Yields:
        Blocks that follow one another, none with a gap inside, with the bodies as they are stored.

    Raises:
        CorruptCommitLogError: Damage; only ``FAILFAST``.
        RmqIndexError: The storage failed.
    """
    first = [*_PLACE, *selection.columns]
    at_once = not selection.columns or set(columns).issubset(first)
    start, stop = (selection.start, selection.stop) if within is None else within
    at_boundaries = within is not None
    if within is not None and selection.start is not None and selection.start > within[0]:
        # Damage before what is asked for is none of it. A stop inside a message, which a scan
        # within boundaries would take for damage, ends the reading below.
        start, at_boundaries = selection.start, False
    for whole in log.scan(
        start,
        stop,
        list(dict.fromkeys([*first, *columns])) if at_once else first,
        check_crc=check_crc,
        mode=mode,
        at_boundaries=at_boundaries,
        on_malformed=on_malformed,
        max_records=max_records,
        decompress_body=False,
    ):
        batch = whole if within is None else _cut(whole, selection)
        if batch.num_rows:
            hits = np.flatnonzero(selection.matches(batch))
            if at_once:
                kept = batch if len(hits) == batch.num_rows else batch.take(pa.array(hits))
                found = kept.select(list(columns)) if len(hits) else None
            else:
                found = _read(log, batch, hits, columns, mode)
            offsets = batch.column("phy_offset")
            yield Block(found, offsets[0].as_py(), offsets[-1].as_py(), _stop_of(batch))
        if selection.stop is not None and _stop_of(whole) >= selection.stop:
            return


def newest_messages(
    log: CommitLog,
    selection: Selection,
    columns: Sequence[str],
    limit: int,
    *,
    mode: Mode = "FAILFAST",
    on_malformed: Callable[[CorruptCommitLogError], None] | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> pa.Table:
    """Return the messages that are asked for with the highest offsets, the highest first.

    The log is read from its end, and no further than the last of them.

    Args:
        log: The log.
        selection: Which messages.
        columns: Names of ``COMMITLOG_SCHEMA``.
        limit: At most how many, 1 or more.
        mode: As :meth:`rmqindex.CommitLog.scan` takes it.
        on_malformed: As :meth:`rmqindex.CommitLog.scan` takes it.
        progress: Called with the bytes that were read, and those that there are.

    Raises:
        CorruptCommitLogError: Damage in the part that was read; only ``FAILFAST``.
        RmqIndexError: The storage failed.
    """
    first = max(log.min_offset, selection.start or 0)
    last = min(log.max_offset, INT64_MAX if selection.stop is None else selection.stop)
    found: list[pa.Table] = []
    missing = limit
    parts: list[tuple[int, int | None]] = [*_parts_backward(log, first, last)] or [(first, last)]
    # Reading up to the log's end proves it.
    parts[0] = parts[0][0], selection.stop
    for number, (start, stop) in enumerate(parts):
        batches = []
        for batch in log.scan(
            max(start, first),
            stop,
            [*_PLACE, *selection.columns],
            mode=mode,
            # Damage outside of what is asked for is none of it.
            at_boundaries=start >= first and (number > 0 or selection.stop is None),
            on_malformed=on_malformed,
        ):
            at = batch.column("phy_offset").to_numpy()
            keep = selection.matches(batch) & (at >= first) & (at < last)
            batches.append((batch, np.flatnonzero(keep)))
        for batch, hits in reversed(batches):
            rows = _read(log, batch, hits[-missing:], columns, mode)
            if rows is not None:
                found.append(pa.table(rows).take(np.arange(rows.num_rows)[::-1]))
                missing -= rows.num_rows
            if not missing:
                return pa.concat_tables(found)
        if progress is not None:
            progress(last - start, last - first)
    return pa.concat_tables(found) if found else schema_of(columns).empty_table()


def _parts_backward(log: CommitLog, first: int, last: int) -> Iterator[tuple[int, int]]:
    """Yield ranges of a log, at whose ends messages start, from the last to the first."""
    for file in reversed(log.files):
        if file.start >= last or file.stop <= first:
            continue
        stop = file.stop
        try:
            starts = log.record_boundaries(file, _BACKWARD_CHUNK)
        except ExpiredFileError:
            return
        for start in reversed(starts):
            if start < last and stop > first:
                yield start, stop
            stop = start


def _read(
    log: CommitLog,
    batch: pa.RecordBatch,
    hits: NDArray[np.int64],
    columns: Sequence[str],
    mode: Mode,
) -> pa.RecordBatch | None:
    """Read some of the messages of a batch that has where they are."""
    if not len(hits):
        return None
    offsets = batch.column("phy_offset").to_numpy()[hits]
    if len(hits) < batch.num_rows * _SPARSE:
        rows = log.read_at(offsets, columns, decompress_body=False)
        if rows.column("state").to_pylist() != ["record"] * len(hits):
            return _read_kept(log, batch, hits, columns, mode)
        return rows.select(list(columns)).cast(schema_of(columns))
    stop = int(offsets[-1]) + batch.column("size")[int(hits[-1])].as_py()
    read = [*columns, *(name for name in _PLACE[:1] if name not in columns)]
    parts = log.scan(
        int(offsets[0]), stop, read, mode=mode, at_boundaries=True, decompress_body=False
    )
    table = pa.Table.from_batches(parts, schema_of(read))
    is_hit = np.isin(table.column("phy_offset").to_numpy(), offsets)
    if np.count_nonzero(is_hit) != len(hits):
        return _read_kept(log, batch, hits, columns, mode)
    kept = table.filter(pa.array(is_hit)).select(list(columns)).combine_chunks()
    return kept.to_batches()[0]


def _read_kept(
    log: CommitLog,
    batch: pa.RecordBatch,
    hits: NDArray[np.int64],
    columns: Sequence[str],
    mode: Mode,
) -> pa.RecordBatch | None:
    """Read what is left of some messages, if others are missing since they have expired."""
    kept = hits[batch.column("phy_offset").to_numpy()[hits] >= log.min_offset]
    if len(kept) == len(hits):
        raise FileChangedError(log.files[-1].path.parent, "rewritten", "run this again")
    return _read(log, batch, kept, columns, mode)


def _cut(batch: pa.RecordBatch, selection: Selection) -> pa.RecordBatch:
    """Return the messages of a batch that start within the offsets of a selection."""
    offsets = batch.column("phy_offset").to_numpy()
    first = 0 if selection.start is None else int(np.searchsorted(offsets, selection.start))
    behind = (
        len(offsets) if selection.stop is None else int(np.searchsorted(offsets, selection.stop))
    )
    return batch.slice(first, max(0, behind - first))


def _stop_of(batch: pa.RecordBatch) -> int:
    """Return the offset behind the last message of a batch."""
    last = batch.num_rows - 1
    return int(batch.column("phy_offset")[last].as_py() + batch.column("size")[last].as_py())


def _equals_any(texts: pa.Array, wanted: Sequence[str]) -> NDArray[np.bool_]:
    """Return which texts are one of those that are wanted; a null is none."""
    import pyarrow.compute as pc  # noqa: PLC0415  (a command may not need it)

    found: NDArray[np.bool_] = pc.is_in(texts, pa.array(wanted, texts.type)).to_numpy(
        zero_copy_only=False
    )
    return found


# Messages that are further apart, bytes, are read by themselves.
_APART = 1 << 20


def zeroed_messages(log: CommitLog, offsets: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return which messages have a byte of 0 in their topic or properties.

    Clients may write one there, so that it proves damage only where something else contradicts the
    message, such as an entry of a key that it does not have.

    Args:
        log: The log.
        offsets: Where the messages start, bytes.

    Returns:
        Their offsets, ascending.

    Raises:
        RmqIndexError: The storage failed.
    """
    wanted = distinct(offsets)
    found: list[int] = []
    for group in np.split(wanted, np.flatnonzero(np.diff(wanted) > _APART) + 1):
        if not len(group):
            continue
        first, last = int(group[0]), int(group[-1])
        blocks = log.records(first, last + 1, mode="DROPMALFORMED", proves_end=False)
        for records in blocks:
            rows = np.flatnonzero(np.isin(records.phy_offset, group)).tolist()
            zeroed = [row for row in rows if records.has_zeroed_text(row)]
            found += records.phy_offset[zeroed].tolist()
    return np.array(found, np.int64)
