"""Reading one IndexFile (spec: reading a file; RocketMQ: ``IndexFile``)."""

from __future__ import annotations

from datetime import UTC
from typing import TYPE_CHECKING, Self

import numpy as np
import pyarrow as pa

from rmqindex.arguments import int_array, int_of, text_of
from rmqindex.indexfile import uncounted
from rmqindex.indexfile.committed import open_index_source, read_header
from rmqindex.indexfile.decoding import ENTRY_SCHEMA
from rmqindex.indexfile.entries import EntryReader, Mode, check_mode
from rmqindex.indexfile.fingerprint import Fingerprint, entries_checksum
from rmqindex.indexfile.geometry import Layout, infer_layout
from rmqindex.indexfile.proof import ensure_fits, proved_count
from rmqindex.indexfile.select import select_phy_offset
from rmqindex.keys.hashing import key_hash
from rmqindex.layout.index_file import (
    ENTRY_SIZE,
    FIRST_POSITION,
    HEADER_SIZE,
    INT32_MAX,
    IndexHeader,
)
from rmqindex.notebooks import html_table
from rmqindex.storage.location import Location
from rmqindex.times import format_millis

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path
    from types import TracebackType

    import pyarrow.fs as pafs

    from rmqindex.arguments import IntArray
    from rmqindex.indexfile.entries import MessageRun
    from rmqindex.keys.hash_set import HashSet
    from rmqindex.storage.location import PathLike

_DAMAGED_HINT = "mode=DROPMALFORMED reads the sound part of a damaged file"


