"""A CommitLog: read in order, by offset, in parts, followed, and from a store elsewhere.

All ways agree with each other, and each row with a plain decoder of its record.
What is read by windows, in blocks and in chains is read in small ones here, so that small logs
reach all of it.
"""

from __future__ import annotations

from typing import NamedTuple

from rmqindex import CommitLog, LogFile, property_pairs
from rmqindex.commitlog import end, follow, reading, tailing, walk
from rmqindex.query import PointLog
from rmqindex.record import host_text, java_text
from rmqindex.record.records import crc_fault

from ..memory import FILES, constants
from ..outcome import outcome, table_outcome
from ..record_bytes import encoded, messages, mutate_log, plain_record, starts_of
from . import hop

MAX_LENGTH = 2048
SHORT = 1_200
_PREFIX = 3
_FEW = ["phy_offset", "size"]


_SMALL = {
    reading: {"_SEARCH": 300},
    tailing: {"_BLOCK_RECORDS": 3, "_REACH": 400},
    end: {"LARGEST_MESSAGE": 300, "_COPY_RECORDS": 2},
    **hop.SMALL,
    walk: {
        "LARGEST_MESSAGE": 300,
        "_WINDOW": 200,
        "_HOP_SPAN": 300,
        "_BLOCK_SPAN": 250,
        "_SEARCH_WINDOW": 64,
        "_FIRST_READ": 100,
        "_MAX_REQUEST": 300,
        "_THREADS": 1,
    },
}


