"""The parts of an audit, and what becomes of them while a broker writes, rolls and expires files.

A unit is picklable, so that many processes can audit an index of many files.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, TypeVar

import numpy as np

from rmqindex.audit.audited import shown_layout, whole_entries
from rmqindex.audit.extent import broker_of
from rmqindex.commitlog.files import OpenFiles
from rmqindex.errors import RmqIndexError
from rmqindex.indexfile.committed import header_of, open_index_source, read_header
from rmqindex.indexfile.fingerprint import FINAL_FIELDS, SAMPLED_ENTRY_BYTES
from rmqindex.indexfile.geometry import OtherLayoutError, infer_layout, shows
from rmqindex.layout.index_file import FIRST_POSITION
from rmqindex.storage.identity import FileChangedError
from rmqindex.storage.opening import FileMark, ensure_same
from rmqindex.store.store import index_entries
from rmqindex.transaction.broker_lock import BrokerState
from rmqindex.transaction.directories import exists

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rmqindex.audit.extent import LogRange
    from rmqindex.commitlog.framing import LogFile
    from rmqindex.indexfile.geometry import Layout
    from rmqindex.layout.index_file import IndexHeader
    from rmqindex.storage.location import Location
    from rmqindex.transaction.directories import FileEntry

T = TypeVar("T", "Member", "LogFile")


@dataclass(frozen=True, slots=True)
class Member:
    """A file of the directory, known by its header and its first and last entries.

    A snapshot's file that cannot be used has neither, but an audit says what is wrong with it.

    Attributes:
        path: Where it is.
        name: Its name.
        size: Its size in bytes.
        header: Its header.
        layout: Its geometry, else that of the files beside it; None where unknown.
        mark: Its mark; None to check nothing.
        first: The offset of its first entry, bytes; -1 without entries.
        last: The offset of its last entry, bytes; -1 without entries.
    """

    path: Location
    name: str
    size: int
    header: IndexHeader
    layout: Layout | None
    mark: FileMark | None
    first: int = -1
    last: int = -1

    @property
    def count(self) -> int:
        """How many entries it has: counted by its header, and inside the file."""
        if self.layout is None:
            return 0
        return min(self.header.entry_count, whole_entries(self.size, self.layout))


def members_of(entries: Sequence[FileEntry], layout: Layout | None) -> list[Member]:
    """Read the header and the ends of each file; those that cannot be opened are left out.

    Raises:
        RmqIndexError: A file shows another geometry than ``layout``.
    """
    headers: list[tuple[FileEntry, IndexHeader]] = []
    marks: dict[str, FileMark] = {}
    for entry in entries:
        try:
            with open_index_source(entry.path) as source:
                header = read_header(source)
                final = FINAL_FIELDS if header.entry_count else ()
                marks[entry.path] = FileMark.of(source, final)
                if layout is not None and not source.remote:
                    shows(source, header, layout)
                headers.append((entry, header))
        except OtherLayoutError:
            raise
        except RmqIndexError:
            continue  # the file's own unit reports why
    layouts: dict[int, Layout | None] = {}
    for entry, _ in headers:
        if entry.size not in layouts:
            same = [each for each in headers if each[0].size == entry.size]
            layouts[entry.size] = layout or _layout_of(same)
    common = _commonest([layouts[entry.size] for entry, _ in headers])
    members = []
    for entry, header in headers:
        # A broker opens all files with one geometry: it extends short ones, and ignores surplus
        # bytes.
        file_layout = layouts[entry.size] or common
        if file_layout is None:
            file_layout = _usual(entry)
        mark, *ends = _ends(entry, header, file_layout, marks[entry.path])
        members.append(Member(entry.path, entry.name, entry.size, header, file_layout, mark, *ends))
    return members


def _usual(entry: FileEntry) -> Layout | None:
    """Return the geometry of a file's size, where neither it nor one beside it shows another."""
    try:
        with open_index_source(entry.path) as source:
            return shown_layout(source, read_header(source))
    except RmqIndexError:
        return None


def _commonest(layouts: Sequence[Layout | None]) -> Layout | None:
    counts = Counter(layout for layout in layouts if layout is not None)
    return max(counts, key=lambda layout: counts[layout], default=None)


def _layout_of(files: Sequence[tuple[FileEntry, IndexHeader]]) -> Layout | None:
    """Return the geometry that files of one size have, from the fullest one that shows it."""
    for entry, header in sorted(files, key=lambda file: -file[1].index_count):
        if not header.entry_count:
            break
        try:
            with open_index_source(entry.path) as source:
                return infer_layout(source)
        except RmqIndexError:
            continue  # a damaged file does not show it; one beside it may
    return None


