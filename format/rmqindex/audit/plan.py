"""Plans the audit of a path, one unit per file, and runs the units.

Units are picklable, so that many processes can audit an index of many files.
"""

from __future__ import annotations

from collections import Counter
from contextlib import ExitStack
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from rmqindex.audit.audited import open_audited, open_planned, whole_entries
from rmqindex.audit.extent import audit_missing, is_at_rest
from rmqindex.audit.file import audit_file
from rmqindex.audit.log import LogRange, audit_coverage, audit_entries
from rmqindex.audit.rules import FINDING_SCHEMA, Findings
from rmqindex.audit.store import audit_barrier, audit_files, audit_names, audit_state
from rmqindex.commitlog.log import CommitLog
from rmqindex.commitlog.planned_log import marked_files
from rmqindex.commitlog.sibling import commit_log_of
from rmqindex.errors import RmqIndexError
from rmqindex.fileset.paths import index_entries, lacks_index, resolve
from rmqindex.folders import INDEX_FOLDER
from rmqindex.indexfile.committed import open_index_source, read_header
from rmqindex.indexfile.fingerprint import FINAL_FIELDS, SAMPLED_ENTRY_BYTES
from rmqindex.indexfile.geometry import Layout, infer_layout
from rmqindex.layout import (
    FIRST_POSITION,
)
from rmqindex.storage.identity import FileChangedError
from rmqindex.storage.location import Location
from rmqindex.storage.opening import FileMark, ensure_same
from rmqindex.times import microseconds_of, to_milliseconds
from rmqindex.transaction.directories import exists

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rmqindex.header import IndexHeader
    from rmqindex.logfile.files import LogFile
    from rmqindex.storage.location import PathLike
    from rmqindex.transaction.directories import FileEntry

__all__ = ["AuditUnit", "StoreUnit", "plan_audit", "run_audit", "verify"]

_DEFAULT_LIMIT = 1000


def verify(
    path: PathLike,
    commit_log: CommitLog | PathLike | Sequence[PathLike | LogFile] | None = None,
    layout: Layout | None = None,
    *,
    max_findings: int = _DEFAULT_LIMIT,
    since: int | datetime | timedelta | None = None,
) -> pa.Table:
    """Check an index, byte by byte, and against its CommitLog.

    Every byte that a reader uses is compared with what the entries, the files beside it and the
    CommitLog say it must be.
    Bytes that no reader uses are not checked: entry place 0, the places behind the one of the next
    entry, and bytes behind the last place.
    Without a CommitLog, a wrong but plausible time or offset goes unnoticed.

    Args:
        path: An IndexFile, an index directory, or a store root that has ``index/``.
            For a single file, those beside it are read where its own bytes depend on them.
        commit_log: What :class:`CommitLog` takes, or one; ``"auto"`` for the ``commitlog`` beside
            ``index``, if there is one that does not continue in DLedger; None to compare with no
            log.
        layout: The geometry of every file; None to infer it.
        max_findings: The most findings of one rule in one file; one more gives the number of the
            rest.
        since: Check only what was stored at this time or later: epoch milliseconds, a time, or how
            long ago. Files that ended earlier are left out, but for the last one; an index that is
            gone is an error all the same.

    Returns:
        Findings with the columns of ``FINDING_SCHEMA``: ``file``, ``rule`` (a name of
        ``AUDIT_RULES``), ``severity`` (``error``, ``warning`` or ``info``), ``byte`` (int64, from
        the start of the file, null where no byte is at fault), ``expected`` and ``got`` as text,
        and ``remedy``: what to do about it.

    Raises:
        RmqIndexError: The path is absent, the store is of another kind, or the CommitLog is not
            one.
        ValueError: A limit below 1.

    Example:
        >>> from rmqindex import sample_store, verify
        >>> findings = verify(sample_store(), commit_log="auto")
        >>> sorted(set(findings["severity"].to_pylist()))
        ['info']
    """
    if max_findings < 1:
        raise ValueError(f"max_findings: expected at least 1, got {max_findings}")
    with ExitStack() as stack:
        log = commit_log_of(path, commit_log)
        if log is not None and log is not commit_log:
            stack.callback(log.close)
        units = plan_audit(path, log, layout, _millis(since))
        batches = [run_audit(unit, max_findings, log) for unit in units]
    return pa.Table.from_batches(batches, FINDING_SCHEMA)


def _millis(since: int | datetime | timedelta | None) -> int | None:
    """Return epoch milliseconds."""
    if since is None or isinstance(since, int):
        return since
    time = datetime.now(UTC) - since if isinstance(since, timedelta) else since
    return to_milliseconds(microseconds_of(time), up=True)


