"""The properties of many messages at once, against those of each."""

from __future__ import annotations

import numpy as np

from rmqindex import COMMITLOG_SCHEMA, property_pairs
from rmqindex.record.properties import PropertyPairs
from rmqindex.record.text import cut, java_text, java_texts

MAX_LENGTH = 160
SHORT = 9_000
_NAMES = (b"KEYS", b"UNIQ_KEY", b"TAGS", b"k")
_MAPS = COMMITLOG_SCHEMA.field("properties").type
_LISTS = COMMITLOG_SCHEMA.field("all_keys").type


def seeds():
    """Return several messages' properties, each behind its length."""
    fields = (
        b"KEYS\x01a b\x02UNIQ_KEY\x017F\x02TAGS\x01t\x02",
        b"",
        b"k\x01v\x02k\x01w\x02\x01x\x02y\x01",
        b"KEYS\x01\xed\xa0\x80\xff\x02KEYS\x01b",
        b"\x02\x02a\x01b\x01c",
    )
    together = b"".join(bytes([len(field)]) + field for field in fields)
    return [together, together[::-1], b"\x03" + fields[2], b"\0\0\0"]


def check(data):
    """Split into messages, and compare columns with pairs."""
    rows = []
    at = 0
    while at < len(data):
        stop = at + 1 + data[at] % 64
        rows.append(data[at + 1 : stop])
        at = stop
    if not rows:
        return
    sizes = np.array([len(row) for row in rows], np.int64)
    stops = np.cumsum(sizes + 3)
    buffer = memoryview(b"".join(b"\x01\x02." + row for row in rows))
    fields = cut(buffer, stops - sizes, stops)
    assert fields.to_pylist() == rows
    assert java_texts(fields).to_pylist() == [java_text(row) for row in rows]
    pairs = PropertyPairs.split(fields)
    expected = [property_pairs(row) for row in rows]
    maps = pairs.maps(_MAPS)
    maps.validate(full=True)
    assert [dict(row) for row in maps.to_pylist()] == [dict(row) for row in expected]
    for name in _NAMES:
        values = [[value for key, value in row if key == name.decode()] for row in expected]
        assert pairs.all(name, _LISTS).to_pylist() == values
        assert pairs.last(name).to_pylist() == [row[-1] if row else None for row in values]
