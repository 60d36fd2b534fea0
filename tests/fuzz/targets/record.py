"""One record, step by step, against a plain decoder."""

from __future__ import annotations

import zlib

import numpy as np

from rmqindex.query.point_lookup import _message
from rmqindex.record import java_text, property_pairs
from rmqindex.record.bodies import is_inner_batch
from rmqindex.record.records import (
    Fault,
    check_record,
    crc_fault,
    parse_records,
    store_timestamp_of,
)

from ..memory import MemorySource
from ..outcome import outcome
from ..record_bytes import MIN_SIZE, encoded, messages, mutate_log, plain_record

MAX_LENGTH = 320
SHORT = 20_000
_BASES = (0, 4096, 2**40, 2**63 - 2**31)
_PREFIX = 2


def seeds():
    """Return one record of each kind, at the start of a file and behind a few bytes."""
    return [
        bytes([base, skipped]) + bytes(skipped % 8) + message.encode(_BASES[base] + skipped % 8)
        for message in messages()
        for base, skipped in ((0, 0), (3, 7), (1, 8))
    ] + [bytes(2) + encoded(0, messages()[:2])]


def mutate(data, random):
    """Change the record."""
    data = data.ljust(_PREFIX, b"\0")
    return mutate_log(data, random, _PREFIX + data[1] % 8, _BASES[data[0] % 4] + data[1] % 8)


def check(data):
    """Check and decode the record at a place."""
    if len(data) < _PREFIX:
        return
    base, start, file = _BASES[data[0] % 4], data[1] % 8, data[_PREFIX:]
    source = MemorySource("log", file)
    checked = outcome(check_record, source.read, start, len(file), base + start)
    assert checked.is_value, checked.error
    plain = plain_record(file, start, base)
    if len(file) - start >= MIN_SIZE and data[1] & 8:
        _check_parts(file, start, base, plain)
    if plain is None:
        assert isinstance(checked.value, Fault), checked
        return
    assert checked.value == plain.size
    assert store_timestamp_of(source.read, start) == plain.store_timestamp
    _check_crc(file, start, plain)
    message = _message(source, start, plain.size)
    if is_inner_batch(plain.sys_flag):
        assert message is None
        return
    named_keys = {"UNIQ_KEY", "KEYS", "TAGS"}
    pairs = [pair for pair in property_pairs(plain.properties) if pair[0] in named_keys]
    named = dict(pairs)
    if len(named) < len(pairs):
        assert message is None
        return
    assert message.topic == java_text(plain.topic)
    assert message.store_timestamp == plain.store_timestamp
    keys = [named["UNIQ_KEY"]] if "UNIQ_KEY" in named else []
    keys += [part for part in named.get("KEYS", "").split(" ") if part]
    keys += [f"T#{named['TAGS']}"] if named.get("TAGS") else []
    assert message.keys == keys


def _check_parts(file, start, base, plain):
    """What finds the parts of many records at once finds those of one."""
    starts = np.array([start], np.int64)
    records, sound = parse_records(memoryview(file), starts, starts + base)
    assert sound.tolist() == [plain is not None]
    if plain is None:
        return
    for name in ("body", "topic", "properties"):
        first, last = getattr(records, f"{name}_start")[0], getattr(records, f"{name}_stop")[0]
        assert file[first:last] == getattr(plain, name)
    for name in ("size", "magic_code", "sys_flag", "phy_offset"):
        assert getattr(records, name).tolist() == [getattr(plain, name)]


def _check_crc(file, start, plain):
    record = memoryview(file)[start : start + plain.size]
    hosts = len(plain.born_host) + len(plain.store_host)
    body_start = 88 - 16 + hosts
    fault = crc_fault(record, body_start, body_start + len(plain.body))
    crc = zlib.crc32(plain.body) & 0x7FFFFFFF
    if plain.body and plain.body_crc != crc:
        assert fault.field == "body_crc"
    else:
        assert fault is None or fault.field == "property_crc"
