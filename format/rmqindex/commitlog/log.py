"""The CommitLog: every message of a broker, read in order or by offset.

RocketMQ: ``CommitLog``, ``MappedFileQueue``, ``MessageDecoder``.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Self

import numpy as np
import pyarrow as pa

from rmqindex.arguments import int_array, int_of, int_or_none
from rmqindex.commitlog.bodies import Unpacking
from rmqindex.commitlog.end import UnagreedTail, last_with_data
from rmqindex.commitlog.files import ExpiredFileError, OpenFiles, find_files, gaps_of
from rmqindex.commitlog.reading import (
    DEFAULT_MAX_RECORDS,
    Reading,
    boundaries_of,
    committed_offset,
    end_error,
    find_end,
    first_store_timestamp,
)
from rmqindex.commitlog.walk import record_crc_fault, records_at
from rmqindex.indexfile.entries import check_mode
from rmqindex.layout.columns import required_field
from rmqindex.layout.index_file import INT64_MAX
from rmqindex.notebooks import html_table
from rmqindex.record.batches import build_batch, one_chunk
from rmqindex.record.bodies import MAX_BODY_SIZE

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from types import TracebackType

    import pyarrow.fs as pafs
    from numpy.typing import NDArray

    from rmqindex.arguments import IntArray
    from rmqindex.commitlog.framing import LogFile
    from rmqindex.errors import CorruptCommitLogError
    from rmqindex.indexfile.entries import Mode
    from rmqindex.record.records import Records
    from rmqindex.storage.location import Location, PathLike
    from rmqindex.storage.source import ByteSource

#: The states of offsets that :meth:`CommitLog.read_at` returns.
MATCH_STATES = ("record", "expired", "beyond_end", "missing", "not_a_record", "bad_crc")
_RECORD, _EXPIRED, _BEYOND_END, _MISSING, _NOT_A_RECORD, _BAD_CRC = range(len(MATCH_STATES))
_STATE_TYPE = pa.dictionary(pa.int8(), pa.string())

_DEFAULT_CHUNK = 128 * 1024 * 1024


class CommitLog:
    """A CommitLog, read only; a context manager.

    The log ends at the first place without a sound record in the last file that holds any bytes.
    That place may hold zeros up to the end of the file, a torn record or remains of an earlier life
    of the log.
    It is damage instead if a sound record follows that is not older than the last one before it, if
    zeros end in bytes of no record, if it lies in an earlier file, or if an IndexFile, a
    ConsumeQueue or the checkpoint of its store leads to a message behind it.
    In DLedger, index and term of the entries tell which is older.
    A last record that a running broker is still writing, to which nothing leads, is left out.

    Attributes:
        files: The files by offset.
    """

    files: tuple[LogFile, ...]

    def __init__(
        self,
        path: PathLike | Sequence[PathLike | LogFile],
        *,
        filesystem: pafs.FileSystem | None = None,
        folders: Sequence[Location] | None = None,
    ) -> None:
        """Find the files; none is opened yet.

        Args:
            path: A store root that has ``commitlog/``, a DLedger log (``dledger-*/data``) or both,
                a directory of log files, one such file, or several of them: a sequence, or one text
                with commas as in RocketMQ's ``storePathCommitLog``.
                A file that several of them name counts once.
                Local, ``file:`` URIs, or other URIs that ``pyarrow.fs`` knows.
                Files found before (:attr:`files`) are used as given, so that another process need
                not list them again.
            filesystem: Where the paths lie, instead of what they say themselves.
            folders: For files found before, :attr:`folders` of their log, whose stores prove where
                it ends; None if ``path`` names them.

        Raises:
            RmqIndexError: Nothing is there, no store with a log, files that overlap.
        """
        self.files = find_files(path, filesystem)
        given = path if folders is None else folders
        self._open_files = OpenFiles(self.files, given, filesystem)
        self._max_offset: int | None = None
        self._end_error: CorruptCommitLogError | None = None

    def __enter__(self) -> Self:
        """Return the log itself."""
        return self

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Close the log."""
        self.close()

    def __reduce__(self) -> tuple[object, ...]:
        """Pickle the files that were found and where, not what is open."""
        return partial(CommitLog, folders=self.folders), (self.files,)

    def __repr__(self) -> str:
        """Return where the files are, and which offsets they hold, without opening one."""
        return f"CommitLog({self._where()})"

    def _repr_html_(self) -> str:
        rows = [(file.path, file.start, file.stop, file.size) for file in self.files]
        return html_table(f"CommitLog {self._where()}", ("file", "from", "to", "bytes"), rows)

    def _where(self) -> str:
        if not self.files:
            return "no files"
        count = f"{len(self.files)} file{'s' if len(self.files) > 1 else ''}"
        first, last = self.files[0], self.files[-1]
        return f"{str(first.path.parent)!r}: {count}, offsets {first.start} to {last.stop}"

    def close(self) -> None:
        """Close all files; the log reopens them when needed."""
        self._open_files.close()

    @property
    def mapped_file_size(self) -> int | None:
        """The size of the broker's files in bytes, inferred from names and sizes.

        None without files.
        """
        return self._open_files.mapped_file_size

    @property
    def folders(self) -> tuple[Location, ...]:
        """The directories in which the files were looked for; none for files chosen by name."""
        return self._open_files.folders

    @property
    def gaps(self) -> tuple[tuple[int, int], ...]:
        """The ranges of offsets between files that no file holds, as start and stop in bytes."""
        return gaps_of(self.files)

    @property
    def min_offset(self) -> int:
        """The offset of the first byte of the log that has not expired; 0 without files."""
        return self._open_files.min_offset

    @property
    def max_offset(self) -> int:
        """The offset behind the last sound record: where the next message would start.

        Found by walking the last file with data, once.
        """
        if self._max_offset is None:
            errors: list[CorruptCommitLogError] = []
            end = find_end(self._open_files, errors.append)
            # Another thread takes an end that is known for one whose error is known.
            self._end_error = errors[0] if errors else None
            self._max_offset = end
        return self._max_offset

    def end_error(
        self, end: int | None = None, *, queues: bool = True
    ) -> CorruptCommitLogError | None:
        """Return what proves that the log went on behind its last sound record, if anything.

        Reading up to the end of the log raises, or reports, the same.

        Args:
            end: Where the records end, bytes; None for :attr:`max_offset`.
            queues: Whether ConsumeQueues are looked at, of which there may be thousands, where an
                IndexFile has entries, too.

        Raises:
            RmqIndexError: The storage failed.
        """
        end = int_or_none("end", end, 0)
        if end is None:
            end = self.max_offset
            if self._end_error is not None:
                return self._end_error
        return end_error(self._open_files, end, queues=queues)

    @property
    def committed_offset(self) -> int | None:
        """The offset behind the last entry on which DLedger's group is known to have agreed.

        Another leader may replace the entries behind it. Brokers note it every three seconds, and
        dispatch messages to index and queues once the group has agreed: the later one counts.
        None for a plain log, and without the broker's note beside the data.
        """
        return committed_offset(self._open_files)

    def agreed_stop(self, stop: int | None = None, *, queues: bool = True) -> int | None:
        """Return the smaller one of an offset, None for no limit, and :attr:`committed_offset`.

        ``queues`` is that of :meth:`end_error`; what they prove, a running broker notes soon.
        """
        stop = int_or_none("stop", stop, 0)
        agreed = committed_offset(self._open_files, queues=queues)
        return agreed if stop is None else stop if agreed is None else min(stop, agreed)

    def unagreed_tail(self, stop: int | None = None) -> UnagreedTail | None:
        """Return what of the log up to an offset lies behind :attr:`committed_offset`, if any."""
        stop, agreed = int_or_none("stop", stop, 0), self.committed_offset
        if agreed is None:
            return None
        end = self.max_offset if stop is None else min(stop, self.max_offset)
        return UnagreedTail(agreed, end - agreed) if end > agreed else None

    def first_store_timestamp(self, file: LogFile) -> int | None:
        """Return the store timestamp, epoch milliseconds, of the first record of a file.

        None where the file does not begin with a sound record, and where it has expired.
        Store times usually, but not always, ascend: clocks step back.
        """
        return first_store_timestamp(self._open_files, file)

    def record_boundaries(self, file: LogFile, chunk_size: int = _DEFAULT_CHUNK) -> list[int]:
        """Return offsets that split a file into parts of about one size, at record boundaries.

        In a file of DLedger these are where entries start, each with its head before its record.
        They are searched for, not walked to, so that a file of any size takes a few reads.
        Each has the head, the offset, the size and the CRC of a record; reading the part before it
        with ``at_boundaries=True`` proves that it is not a copy of a record in a message's body.
        The last file with data is walked, since remains of an earlier life of the log look like
        records too.

        Args:
            file: One of :attr:`files`.
            chunk_size: The distance, bytes.

        Returns:
            Ascending offsets in the log, the first the file's own start; none is in an unwritten
            tail.

        Raises:
            ValueError: A distance below 1, or a file of another log.
            RmqIndexError: The storage failed.
        """
        if file not in self.files:
            raise ValueError(f"file: expected one of the log's files, got {file.path}")
        return boundaries_of(self._open_files, file, int_of("chunk_size", chunk_size, 1))

    def scan(
        self,
        start: int | None = None,
        stop: int | None = None,
        columns: Sequence[str] | None = None,
        *,
        check_crc: bool = False,
        mode: Mode = "FAILFAST",
        at_boundaries: bool = False,
        on_malformed: Callable[[CorruptCommitLogError], None] | None = None,
        max_records: int = DEFAULT_MAX_RECORDS,
        decompress_body: bool = True,
        max_body_size: int = MAX_BODY_SIZE,
    ) -> Iterator[pa.RecordBatch]:
        """Read messages in the order of their offsets.

        Args:
            start: The first offset, bytes; messages that start before it are left out. None for the
                log's start.
            stop: The offset from which on messages are left out; None for the log's end.
            columns: Names of ``COMMITLOG_SCHEMA``, in any order; other columns cost nothing.
                ``body_text`` may be among them: the body where it is UTF-8 text, else null; null
                for inner batches. None for all of the schema.
            check_crc: Check the CRC of every record, and that of the properties where there is
                one; a wrong one is damage. Without it, the CRCs of bodies that are given as they
                were sent are checked all the same.
            mode: ``FAILFAST`` raises at damage, and at a body whose CRC is wrong or that cannot be
                decompressed; ``DROPMALFORMED`` continues at the next record that is proved by its
                offset, parts and CRCs, and gives null for such a body.
            at_boundaries: Whether ``start`` and ``stop`` come from :meth:`record_boundaries`.
                Reading then begins at ``start`` at once, and records that pass over ``stop`` are
                damage.
            on_malformed: Called with each error that ``DROPMALFORMED`` does not raise.
            max_records: The most messages in a batch.
            decompress_body: Whether bodies are given as they were sent; False gives them as stored,
                also where their CRC is wrong.
            max_body_size: The most bytes that a body may decompress to.

        Yields:
            Batches of at least one message, with the requested fields of ``COMMITLOG_SCHEMA``.

        Raises:
            ValueError: An unknown column or mode, a negative offset.
            CorruptCommitLogError: Damage, with the file and the byte; only ``FAILFAST``.
            RmqIndexError: A body is damaged, only ``FAILFAST``; the storage failed.
        """
        blocks = self.records(
            start,
            stop,
            check_crc=check_crc,
            mode=mode,
            at_boundaries=at_boundaries,
            on_malformed=on_malformed,
            max_records=max_records,
        )
        bodies = Unpacking(
            columns,
            decompress=decompress_body,
            strict=mode == "FAILFAST",
            max_size=max_body_size,
            on_bad=on_malformed,
        )
        return (
            batch
            for records in blocks
            for batch in bodies.batches(build_batch(records, bodies.source), self.files)
        )

    def records(
        self,
        start: int | None = None,
        stop: int | None = None,
        *,
        check_crc: bool = False,
        mode: Mode = "FAILFAST",
        at_boundaries: bool = False,
        on_malformed: Callable[[CorruptCommitLogError], None] | None = None,
        max_records: int = DEFAULT_MAX_RECORDS,
        proves_end: bool = True,
    ) -> Iterator[Records]:
        """Read records in the order of their offsets, none of whose columns is decoded yet.

        The arguments are those of :meth:`scan`, for which what leads behind the log's end is always
        damage (``proves_end``).

        Yields:
            Blocks of at least one record, which lie in the file's bytes.

        Raises:
            ValueError: An unknown mode, a negative offset.
            CorruptCommitLogError: Damage, with the file and the byte; only ``FAILFAST``.
            RmqIndexError: The storage failed.
        """
        check_mode(mode)
        start, stop = int_or_none("start", start, 0), int_or_none("stop", stop, 0)
        max_records = int_of("max_records", max_records, 1)
        return Reading(
            self._open_files,
            self.min_offset if start is None else start,
            INT64_MAX if stop is None else stop,
            check_crc=check_crc,
            drop=mode == "DROPMALFORMED",
            at_boundaries=at_boundaries,
            on_malformed=on_malformed,
            max_records=max_records,
            is_proved=proves_end,
        ).records()

    def read_at(
        self,
        offsets: IntArray,
        columns: Sequence[str] | None = None,
        *,
        check_crc: bool = False,
        mode: Mode = "FAILFAST",
        on_malformed: Callable[[CorruptCommitLogError], None] | None = None,
        decompress_body: bool = True,
        max_body_size: int = MAX_BODY_SIZE,
    ) -> pa.RecordBatch:
        """Read the messages at given offsets.

        Args:
            offsets: int64, bytes, in any order; duplicates are answered each time.
            columns: As in :meth:`scan`.
            check_crc: As in :meth:`scan`.
            mode: ``FAILFAST`` raises at a body whose CRC is wrong or that cannot be decompressed;
                ``DROPMALFORMED`` gives null for it.
            on_malformed: As in :meth:`scan`.
            decompress_body: As in :meth:`scan`.
            max_body_size: As in :meth:`scan`.

        Returns:
            One row per offset, in their order: ``state`` (one of ``MATCH_STATES``, as a dictionary)
            and the requested columns, null where ``state`` is not ``record``.
            ``record``: a sound record starts there; ``expired``: before the first file;
            ``beyond_end``: none starts there, at or behind :attr:`max_offset`; ``missing``: in a
            gap between files; ``not_a_record``: other bytes; ``bad_crc``: a record with a wrong CRC
            (only with ``check_crc``).

        Raises:
            ValueError: An unknown column or mode, a null, or more than 2 GiB of a column.
            TypeError: Offsets that are not integers.
            RmqIndexError: A body is damaged, only ``FAILFAST``; the storage failed.
        """
        check_mode(mode)
        bodies = Unpacking(
            columns,
            decompress=decompress_body,
            strict=mode == "FAILFAST",
            max_size=max_body_size,
            on_bad=on_malformed,
        )
        schema = bodies.source
        wanted, rows = np.unique(
            int_array("offsets", offsets).astype(np.int64), return_inverse=True
        )
        states = np.full(len(wanted), _EXPIRED, np.int8)
        states[wanted < 0] = _NOT_A_RECORD
        places = np.full(len(wanted), -1, np.int64)
        batches = [pa.RecordBatch.from_pylist([], schema=schema)]
        count = 0
        file_starts = np.array([file.start for file in self.files], np.int64)
        owner = np.searchsorted(file_starts, wanted, side="right") - 1
        for number in np.unique(owner[owner >= 0]).tolist():
            file = self.files[number]
            mine = np.flatnonzero(owner == number)
            behind = wanted[mine] >= file.stop
            is_last = number == len(self.files) - 1
            states[mine[behind]] = _BEYOND_END if is_last else _MISSING
            mine = mine[~behind]
            try:
                records, found = self._records_at(file, wanted[mine], check_crc=check_crc)
            except ExpiredFileError:
                continue
            states[mine] = found
            hits = mine[found == _RECORD]
            places[hits] = np.arange(count, count + len(hits))
            count += len(hits)
            batches += [
                build_batch(records.take(slice(first, first + DEFAULT_MAX_RECORDS)), schema)
                for first in range(0, len(records), DEFAULT_MAX_RECORDS)
            ]
        if not self.files:
            states[wanted >= 0] = _BEYOND_END
        places = places[rows]
        table = pa.Table.from_batches(batches).combine_chunks()
        # Usually each offset is given once, in order, and has a record.
        if not np.array_equal(places, np.arange(count)):
            table = table.take(pa.array(places, mask=places < 0))
        arrays = [one_chunk(table.column(name), name) for name in schema.names]
        state = pa.DictionaryArray.from_arrays(
            pa.array(states[rows]), pa.array(MATCH_STATES, pa.string())
        )
        state_field = required_field("state", _STATE_TYPE)
        fields = [state_field, *(field.with_nullable(True) for field in schema)]
        found = pa.RecordBatch.from_arrays([state, *arrays], schema=pa.schema(fields))
        return bodies.batch(found, self.files, [state_field]) if bodies.is_needed else found

    def _records_at(
        self, file: LogFile, offsets: NDArray[np.int64], *, check_crc: bool
    ) -> tuple[Records, NDArray[np.int8]]:
        records, sound = records_at(self.source(file), file, offsets - file.start)
        states = np.where(sound, _RECORD, _NOT_A_RECORD).astype(np.int8)
        if check_crc:
            good = np.array(
                [record_crc_fault(records, i) is None for i in range(len(records))], bool
            )
            states[np.flatnonzero(sound)[~good]] = _BAD_CRC
            records = records.take(good)
        if not sound.all() and self.files.index(file) >= self.last_with_data():
            states[~sound & (offsets >= self.max_offset)] = _BEYOND_END
        return records, states

    def source(self, file: LogFile) -> ByteSource:
        """Return one of the files, which stays open until the log is closed."""
        return self._open_files.source(file)

    def open_file(self, file: LogFile) -> ByteSource:
        """Open one of the files anew; the caller closes it.

        Raises:
            RmqIndexError: It is gone, cannot be read, or was changed since it was found.
        """
        return self._open_files.open_file(file)

    def ensure_same(self) -> None:
        """Raise if an open file was changed since it was opened.

        Raises:
            FileChangedError: One was truncated, replaced or rewritten.
            RmqIndexError: The storage failed.
        """
        self._open_files.ensure_same()

    def last_with_data(self) -> int:
        """Return the place in :attr:`files` of the last file with data; -1 without any."""
        return last_with_data(self._open_files)
