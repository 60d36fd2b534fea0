"""The index keys of records, against those of one message after the other."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from commitlog_encoder import Message, java_properties
from rmqindex import key_hash, message_keys
from rmqindex.record.index_keys import IndexKeys
from rmqindex.record.records import parse_records
from rmqindex.record.text import java_text

ROLLED_BACK = 0x3 << 2
NAMES = [b"UNIQ_KEY", b"KEYS", b"TAGS", b"UNIQ_KEX", b"KEYT", b"K"]
# Spaces in every place, texts of one length and of others, separators, and what is not ASCII.
VALUES = [
    b"a",
    b"b c",
    b" ",
    b"  d  e ",
    b"0123456789",
    b"x\x01y",
    b"",
    "中 文".encode(),
    b"\xed\xa0 z",
]
PROPERTIES = st.lists(
    st.tuples(st.sampled_from(NAMES), st.sampled_from(VALUES), st.sampled_from([b"\x02", b""])),
    max_size=5,
).map(lambda pairs: b"".join(name + b"\x01" + value + end for name, value, end in pairs))
MESSAGES = st.builds(
    Message,
    topic=st.sampled_from(["T", "TopicTest", "主题", "t" * 200]),
    properties=PROPERTIES,
    sys_flag=st.sampled_from([0, 0x4, ROLLED_BACK]),
)


def keys_of(message, *, tagged):
    """Return the hashes of one message's index keys, by the plain twin."""
    found = java_properties(java_text(message.properties))
    tags = found.get("TAGS") if tagged else None
    keys = message_keys(
        message.topic, found.get("UNIQ_KEY"), found.get("KEYS"), message.sys_flag, tags
    )
    return [key_hash(key) for key in keys]


def records_of(messages):
    """Return records that lie one behind the other."""
    data, starts = b"", []
    for message in messages:
        starts.append(len(data))
        data += message.encode(len(data))
    places = np.array(starts, np.int64)
    records, sound = parse_records(memoryview(data), places, places)
    assert sound.all()
    return records


@given(st.lists(st.tuples(MESSAGES, st.booleans()), min_size=1, max_size=6), st.booleans())
def test_many_records_have_the_keys_of_each(chosen, tags):
    """In the order of the messages, and of the keys in them."""
    messages = [message for message, _ in chosen]
    tagged = [tags and has for _, has in chosen]
    keys = IndexKeys(records_of(messages))
    rows, hashes = keys.hashes(np.array(tagged) if tags else None)
    expected = [keys_of(message, tagged=has) for message, has in zip(messages, tagged, strict=True)]
    assert rows.tolist() == [row for row, found in enumerate(expected) for _ in found]
    assert hashes.tolist() == [code for found in expected for code in found]
    found = [java_properties(java_text(message.properties)) for message in messages]
    assert keys.has_tags == any("TAGS" in properties for properties in found)


def test_keys_of_many_lengths_are_hashed_all_the_same():
    """By another way, since a pass for each length would cost more."""
    messages = [Message(properties=b"KEYS\x01" + b"k" * (1 + n) + b"\x02") for n in range(100)]
    _, hashes = IndexKeys(records_of(messages)).hashes(None)
    expected = [keys_of(message, tagged=False) for message in messages]
    assert hashes.tolist() == [code for (code,) in expected]
