"""Plans the audit of a path, one unit per file, and runs the units."""

from __future__ import annotations

from contextlib import ExitStack
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

import pyarrow as pa

from rmqindex.arguments import int_of, int_or_none
from rmqindex.audit.audited import open_audited, open_planned
from rmqindex.audit.extent import (
    LogRange,
    audit_flushed,
    audit_gaps,
    audit_log_files,
    audit_missing,
    audit_remains,
    broker_of,
    log_start,
    may_have_broker,
)
from rmqindex.audit.file import audit_file
from rmqindex.audit.findings import Findings, place_of
from rmqindex.audit.log import audit_coverage, audit_entries
from rmqindex.audit.remedies import (
    FINDING_SCHEMA,
    with_agreeing_remedies,
    with_broker_stopped,
    with_one_end,
)
from rmqindex.audit.store import (
    audit_barrier,
    audit_files,
    audit_name_times,
    audit_names,
    audit_state,
)
from rmqindex.audit.units import AuditUnit, StoreUnit, files_since, live_unit, members_of
from rmqindex.commitlog.log import CommitLog
from rmqindex.commitlog.snapshot import commit_log_of, marked_files
from rmqindex.commitlog.walk import record_crc_fault
from rmqindex.consumequeue.comparison import compare_queues
from rmqindex.errors import RmqIndexError
from rmqindex.layout.record import INNER_NUM
from rmqindex.layout.store import INDEX_FOLDER
from rmqindex.record.bodies import decompress_body, is_inner_batch, iterate_inner_messages
from rmqindex.record.properties import parse_properties
from rmqindex.record.records import Fault
from rmqindex.record.text import java_integer
from rmqindex.storage.identity import FileChangedError
from rmqindex.storage.location import Location
from rmqindex.storage.opening import FileMark, ensure_same
from rmqindex.store.store import Store, index_entries
from rmqindex.times import microseconds_of, moment_now, to_milliseconds
from rmqindex.transaction.broker_lock import BrokerState
from rmqindex.transaction.directories import exists

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from rmqindex.audit.units import Member
    from rmqindex.commitlog.framing import LogFile
    from rmqindex.indexfile.geometry import Layout
    from rmqindex.layout.index_file import IndexHeader
    from rmqindex.record.records import Records
    from rmqindex.storage.location import PathLike
    from rmqindex.transaction.directories import FileEntry

_DEFAULT_LIMIT = 1000


