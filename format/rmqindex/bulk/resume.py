"""Where a rebuild resumes behind present files."""

from __future__ import annotations

from collections import Counter
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from rmqindex.audit.audited import elapsed_seconds
from rmqindex.commitlog.log import MATCH_STATES, CommitLog
from rmqindex.errors import CorruptIndexError, RmqIndexError
from rmqindex.indexfile.reader import IndexFile
from rmqindex.keys.messages import HASH_BITS, KEY_COLUMNS, expand_messages
from rmqindex.layout.index_file import FIRST_POSITION, HEADER_SIZE, IndexHeader
from rmqindex.query.message_keys import keys_at
from rmqindex.store.snapshot import IndexSnapshot, open_in_store

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray

    from rmqindex.indexfile.entries import Mode
    from rmqindex.indexfile.geometry import Layout
    from rmqindex.transaction.directories import FileEntry

_RECORD = MATCH_STATES.index("record")
_BEYOND_END = MATCH_STATES.index("beyond_end")
_EXPIRED = MATCH_STATES.index("expired")
# Entries that are compared at each end of a file.
_COMPARED = 128
# A relayout without the messages' own times may move an entry by as many seconds.
_TOLERANCE = 1
_PROOF_COLUMNS = ("position", "key_hash", "phy_offset", "store_timestamp")
# Entries that are read at a time at the ends of a file.
_STEP = 4096
_HOW = "replace=True indexes the whole log anew"
_HOW_BEYOND = (
    "restore the newest files of the CommitLog; if they are lost, replace=True with "
    "allow_loss=True drops the entries behind its end"
)


def ensure_of_log(file: IndexFile, log: CommitLog, remedy: str) -> None:
    """Refuse a file unless its first and its last entries are of messages of a log.

    After a crash or a fail-over a log may hold other messages in the places of those indexed, also
    of the same size; their keys and times tell. Those of messages that have expired prove nothing.
    """
    stop = file.entry_count + FIRST_POSITION
    middle = min(FIRST_POSITION + _COMPARED, stop)
    for start, end in ((FIRST_POSITION, middle), (max(stop - _COMPARED, middle), stop)):
        for batch in file.scan(start, end, _PROOF_COLUMNS):
            columns = [batch[name].to_numpy() for name in _PROOF_COLUMNS]
            wrong = _first_foreign(columns, file.header.begin_timestamp, log, is_cut=start > middle)
            if wrong is not None:
                place, state = wrong
                position, key_hash, offset, _ = (int(column[place]) for column in columns)
                got = "another message" if state == _RECORD else f"none ({MATCH_STATES[state]})"
                raise RmqIndexError(
                    f"{file.path}: expected the message of entry {position} (key hash {key_hash}) "
                    f"at offset {offset} of the CommitLog, got {got}: the log was truncated and "
                    "written anew, or is another one, or the entry is damaged; a rebuild cannot "
                    f"continue behind it; {remedy}"
                )


def _first_foreign(
    columns: list[NDArray[Any]], begin: int, log: CommitLog, *, is_cut: bool
) -> tuple[int, int] | None:
    """Return the place of the first entry whose message is no message of a log, and its state.

    A message may have entries beside those of its keys, such as those of a batch's members: one
    that is its own proves it.
    """
    _, hashes, entry_offsets, times = columns
    offsets, rows = np.unique(entry_offsets, return_inverse=True)
    found = keys_at(log, offsets, tags=True)
    apart = elapsed_seconds(times, begin) - elapsed_seconds(found.times[rows], begin)
    is_own = found.have(rows, hashes) & (np.abs(apart) <= _TOLERANCE)
    proved = np.isin(np.arange(len(offsets)), rows[is_own])
    proved |= found.states == _EXPIRED
    has_keys = np.isin(np.arange(len(offsets)), found.keys >> HASH_BITS)
    proved |= (found.states == _RECORD) & ~has_keys & ~found.rolled_back
    if is_cut and len(rows):
        proved[rows[0]] = True  # its own entries may come before
    foreign = np.flatnonzero(~proved[rows])
    return (int(foreign[0]), int(found.states[rows[foreign[0]]])) if len(foreign) else None


@dataclass(frozen=True, slots=True)
class Start:
    """Where indexing begins."""

    offset: int
    skip: int = 0
    resumed: Path | None = None


