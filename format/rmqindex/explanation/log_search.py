"""The search of a CommitLog for a key: which parts are searched, and what they have."""

from __future__ import annotations

from dataclasses import dataclass, field
from operator import itemgetter
from typing import TYPE_CHECKING, Literal, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from rmqindex.commitlog.bodies import bad_body
from rmqindex.commitlog.snapshot import damage_at
from rmqindex.explanation.result import LogReach
from rmqindex.keys.hash_set import distinct
from rmqindex.keys.hashing import KEY_SEPARATOR
from rmqindex.keys.messages import is_rolled_back, tag_key
from rmqindex.layout.index_file import FIRST_POSITION, INT64_MAX
from rmqindex.record.bodies import indexed_keys, member_keys
from rmqindex.storage.filesystem import UnreadableError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from numpy.typing import NDArray

    from rmqindex.commitlog.framing import LogFile
    from rmqindex.commitlog.log import CommitLog
    from rmqindex.errors import CorruptCommitLogError
    from rmqindex.explanation.index_search import Window
    from rmqindex.record.bodies import BadInnerBatchError
    from rmqindex.store.snapshot import SnapshotFile

    Span = tuple[int, int]

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


class IndexCover(NamedTuple):
    """Of which messages the files of an index have entries, as far as they can be read.

    Attributes:
        spans: The offsets of the first and the last message of each file with entries, in the
            order of their names; a file that is cut ends with the last message that is sure to have
            all its entries.
        unread: The ranges of offsets of whose messages files that cannot be read, or were not asked
            for, may have entries.
        is_of_file: Whether a single file of the index was asked for.
    """

    spans: tuple[Span, ...]
    unread: tuple[Span, ...]
    is_of_file: bool = False

    def may_hide(self, start: int, stop: int) -> bool:
        """Return whether a file that was not read may have entries of messages of a range."""
        return any(first < stop and start < last for first, last in self.unread)


def cover_of(
    files: Iterable[SnapshotFile],
    damaged: Iterable[str],
    unreadable: Iterable[str],
    *,
    is_of_file: bool = False,
) -> IndexCover:
    """Return of which messages files have entries; damaged ones count as absent.

    Before and behind a single file, others may have entries that nobody asked for.
    """
    absent, hidden = set(damaged), set(unreadable)
    spans: list[Span] = []
    unread: list[Span] = []
    is_unread = is_of_file
    for file in files:
        if isinstance(file.error, UnreadableError) or file.entry.path in hidden:
            is_unread = True
        elif file.error is None and not file.is_empty and file.entry.path not in absent:
            span = _span_of(file)
            if is_unread:
                unread.append((spans[-1][1] if spans else 0, span[0] + 1))
                is_unread = False
            spans.append(span)
    if is_unread or is_of_file:
        unread.append((spans[-1][1] if spans else 0, INT64_MAX))
    return IndexCover(tuple(spans), tuple(unread), is_of_file)


def _span_of(file: SnapshotFile) -> Span:
    header = file.header
    is_cut = file.entry_count < header.entry_count
    end = _last_whole_message(file) if is_cut else header.end_phy_offset
    return header.begin_phy_offset, end


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