def verify(
    path: PathLike,
    commit_log: CommitLog | PathLike | Sequence[PathLike | LogFile] | None = None,
    layout: Layout | None = None,
    *,
    max_findings: int = _DEFAULT_LIMIT,
    since: int | datetime | timedelta | None = None,
    bodies: bool = False,
) -> pa.Table:
    """Check an index, byte by byte, and against its CommitLog.

    Every byte that a reader uses is compared with what the entries, the files beside it and the
    CommitLog say it must be.
    Bytes that no reader uses are not checked: entry place 0, the places behind the one of the next
    entry, and bytes behind the last place.
    Without a CommitLog, a wrong but plausible time or offset goes unnoticed.
    The ConsumeQueues of a local store are compared with its CommitLog as well.

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
        bodies: Read the bodies of all messages, too, and compare them with their CRCs. Without a
            CommitLog there are none.

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
    max_findings = int_of("max_findings", max_findings, 1)
    with ExitStack() as stack:
        log = commit_log_of(path, commit_log)
        if log is not None and log is not commit_log:
            stack.callback(log.close)
        return whole_audit(path, log, layout, max_findings, _millis(since), bodies=bodies)


def whole_audit(
    path: PathLike,
    log: CommitLog | None,
    layout: Layout | None,
    max_findings: int,
    since: int | None,
    *,
    bodies: bool,
    progress: Callable[[int, int], None] | None = None,
) -> pa.Table:
    """Run all parts of an audit, as :func:`verify` does."""
    units = plan_audit(path, log, layout, since)
    batches = []
    for number, batch in enumerate(_run_audits(units, max_findings, log), 1):
        batches.append(batch)
        if progress is not None:
            progress(number, len(units))
    if bodies and log is not None:
        batches.append(run_body_audit(log, max_findings, since))
    if log is not None:
        batches.append(_run_queue_audit(path, log, max_findings, since))
    findings = pa.Table.from_batches(batches, FINDING_SCHEMA)
    # Several parts find the same fault of the log.
    columns = (findings[name].to_pylist() for name in ("file", "rule", "byte", "expected"))
    places = [place_of(*row) for row in zip(*columns, strict=True)]
    first = {place: row for row, place in reversed(list(enumerate(places)))}
    findings = findings.take(pa.array(sorted(first.values()), pa.int64()))
    if log is not None:
        findings = with_one_end(findings, log)
    findings = with_agreeing_remedies(findings, has_log=log is not None)
    return with_broker_stopped(findings, may_run=may_have_broker(units[0].index))


def _millis(since: int | datetime | timedelta | None) -> int | None:
    if not isinstance(since, (datetime, timedelta)):
        return int_or_none("since", since)
    if isinstance(since, timedelta):
        return to_milliseconds(moment_now() - since // timedelta(microseconds=1), up=True)
    return to_milliseconds(microseconds_of(since), up=True)


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
    store = Store.open(path, needs_index=log is None)
    directory = store.index
    if log is not None and not store.has_index:
        return [StoreUnit(directory, (), marked_files(log), broker_of(directory), log.folders)]
    name = None if store.file is None else store.file.name
    broker = broker_of(directory)
    entries = [entry for entry in index_entries(directory) if not entry.is_directory]
    if broker is BrokerState.RUNNING and entries and not entries[-1].size:
        entries.pop()  # the broker is making it
    members = members_of(entries, layout)
    log_files = None if log is None else _listed_files(log, broker)
    log_folders = () if log is None else log.folders
    if store.file is not None:
        chosen = [entry for entry in entries if entry.name == name]
        if not chosen:
            alone = AuditUnit(
                store.file,
                store.file.name,
                layout,
                None,
                (),
                None,
                log_files,
                since=since,
                log_folders=log_folders,
            )
            return [alone]
    by_path = {member.path: place for place, member in enumerate(members)}
    ranges = _ranges(members) if log is not None else {}
    units: list[StoreUnit | AuditUnit] = []
    if store.file is None:
        units.append(StoreUnit(directory, tuple(members), log_files, broker, log_folders))
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
            broker,
            0 if member is None else member.count,
            log_folders,
        )
        is_old = since is not None and member is not None and _ended_before(member, since)
        if entry.name == name or (name is None and not (is_old and entry is not entries[-1])):
            units.append(unit)
        previous = None if member is None else member.header
    return units


def _listed_files(log: CommitLog, broker: BrokerState) -> tuple[LogFile, ...]:
    """Return the files of a log, which has the messages of all entries that were counted."""
    if broker is not BrokerState.RUNNING:
        return marked_files(log)
    with CommitLog(files_since(log.files, log.folders)) as now:
        return marked_files(now)


def _ended_before(member: Member, since: int) -> bool:
    return member.last >= 0 and member.header.end_timestamp < since


def _run_audits(
    units: Sequence[StoreUnit | AuditUnit],
    max_findings: int = _DEFAULT_LIMIT,
    log: CommitLog | None = None,
) -> Iterator[pa.RecordBatch]:
    with ExitStack() as stack:
        files = units[0].log_files if units else None
        if log is not None and files is not None and files != log.files:
            log = stack.enter_context(CommitLog(files, folders=log.folders))
        for unit in units:
            yield _run_unit(unit, max_findings, log)


def _run_queue_audit(
    path: PathLike, log: CommitLog, max_findings: int = _DEFAULT_LIMIT, since: int | None = None
) -> pa.RecordBatch:
    """Return findings about the ConsumeQueues that a path's store has, if any."""
    index = _store_index(path)
    root = None if index is None else index.parent.local
    if index is None or root is None:
        return Findings(max_findings).batch()
    for last in (False, False, True):
        findings = Findings(max_findings)
        broker = broker_of(index)
        try:
            compare_queues(root, log, findings, broker, log_start(log, since))
        except RmqIndexError as error:
            # A running broker deletes files of queues and log that have expired.
            if broker is BrokerState.RUNNING and not last:
                continue
            findings.add_error(Location.of(path), "queues_unreadable", "ConsumeQueues", error)
        break
    return findings.batch()