class IndexFile:
    """One IndexFile, opened for reading; a context manager.

    The file is read as it was when it was opened: entries that a broker appends later are never
    returned, and entries counted at opening are returned exactly once.

    Attributes:
        path: The file; a ``pathlib.Path`` for a local one, a ``str`` for a remote one.
        header: The header when the file was opened.
        mode: What happens to malformed entries.
    """

    path: Path | str
    header: IndexHeader
    mode: Mode

    def __init__(
        self,
        path: PathLike,
        layout: Layout | None = None,
        *,
        mode: Mode = "FAILFAST",
        filesystem: pafs.FileSystem | None = None,
        zero_extend: bool = False,
    ) -> None:
        """Open a file and read its header.

        Args:
            path: A local path, a ``file:`` URI, or a URI that ``pyarrow.fs`` knows.
            layout: The geometry; None to infer it as :meth:`Layout.infer`, unless the file has no
                entries.
            mode: ``FAILFAST`` raises at the first malformed bytes;
                ``DROPMALFORMED`` reads the sound entries and ignores the others, and its lookups
                read all entries instead of trusting slots and links.
            filesystem: The file system of ``path``; None to find it by the URI.
            zero_extend: Read a short file as if it were extended with zeros, as the broker does
                (it needs ``layout``); nothing on disk changes.

        Raises:
            RmqIndexError: The file cannot be read, or its geometry cannot be inferred.
            CorruptIndexError: In ``FAILFAST``: a truncated file, or more entries than fit.
            ValueError: An unknown mode, or ``zero_extend`` without ``layout``.
        """
        check_mode(mode)
        if zero_extend and layout is None:
            raise ValueError("zero_extend: expected a layout to say to which size")
        self.mode = mode
        location = Location.of(path, filesystem)
        self._location = location
        self.path = location.local or location
        self._source = open_index_source(
            location,
            zero_extend_to=layout.file_size if zero_extend and layout is not None else None,
        )
        try:
            self._open(layout)
        except BaseException:
            self._source.close()
            raise

    def _open(self, layout: Layout | None) -> None:
        source = self._source
        lenient = self.mode == "DROPMALFORMED"
        self._uncounted: str | None = None
        is_cut = lenient and source.size < HEADER_SIZE
        header = IndexHeader() if is_cut else read_header(source, _DAMAGED_HINT)
        self.header = header
        if layout is None and header.entry_count:
            layout = infer_layout(source) if lenient else uncounted.known_layout(source, header)
        self._layout = layout
        self._entries = EntryReader(source, layout, self.header, self.mode)
        self._entry_count = self.header.entry_count
        if layout is None:
            return
        if lenient:
            there = (source.size - layout.entry_offset(0)) // ENTRY_SIZE - 1
            self._entry_count = max(0, min(self._entry_count, layout.capacity, there))
            return
        ensure_fits(source, layout, self.header, _DAMAGED_HINT)

    @property
    def name(self) -> str:
        """The file's name without its folder."""
        return self._location.name

    @property
    def layout(self) -> Layout | None:
        """The geometry; None for a file without entries that was opened without one."""
        return self._layout

    @property
    def entry_count(self) -> int:
        """The number of readable entries: those that the header counted when the file was opened.

        With ``DROPMALFORMED``, a count beyond the file's capacity is capped.
        """
        return self._entry_count

    @property
    def left_out(self) -> str | None:
        """Which entries ``DROPMALFORMED`` leaves out as a whole, in words; None for none."""
        if self._source.size < HEADER_SIZE:
            return f"all entries: the file ends at byte {self._source.size}, in its header"
        count, left = self.header.entry_count, self._entry_count
        if self._uncounted is not None:
            return self._uncounted
        if left >= count:
            return None
        if not left:
            return f"all {count} entries that the header counts"
        return f"{count - left} of {count} entries that the header counts, behind position {left}"

    def check_count(self, layout_beside: Callable[[], Layout | None]) -> None:
        """Raise, or leave out the entries, where slots lead behind what the header counts.

        Of a remote file with entries only the header is read, which :meth:`drop_unproved` proves.

        Args:
            layout_beside: Returns the geometry that the files beside this one show, if they do.

        Raises:
            CorruptIndexError: In ``FAILFAST``: the count is damaged.
            RmqIndexError: The storage failed.
        """
        source, header = self._source, self.header
        if source.size < HEADER_SIZE or (source.remote and header.entry_count > 1):
            return
        error = uncounted.error_of_count(source, self._layout, header, layout_beside)
        if error is None:
            return
        if self.mode == "FAILFAST":
            raise error
        self._uncounted = (
            f"the entries behind position {self._entry_count}, which the header does not count "
            f"(index_count at byte {error.byte}: expected {error.expected}, got {error.got})"
        )

    def check_header(self, *, is_last: bool) -> None:
        """Raise where the header contradicts the entries, so that no write trusts either.

        Args:
            is_last: Whether the file is the last of its index, to which a broker may be writing.

        Raises:
            CorruptIndexError: The header is damaged.
            RmqIndexError: The storage failed.
        """
        self._entries.check_open()
        if self._layout is None:
            return
        error = uncounted.damaged_header(self._source, self._layout, self.header, is_last=is_last)
        if error is not None:
            raise error

    def count_put(self, layout_beside: Callable[[], Layout | None]) -> None:
        """Count the entry, too, that was put but for its count, which a broker finds by its slot.

        As :meth:`check_count`, it is told the geometry of the files beside this one.
        """
        layout = uncounted.layout_of_put(self._source, self._layout, self.header, layout_beside)
        if layout is not None:
            self._open(layout)
            self._entry_count += 1

    def drop_unproved(self) -> None:
        """Leave out the entries whose times the header does not prove.

        A damaged header gives every row a wrong time. Where it disagrees with the first or the
        last entry, the file has no readable entries from now on.

        Raises:
            RmqIndexError: The storage failed.
        """
        self._entries.check_open()
        if self._layout is not None:
            self._entry_count = proved_count(self._source, self._layout, self.header)

    def fingerprint(self) -> Fingerprint | None:
        """Return the fingerprint of the file; None for one without entries.

        Raises:
            CorruptIndexError: The file ends before its last entry.
            RmqIndexError: The storage failed.
        """
        if self._layout is None or not self._entry_count:
            return None
        self._entries.check_open()
        stop = self._entry_count + FIRST_POSITION
        return Fingerprint.of(self._source, self._layout, stop)

    def checksum(self, stop: int) -> int:
        """Return a CRC-32 of the entries before a position, which no append changes.

        It covers the header's ``begin_*`` fields and the first and the last of the entries, so it
        is the same for a copy of the file.

        Args:
            stop: The position behind the last of them, at most that behind those counted.

        Raises:
            CorruptIndexError: The file ends before that.
            RmqIndexError: The storage failed.
            ValueError: A file without entries, or a closed one.
        """
        self._entries.check_open()
        if self._layout is None:
            raise ValueError(f"{self._source.path}: expected a file with entries, got one without")
        return entries_checksum(self._source, self._layout, stop)

    def matches(self, fingerprint: Fingerprint, *, again: bool = False) -> bool:
        """Return whether this is the file of a fingerprint, with at least as many entries.

        Args:
            fingerprint: A fingerprint, also one from another process.
            again: Request the file's identity from the storage again, to prove that all reads were
                of one file.

        Raises:
            RmqIndexError: The storage failed.
        """
        self._entries.check_open()
        if self._layout is None or self._entry_count + FIRST_POSITION < fingerprint.stop:
            return False
        if again and not self._source.is_current():
            return False
        return fingerprint.matches(self._source, self._layout)

    def scan(
        self,
        start: int = FIRST_POSITION,
        stop: int | None = None,
        columns: Sequence[str] | None = None,
    ) -> Iterator[pa.RecordBatch]:
        """Read entries in file order.

        Args:
            start: The first position, at least 1.
            stop: The position before which reading ends; by default, and at most, the position
                after the last entry counted when the file was opened.
            columns: At least one name of ``ENTRY_SCHEMA`` to decode, in any order; by default all.

        Returns:
            An iterator of batches with those columns, each of 1 to 65,536 entries.

        Raises:
            ValueError: A range beyond the entries, no column or an unknown one, or a closed file.
            CorruptIndexError: While iterating: in ``FAILFAST``, a malformed entry, or, of a remote
                file, entries behind those that the header counts; the file was cut meanwhile.
        """
        end = self._entry_count + FIRST_POSITION
        start, stop = int_of("start", start), end if stop is None else int_of("stop", stop)
        if not FIRST_POSITION <= start <= stop <= end:
            raise ValueError(
                f"range: expected positions from {FIRST_POSITION} to {end}, got {start} to {stop}"
            )
        names = ENTRY_SCHEMA.names if columns is None else list(columns)
        for name in names:
            if name not in ENTRY_SCHEMA.names:
                known = ", ".join(ENTRY_SCHEMA.names)
                raise ValueError(f"columns: expected some of {known}, got {name!r}")
        if not names:
            raise ValueError("columns: expected at least one name, as rows are counted by them")
        if len(set(names)) < len(names):
            raise ValueError(f"columns: expected each once, got {names}")
        self._entries.check_open()
        schema = pa.schema([ENTRY_SCHEMA.field(name) for name in names])
        batches = self._entries.scan(start, stop, schema)
        # Of a local file, this was checked when it was opened in its store.
        if self._source.remote and stop == end and self.mode == "FAILFAST":
            return uncounted.then_counted(batches, self._source, self._layout, self.header)
        return batches

    def lookup(
        self,
        hashes: IntArray,
        limit: int | None = None,
    ) -> pa.RecordBatch:
        """Find the entries of key hashes, without a time filter.

        Every slot and entry on the way is checked.
        A slot or link that was damaged into another position of its own chain, or into 0, still
        looks sound: it hides the skipped entries from a lookup in ``FAILFAST``, as from the broker.
        ``DROPMALFORMED`` reads all entries and misses none.

        Args:
            hashes: Key hashes, 0 to 2**31 - 1, as a list, a NumPy array or an Arrow array;
                duplicates are answered each time.
            limit: Only entries at positions below this one are returned; by default, and at most,
                those counted when the file was opened.

        Returns:
            One batch of ``query`` (int64, the place of the hash in ``hashes``) and the columns of
            ``ENTRY_SCHEMA``, by query and newest first.

        Raises:
            ValueError: A negative or too large hash, a null, or a closed file.
            TypeError: Not integers.
            CorruptIndexError: In ``FAILFAST``, a slot or chain is broken; the file was truncated
                meanwhile.
        """
        self._entries.check_open()
        wanted = int_array("hashes", hashes, 0, INT32_MAX).astype(np.int32)
        return self._entries.lookup(wanted, self._limit(limit))

    def message_run(self, position: int) -> tuple[int, MessageRun]:
        """Read the consecutive entries that have the offset of one, sound or not.

        Args:
            position: The position of the entry.

        Returns:
            The offset, bytes, and the entries, which the broker wrote for the message there.

        Raises:
            ValueError: A position without an entry, or a closed file.
            CorruptIndexError: The file was truncated meanwhile.
        """
        self._entries.check_open()
        position = int_of("position", position, FIRST_POSITION, self._entry_count)
        return self._entries.message_run(position, self._entry_count + FIRST_POSITION)

    def search(
        self, wanted: HashSet, limit: int | None = None, *, by_scan: bool = False
    ) -> Iterator[pa.RecordBatch]:
        """Find the entries of many hashes in bounded memory, however many entries there are.

        It finds and checks the same as :meth:`lookup`; a scan checks all entries.

        Args:
            wanted: The hashes.
            limit: Only entries at positions below this one are returned; by default, and at most,
                those counted when the file was opened.
            by_scan: Read all entries, which for very many hashes is faster than their slots.
                ``DROPMALFORMED`` always does.

        Returns:
            An iterator of batches of ``query`` (int64, the place of the hash in
            ``wanted.hashes``) and the columns of ``ENTRY_SCHEMA``, in no order, of at most about a
            million entries.

        Raises:
            ValueError: A closed file.
            CorruptIndexError: While iterating: in ``FAILFAST``, malformed bytes; the file was
                truncated meanwhile.
        """
        self._entries.check_open()
        return self._entries.search(wanted, self._limit(limit), by_scan=by_scan)

    def select_phy_offset(self, key: str, max_num: int, begin: int, end: int) -> list[int]:
        """Find a key's messages exactly as the broker does (``IndexFile.selectPhyOffset``).

        Its quirks are part of the answer (spec: the broker's own search): the walk ends at the
        first entry of any key that is older than ``begin``; the first entry of a rolled file reads
        back late; other keys of the same hash are not told apart; never-written entries read as
        zeros; arithmetic wraps at 32 and 64 bits; reads beyond the file end the walk.

        Args:
            key: The whole ``topic#key``.
            max_num: The most offsets to return; 0 or less for an empty result.
            begin: The earliest store time, epoch milliseconds, inclusive.
            end: The latest store time, epoch milliseconds, inclusive.

        Returns:
            CommitLog offsets in bytes, newest entry first.

        Raises:
            CorruptIndexError: A cycle without a matching entry, in which the broker hangs; the file
                was truncated meanwhile.
            ValueError: A closed file.
        """
        self._entries.check_open()
        hash_of_key, max_num = key_hash(text_of("key", key)), int_of("max_num", max_num)
        begin, end = int_of("begin", begin), int_of("end", end)
        if self._layout is None:
            return []
        found = select_phy_offset(
            self._source,
            self._layout,
            self.header,
            hash_of_key,
            max_num=max_num,
            begin=begin,
            end=end,
        )
        self._source.ensure_uncut()
        return found

    def is_time_matched(self, begin: int, end: int) -> bool:
        """Return whether the broker would search this file (``IndexFile.isTimeMatched``).

        It is not closed overlap where the header's ``end_timestamp`` precedes its
        ``begin_timestamp``.

        Args:
            begin: The earliest store time, epoch milliseconds.
            end: The latest store time, epoch milliseconds.
        """
        begin, end = int_of("begin", begin), int_of("end", end)
        first, last = self.header.begin_timestamp, self.header.end_timestamp
        return (begin < first and end > last) or first <= begin <= last or first <= end <= last

    def close(self) -> None:
        """Close the file; a second call does nothing."""
        self._entries.close()

    def __enter__(self) -> Self:
        """Return the file itself."""
        return self

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Close the file."""
        self.close()

    def __fspath__(self) -> str:
        """Return the path of a local file."""
        if self._location.local is None:
            raise TypeError(f"path: expected a local file, got {self.path}")
        return str(self.path)

    def _limit(self, limit: int | None) -> int:
        end = self._entry_count + FIRST_POSITION
        return end if limit is None else min(int_of("limit", limit), end)

    def __repr__(self) -> str:
        """Return the path, the geometry and the number of entries."""
        return f"IndexFile({str(self.path)!r}, {self._layout}, entries={self._entry_count})"

    def _repr_html_(self) -> str:
        header, layout = self.header, self._layout
        facts: list[tuple[str, object]] = [
            ("entries", self._entry_count),
            ("maxHashSlotNum", layout.hash_slot_num if layout else None),
            ("maxIndexNum", layout.index_num if layout else None),
        ]
        if self._entry_count:
            first, last = (
                f"{format_millis(time, UTC)} UTC"
                for time in (header.begin_timestamp, header.end_timestamp)
            )
            facts += [
                ("first stored", first),
                ("last stored", last),
                ("first offset", header.begin_phy_offset),
                ("last offset", header.end_phy_offset),
            ]
        return html_table(f"IndexFile {self.path}", ("", ""), facts)