def _ends(
    entry: FileEntry, header: IndexHeader, layout: Layout | None, mark: FileMark
) -> tuple[FileMark, int, int]:
    """Return a file's mark, and the offsets of its first and last entries, -1 without any."""
    if layout is None:
        return mark, -1, -1
    try:
        with open_index_source(entry.path, zero_extend_to=layout.file_size) as source:
            ensure_same(source, mark)
            count = min(header.entry_count, whole_entries(entry.size, layout))
            if not count:
                return mark, -1, -1
            ends = source.entries(layout, np.array([FIRST_POSITION, count]))
            entries = layout.entry_offset(FIRST_POSITION), layout.entry_offset(count + 1)
            mark = FileMark.of(source, [*FINAL_FIELDS, entries], SAMPLED_ENTRY_BYTES)
    except FileChangedError:
        raise
    except RmqIndexError:
        return mark, -1, -1
    first, last = ends["phy_offset"].tolist()
    return mark, max(first, 0), max(last, 0)


@dataclass(frozen=True, slots=True)
class StoreUnit:
    """The audit of a directory and its store, apart from the bytes of single files.

    Attributes:
        directory: The index directory.
        members: Its files, oldest first.
        log_files: The files of the CommitLog; None without one.
        broker: What is known of the store's broker.
        log_folders: Where the CommitLog's files were looked for.
    """

    directory: Location
    members: tuple[Member, ...]
    log_files: tuple[LogFile, ...] | None
    broker: BrokerState = BrokerState.NONE
    log_folders: tuple[Location, ...] = ()

    @property
    def place(self) -> Location:
        """The audited directory."""
        return self.directory

    @property
    def index(self) -> Location:
        """The index directory."""
        return self.directory

    @property
    def is_live(self) -> bool:
        """Whether a broker is writing."""
        return self.broker is BrokerState.RUNNING


@dataclass(frozen=True, slots=True)
class AuditUnit:
    """The audit of one file, as it travels to the task that does it.

    Attributes:
        path: The file.
        name: Its name.
        layout: Its geometry; None where unknown.
        previous: The header of the file before it, if any.
        others: The files that may have entries of the same messages.
        span: The part of the log whose entries it must hold, if any.
        log_files: The files of the CommitLog; None without one.
        mark: The file's mark; None to check nothing.
        since: As :func:`rmqindex.verify` takes it, epoch milliseconds.
        broker: What is known of the store's broker.
        count: How many entries it had when it was found.
        log_folders: Where the CommitLog's files were looked for.
    """

    path: Location
    name: str
    layout: Layout | None
    previous: IndexHeader | None
    others: tuple[Member, ...]
    span: LogRange | None
    log_files: tuple[LogFile, ...] | None
    mark: FileMark | None = None
    since: int | None = None
    broker: BrokerState = BrokerState.NONE
    count: int = 0
    log_folders: tuple[Location, ...] = ()

    @property
    def place(self) -> Location:
        """The audited file."""
        return self.path

    @property
    def index(self) -> Location:
        """The index directory."""
        return self.path.parent

    @property
    def is_live(self) -> bool:
        """Whether a broker is writing."""
        return self.broker is BrokerState.RUNNING


def files_since(files: Sequence[LogFile], folders: Sequence[Location]) -> tuple[LogFile, ...]:
    """Return the files of a log without those that have expired since, and with newer ones.

    They are looked for in the log's folders, for files chosen by name in theirs.
    """
    remaining = _without_expired(files)
    places = [*folders] or list(dict.fromkeys(file.path.parent for file in files))
    if not places:
        return remaining
    end = files[-1].stop if files else 0
    listed = OpenFiles(tuple(files), places).found_again().files
    return (*remaining, *(file for file in listed if file.start >= end))


def live_unit(unit: StoreUnit | AuditUnit) -> StoreUnit | AuditUnit | None:
    """Return what is left of a unit of a store in which a broker writes; others as they are.

    None where its own file has expired.
    """
    directory = unit.index
    if not (unit.is_live or broker_of(directory) is BrokerState.RUNNING or _has_grown(unit)):
        return unit
    log_files = unit.log_files
    if log_files is not None:
        log_files = _without_expired(log_files)
        if not unit.is_live:
            log_files = files_since(log_files, unit.log_folders)
    if isinstance(unit, StoreUnit):
        members = _without_expired(unit.members)
        return replace(unit, members=members, log_files=log_files, broker=BrokerState.RUNNING)
    if not exists(unit.path):
        if any(entry.name < unit.name for entry in index_entries(directory)):
            raise FileChangedError(unit.path, "removed")
        return None
    return replace(
        unit,
        others=_without_expired(unit.others),
        log_files=log_files,
        broker=BrokerState.RUNNING,
    )


def _without_expired(files: Sequence[T]) -> tuple[T, ...]:
    """Leave out the oldest files that are gone, as a broker deletes them."""
    is_present = [exists(file.path) for file in files]
    first = is_present.index(True) if True in is_present else len(files)
    return tuple(files[first:])


def _has_grown(unit: StoreUnit | AuditUnit) -> bool:
    """Return whether a file has more entries than when it was found, so that somebody writes."""
    if isinstance(unit, StoreUnit):
        counts = [(member.path, member.header.entry_count) for member in unit.members[-1:]]
    else:
        counts = [(unit.path, unit.count)]
    for path, count in counts:
        try:
            if count < header_of(path).entry_count:
                return True
        except RmqIndexError:
            continue
    return False
