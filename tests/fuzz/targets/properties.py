"""The properties of one message, against a step by step copy of RocketMQ's own loop."""

from __future__ import annotations

from commitlog_encoder import java_properties
from rmqindex import parse_properties, property_pairs

MAX_LENGTH = 128
SHORT = 40_000


def seeds():
    """Return properties with what the broker accepts, ignores and repeats."""
    return [
        b"KEYS\x01a b\x02UNIQ_KEY\x017F000001\x02TAGS\x01t\x02",
        b"KEYS\x01a\x02KEYS\x01b",
        b"\x01a\x02b\x01\x02\x02c\x02d\x01e\x01f\x02",
        b"k\x01\xed\xa0\x80\x02\xff\x01\xc3\x28\x02",
        b"",
    ]


def check(data):
    """Split, and compare where the bytes are text."""
    pairs = property_pairs(data)
    found = parse_properties(data)
    assert found == dict(pairs)
    assert all(name and value for name, value in pairs)
    assert all("\x02" not in name + value and "\x01" not in name for name, value in pairs)
    try:
        text = data.decode()
    except UnicodeDecodeError:
        return
    assert found == java_properties(text)
