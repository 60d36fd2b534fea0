"""Reading one IndexFile (spec: reading a file; RocketMQ: ``IndexFile``)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, NamedTuple, Self

import numpy as np
import pyarrow as pa

from rmqindex.arrays import int_array
from rmqindex.errors import CorruptIndexError
from rmqindex.header import IndexHeader
from rmqindex.indexfile.chains import MAX_STEPS, find
from rmqindex.indexfile.committed import open_index_source
from rmqindex.indexfile.decoding import (
    ENTRY_SCHEMA,
    LOOKUP_SCHEMA,
    BatchBuilder,
    corrupt_entry,
    links_of,
    malformed,
    slots_of,
)
from rmqindex.indexfile.fingerprint import Fingerprint, entries_checksum
from rmqindex.indexfile.geometry import Layout, infer_layout
from rmqindex.indexfile.select import select_phy_offset
from rmqindex.indexfile.tiered import refuse_tiered_file
from rmqindex.keys.hash_set import HashSet
from rmqindex.keys.hashing import key_hash
from rmqindex.layout import (
    ENTRY_DTYPE,
    ENTRY_SIZE,
    FIRST_POSITION,
    HEADER_SIZE,
    INDEX_COUNT_OFFSET,
    INT32_MAX,
)
from rmqindex.storage.location import is_remote, local_path

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from pathlib import Path
    from types import TracebackType

    import pyarrow.fs as pafs
    from numpy.typing import NDArray

    from rmqindex.arrays import IntArray
    from rmqindex.indexfile.chains import Found
    from rmqindex.indexfile.decoding import Links
    from rmqindex.storage.location import PathLike

__all__ = ["IndexFile", "Mode"]

Mode = Literal["FAILFAST", "DROPMALFORMED"]
_MODES = ("FAILFAST", "DROPMALFORMED")

# Entries a batch of a scan holds at most.
_BATCH_ENTRIES = 65_536
# Hashes that walk their chains together: their entries of one step stay in the processor's cache.
_BATCH_HASHES = 65_536
# After so many steps, hashes are looked at for being asked several times before they walk on.
_COMMON_STEPS = 64
# More hashes than this in crowded slots are faster found by one scan than by their chains.
_MAX_LONG_WALKS = 64
# Hashes of a search that walk together: their entries, `_COMMON_STEPS` each at most, are one batch.
_SEARCH_HASHES = 16_384


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
            layout: The geometry; without it, it is inferred as :meth:`Layout.infer` does, unless
                the file has no entries and so needs none.
            mode: ``FAILFAST`` raises on the first malformed bytes that are met;
                ``DROPMALFORMED`` reads the sound entries and ignores the others, and its lookups
                read all entries instead of trusting slots and links.
            filesystem: Where ``path`` lies, instead of what the path itself says.
            zero_extend: Read a short file as if it were filled up with zeros, as the broker does
                (it needs ``layout``); nothing on disk changes.

        Raises:
            RmqIndexError: The file cannot be read, or its geometry cannot be inferred.
            CorruptIndexError: In ``FAILFAST``: a truncated file, or more entries than fit.
            ValueError: An unknown mode, or ``zero_extend`` without ``layout``.
        """
        if mode not in _MODES:
            raise ValueError(f"mode: expected one of {', '.join(_MODES)}, got {mode!r}")
        if zero_extend and layout is None:
            raise ValueError("zero_extend: expected a layout to say to which size")
        self.mode = mode
        remote = filesystem is not None or is_remote(path)
        self.path = str(path) if remote else local_path(path)
        self._remote = remote
        self._closed = False
        self._source = open_index_source(
            path,
            filesystem=filesystem,
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
        if source.size < HEADER_SIZE:
            if not lenient:
                raise CorruptIndexError(
                    source.path,
                    "header",
                    0,
                    f"{HEADER_SIZE} bytes",
                    f"a file of {source.size} bytes",
                )
            self.header = IndexHeader()
        else:
            refuse_tiered_file(source)
            self.header = IndexHeader.from_bytes(source.header())
        if layout is None and self.header.entry_count:
            layout = infer_layout(source)
        self._layout = layout
        self._entry_count = self.header.entry_count
        if layout is None:
            return
        if lenient:
            there = (source.size - layout.entry_offset(0)) // ENTRY_SIZE - 1
            self._entry_count = max(0, min(self._entry_count, layout.capacity, there))
            return
        if source.size < layout.file_size:
            raise CorruptIndexError(
                source.path, "file_size", source.size, f"{layout.file_size} bytes", source.size
            )
        if self.header.index_count > layout.index_num:
            raise CorruptIndexError(
                source.path,
                "index_count",
                INDEX_COUNT_OFFSET,
                f"at most {layout.index_num}",
                self.header.index_count,
            )

    @property
    def name(self) -> str:
        """The file's name without its folder."""
        return str(self.path).rsplit("/", 1)[-1].partition("?")[0]

    @property
    def layout(self) -> Layout | None:
        """The geometry; None for a file without entries that was opened without one."""
        return self._layout

    @property
    def entry_count(self) -> int:
        """How many entries are read, which are those the header counted when the file was opened.

        With ``DROPMALFORMED`` a count beyond what the file can hold is cut to that.
        """
        return self._entry_count

    def fingerprint(self) -> Fingerprint | None:
        """Return what the file is recognised by later; None for one without entries.

        Raises:
            CorruptIndexError: The file ends before its last entry.
            RmqIndexError: The storage failed.
        """
        if self._layout is None or not self._entry_count:
            return None
        self._check_open()
        stop = self._entry_count + FIRST_POSITION
        return Fingerprint.of(self._source, self._layout, stop)

    def checksum(self, stop: int) -> int:
        """Return the CRC-32 of what no append changes of the entries before a position.

        It is that of the header's ``begin_*`` fields and of the first and the last of the entries,
        and so the same for a copy of the file.

        Args:
            stop: The position behind the last of them, at most that behind those counted.

        Raises:
            CorruptIndexError: The file ends before that.
            RmqIndexError: The storage failed.
            ValueError: A file without entries, or a closed one.
        """
        self._check_open()
        if self._layout is None:
            raise ValueError(f"{self._source.path}: expected a file with entries, got one without")
        return entries_checksum(self._source, self._layout, stop)

    def matches(self, fingerprint: Fingerprint, *, again: bool = False) -> bool:
        """Return whether this is the file of a fingerprint, with at least as many entries.

        Args:
            fingerprint: Taken of this file, or of another one, maybe in another process.
            again: Ask the storage once more, to prove that what was read meanwhile is of one file.

        Raises:
            RmqIndexError: The storage failed.
        """
        self._check_open()
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
            columns: Names of ``ENTRY_SCHEMA`` to decode, in the order wanted; by default all.

        Returns:
            An iterator of batches with those columns, each of at most 65,536 entries.

        Raises:
            ValueError: A range beyond the entries, an unknown column, or a closed file.
            CorruptIndexError: While iterating: in ``FAILFAST``, a malformed entry; the file was
                cut meanwhile.
        """
        end = self._entry_count + FIRST_POSITION
        stop = end if stop is None else stop
        if not FIRST_POSITION <= start <= stop <= end:
            raise ValueError(
                f"range: expected positions from {FIRST_POSITION} to {end}, got {start} to {stop}"
            )
        names = ENTRY_SCHEMA.names if columns is None else list(columns)
        for name in names:
            if name not in ENTRY_SCHEMA.names:
                known = ", ".join(ENTRY_SCHEMA.names)
                raise ValueError(f"columns: expected some of {known}, got {name!r}")
        if len(set(names)) < len(names):
            raise ValueError(f"columns: expected each once, got {names}")
        self._check_open()
        return self._scan(start, stop, names)

    def _scan(self, start: int, stop: int, names: list[str]) -> Iterator[pa.RecordBatch]:
        schema = pa.schema([ENTRY_SCHEMA.field(name) for name in names])
        for first in range(start, stop, _BATCH_ENTRIES):
            assert self._layout is not None  # there are entries
            last = min(first + _BATCH_ENTRIES, stop)
            batch = BatchBuilder(schema, last - first, self._layout, self.header.begin_timestamp)
            for entries, positions, links in self._sound_entries(first, last, batch.links_of):
                batch.append(entries, positions, links)
            finished = batch.finish()
            self._source.ensure_uncut()
            yield finished

    def _sound_entries(
        self, start: int, stop: int, decode: Callable[[NDArray[Any]], Links] = links_of
    ) -> Iterator[tuple[NDArray[Any], NDArray[np.int32], Links]]:
        """Yield entries with their positions, the malformed ones raised or dropped by mode."""
        layout = self._layout
        if layout is None:
            return
        for first in range(start, stop, _BATCH_ENTRIES):
            self._check_open()
            last = min(first + _BATCH_ENTRIES, stop)
            entries = self._source.entry_range(layout, first, last)
            positions = np.arange(first, last, dtype=np.int32)
            links = decode(entries)
            bad = malformed(links, positions, self.header.begin_timestamp)
            if bad is not None:
                if self.mode == "FAILFAST":
                    place = int(np.flatnonzero(bad)[0])
                    raise corrupt_entry(self._source.path, layout, first + place, links, place)
                sound = np.flatnonzero(~bad)
                entries, positions, links = entries[sound], positions[sound], links.taken(sound)
            yield entries, positions, links

    def lookup(
        self,
        hashes: IntArray,
        limit: int | None = None,
    ) -> pa.RecordBatch:
        """Find the entries of key hashes, without a time filter.

        Every slot and entry on the way is checked.
        Only a slot or link that was damaged into another position of its own chain, or into 0,
        looks sound, and hides what it skips from a lookup in ``FAILFAST`` as it does from the
        broker; ``DROPMALFORMED`` asks the entries themselves and misses none.

        Args:
            hashes: Key hashes, 0 to 2**31 - 1, as a list, a NumPy array or an Arrow array; a
                repeated one is answered each time.
            limit: Only entries at positions below this one are returned; by default, and at most,
                those counted when the file was opened.

        Returns:
            One batch of ``query`` (int64, the place of the hash in ``hashes``) and the columns of
            ``ENTRY_SCHEMA``, by query and newest first.

        Raises:
            ValueError: A negative or too large hash, a null, or a closed file.
            TypeError: Not integers.
            CorruptIndexError: In ``FAILFAST``, a broken slot or chain was met; the file was cut
                meanwhile.
        """
        self._check_open()
        wanted = int_array("hashes", hashes, 0, INT32_MAX).astype(np.int32)
        end = self._entry_count + FIRST_POSITION
        limit = end if limit is None else min(limit, end)
        layout = self._layout
        if layout is None or limit <= FIRST_POSITION or not len(wanted):
            return _lookup_batch([_NO_HITS], Layout(1, 1), self.header)
        if self.mode == "DROPMALFORMED":
            # Only the entries themselves say what was lost where a slot or a link was damaged.
            distinct, places = np.unique(wanted, return_inverse=True)
            hits = _repeated(np.arange(len(wanted)), places, self._scan_for(distinct, limit))
            return self._answer([hits], layout)
        parts, unfinished = self._walk(wanted, limit, layout)
        if len(unfinished):
            distinct, places = np.unique(wanted[unfinished], return_inverse=True)
            hits = _repeated(unfinished, places, self._finish(distinct, limit, layout))
            parts = [_by_query([*parts, hits])]
        return self._answer(parts, layout)

    def _answer(self, parts: list[_Hits], layout: Layout) -> pa.RecordBatch:
        """Return what was found, if the file was whole all the while."""
        batch = _lookup_batch(parts, layout, self.header)
        self._source.ensure_uncut()
        return batch

    def _walk(
        self, hashes: NDArray[np.int32], limit: int, layout: Layout
    ) -> tuple[list[_Hits], NDArray[np.int64]]:
        """Walk the chains of all hashes for as long as most chains are."""
        parts, unfinished = [], []
        for first in range(0, len(hashes), _BATCH_HASHES):
            found = self._find(hashes[first : first + _BATCH_HASHES], limit, layout, _COMMON_STEPS)
            parts.append(_Hits(found.queries + first, found.positions, found.entries))
            unfinished.append(found.unfinished + first)
        return parts, np.concatenate(unfinished)

    def _finish(self, distinct: NDArray[np.int32], limit: int, layout: Layout) -> _Hits:
        """Find hashes whose chains are long: a few by walking on, crowded ones by a scan."""
        if len(distinct) > _MAX_LONG_WALKS:
            return self._scan_for(distinct, limit)
        found = self._find(distinct, limit, layout, MAX_STEPS)
        hits = _Hits(found.queries, found.positions, found.entries)
        if not len(found.unfinished):
            return hits
        rest = self._scan_for(distinct[found.unfinished], limit)
        return _by_query([hits, rest._replace(queries=found.unfinished[rest.queries])])

    def _find(self, hashes: NDArray[np.int32], limit: int, layout: Layout, max_steps: int) -> Found:
        return find(
            self._source,
            layout,
            hashes,
            limit=limit,
            header=self.header,
            index_count=self._source.latest_index_count,
            max_steps=max_steps,
        )

    def _scan_for(self, distinct: NDArray[np.int32], limit: int) -> _Hits:
        """Find sorted distinct hashes by reading all entries; by hash and newest first."""
        parts = [_NO_HITS, *self._matching(HashSet(distinct), limit)]
        hits = _joined(parts)
        return hits.taken(np.lexsort((-hits.positions, hits.queries)))

    def _matching(self, wanted: HashSet, limit: int) -> Iterator[_Hits]:
        """Read all entries, and yield those of a set of hashes."""
        for entries, positions, links in self._sound_entries(FIRST_POSITION, limit):
            near, places = wanted.match(links.key_hash)
            if len(near):
                yield _Hits(places, positions.take(near), entries.take(near))

    def search(
        self, wanted: HashSet, limit: int | None = None, *, by_scan: bool = False
    ) -> Iterator[pa.RecordBatch]:
        """Find the entries of many hashes in bounded memory, however many entries there are.

        It finds what :meth:`lookup` finds, and checks what that checks; a scan checks all entries.

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
            CorruptIndexError: While iterating: in ``FAILFAST``, malformed bytes were met; the
                file was cut meanwhile.
        """
        self._check_open()
        end = self._entry_count + FIRST_POSITION
        limit = end if limit is None else min(limit, end)
        return self._search(wanted, limit, by_scan=by_scan or self.mode == "DROPMALFORMED")

    def _search(self, wanted: HashSet, limit: int, *, by_scan: bool) -> Iterator[pa.RecordBatch]:
        layout = self._layout
        if layout is None or limit <= FIRST_POSITION or not len(wanted):
            return
        hits = self._matching(wanted, limit) if by_scan else self._probe(wanted, limit, layout)
        for several in _gathered(hits):
            yield self._answer(several, layout)

    def _probe(self, wanted: HashSet, limit: int, layout: Layout) -> Iterator[_Hits]:
        """Find hashes by their slots, each page of which is touched once."""
        order = np.argsort(slots_of(wanted.hashes, layout))
        crowded = []
        for first in range(0, len(order), _SEARCH_HASHES):
            places = order[first : first + _SEARCH_HASHES]
            found = self._find(wanted.hashes.take(places), limit, layout, _COMMON_STEPS)
            yield _Hits(places.take(found.queries), found.positions, found.entries)
            crowded.append(places.take(found.unfinished))
        rest = np.sort(np.concatenate(crowded))
        if len(rest) <= _MAX_LONG_WALKS:
            found = self._find(wanted.hashes.take(rest), limit, layout, MAX_STEPS)
            yield _Hits(rest.take(found.queries), found.positions, found.entries)
            rest = rest.take(found.unfinished)
        if len(rest):
            for hits in self._matching(HashSet(wanted.hashes.take(rest)), limit):
                yield hits._replace(queries=rest.take(hits.queries))

    def select_phy_offset(self, key: str, max_num: int, begin: int, end: int) -> list[int]:
        """Find a key's messages exactly as the broker does (``IndexFile.selectPhyOffset``).

        Its quirks are part of the answer (spec: the broker's own search): the walk ends at the
        first entry of any key that is older than ``begin``; the first entry of a rolled file reads
        back late; other keys of the same hash are not told apart; never-written entries read as
        zeros; arithmetic wraps at 32 and 64 bits; reads beyond the file end the walk.

        Args:
            key: The whole ``topic#key``.
            max_num: How many offsets at most; 0 or less gives none.
            begin: The earliest store time, epoch milliseconds, inclusive.
            end: The latest store time, epoch milliseconds, inclusive.

        Returns:
            CommitLog offsets in bytes, newest entry first.

        Raises:
            CorruptIndexError: A cycle of entries that all do not match, where the broker hangs; the
                file was cut meanwhile.
            ValueError: A closed file.
        """
        self._check_open()
        if self._layout is None:
            return []
        found = select_phy_offset(
            self._source,
            self._layout,
            self.header,
            key_hash(key),
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
        first, last = self.header.begin_timestamp, self.header.end_timestamp
        return (begin < first and end > last) or first <= begin <= last or first <= end <= last

    def close(self) -> None:
        """Let go of the file; a second call does nothing."""
        self._closed = True
        self._source.close()

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
        """Return the path of a local file.

        Raises:
            TypeError: A remote file.
        """
        if self._remote:
            raise TypeError(f"path: expected a local file, got {self.path}")
        return str(self.path)

    def __repr__(self) -> str:
        """Show the path, the geometry and how many entries there are."""
        return f"IndexFile({str(self.path)!r}, {self._layout}, entries={self._entry_count})"

    def _check_open(self) -> None:
        if self._closed:
            raise ValueError(f"{self._source.path}: the IndexFile is closed")


class _Hits(NamedTuple):
    """Entries found: for which query, where, and what."""

    queries: NDArray[np.int64]
    positions: NDArray[np.int32]
    entries: NDArray[Any]

    def taken(self, order: NDArray[np.int64]) -> _Hits:
        """Return the hits at places."""
        return _Hits(self.queries.take(order), self.positions.take(order), self.entries.take(order))


_NO_HITS = _Hits(np.empty(0, np.int64), np.empty(0, np.int32), np.empty(0, ENTRY_DTYPE))


def _gathered(hits: Iterable[_Hits]) -> Iterator[list[_Hits]]:
    """Put small finds together, so that each batch is worth its while."""
    pending: list[_Hits] = []
    count = 0
    for each in hits:
        pending.append(each)
        count += len(each.queries)
        if count >= _BATCH_ENTRIES:
            yield pending
            pending, count = [], 0
    if count:
        yield pending


def _joined(parts: list[_Hits]) -> _Hits:
    return _Hits(*(np.concatenate(values) for values in zip(*parts, strict=True)))


def _by_query(parts: list[_Hits]) -> _Hits:
    """Join parts in the order of their queries; each query is whole in one part."""
    hits = _joined(parts)
    return hits.taken(np.argsort(hits.queries, kind="stable"))


def _repeated(queries: NDArray[np.int64], places: NDArray[np.int64], hits: _Hits) -> _Hits:
    """Give every query the hits of its distinct hash.

    Args:
        queries: The queries, ascending.
        places: The distinct hash of each query.
        hits: Hits by distinct hash.
    """
    starts = np.searchsorted(hits.queries, places, side="left")
    counts = np.searchsorted(hits.queries, places, side="right") - starts
    first = np.repeat(starts - (np.cumsum(counts) - counts), counts)
    chosen = first + np.arange(int(counts.sum()))
    return _Hits(np.repeat(queries, counts), hits.positions.take(chosen), hits.entries.take(chosen))


def _lookup_batch(parts: list[_Hits], layout: Layout, header: IndexHeader) -> pa.RecordBatch:
    total = sum(len(part.queries) for part in parts)
    batch = BatchBuilder(LOOKUP_SCHEMA, total, layout, header.begin_timestamp)
    for part in parts:
        batch.append(part.entries, part.positions, links_of(part.entries), part.queries)
    return batch.finish()
