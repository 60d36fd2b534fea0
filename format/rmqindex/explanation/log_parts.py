"""Which parts of a CommitLog are searched for a key: by default those outside the index."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple, Self

from rmqindex.layout import FIRST_POSITION, INT64_MAX
from rmqindex.storage.filesystem import UnreadableError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    import numpy as np
    from numpy.typing import NDArray

    from rmqindex.commitlog.files import LogFile
    from rmqindex.commitlog.log import CommitLog
    from rmqindex.errors import RmqIndexError
    from rmqindex.explanation.broker import Window
    from rmqindex.store.snapshot import SnapshotFile

    Span = tuple[int, int]

__all__ = [
    "Gap",
    "IndexCover",
    "IndexSpan",
    "LogParts",
    "choose_parts",
    "cover_of",
    "default_limit",
    "gaps_of",
    "inner_gaps",
    "join_spans",
]

# What a search of the gaps reads at most, bytes: seconds from a disk, or from an object store.
_MAX_LOCAL = 8 << 30
_MAX_REMOTE = 1 << 30
# Of a cut file, the entries in which the message before the last one is looked for.
_LAST_ENTRIES = 1024


@dataclass(frozen=True, slots=True)
class Gap:
    """A range of the log outside the entries of the index.

    Attributes:
        start: Where to search from, bytes: the last message before the gap, since some of its
            entries may be missing.
        stop: Where to search to: behind the start of the first message after the gap.
        after: The offset of the message before the gap; None at the log's begin.
        before: The offset of the message after the gap; None at the log's end.
    """

    start: int
    stop: int
    after: int | None
    before: int | None

    def holds(self, offsets: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Return which offsets lie inside the gap, so that no entry of theirs can be there."""
        low = -1 if self.after is None else self.after
        high = INT64_MAX if self.before is None else self.before
        inside: NDArray[np.bool_] = (low < offsets) & (offsets < high)
        return inside & (offsets >= self.start) & (offsets < self.stop)


@dataclass(frozen=True, slots=True)
class IndexSpan:
    """The offsets of an IndexFile's first and last entries, bytes.

    Attributes:
        path: The file.
        begin: The first entry's offset, by the header.
        end: The last entry's offset, by the header; of a file that is cut, the offset of the last
            message that is sure to have all its entries.
        is_cut: Whether the file ends before the last entry that its header counts.
    """

    path: str
    begin: int
    end: int
    is_cut: bool = False


class IndexCover(NamedTuple):
    """Of which messages the files of an index have entries, as far as they can be read.

    Attributes:
        spans: The spans of the files with entries, in the order of their names.
        unread: The ranges of offsets of whose messages files that cannot be read may have entries.
    """

    spans: tuple[IndexSpan, ...]
    unread: tuple[Span, ...]

    @classmethod
    def of(cls, files: Iterable[IndexSpan | RmqIndexError | None]) -> Self:
        """Build it from the spans of files, oldest first.

        Args:
            files: The span of each; None for a file without entries, and the error of one that
                cannot be used: a damaged one counts as absent.
        """
        spans: list[IndexSpan] = []
        unread: list[Span] = []
        is_unread = False
        for file in files:
            if isinstance(file, UnreadableError):
                is_unread = True
            elif isinstance(file, IndexSpan):
                if is_unread:
                    unread.append((spans[-1].end if spans else 0, file.begin + 1))
                    is_unread = False
                spans.append(file)
        if is_unread:
            unread.append((spans[-1].end if spans else 0, INT64_MAX))
        return cls(tuple(spans), tuple(unread))

    def may_hide(self, start: int, stop: int) -> bool:
        """Return whether a file that cannot be read may have entries of messages of a range."""
        return any(first < stop and start < last for first, last in self.unread)


def cover_of(
    files: Iterable[SnapshotFile], damaged: Iterable[str] = (), unread: Iterable[str] = ()
) -> IndexCover:
    """Return of which messages files have entries.

    Args:
        files: The IndexFiles, oldest first.
        damaged: The paths of those whose entries may not be found, which count as absent.
        unread: The paths of those that could not be read, though their headers could.
    """
    skipped, hidden = set(damaged), set(unread)
    spans: list[IndexSpan | RmqIndexError | None] = []
    for file in files:
        if file.error is not None:
            spans.append(file.error)
        elif file.is_empty or file.entry.path in skipped:
            spans.append(None)
        elif file.entry.path in hidden:
            spans.append(UnreadableError(str(file.entry.path)))
        else:
            spans.append(_span_of(file))
    return IndexCover.of(spans)