@dataclass(frozen=True, slots=True)
class _Member:
    """A file of the directory, known by its header and its first and last entries.

    Attributes:
        path: Where it is.
        name: Its name.
        size: Its size in bytes.
        header: Its header.
        layout: Its geometry, else that of the files beside it; None where unknown.
        mark: Its mark.
        first: The offset of its first entry, bytes; -1 without entries.
        last: The offset of its last entry, bytes; -1 without entries.
    """

    path: Location
    name: str
    size: int
    header: IndexHeader
    layout: Layout | None
    mark: FileMark
    first: int = -1
    last: int = -1


@dataclass(frozen=True, slots=True)
class StoreUnit:
    """The audit of a directory and its store, apart from the bytes of single files.

    Attributes:
        directory: The index directory.
        members: Its files, oldest first.
        log_files: The files of the CommitLog; None without one.
        at_rest: Whether the broker stopped cleanly.
    """

    directory: Location
    members: tuple[_Member, ...]
    log_files: tuple[LogFile, ...] | None
    at_rest: bool = False

    @property
    def place(self) -> Location:
        """Where what is looked at lies."""
        return self.directory


@dataclass(frozen=True, slots=True)
class AuditUnit:
    """The audit of one file.

    Attributes:
        path: The file.
        name: Its name.
        layout: Its geometry; None where unknown.
        previous: The header of the file before it, if any.
        others: The path, geometry and mark of files that may have entries of the same messages.
        span: The part of the log whose entries it must hold, if any.
        log_files: The files of the CommitLog; None without one.
        mark: The file's mark; None to check nothing.
        since: As :func:`rmqindex.verify` takes it, epoch milliseconds.
    """

    path: Location
    name: str
    layout: Layout | None
    previous: IndexHeader | None
    others: tuple[tuple[Location, Layout, FileMark | None], ...]
    span: LogRange | None
    log_files: tuple[LogFile, ...] | None
    mark: FileMark | None = None
    since: int | None = None

    @property
    def place(self) -> Location:
        """Where what is looked at lies."""
        return self.path


def plan_audit(
    path: PathLike, log: CommitLog | None, layout: Layout | None, since: int | None = None
) -> list[StoreUnit | AuditUnit]:
    """Divide the audit of a path into units, reading only the ends of each file.

    Args:
        path: As :func:`rmqindex.verify` takes it.
        log: The CommitLog, or None.
        layout: The geometry of every file, or None.
        since: As :func:`rmqindex.verify` takes it, epoch milliseconds.

    Returns:
        The units for :func:`run_audit`, to run independently, in any process.

    Raises:
        RmqIndexError: The path is absent, the store is of another kind, or a file was replaced
            meanwhile.
    """
    log_files = None if log is None else marked_files(log)
    if log is not None and lacks_index(path):
        missing = Location.of(path).child(INDEX_FOLDER)
        return [StoreUnit(missing, (), log_files, is_at_rest(missing))]
    resolved = resolve(path)
    name = resolved.path.name if resolved.is_file else None
    directory = resolved.directory
    entries = [entry for entry in index_entries(directory) if not entry.is_directory]
    if resolved.is_file:
        chosen = [entry for entry in entries if entry.name == name]
        if not chosen:
            alone = AuditUnit(
                resolved.path,
                resolved.path.name,
                layout,
                None,
                (),
                None,
                log_files,
                since=since,
            )
            return [alone]
    members = _members(entries, layout)
    by_path = {member.path: place for place, member in enumerate(members)}
    at_rest = is_at_rest(directory)
    ranges = _ranges(members, at_rest=at_rest, since=since) if log is not None else {}
    units: list[StoreUnit | AuditUnit] = []
    if not resolved.is_file:
        units.append(StoreUnit(directory, tuple(members), log_files, at_rest))
    previous: IndexHeader | None = None
    for entry in entries:
        place = by_path.get(entry.path)
        member = None if place is None else members[place]
        span = ranges.get(entry.path)
        unit = AuditUnit(
            entry.path,
            entry.name,
            layout if member is None else member.layout,
            previous,
            () if span is None else _others(members, entry.path, span),
            span,
            log_files,
            _listed_mark(entry) if member is None else member.mark,
            since,
        )
        is_old = since is not None and member is not None and _ended_before(member, since)
        if entry.name == name or (name is None and not (is_old and entry is not entries[-1])):
            units.append(unit)
        previous = None if member is None else member.header
    return units


def _ended_before(member: _Member, since: int) -> bool:
    return member.last >= 0 and member.header.end_timestamp < since