def run_body_audit(log: CommitLog, max_findings: int, since: int | None = None) -> pa.RecordBatch:
    """Compare messages with their CRCs, unpack bodies, and count the messages of inner batches.

    A message that a broker is writing is left out.
    """
    findings = Findings(max_findings)
    try:
        stop = log.agreed_stop()
    except RmqIndexError as error:
        findings.add_error(str(log.files[-1].path), "log_unreadable", "a CommitLog", error)
        return findings.batch()
    for records in log.records(log_start(log, since), stop, mode="DROPMALFORMED"):
        first = int(records.phy_offset[0])
        file = next(each for each in log.files if each.start <= first < each.stop)
        for place, offset in enumerate(records.phy_offset.tolist()):
            fault = record_crc_fault(records, place) or _body_fault(records, place)
            if fault is not None:
                byte = offset - file.start + fault.byte
                expected = f"{fault.expected} (message at {offset})"
                findings.add(str(file.path), fault.field, byte, expected, fault.got)
    return findings.batch()


def _body_fault(records: Records, place: int) -> Fault | None:
    """Unpack a body; count the messages of an inner batch, whose properties have their number."""
    body, flags = bytes(records.body(place)), int(records.sys_flag[place])
    start = int(records.starts[place])
    if not is_inner_batch(flags):
        try:
            decompress_body(body, flags)
        except RmqIndexError as error:
            byte = int(records.body_start[place]) - start
            return Fault("body_packed", byte, "a body that unpacks", error)
        return None
    text = parse_properties(bytes(records.properties(place))).get(INNER_NUM)
    try:
        number: object = sum(1 for _ in iterate_inner_messages(body, flags))
    except RmqIndexError as error:
        number = error
    if text is not None and java_integer(text, 16) == number:
        return None
    byte = int(records.properties_start[place]) - start
    got = f"{number}, and {INNER_NUM} {'absent' if text is None else ascii(text)}"
    return Fault("inner_number", byte, f"as many messages as {INNER_NUM} says", got)


def _store_index(path: PathLike) -> Location | None:
    """Return the index directory of a path's store; None where only files or a copy are given."""
    store = Store.open(path, needs_index=False)
    directory = store.index.absolute
    return None if store.file is not None or directory.name != INDEX_FOLDER else directory


def run_audit(
    unit: StoreUnit | AuditUnit, max_findings: int = _DEFAULT_LIMIT, log: CommitLog | None = None
) -> pa.RecordBatch:
    """Run one part of an audit by itself.

    Args:
        unit: The part.
        max_findings: As :func:`rmqindex.verify` takes it.
        log: The unit's CommitLog, if it is open already.

    Returns:
        Findings with the columns of ``FINDING_SCHEMA``.

    Raises:
        FileChangedError: A file is no longer the planned one.
    """
    findings = _run_unit(unit, max_findings, log)
    return with_broker_stopped(findings, may_run=may_have_broker(unit.index))


def _run_unit(
    unit: StoreUnit | AuditUnit, max_findings: int, log: CommitLog | None
) -> pa.RecordBatch:
    """Return the findings of one part, with the remedies of their rules."""
    while True:
        findings = Findings(max_findings)
        try:
            _run(unit, log, findings)
        except RmqIndexError:
            changed = live_unit(unit)
            if changed == unit:
                raise
        else:
            # A writer may have begun since the audit was planned, or hold no lock that is seen.
            changed = live_unit(unit) if findings and not unit.is_live else unit
            if changed == unit:
                return findings.batch()
        if changed is None:
            return Findings(max_findings).batch()
        unit, log = changed, None