def _span_of(file: SnapshotFile) -> IndexSpan:
    header = file.header
    is_cut = file.entry_count < header.entry_count
    end = _last_whole_message(file) if is_cut else header.end_phy_offset
    return IndexSpan(file.entry.path, header.begin_phy_offset, end, is_cut)


def _last_whole_message(file: SnapshotFile) -> int:
    """Return the offset of the message before that of the last entry left.

    A message has an entry for each key, of which the cut may have taken some.
    """
    start = max(FIRST_POSITION, file.stop - _LAST_ENTRIES)
    with file.open() as opened:
        batches = list(opened.scan(start, file.stop, ["phy_offset"]))
    offsets: list[int] = [offset for batch in batches for offset in batch["phy_offset"].to_pylist()]
    whole = [offset for offset in offsets if offset < max(offsets)]
    return max([file.header.begin_phy_offset, *whole])


def inner_gaps(spans: Iterable[IndexSpan], log: CommitLog) -> Iterator[Gap]:
    """Yield the ranges of the log before and between the entries of files, in their order."""
    after: int | None = None
    # A file whose name puts it in the wrong place has its entries all the same.
    for span in sorted(spans, key=lambda span: span.begin):
        if span.begin > (log.min_offset if after is None else after):
            start = log.min_offset if after is None else max(after, log.min_offset)
            if start < span.begin:
                yield Gap(start, span.begin + 1, after, span.begin)
        after = max(span.end, after or 0)


def gaps_of(spans: Sequence[IndexSpan], log: CommitLog) -> tuple[Gap, ...]:
    """Return the ranges of the log that the index does not cover, in their order."""
    gaps = list(inner_gaps(spans, log))
    after = max((span.end for span in spans), default=None)
    start = log.min_offset if after is None else max(after, log.min_offset)
    if start < log.max_offset:
        gaps.append(Gap(start, log.max_offset, after, None))
    return tuple(gaps)


@dataclass(frozen=True, slots=True)
class LogParts:
    """The ranges of offsets to search, and the others, as start and stop in bytes."""

    searched: tuple[Span, ...] = ()
    unsearched: tuple[Span, ...] = ()


def choose_parts(
    log: CommitLog,
    ranges: Sequence[Span],
    window: Window,
    likely: Window | None = None,
    limit: int | None = None,
) -> LogParts:
    """Choose which parts of a log are searched for a key.

    Args:
        log: The log.
        ranges: The ranges to search, in their order.
        window: The store times queried. A clock that steps back puts a message into a file of
            another time, so that only a limit leaves files out.
        likely: The store times at which the key's message is expected.
        limit: The most bytes to search: the files of the window, then those of the likely times,
            then the newest.
    """
    parts = [
        (max(start, file.start), min(stop, file.stop, log.max_offset), file)
        for file in log.files
        for start, stop in ranges
        if max(start, file.start) < min(stop, file.stop, log.max_offset)
    ]
    if limit is not None and sum(stop - start for start, stop, _ in parts) > limit:
        times = [window] if likely is None else [window, likely]
        ordered = sorted(
            parts,
            key=lambda part: (*(not _may_overlap(log, part[2], time) for time in times), -part[0]),
        )
        parts, total = [], 0
        for part in ordered:
            total += part[1] - part[0]
            if parts and total > limit:
                break
            parts.append(part)
    searched = join_spans((start, stop) for start, stop, _ in parts)
    return LogParts(searched, _complement(searched, log.min_offset, log.max_offset))


def _may_overlap(log: CommitLog, file: LogFile, window: Window) -> bool:
    """Return whether a file has messages of a time, by the first message of it and the next."""
    number = log.files.index(file)
    following = log.files[number + 1] if number + 1 < len(log.files) else None
    first = log.first_store_timestamp(file)
    last = None if following is None else log.first_store_timestamp(following)
    return (first is None or first <= window.end) and (last is None or last >= window.begin)


def join_spans(spans: Iterable[Span]) -> tuple[Span, ...]:
    """Sort ranges, and join those that meet."""
    joined: list[Span] = []
    for start, stop in sorted(spans):
        if joined and start <= joined[-1][1]:
            joined[-1] = (joined[-1][0], max(stop, joined[-1][1]))
        else:
            joined.append((start, stop))
    return tuple(joined)


def _complement(spans: Iterable[Span], start: int, stop: int) -> tuple[Span, ...]:
    """Return what ranges in their order leave of a whole."""
    left = []
    for first, last in spans:
        if start < first:
            left.append((start, first))
        start = max(start, last)
    if start < stop:
        left.append((start, stop))
    return tuple(left)


def default_limit(log: CommitLog) -> int:
    """Return how many bytes of the gaps are searched without being asked for more."""
    return _MAX_REMOTE if any(file.path.local is None for file in log.files) else _MAX_LOCAL