def resume_at(files: Sequence[FileEntry], layout: Layout, log: CommitLog) -> Start | None:
    """Find the last entry, and count the entries of its message at the end of the files."""
    skip = 0
    offset: int | None = None
    last = ""
    for entry in reversed(files):
        with _opened(entry, layout) as file:
            file.check_header(is_last=entry == files[-1])
            position = file.entry_count
            while position >= FIRST_POSITION:
                (batch,) = file.scan(position, position + 1, ["phy_offset"])
                found = batch["phy_offset"][0].as_py()
                if offset is None:
                    offset, last = found, entry.path
                if found != offset:
                    break
                skip += 1
                position -= 1
            else:
                continue
        break
    if offset is None:
        return None
    state = log.read_at(np.array([offset]), ["topic"])["state"].indices[0].as_py()
    if state not in (_RECORD, _EXPIRED):
        raise RmqIndexError(
            f"{last}: expected a last entry that points to a message of the CommitLog, got offset "
            f"{offset}, where none is ({MATCH_STATES[state]}): a rebuild cannot continue behind "
            f"it; {_HOW_BEYOND if state == _BEYOND_END else _HOW}"
        )
    for entry in files:
        with _opened(entry, layout) as file:
            ensure_of_log(file, log, _HOW)
            _ensure_times(file)
    return Start(offset, skip, Path(files[-1].path))


def _ensure_times(file: IndexFile) -> None:
    """Refuse a header without its entries' times, to which a checkpoint would be raised."""
    counted, header = file.entry_count, file.header
    file.drop_unproved()
    if file.entry_count < counted:
        raise RmqIndexError(
            f"{file.path}: expected a header with the offsets and times of its first and last "
            f"entry, got begin_timestamp {header.begin_timestamp} and end_timestamp "
            f"{header.end_timestamp}: it is damaged; a rebuild cannot continue behind it; {_HOW}"
        )


def ensure_no_hole(
    files: Sequence[FileEntry],
    layout: Layout,
    log: CommitLog,
    mode: Mode = "FAILFAST",
    *,
    from_start: bool,
) -> None:
    """Refuse files between which entries of messages are missing, since no rebuild fills these.

    Only the ends of the files are compared with the log. Where a clock stepped back, the last
    name may not be of the last messages; a rebuild that resumed would index these again.
    """
    ends = [end for entry in files if (end := _FileEnds.of(entry, layout)) is not None]
    newest = max(ends, key=lambda end: end.last, default=None)
    if newest is not None and newest.last > ends[-1].last:
        raise RmqIndexError(
            f"{ends[-1].path}: expected the last entry of all files in the last one, got offset "
            f"{ends[-1].last}, and {newest.last} in {Path(newest.path).name}, whose name is "
            "earlier, as where the broker's clock stepped back: a rebuild cannot continue behind "
            f"it; {_HOW}"
        )
    ends.sort(key=lambda end: end.first)
    counts: Counter[int] = Counter()
    for end in ends:
        counts.update(end.counts)
    if ends and from_start:
        _ensure_covered(None, ends[0], counts, log, mode)
    for before, after in pairwise(ends):
        _ensure_covered(before, after, counts, log, mode)


@dataclass(frozen=True, slots=True)
class _FileEnds:
    """The first and the last offset (bytes) of a file, and how many entries there have each."""

    path: str
    first: int
    last: int
    counts: dict[int, int]

    @classmethod
    def of(cls, entry: FileEntry, layout: Layout) -> _FileEnds | None:
        with _opened(entry, layout) as file:
            if not file.entry_count:
                return None
            first, first_count = _run(file, forward=True)
            last, last_count = _run(file, forward=False)
        return cls(entry.path, first, last, {first: first_count, last: last_count})


def _run(file: IndexFile, *, forward: bool) -> tuple[int, int]:
    """Return the offset at one end of a file, and how many adjacent entries have it."""
    offset, count = -1, 0
    stop = file.entry_count + FIRST_POSITION
    steps = range(FIRST_POSITION, stop, _STEP)
    for first in steps if forward else reversed(steps):
        (batch,) = file.scan(first, min(first + _STEP, stop), ["phy_offset"])
        offsets = batch["phy_offset"].to_numpy()[:: 1 if forward else -1]
        offset = int(offsets[0]) if not count else offset
        others = np.flatnonzero(offsets != offset)
        if len(others):
            return offset, count + int(others[0])
        count += len(offsets)
    return offset, count