def _run(unit: StoreUnit | AuditUnit, log: CommitLog | None, findings: Findings) -> None:
    with ExitStack() as stack:
        if log is None and unit.log_files is not None:
            log = stack.enter_context(CommitLog(unit.log_files, folders=unit.log_folders))
        if isinstance(unit, StoreUnit):
            _audit_store(unit, log, findings)
        else:
            _audit_unit(unit, log, findings, stack)
        if log is not None:
            log.ensure_same()


def _audit_store(unit: StoreUnit, log: CommitLog | None, findings: Findings) -> None:
    members = unit.members
    if unit.directory.local is not None:
        audit_state(unit.directory, members, unit.broker, log, findings)
    if exists(unit.directory):
        audit_names(unit.directory, findings)
    for member in members:
        open_planned(member.path, member.mark).close()
    audit_files([(m.path, m.header, m.layout) for m in members], findings)
    audit_name_times(unit.directory, members, log, findings)
    if log is None:
        return
    try:
        if members:
            audit_barrier(members[-1].path, members[-1].header, log, findings)
        is_unknown = any(each.layout is None and each.header.entry_count for each in members)
        if not is_unknown and all(member.first < 0 for member in members):
            audit_missing(unit.directory, log, findings, unit.broker)
        audit_gaps(log, findings)
        audit_log_files(log, unit.broker, findings)
        audit_remains(log, findings)
        if unit.broker is not BrokerState.RUNNING:
            audit_flushed(log, findings)
    except FileChangedError:
        raise
    except RmqIndexError as error:
        _add_unreadable(unit, error, findings)


def _audit_unit(
    unit: AuditUnit, log: CommitLog | None, findings: Findings, stack: ExitStack
) -> None:
    live_count = unit.count if unit.is_live else None
    file = open_audited(unit.path, unit.layout, findings, unit.mark, live_count)
    if file is None:
        return
    stack.callback(file.source.close)
    audit_file(file, unit.name, unit.previous, findings, log)
    ensure_same(file.source, unit.mark)
    if log is None or not file.count:
        return
    quiet = Findings(1)  # their own units report what is wrong with them
    others = []
    for member in unit.others:
        other = open_audited(member.path, member.layout, quiet, member.mark)
        if other is not None:
            stack.callback(other.source.close)
            others.append((other, member.mark))
    try:
        audit_entries(file, log, findings, unit.since)
        if unit.span is not None:
            audit_coverage(file, [other for other, _ in others], log, unit, findings)
    except FileChangedError:
        raise
    except RmqIndexError as error:
        _add_unreadable(unit, error, findings)
    for each, mark in [(file, unit.mark), *others]:
        ensure_same(each.source, mark)


def _add_unreadable(unit: StoreUnit | AuditUnit, error: RmqIndexError, findings: Findings) -> None:
    if unit.is_live and live_unit(unit) != unit:
        raise error  # its oldest files have expired
    findings.add_error(unit.place, "log_unreadable", "a CommitLog", error)


def _listed_mark(entry: FileEntry) -> FileMark | None:
    return None if entry.identity is None else FileMark(entry.identity)


def _ranges(members: Sequence[Member]) -> dict[str, LogRange]:
    """Divide the log among the files with entries: each gets the part up to the next one's.

    The names of two files tell their order by the clock, which may have stepped back between.
    """
    filled = sorted((each for each in members if each.first >= 0), key=lambda each: each.first)
    if not filled:
        return {}
    starts = [member.first for member in filled]
    stops = [*starts[1:], None]
    begin = starts[0]
    return {
        member.path: LogRange(0 if place == 0 else start, stop, begin)
        for place, (member, start, stop) in enumerate(zip(filled, starts, stops, strict=True))
    }


def _others(members: Sequence[Member], path: Location, span: LogRange) -> tuple[Member, ...]:
    return tuple(
        member
        for member in members
        if member.path != path
        and member.layout is not None
        and member.first >= 0
        and max(member.first, member.last) >= span.start
        and (span.stop is None or min(member.first, member.last) < span.stop)
    )
