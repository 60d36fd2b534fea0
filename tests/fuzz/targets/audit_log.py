"""The audit of an IndexFile against its CommitLog: findings, whatever the bytes of both."""

from __future__ import annotations

from rmqindex import CommitLog, IndexHeader, LogFile, parse_properties
from rmqindex.audit import AuditUnit, audited, run_audit
from rmqindex.audit import log as log_module
from rmqindex.audit.extent import LogRange
from rmqindex.audit.units import Member
from rmqindex.layout import INT32_MAX
from rmqindex.storage import Location
from twin import BrokerFile, java_hash

from ..index_bytes import PATH, taken_apart
from ..index_bytes import mutate as mutate_index
from ..memory import FILES, constants
from ..record_bytes import encoded, messages, mutate_log

MAX_LENGTH = 1400
SHORT = 1_200
_PREFIX = 3
_LOG = "commitlog/00000000000000000000"
_GEOMETRY = (5, 12)
_SMALL = {audited: {"BLOCK": 3, "_SLOT_BLOCK": 3}, log_module: {"BLOCK": 3}}


def seeds():
    """Return an index of all messages, of the later ones, of too few, and of other ones."""
    chosen = [messages()[place] for place in (0, 3, 2, 6)]
    log = encoded(0, chosen, tail=bytes(20))
    found = []
    for skipped, wrong in ((0, 0), (1, 0), (0, 1), (2, 1)):
        file = BrokerFile(*_GEOMETRY)
        offset = 0
        for place, message in enumerate(chosen):
            if place >= skipped:
                for key in _keys(message)[wrong:]:
                    file.put(java_hash(f"{message.topic}#{key}"), offset, message.store_timestamp)
            offset += len(message.encode(offset))
        file.flush()
        found += [_input(flags, bytes(file.data), log) for flags in (1, 0x11)]
    return found


def mutate(data, random):
    """Change the index or the log."""
    data = data.ljust(_PREFIX + 3, b"\0")
    flags, index, log = _parts(data)
    if random.random() < 0.5:
        index = mutate_index(index, random)
    else:
        log = mutate_log(log, random, 0, 0) if log else b""
    if random.random() < 0.1:
        flags = random.randrange(256)
    return bytes([flags]) + len(index).to_bytes(2) + index + log


def check(data):
    """Audit a file with a log."""
    if len(data) < _PREFIX:
        return
    flags, index, log = _parts(data)
    layout, _, FILES[PATH] = taken_apart(index)
    FILES[_LOG] = log
    begin = 300 if flags & 2 else 0
    path = Location(PATH)
    start, stop = (begin if flags & 4 else 0), (400 if flags & 8 else None)
    span = LogRange(start, stop, begin)
    name = PATH.rpartition("/")[2]
    other = (Member(path, name, 0, IndexHeader(), layout, None),) if flags & 0x10 else ()
    files = [LogFile(0, len(log), _LOG)] if log else []
    unit = AuditUnit(path, name, layout, None, other, span, tuple(files), count=INT32_MAX)
    with constants(_SMALL):
        found = run_audit(unit, 1 + flags % 4, CommitLog(files))
    found.validate(full=True)


def _input(flags, file, log):
    index = bytes([_GEOMETRY[0] - 1, _GEOMETRY[1] - 1, 1]) + file
    return bytes([flags]) + len(index).to_bytes(2) + index + log


def _parts(data):
    stop = _PREFIX + int.from_bytes(data[1:_PREFIX]) % 800
    return data[0], data[_PREFIX:stop], data[stop:]


def _keys(message):
    named = parse_properties(message.properties)
    keys = [named["UNIQ_KEY"]] if "UNIQ_KEY" in named else []
    return keys + named.get("KEYS", "").split()