@contextmanager
def _opened(entry: FileEntry, layout: Layout) -> Iterator[IndexFile]:
    """Open a file behind which a rebuild is to go on; what is damaged in it can be made anew."""
    size, expected = entry.size, f"{layout.file_size} bytes"
    if size != layout.file_size:
        raise CorruptIndexError(entry.path, "file_size", size, expected, size, _HOW)
    try:
        with IndexFile(entry.path, layout) as file:
            yield file
    except CorruptIndexError as error:
        hint = "; ".join(filter(None, (error.hint, _HOW)))
        raise CorruptIndexError(
            error.path, error.field, error.byte, error.expected, error.got, hint
        ) from error


def _ensure_covered(
    before: _FileEnds | None, after: _FileEnds, counts: Counter[int], log: CommitLog, mode: Mode
) -> None:
    """Refuse two files unless all messages between their ends have all entries."""
    start = log.min_offset if before is None else max(before.last, log.min_offset)
    if start > after.first:
        return
    lacking: list[int] = []
    for batch in log.scan(start, after.first + 1, [*KEY_COLUMNS, "phy_offset"], mode=mode):
        rows, _, _ = expand_messages(*(batch[name] for name in KEY_COLUMNS))
        wanted = np.bincount(rows, minlength=batch.num_rows).tolist()
        offsets = batch["phy_offset"].to_pylist()
        lacking += [
            offset
            for offset, number in zip(offsets, wanted, strict=True)
            if counts[offset] < number
        ]
    if lacking:
        place = "before" if before is None else f"between {Path(before.path).name} and"
        raise RmqIndexError(
            f"{after.path}: expected entries of all messages {place} this file, got none, or not "
            f"all, of {len(lacking)} at {lacking[0]} to {lacking[-1]}: a rebuild that resumes adds "
            f"entries only behind the last one; {_HOW}"
        )


def make_exact(
    header: IndexHeader,
    offsets: NDArray[np.int64],
    times: NDArray[np.int64],
    log: CommitLog | None,
) -> int:
    """Replace times in whole seconds by the messages' own; return how many are exact now."""
    # The header has the exact time of the first message, too; others may be up to a second later.
    is_exact = (times == header.begin_timestamp) & (offsets == header.begin_phy_offset)
    # The header has the exact time of the last put; of a message in the log, that is believed.
    ends = (offsets == header.end_phy_offset) & (
        elapsed_seconds(times, header.begin_timestamp)
        == elapsed_seconds(header.end_timestamp, header.begin_timestamp)
    )
    times[ends] = header.end_timestamp
    is_exact |= ends
    if log is not None:
        wanted, rows = np.unique(offsets, return_inverse=True)
        found = log.read_at(wanted, ["store_timestamp"])
        record = found["state"].indices.to_numpy() == _RECORD
        stored = found["store_timestamp"].fill_null(0).to_numpy(zero_copy_only=False)[rows]
        # A message with another time is not the indexed one.
        agrees = record[rows] & (
            elapsed_seconds(stored, header.begin_timestamp)
            == elapsed_seconds(times, header.begin_timestamp)
        )
        times[agrees] = stored[agrees]
        is_exact |= agrees
    return int(np.count_nonzero(is_exact))


def present_files(
    target: Path, log: CommitLog, *, resume: bool, replace: bool
) -> tuple[IndexSnapshot, str | None]:
    """Return the present files, and the name of an unfinished last one, which is not among them."""
    present = IndexSnapshot.of_headers(target)
    unfinished = None if replace else _unfinished(present)
    if unfinished is not None:
        present = present[:-1]
    if present.entries and not (resume or replace):
        raise RmqIndexError(
            f"{target}: expected no IndexFiles, got {len(present.entries)}: resume=True continues "
            "behind their last entry, replace=True indexes the whole log anew in their place"
        )
    if replace and present.entry_count and not log.files:
        raise RmqIndexError(
            f"{target}: expected a CommitLog with files to replace {present.entry_count} entries "
            "from, got one without; is its disk mounted?"
        )
    return present, unfinished


def _unfinished(present: IndexSnapshot) -> str | None:
    """Return the name of a last file that an interrupted rebuild left empty, if there is one.

    Such a file has no size or an empty header, so it lacks the inherited end of the file before it.
    """
    if not present.entries:
        return None
    last, header = present[-1].entry, present[-1].header
    if last.size and (last.size < HEADER_SIZE or header != IndexHeader()):
        return None
    if last.size:
        with open_in_store(last.path, None, "FAILFAST"):
            pass
    return last.name
