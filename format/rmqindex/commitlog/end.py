"""Judges a place of a log's newest file where no sound record starts: its end, damage, or a write.

Zeros are the end only if they reach to the end of the file.
A page that never reached the disk leaves a hole of zeros, and what was written behind it is there.

A broker copies a record, or the records of one batch, into a file of zeros, and no order of the
bytes of a copy is promised, so a record may be seen whole in its parts, but not in its bytes, and
a later record of a batch before an earlier one.
Only once the copy is done does a broker index the message and count it in a queue, or begin the
next copy.
Where a broker is writing, the log ends before.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import deque
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from rmqindex.commitlog.framing import DLedgerFrames, frames_of
from rmqindex.commitlog.leads import find_leads, index_files, led_by_unit, proved_lead
from rmqindex.commitlog.walk import (
    LARGEST_MESSAGE,
    MARK_SIZE,
    EndKind,
    begins_soundly,
    find_record,
    is_copied,
    is_full,
    is_record,
    record_at,
    record_crc_fault,
    search_start,
    walk,
)
from rmqindex.errors import CorruptCommitLogError, RmqIndexError
from rmqindex.indexfile.committed import entry_rows, open_index_source, read_header
from rmqindex.layout.dledger import ENTRY_HEAD, INDEX_OFFSET, TERM_OFFSET
from rmqindex.layout.store import INDEX_FOLDER
from rmqindex.record.batches import store_timestamps
from rmqindex.record.index_keys import IndexKeys
from rmqindex.record.records import Fault, parse_records, store_timestamp_of
from rmqindex.storage.location import Location
from rmqindex.store.dledger import entry_place
from rmqindex.store.store import root_of
from rmqindex.transaction.broker_lock import BrokerState

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from pathlib import Path

    from rmqindex.commitlog.files import OpenFiles
    from rmqindex.commitlog.framing import Frames, LogFile
    from rmqindex.commitlog.walk import End
    from rmqindex.record.records import Records
    from rmqindex.storage.source import ByteSource

_DAMAGE_HINT = (
    "restore the file from a replica or a backup, or read what is left of it with the mode "
    "DROPMALFORMED"
)
# A broker copies no more at once than one largest message, and a batch with more messages than this
# would consist of tiny ones.
_COPY_RECORDS = 1024
#: Of how many records in a row the units are looked at.
ASKED_RECORDS = 64


_DOUBT_HINT = (
    "; the record at byte {}, with which reading goes on, may be one that a client put into the "
    "body of a message: believe it only where a queue or an index leads to it"
)


class EndVerdict(NamedTuple):
    """What a place without a sound record is.

    Attributes:
        resume: Where the frames go on, bytes from the start of the file; None if they do not.
        fault: The damage; None where the records end soundly, or where a broker has written on.
        is_doubtful: Whether they may go on within the body of a broken record, whose end is not
            known.
    """

    resume: int | None = None
    fault: Fault | None = None
    is_doubtful: bool = False


@dataclass(frozen=True, slots=True)
class UnagreedTail:
    """The end of a log on which DLedger's group is not known to have agreed.

    Attributes:
        offset: Where it begins, bytes.
        byte_count: How long it is.
    """

    offset: int
    byte_count: int

    def __str__(self) -> str:
        """Return what it is, and why it may not last."""
        return (
            f"the last {self.byte_count} bytes of the CommitLog, from offset {self.offset} on, on "
            "which the DLedger group is not known to have agreed, so that another leader may "
            "replace them"
        )


def damage_error(
    file: LogFile, at: int, fault: Fault, doubtful: int | None = None
) -> CorruptCommitLogError:
    """Return the error of a fault in the record at a place, bytes from the start of the file.

    ``doubtful`` is a place of which it is not known that a record of the log starts there.
    """
    hint = _DAMAGE_HINT + ("" if doubtful is None else _DOUBT_HINT.format(doubtful))
    return CorruptCommitLogError(
        file.path, fault.field, at + fault.byte, fault.expected, fault.got, hint
    )


def zeroed_before(
    source: ByteSource, file: LogFile, at: int, records: Records | None
) -> Fault | None:
    """Return the fault of zeros at a place that began in the properties of the last record before.

    The record stays one, as its size and its body are whole.
    """
    if records is None or at >= min(source.size, file.size) or any(source.read(at, 1)):
        return None
    properties = bytes(records.properties(-1))
    zeros = len(properties) - len(properties.rstrip(b"\0"))
    got = f"{zeros} zeros, as behind the message: its keys, tags or others are lost"
    return Fault("properties", -zeros, "names and values", got) if zeros else None


def last_with_data(files: OpenFiles) -> int:
    """Return the place of the last file that a log has reached; -1 for none.

    A file that was made ahead may have bytes of an earlier life. It is the log's if it has a record
    at its own offset, or if the log goes on where it begins.
    """
    for number in range(len(files.files) - 1, -1, -1):
        if files.holds_bytes(files.files[number]) and _is_reached(files, number):
            return number
    return -1


def _is_reached(files: OpenFiles, number: int) -> bool:
    """Return whether a file with bytes has a record, or follows a file that is full."""
    file = files.files[number]
    before = files.files[number - 1] if number else None
    if before is None or before.stop != file.start:
        return True
    source = files.source(file)
    if begins_soundly(source, file):
        return True
    if file.start not in files.without_records:
        if find_record(source, file, file.entry_head, file.size) is not None:
            return True
        files.without_records.add(file.start)
    return is_full(files.source(before), before)


class LogTail:
    """The end of a pass over a file of a log, and what a broker may be writing there.

    An unwritten part begins at a place without a sound record, or at a record of which bytes seem
    to lack, if a broker runs, what lies behind is no more than one copy holds and has one store
    time, as the records of one copy have, and nothing beside the log leads there or further.
    """

    def __init__(
        self,
        files: OpenFiles,
        source: ByteSource,
        file: LogFile,
        frames: Frames,
        read: Callable[[int, int], Iterator[Records]],
        *,
        is_possible: bool = True,
        waits: bool = False,
    ) -> None:
        """Begin a pass over a file of a log.

        ``read`` reads the log's records from an offset up to another one, over damage. With
        ``is_possible``, a broker may be writing to the file; with ``waits``, also where no lock
        tells.
        """
        self._files = files
        self._source = source
        self._file = file
        self._frames = frames
        self._read = read
        self._is_possible = is_possible
        self._waits = waits
        self._pending: deque[Records] = deque()
        # Where reading went on, if that may lie in a body.
        self._found: int | None = None
        #: Where the unwritten part begins, bytes from the start of the file, of the frame; None if
        #: none was met.
        self.start: int | None = None

    def written(self, blocks: Iterable[Records]) -> Iterator[Records]:
        """Yield blocks, in their order, up to a record that is unwritten."""
        for records in blocks:
            self._pending.append(records)
            while self._pending and (not self._is_possible or self._is_far()):
                yield self._pending.popleft()
        rest = list(self._pending)
        self._pending.clear()
        yield from self._rest(rest)

    def judge(self, end: End, reach: int | None = None) -> EndVerdict:
        """Judge the end of the records in the newest file that has data.

        What an earlier life of the log left is neither damage nor records, nor is what a broker is
        writing: a place is read again once what is behind it has been found. Behind a torn record
        others are searched for within ``reach`` bytes, None for all of the file.
        """
        verdict = self._judge(end, reach)
        if verdict.fault is None:
            return verdict
        if self._is_unwritten(end.position):
            self.start = end.position
        if self.start is not None:
            return EndVerdict()
        verdict = self._judge(end, reach)
        self._found = verdict.resume if verdict.is_doubtful else None
        return verdict

    def judge_middle(self, end: End, fault: Fault | None) -> EndVerdict:
        """Return where the records go on behind damage, if any, in a file before the last."""
        if fault is None:
            return EndVerdict()
        file = self._file
        if (before := self._damaged_before(end, file.size, is_last=False)) is not None:
            return EndVerdict(end.position, before)
        first, is_doubtful = search_start(self._source, file, end, self._found)
        resume = find_record(self._source, file, first, file.size)
        self._found = resume if is_doubtful else None
        return EndVerdict(resume, fault, is_doubtful)

    def _judge(self, end: End, reach: int | None) -> EndVerdict:
        if end.kind is EndKind.FAULT:
            return self._judge_fault(end, reach)
        if end.kind is EndKind.ZERO:
            return self._judge_zeros(end.position)
        return EndVerdict()

    def _judge_fault(self, end: End, reach: int | None) -> EndVerdict:
        source, file, frames = self._source, self._file, self._frames
        size = min(source.size, file.size)
        stop = size if reach is None else end.position + reach
        if (before := self._damaged_before(end, size, is_last=True)) is not None:
            return EndVerdict(end.position, before)
        first, is_doubtful = search_start(source, file, end, self._found)
        resume = self._following(first, stop)
        if resume is None:
            return EndVerdict()  # a torn record, or remains of an earlier life
        if not isinstance(frames.check(source.read, end.position, size), Fault):
            return EndVerdict(end.position)
        return EndVerdict(resume, end.fault, is_doubtful)

    def _damaged_before(self, end: End, size: int, *, is_last: bool) -> Fault | None:
        """Return the damage that makes a sound entry look out of order, if there is any.

        The head of the entry before it has another index or a greater term than DLedger's own
        index, by which the log goes on. Before the last file no term is older than what stands
        before it.
        """
        frames, start, folder = self._frames, self._file.start, self._file.path.parent
        if not isinstance(frames, DLedgerFrames) or frames.last is None or end.fault is None:
            return None
        if (field := end.fault.field) not in ("index", "term"):
            return None
        read, here = self._source.read, start + end.position
        (index, term), noted = frames.last, frames.last[0]
        if field == "index":
            noted = ENTRY_HEAD.unpack(read(end.position, ENTRY_HEAD.size))[2] - 1
        place = entry_place(folder, noted)
        if place is not None:
            agrees = place[2] >= term if field == "term" else entry_place(folder, index) == place
            place = None if agrees or place[0] + place[1] != here else place
        if place is None and (is_last or field == "index"):
            return None
        as_noted = DLedgerFrames(start, (noted, 0 if place is None else place[2]))
        if isinstance(as_noted.check(read, end.position, size), Fault):
            return None
        if place is None:
            return end.fault
        at, wanted, got = TERM_OFFSET, place[2], term
        if field == "index":
            at, wanted, got = INDEX_OFFSET, noted, index
        return Fault(field, place[0] + at - here, f"{wanted}, as in DLedger's index", got)

    def _judge_zeros(self, at: int) -> EndVerdict:
        source, file = self._source, self._file
        size = min(source.size, file.size)
        other = source.first_nonzero(at, size)
        if other is None:
            return EndVerdict()
        # The first bytes of a record may be zero, too.
        behind = max(at + 1, other - MARK_SIZE) + file.entry_head
        resume = self._following(behind, size)
        if any(bytes(source.read(at, min(size - at, MARK_SIZE)))):
            return EndVerdict(at)
        if resume is not None:
            expected = f"a record, since one follows at byte {resume}"
            return EndVerdict(resume, Fault("total_size", 0, expected, 0), is_doubtful=True)
        if find_record(source, file, behind, size) is not None:
            return EndVerdict()  # remains of an earlier life
        expected = "a record, or zeros to the end of the file"
        return EndVerdict(
            None, Fault("total_size", 0, expected, f"zeros and other bytes at {other}")
        )

    def _following(self, behind: int, stop: int) -> int | None:
        """Return where the frames of this life of the log go on in a range of the file, if they do.

        Where a clock stepped back, older records are of it, too: those from which records lead to
        a newer one without a gap, and those to which a queue or an IndexFile leads.
        """
        source, file, frames = self._source, self._file, self._frames
        if not frames.tells_by_time:
            return find_record(source, file, behind, stop, frames=frames)
        at = behind
        while (found := find_record(source, file, at, stop)) is not None:
            if frames.goes_on_at(source.read, found):
                return found
            run = frames_of(file)
            blocks = walk(source, file, run, found, min(source.size, file.size), _COPY_RECORDS)
            if any(map(self._is_of_this_life, blocks)):
                return found
            at = max(run.at, found + 1)
        return None

    def _is_of_this_life(self, records: Records) -> bool:
        """Return whether newer records follow older ones without a gap, or something leads there.

        What leads elsewhere from the queue offset of one proves that another life has written it.
        """
        newest = self._frames.newest(self._source.read)
        later = np.flatnonzero(store_timestamps(records) >= (newest or 0))
        if any(record_crc_fault(records, place) is None for place in later[:1].tolist()):
            return True
        asked = range(min(len(records), ASKED_RECORDS))
        known = range(self._file.start + self._frames.first, self._file.start + self._frames.at)
        led = {
            led_by_unit(root, records, place, known, self._record_at)
            for root in self._roots
            for place in asked
        }
        if led & {True, False}:
            return False not in led
        return self._have_entry(records)

    def _record_at(self, offset: int) -> Records | None:
        return record_at(self._source, self._file, offset - self._file.start, crc=False)

    def _have_entry(self, records: Records) -> bool:
        """Return whether an IndexFile has an entry of one of the records, with its offset and hash.

        Their clock may have stepped back, so that the file with the last entries is not the newest.
        """
        owners, hashes = IndexKeys(records).hashes(np.ones(len(records), np.bool_))
        offsets = records.phy_offset[owners]
        for path in self._index_files if len(offsets) else ():
            with suppress(RmqIndexError), open_index_source(path) as source:
                if read_header(source).end_phy_offset < offsets[0]:
                    continue
                for rows in entry_rows(source):
                    found = np.isin(rows["phy_offset"], offsets)
                    pairs = zip(
                        rows["phy_offset"][found].tolist(),
                        rows["key_hash"][found].tolist(),
                        strict=True,
                    )
                    if not {*zip(offsets.tolist(), hashes.tolist(), strict=True)}.isdisjoint(pairs):
                        return True
        return False

    @cached_property
    def _roots(self) -> list[Path]:
        folders = dict.fromkeys(file.path.parent for file in self._files.files)
        roots = dict.fromkeys(map(root_of, folders))
        return [root.local for root in roots if root.local is not None]

    @cached_property
    def _index_files(self) -> list[Location]:
        indexes = [Location(root).child(INDEX_FOLDER) for root in self._roots]
        return [path for index in indexes for path in index_files(index)]

    def _rest(self, blocks: list[Records]) -> list[Records]:
        """Return the last blocks of a walk up to a record that is unwritten; remember it."""
        if not self._is_possible or not self._may_be_held():
            return blocks
        doubtful = self._doubtful(blocks)
        if not doubtful:
            return blocks
        torn = [at for at in doubtful if not is_copied(self._source, self._file, at)]
        first = bisect_left(torn, True, key=self._is_unwritten)
        if first == len(torn):
            # A broker may have written them since they were read.
            return [self._again(records) for records in blocks]
        self.start = torn[first]
        stop = self._file.start + self.start + self._file.entry_head
        counts = [int(np.searchsorted(records.phy_offset, stop)) for records in blocks]
        return [
            records.take(slice(0, count))
            for records, count in zip(blocks, counts, strict=True)
            if count
        ]

    def _is_unwritten(self, position: int) -> bool:
        return (
            self._is_possible
            and self._may_be_held()
            and self._is_one_copy(position)
            and not self._is_led_to(self._file.start + position)
        )

    def _may_be_held(self) -> bool:
        broker = self._files.broker()
        return self._waits if broker is BrokerState.UNKNOWN else broker.may_run

    def _is_far(self) -> bool:
        """Return whether the oldest block is further from the newest record than one copy."""
        first, last = self._pending[0], self._pending[-1]
        behind = sum(len(records) for records in self._pending) - len(first)
        size = int(last.phy_offset[-1] - first.phy_offset[-1])
        return behind > 0 and (behind >= _COPY_RECORDS or size >= LARGEST_MESSAGE)

    def _doubtful(self, blocks: list[Records]) -> list[int]:
        """Return where the frames of the last records of one store time start that seem torn."""
        found: list[int] = []
        checked = 0
        stored: int | None = None
        for records in reversed(blocks):
            for place in reversed(range(len(records))):
                position = int(records.phy_offset[place]) - self._file.start
                time = store_timestamp_of(self._source.read, position)
                stored = time if stored is None else stored
                if checked >= _COPY_RECORDS or time not in (0, stored):
                    return found[::-1]
                checked += 1
                if not time or _is_doubtful(records, place):
                    found.append(position - self._file.entry_head)
        return found[::-1]

    def _is_one_copy(self, position: int) -> bool:
        """Return whether all that lies behind a place can be of one copy."""
        source, file, head = self._source, self._file, self._file.entry_head
        size = min(source.size, file.size)
        far = min(position + LARGEST_MESSAGE, size)
        if source.first_nonzero(position, far) is None:
            return False  # what follows is further away
        at, times = position + head + 1, set()
        for _ in range(_COPY_RECORDS):
            found = find_record(source, file, at, size, frames=self._frames)
            if found is None:
                return True
            times.add(store_timestamp_of(source.read, found + head))
            if found >= far or len(times) > 1:
                return False
            at = found + head + (is_record(source, file, found + head, crc=False) or 1)
        return False

    def _is_led_to(self, offset: int) -> bool:
        """Return whether anything that can be believed leads to an offset or further."""
        folders = dict.fromkeys(file.path.parent for file in self._files.files)
        roots = list(dict.fromkeys(map(root_of, folders)))
        leads = find_leads(roots, self._files.files[-1].stop).newest
        return proved_lead(leads, offset, self._read) is not None

    def _again(self, records: Records) -> Records:
        """Return the records of a block as they are by now."""
        first = int(records.phy_offset[0])
        span = int(records.phy_offset[-1] + records.size[-1]) - first
        data = memoryview(self._source.read(first - self._file.start, span))
        return parse_records(data, records.phy_offset - first, records.phy_offset)[0]


def _is_doubtful(records: Records, place: int) -> bool:
    """Return whether a record looks as if bytes of it were not written yet."""
    return record_crc_fault(records, place) is not None or records.has_zeroed_text(place)