def gaps_of(spans: Iterable[Span], log: CommitLog) -> tuple[Gap, ...]:
    """Return the ranges of the log that the index does not cover, in their order."""
    gaps: list[Gap] = []
    after: int | None = None
    # A file whose name puts it in the wrong place has its entries all the same.
    for begin, end in sorted(spans, key=itemgetter(0)):
        if begin > (log.min_offset if after is None else after):
            start = log.min_offset if after is None else max(after, log.min_offset)
            if start < begin:
                gaps.append(Gap(start, begin + 1, after, begin))
        after = max(end, after or 0)
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
    """Choose which parts of the ranges are searched for a key, by the files of the log.

    With a limit, in bytes: the files of the window, then those of the likely times, then the
    newest. Without one, all: a clock that stepped back puts a message into a file of another time.
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
    searched = _join_spans((start, stop) for start, stop, _ in parts)
    return LogParts(searched, _complement(searched, log.min_offset, log.max_offset))


def _may_overlap(log: CommitLog, file: LogFile, window: Window) -> bool:
    """Return whether a file has messages of a time, by the first message of it and the next."""
    number = log.files.index(file)
    following = log.files[number + 1] if number + 1 < len(log.files) else None
    first = log.first_store_timestamp(file)
    last = None if following is None else log.first_store_timestamp(following)
    return (first is None or first <= window.end) and (last is None or last >= window.begin)


def _join_spans(spans: Iterable[Span]) -> tuple[Span, ...]:
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
    rest = []
    for first, last in spans:
        if start < first:
            rest.append((start, first))
        start = max(start, last)
    if start < stop:
        rest.append((start, stop))
    return tuple(rest)


def default_limit(log: CommitLog) -> int:
    """Return how many bytes of the gaps are searched without being asked for more."""
    return _MAX_REMOTE if any(file.path.local is None for file in log.files) else _MAX_LOCAL


#: How a text of a message fits the key: it is the key; one part of a key with spaces; the tag; the
#: same but for case and blanks; a longer key with the text in it.
Fit = Literal["key", "several", "tag", "spelling", "part"]

_COLUMNS = (
    "topic",
    "tags",
    "phy_offset",
    "sys_flag",
    "store_timestamp",
    "all_uniq_keys",
    "all_keys",
)
# The most messages that are kept of each fit.
_MAX_MESSAGES = 1_000
_MAX_ALIKE = 8
_LIMITS: dict[Fit, int] = {
    "key": _MAX_MESSAGES,
    "several": _MAX_MESSAGES,
    "tag": _MAX_MESSAGES,
    "spelling": _MAX_ALIKE,
    "part": _MAX_ALIKE,
}
# The shortest text that is looked for inside keys.
_MIN_PART = 3


@dataclass(frozen=True, slots=True)
class LogMessage:
    """A message with the key, or with a text like it.

    Attributes:
        topic: Its topic.
        phy_offset: Where it starts in the log, bytes.
        store_timestamp: Its store time, epoch milliseconds.
        text: The text that fits.
        is_member: Whether only a message inside this batch has it.
        is_rolled_back: Whether its transaction was rolled back, so that a broker does not index it.
        is_tag: Whether it has the text by its tags alone, which not every broker indexes.
    """

    topic: str
    phy_offset: int
    store_timestamp: int
    text: str
    is_member: bool = False
    is_rolled_back: bool = False
    is_tag: bool = False

    @property
    def is_indexed(self) -> bool:
        """Whether a broker indexes the message by the text."""
        return not (self.is_member or self.is_rolled_back)


@dataclass(frozen=True, slots=True)
class KeyForms:
    """The forms in which a key is looked for."""

    key: str

    @property
    def bare(self) -> str:
        """The key without blanks around it."""
        return self.key.strip()

    @property
    def tags(self) -> str | None:
        """The tags, where the key is that of an index of tags."""
        prefix = tag_key("")
        return self.key[len(prefix) :] if self.key.startswith(prefix) else None

    @property
    def parts(self) -> tuple[str, ...]:
        """The keys that a text with spaces between them stands for."""
        parts = tuple(part for part in self.bare.split(KEY_SEPARATOR) if part)
        return parts if len(parts) > 1 else ()

    @property
    def spellings(self) -> tuple[str, ...]:
        """The key without blanks, and in one case, where these differ."""
        forms = dict.fromkeys((self.bare, self.bare.upper(), self.bare.lower()))
        return tuple(form for form in forms if form and form != self.key)


@dataclass(slots=True)
class LogSearch:
    """The messages with a key, or one like it, in some parts of a log."""

    topic: str
    forms: KeyForms
    found: dict[Fit, list[LogMessage]] = field(default_factory=lambda: {fit: [] for fit in _LIMITS})

    def run(
        self,
        log: CommitLog,
        parts: LogParts,
        gaps: Sequence[Gap],
        progress: Callable[[int, int], None] | None = None,
        *,
        dangling: Sequence[int] = (),
    ) -> LogReach:
        """Search, and return how far the log reaches, and what is damaged where entries dangle."""
        faults: list[CorruptCommitLogError] = []
        total = sum(stop - start for start, stop in parts.searched)
        counts = dict.fromkeys(gaps, 0)
        ends: dict[Gap, Span] = {}
        done = 0
        for start, stop in parts.searched:
            for batch in log.scan(
                start, stop, _COLUMNS, mode="DROPMALFORMED", on_malformed=faults.append
            ):
                offsets = batch.column("phy_offset").to_numpy()
                rows, texts = indexed_keys(batch["all_uniq_keys"], batch["all_keys"])
                is_kept = ~is_rolled_back(batch["sys_flag"])
                keyed = offsets[distinct(rows[is_kept[rows]])]
                for gap in gaps:
                    inside = keyed[gap.holds(keyed)]
                    if len(inside):
                        counts[gap] += len(inside)
                        first = ends.get(gap, (int(inside[0]), 0))[0]
                        ends[gap] = (first, int(inside[-1]))
                self._match_members(log, batch, faults)
                self._match_tags(batch)
                self._match_keys(batch, rows, texts)
                if progress is not None:
                    progress(done + int(offsets[-1]) - start, total)
            done += stop - start
        if any(stop >= log.max_offset for _, stop in parts.searched):
            lost = log.end_error()  # the scan stopped where the log ends now
            faults += [] if lost is None else [lost]
        damage = (damage_at(log, offset) for offset in dangling[:_MAX_ALIKE])
        faults += [error for error in damage if error is not None]
        missing = tuple(gap for gap in log.gaps if gap[1] <= log.max_offset)
        begin = _begin_timestamp(log)
        return LogReach(
            log.min_offset,
            log.max_offset,
            begin,
            parts.searched,
            _join_spans([*parts.unsearched, *missing]),
            tuple(ends[gap] for gap in gaps if gap in ends),
            sum(counts.values()),
            # What the errors advise is for commands that read the messages.
            tuple(dict.fromkeys(str(each).removesuffix(f"; {each.hint}") for each in faults)),
        )

    def _match_members(
        self, log: CommitLog, batch: pa.RecordBatch, faults: list[CorruptCommitLogError]
    ) -> None:
        """Note the batches with a message inside that has the key, and those that do not unpack."""

        def bodies(offsets: NDArray[np.int64]) -> pa.Array:
            return log.read_at(offsets, ["body"], decompress_body=False).column("body")

        def damaged(error: BadInnerBatchError) -> None:
            what = "The keys of the messages inside were not searched"
            faults.append(bad_body(log.files, error.phy_offset, str(error), what))

        members = member_keys(
            batch["all_uniq_keys"],
            batch["all_keys"],
            batch["sys_flag"].to_numpy(),
            batch["phy_offset"].to_numpy(),
            bodies,
            strict=False,
            on_bad=damaged,
        )
        for row, text in zip(members[0].tolist(), members[1], strict=True):
            if text == self.forms.key:
                self._note("key", batch, row, text, is_member=True)

    def _match_tags(self, batch: pa.RecordBatch) -> None:
        """Note the messages whose tags are the key, as a key or as an index of tags has it."""
        wanted: dict[Fit, str | None] = {"key": self.forms.tags, "tag": self.forms.key}
        for fit, tags in wanted.items():
            if tags:
                for row in _places(pc.equal(batch["tags"], tags)):
                    self._note(fit, batch, row, tag_key(tags), is_tag=True)

    def _match_keys(self, batch: pa.RecordBatch, rows: NDArray[np.int64], texts: pa.Array) -> None:
        """Note the messages with the key, or with a key like it."""
        key, bare = self.forms.key, self.forms.bare
        wanted = pc.is_in(texts, pa.array([key, *self.forms.parts]))
        for place in _places(wanted):
            text = texts[place].as_py()
            self._note("key" if text == key else "several", batch, int(rows[place]), text)
        if not bare:
            return
        alike = (
            pc.match_substring(texts, bare, ignore_case=True)
            if len(bare) >= _MIN_PART
            else pc.equal(pc.utf8_lower(texts), bare.lower())
        )
        for place in _places(pc.and_(alike, pc.invert(wanted))):
            if len(self.found["spelling"]) >= _MAX_ALIKE and len(self.found["part"]) >= _MAX_ALIKE:
                break
            text, row = texts[place].as_py(), int(rows[place])
            if text.strip().lower() == bare.lower():
                self._note("spelling", batch, row, text)
            elif bare in text and batch["topic"][row].as_py() == self.topic:
                self._note("part", batch, row, text)

    def _note(self, fit: Fit, batch: pa.RecordBatch, row: int, text: str, **how: bool) -> None:
        """Note a message, and ``how`` it has the text: attributes of :class:`LogMessage`."""
        if len(self.found[fit]) < _LIMITS[fit]:
            topic, offset, time = (
                batch[name][row].as_py() for name in ("topic", "phy_offset", "store_timestamp")
            )
            rolled_back = bool(is_rolled_back(batch["sys_flag"].slice(row, 1))[0])
            self.found[fit].append(
                LogMessage(topic, offset, time, text, is_rolled_back=rolled_back, **how)
            )

    def is_full(self, fit: Fit) -> bool:
        """Return whether there may be more messages of one fit than are kept."""
        return len(self.found[fit]) >= _LIMITS[fit]

    def messages(self, fit: Fit) -> Iterator[LogMessage]:
        """Yield the messages of one fit, newest first, each once."""
        noted = {message.phy_offset: message for message in self.found[fit]}
        for offset in sorted(noted, reverse=True):
            yield noted[offset]


def _places(mask: pa.Array) -> list[int]:
    """Return where a mask is true; null is not."""
    places: list[int] = np.flatnonzero(
        mask.fill_null(False).to_numpy(zero_copy_only=False)
    ).tolist()
    return places


def _begin_timestamp(log: CommitLog) -> int | None:
    """Return the store time of a log's first message, if its first file begins with one."""
    for file in log.files:
        begin = log.first_store_timestamp(file)
        if file.start >= log.min_offset:  # it has not expired meanwhile
            return begin
    return None