def run_audit(
    unit: StoreUnit | AuditUnit, max_findings: int = _DEFAULT_LIMIT, log: CommitLog | None = None
) -> pa.RecordBatch:
    """Run one part of an audit.

    Args:
        unit: The part.
        max_findings: As :func:`rmqindex.verify` takes it.
        log: The unit's CommitLog, if it is open already.

    Returns:
        Findings with the columns of ``FINDING_SCHEMA``.

    Raises:
        FileChangedError: A file is no longer the planned one.
    """
    findings = Findings(max_findings)
    with ExitStack() as stack:
        if log is None and unit.log_files is not None:
            log = stack.enter_context(CommitLog(unit.log_files))
        if isinstance(unit, StoreUnit):
            _audit_store(unit, log, findings)
        else:
            _audit_unit(unit, log, findings, stack)
        if log is not None:
            log.ensure_same()
    return findings.batch()


def _audit_store(unit: StoreUnit, log: CommitLog | None, findings: Findings) -> None:
    members = unit.members
    if exists(unit.directory):
        audit_names(unit.directory, findings)
    for member in members:
        open_planned(member.path, member.mark).close()
    audit_files([(m.path, m.header, m.layout) for m in members], findings)
    if unit.directory.local is not None:
        audit_state(unit.directory, [member.header for member in members], findings)
    if log is None:
        return
    try:
        if members:
            audit_barrier(members[-1].path, members[-1].header, log, findings)
        if all(member.first < 0 for member in members) and log.max_offset > log.min_offset:
            audit_missing(unit.directory, log, findings, at_rest=unit.at_rest)
    except FileChangedError:
        raise
    except RmqIndexError as error:
        findings.add(unit.directory, "log_unreadable", None, "a CommitLog", error)


def _audit_unit(
    unit: AuditUnit, log: CommitLog | None, findings: Findings, stack: ExitStack
) -> None:
    file = open_audited(unit.path, unit.layout, findings, unit.mark)
    if file is None:
        return
    stack.callback(file.source.close)
    audit_file(file, unit.name, unit.previous, findings)
    ensure_same(file.source, unit.mark)
    if log is None or not file.count:
        return
    quiet = Findings(1)  # their own units report what is wrong with them
    others = []
    for path, layout, mark in unit.others:
        other = open_audited(path, layout, quiet, mark)
        if other is not None:
            stack.callback(other.source.close)
            others.append((other, mark))
    try:
        audit_entries(file, log, findings, unit.since)
        if unit.span is not None:
            audit_coverage(file, [other for other, _ in others], log, unit.span, findings)
    except FileChangedError:
        raise
    except RmqIndexError as error:
        findings.add(unit.path, "log_unreadable", None, "a CommitLog", error)
    for each, mark in [(file, unit.mark), *others]:
        ensure_same(each.source, mark)


def _members(entries: Sequence[FileEntry], layout: Layout | None) -> list[_Member]:
    """Read the header and the ends of each file; those that cannot be opened are left out."""
    headers: list[tuple[FileEntry, IndexHeader]] = []
    marks: dict[str, FileMark] = {}
    for entry in entries:
        try:
            with open_index_source(entry.path) as source:
                headers.append((entry, read_header(source)))
                marks[entry.path] = FileMark.of(source, FINAL_FIELDS)
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
        own = layouts[entry.size] or common
        mark, *ends = _ends(entry, header, own, marks[entry.path])
        members.append(_Member(entry.path, entry.name, entry.size, header, own, mark, *ends))
    return members


def _commonest(layouts: Sequence[Layout | None]) -> Layout | None:
    """Return the geometry that most files have."""
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
    """Return a file's mark, and the offsets of its first and last entries, -1 without any.

    Raises:
        FileChangedError: The file is no longer the marked one.
    """
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


def _listed_mark(entry: FileEntry) -> FileMark | None:
    return None if entry.identity is None else FileMark(entry.identity)


def _ranges(members: Sequence[_Member], *, at_rest: bool, since: int | None) -> dict[str, LogRange]:
    """Divide the log among the files with entries: each gets the part up to the next one's."""
    filled = [member for member in members if member.first >= 0]
    if not filled:
        return {}
    starts = np.maximum.accumulate([member.first for member in filled]).tolist()
    stops = [*starts[1:], None]
    begin = starts[0]
    return {
        member.path: LogRange(0 if place == 0 else start, stop, begin, at_rest, since)
        for place, (member, start, stop) in enumerate(zip(filled, starts, stops, strict=True))
    }


def _others(
    members: Sequence[_Member], path: Location, span: LogRange
) -> tuple[tuple[Location, Layout, FileMark | None], ...]:
    return tuple(
        (member.path, member.layout, member.mark)
        for member in members
        if member.path != path
        and member.layout is not None
        and member.first >= 0
        and max(member.first, member.last) >= span.start
        and (span.stop is None or min(member.first, member.last) < span.stop)
    )