def seeds():
    """Return logs of one file and of three, whole, damaged and torn, each for every way."""
    every = messages()
    short = every[5]
    size = 256
    first = encoded(0, every[:1])
    first += _blank(size - len(first))
    second = encoded(size, [every[3]])
    second += _blank(size - len(second))
    third = encoded(2 * size, [short, short], tail=bytes(40))
    damaged = encoded(0, every[:2]) + b"\1" * 50
    damaged += encoded(len(damaged), every[:2])
    logs = [
        (0, 2, encoded(0, every[:4])),
        (0, 0, encoded(0, every[4:])),
        (0, 1, encoded(0, every[:3], tail=bytes(30))),
        (0, 2, encoded(0, [short] * 10)),
        (size // 64, 4, first + second + third),
        (0, 0, damaged),
        (0, 8, encoded(0, every[:3])[:-20]),
    ]
    return [
        bytes([files, 20, flags | way << 4]) + log
        for files, flags, log in logs
        for way in range(len(_WAYS))
    ]


def mutate(data, random):
    """Change the log."""
    return mutate_log(data.ljust(_PREFIX, b"\0"), random, _PREFIX, 0)


def _blank(size):
    return encoded(0, [], blank=size)


def check(data):
    """Read a log in every way."""
    if len(data) <= _PREFIX:
        return
    size, chunk, flags = data[:_PREFIX]
    log = data[_PREFIX:]
    size = 64 * (size % 16) or len(log)
    files = [
        LogFile(start, len(log[start : start + size]), f"commitlog/{start:020d}")
        for start in range(0, len(log), size)
    ]
    if flags & 4 and len(files) > 2:
        del files[1]  # a gap
    parts = {}
    for file in files:
        parts[file.start] = log[file.start : file.stop]
        FILES[file.path] = FILES["remote/" + file.path] = parts[file.start]
    crc = bool(flags & 1)
    plain = {}
    for start, part in parts.items():
        for at in starts_of(part, 0):
            record = plain_record(part, at, start)
            if record is not None:
                plain[start + at] = record
    with CommitLog(files) as opened:
        whole = _scanned(opened, crc, None)
        sure = _scanned(opened, crc, _FEW, mode="FAILFAST")
    _check_rows(whole, plain, crc, parts)
    short = [{name: row[name] for name in _FEW} for row in whole]
    assert sure is None or sure == short
    with constants(_SMALL), CommitLog(files) as opened:
        assert _scanned(opened, crc, _FEW) == short
        _WAYS[(flags >> 4) % len(_WAYS)](
            opened, _Case(files, plain, whole, short, sure, crc, chunk, flags)
        )


class _Case(NamedTuple):
    """What is known of a log: its files, its records and its rows."""

    files: list
    plain: dict
    whole: list
    short: list
    sure: list | None
    crc: bool
    chunk: int
    flags: int


def _scanned(log, crc, columns, mode="DROPMALFORMED"):
    """Return the rows of a scan; None for an error, which only ``FAILFAST`` may have."""
    found = table_outcome(
        log.scan,
        None,
        None,
        columns,
        check_crc=crc,
        max_records=2 if columns else 8192,
        mode=mode,
        decompress_body=False,
    )
    if not found.is_value:
        assert mode == "FAILFAST", found.error
        return None
    return [] if found.value is None else found.value.to_pylist()


def _check_rows(rows, plain, crc, parts):
    """Each row is what a plain decoder finds at its offset, and none lies in another."""
    behind = 0
    for row in rows:
        offset = row["phy_offset"]
        assert offset >= behind
        record = plain[offset]
        behind = offset + record.size
        assert row["size"] == record.size
        for name in ("queue_id", "flag", "queue_offset", "sys_flag", "magic_code", "body_crc"):
            assert row[name] == getattr(record, name), name
        for name in ("born_timestamp", "store_timestamp", "reconsume_times", "body"):
            assert row[name] == getattr(record, name), name
        assert row["prepared_transaction_offset"] == record.prepared_transaction_offset
        assert row["topic"] == java_text(record.topic)
        for name in ("born_host", "store_host"):
            host = getattr(record, name)
            port = int.from_bytes(host[-4:], "big", signed=True)
            assert row[name] == host_text(host[:-4], port)
        tail = record.phy_offset.to_bytes(8, "big")
        assert row["msg_id"] == (record.store_host + tail).hex().upper()
        pairs = property_pairs(record.properties)
        assert dict(row["properties"]) == dict(pairs)
        assert row["all_keys"] == [value for name, value in pairs if name == "KEYS"]
        assert row["tags"] == dict(pairs).get("TAGS")
        if crc:
            assert not _is_wrong(record, parts)


def _is_wrong(record, parts):
    start = max(start for start in parts if start <= record.phy_offset)
    at = record.phy_offset - start
    view = memoryview(parts[start])[at : at + record.size]
    body = 72 + len(record.born_host) + len(record.store_host)
    return crc_fault(view, body, body + len(record.body)) is not None


def _check_columns(log, case):
    """Small windows and blocks decode the same rows, also of a store elsewhere."""
    assert _scanned(log, case.crc, list(case.whole[0]) if case.whole else _FEW) == case.whole
    if case.flags & 2:
        elsewhere = [LogFile(f.start, f.size, "remote/" + f.path) for f in case.files]
        with CommitLog(elsewhere) as remote:
            assert _scanned(remote, case.crc, _FEW) == case.short
            wanted = [*case.plain, *(at + 1 for at in case.plain)]
            stored = {"decompress_body": False}
            assert remote.read_at(wanted, **stored) == log.read_at(wanted, **stored)
            sent = {"mode": "DROPMALFORMED", "max_body_size": 1 << 20}
            assert remote.read_at(wanted, **sent) == log.read_at(wanted, **sent)


def _check_parts(log, case):
    """A log read in parts gives the same rows, or says that a part ends in a record."""
    for file in log.files:
        boundaries = log.record_boundaries(file, 64 + case.chunk * 4)
        assert boundaries == sorted(set(boundaries))
        assert boundaries[0] == file.start
        found = []
        for start, stop in zip(boundaries, [*boundaries[1:], file.stop], strict=True):
            part = table_outcome(
                log.scan, start, stop, _FEW, check_crc=case.crc, max_records=2, at_boundaries=True
            )
            if not part.is_value:
                return
            found += [] if part.value is None else part.value.to_pylist()
        if case.sure is not None:
            mine = [row for row in case.sure if file.start <= row["phy_offset"] < file.stop]
            assert found == mine


def _check_offsets(log, case):
    """A record is found at an offset where a plain decoder finds one, and nowhere else."""
    starts = [file.start for file in case.files]
    wanted = {*case.plain, *(at + 1 for at in case.plain), *starts, -1, log.max_offset, 2**62}
    names = ["phy_offset", "topic", "all_uniq_keys", "all_keys", "tags", "store_timestamp"]
    found = log.read_at(sorted(wanted), names)
    found.validate(full=True)
    point = PointLog(case.files)
    for offset, row in zip(sorted(wanted), found.to_pylist(), strict=True):
        assert (row["state"] == "record") == (offset in case.plain), (offset, row)
        assert row["phy_offset"] == (offset if row["state"] == "record" else None)
        message = point.message(offset)
        if message is not None:
            keys = [*row["all_uniq_keys"]]
            keys += [part for text in row["all_keys"] for part in text.split(" ") if part]
            keys += [f"T#{row['tags']}"] if row["tags"] else []
            expected = (row["topic"], keys, row["store_timestamp"])
            assert (message.topic, message.keys, message.store_timestamp) == expected
    point.close()
    if case.short and not case.crc:
        last = case.short[-1]
        assert log.max_offset >= last["phy_offset"] + last["size"]


def _check_follow(log, case):
    """A log that is followed record by record ends where one does that is followed by many."""
    if not log.files:
        return
    mode = "DROPMALFORMED" if case.flags & 8 else "FAILFAST"
    by_many = outcome(_followed, log, mode, 10**6)
    one_by_one = outcome(_followed, log, mode, 1)
    assert by_many.is_value == one_by_one.is_value, (by_many, one_by_one)
    assert by_many.value == one_by_one.value, (by_many, one_by_one)
    assert by_many.is_value or mode == "FAILFAST", by_many.error


def _check_range(log, case):
    """A range of offsets has the rows that start in it, unless it begins inside a record."""
    start, stop = 4 * case.chunk, 4 * case.chunk + 40 * case.flags
    found = table_outcome(
        log.scan, start, stop, _FEW, check_crc=case.crc, max_records=2, mode="DROPMALFORMED"
    )
    assert found.is_value, found.error
    rows = [] if found.value is None else found.value.to_pylist()
    known = {row["phy_offset"] for row in case.short}
    if start not in case.plain or start in known:
        assert rows == [row for row in case.short if start <= row["phy_offset"] < stop]


_WAYS = (_check_columns, _check_parts, _check_offsets, _check_follow, _check_range)


def _followed(log, mode, max_records):
    """Follow a log as a stream does, batch by batch, until there is nothing more."""
    at, last = log.files[0].start, None
    for _ in range(MAX_LENGTH):
        progress = follow(log, at, last=last, max_records=max_records, mode=mode)
        if progress.end == at:
            return at
        assert progress.end > at
        if progress.last is not None:
            progress.last.is_of(log, progress.end)
        at, last = progress.end, progress.last
    raise AssertionError("expected an end")
