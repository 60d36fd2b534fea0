"""The hash of an index key."""

from __future__ import annotations

import json
import re

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from recorded import ROCKETMQ_CLASSES
from rmqindex import index_key, index_key_hashes, key_hash, key_hashes
from rmqindex.keys.hashing import ascii_hash_codes, string_hash_codes
from twin import java_hash

HASHES = json.loads((ROCKETMQ_CLASSES / "hashes.json").read_text())
TEXT = st.text() | st.text(st.characters(exclude_categories=()))
VALID_TEXT = st.text(st.characters(exclude_categories=["Cs"]))


def test_every_golden_key_has_the_brokers_hash():
    """One at a time and all together, lone surrogates included."""
    expected = [case["index_hash"] for case in HASHES]
    assert [key_hash(case["key"]) for case in HASHES] == expected
    assert key_hashes([case["key"] for case in HASHES]).tolist() == expected


def test_the_index_key_joins_topic_and_key():
    """The broker hashes the two together."""
    assert index_key("TopicTest", "order-1") == "TopicTest#order-1"


def test_different_keys_can_share_a_hash():
    """Not the text but its hash is in the file."""
    assert key_hash("AaTopic#BB") == key_hash("BBTopic#Aa") == key_hash("AaTopic#Aa")


def test_the_one_hash_without_an_absolute_value_is_zero():
    """``Math.abs(Integer.MIN_VALUE)`` stays negative."""
    assert key_hash("polygenelubricants") == 0
    assert key_hashes(["polygenelubricants"]).tolist() == [0]


@given(TEXT)
def test_one_hash_is_javas(text):
    """Over UTF-16 code units, whatever the text."""
    assert key_hash(text) == java_hash(text)


@given(st.lists(TEXT))
def test_hashes_of_strings_are_those_of_each(texts):
    """Also where some cannot be encoded as UTF-8."""
    hashes = key_hashes(texts)
    assert hashes.dtype == np.int32
    assert hashes.tolist() == [java_hash(text) for text in texts]


@given(
    st.lists(VALID_TEXT),
    st.sampled_from([pa.string(), pa.large_string(), pa.string_view()]),
    st.integers(0, 3),
)
def test_hashes_of_arrow_arrays_are_those_of_each(texts, arrow_type, start):
    """Of every string type, sliced, chunked and as a dictionary."""
    array = pa.array(texts, arrow_type)[start:]
    expected = [java_hash(text) for text in texts[start:]]
    assert key_hashes(array).tolist() == expected
    assert key_hashes(pa.chunked_array([array, array])).tolist() == expected * 2
    if arrow_type == pa.string():
        assert key_hashes(array.dictionary_encode()).tolist() == expected


@given(st.lists(st.tuples(VALID_TEXT, VALID_TEXT)))
def test_hashes_of_topics_and_keys_need_no_joined_text(pairs):
    """They equal the hash of ``topic#key``."""
    topics = [topic for topic, _ in pairs]
    keys = [key for _, key in pairs]
    expected = [java_hash(f"{topic}#{key}") for topic, key in pairs]
    assert index_key_hashes(topics, keys).tolist() == expected
    arrow = index_key_hashes(pa.array(topics, pa.string()), pa.array(keys, pa.string()))
    assert arrow.tolist() == expected


@given(VALID_TEXT, st.lists(VALID_TEXT))
def test_one_topic_serves_all_keys(topic, keys):
    """The usual case of a lookup."""
    expected = [java_hash(f"{topic}#{key}") for key in keys]
    assert index_key_hashes(topic, keys).tolist() == expected


@given(
    st.integers(1, 45).flatmap(
        lambda size: st.lists(
            st.text(st.characters(max_codepoint=0x7F), min_size=size, max_size=size), min_size=1
        )
    ),
    VALID_TEXT,
    st.integers(0, 3),
)
def test_texts_of_one_length_are_hashed_as_others_are(keys, topic, start):
    """Also slices, whose characters begin anywhere in memory, beside a topic that repeats."""
    keys = keys * 3
    array, topics = pa.array(keys)[start:], pa.array([topic] * len(keys))[start:]
    expected = [key_hash(index_key(topic, key)) for key in keys[start:]]
    assert key_hashes(array).tolist() == [key_hash(key) for key in keys[start:]]
    assert index_key_hashes(topics, array).tolist() == expected


def test_a_string_longer_than_a_group_is_hashed_whole():
    """Long strings are folded piece by piece."""
    long = "ab中😀" * 200_000
    assert key_hashes([long, "x", long + "y"]).tolist() == [
        java_hash(long),
        java_hash("x"),
        java_hash(long + "y"),
    ]


@pytest.mark.parametrize("keys", [["a", None], pa.array(["a", None])])
def test_nulls_are_refused_with_their_place(keys):
    """A key that is not there has no hash."""
    with pytest.raises((ValueError, TypeError), match=r"at 1|got"):
        key_hashes(keys)


@pytest.mark.parametrize("keys", [[1], pa.array([1]), "abc", b"abc"])
def test_other_types_are_refused(keys):
    """One string is not a list of strings."""
    with pytest.raises(TypeError):
        key_hashes(keys)


def test_topics_and_keys_must_be_as_many():
    """The message says how many were expected."""
    with pytest.raises(ValueError, match="topics: expected 1, as many as keys, got 2"):
        index_key_hashes(["a", "b"], ["c"])


STRANGE = [b"\xff", b"\xc3", b"\xe8\xae", b"\xed\xa0\x80", b"\xc0\x80", b"a\xf0\x9f\x98"]


def any_bytes(values, arrow_type):
    """Return bytes as Arrow strings, as Spark hands them over."""
    return pa.array(values, pa.large_binary()).view(pa.large_string()).cast(arrow_type)


@pytest.mark.parametrize("arrow_type", [pa.string(), pa.large_string(), pa.string_view()])
@pytest.mark.parametrize("strange", STRANGE)
def test_arrow_strings_that_are_not_utf_8_are_refused_with_their_place(strange, arrow_type):
    """They have no code units, so no hash: not a wrong one, and no error of NumPy."""
    keys = any_bytes([b"a", None, "é".encode(), strange], arrow_type)
    message = "keys: expected UTF-8 at 1, got " + re.escape(repr(strange))
    with pytest.raises(ValueError, match=message):
        key_hashes(keys.slice(2))
    with pytest.raises(ValueError, match=message):
        index_key_hashes("T", keys.slice(2))
    with pytest.raises(ValueError, match="topics: expected UTF-8 at 1"):
        index_key_hashes(keys.slice(2), ["a", "b"])
    assert key_hashes(keys.slice(2, 1)).tolist() == [java_hash("é")]


@pytest.mark.parametrize("strange", STRANGE)
def test_a_dictionary_is_refused_where_it_uses_what_is_not_utf_8(strange):
    """An entry that no index names does no harm."""
    dictionary = any_bytes([b"a", strange, "é".encode()], pa.string())
    used, unused = ([0, 2, 1], [2, 0, 2])
    with pytest.raises(ValueError, match="expected UTF-8 at 2"):
        key_hashes(pa.DictionaryArray.from_arrays(used, dictionary))
    hashes = key_hashes(pa.DictionaryArray.from_arrays(unused, dictionary))
    assert hashes.tolist() == [java_hash(text) for text in "éaé"]


@given(st.lists(st.binary(max_size=8)))
def test_any_bytes_are_hashed_as_text_or_refused(values):
    """Never anything else."""
    try:
        texts = [value.decode() for value in values]
    except UnicodeDecodeError:
        with pytest.raises(ValueError, match="expected UTF-8 at"):
            key_hashes(any_bytes(values, pa.string()))
    else:
        assert key_hashes(any_bytes(values, pa.string())).tolist() == [
            java_hash(text) for text in texts
        ]


def test_hash_codes_are_javas():
    """Of any sign, over UTF-16 code units."""
    texts = pa.array(["", "TagA", "polygenelubricants", "订单", "\U0001f600"])
    expected = [0, 2598919, -(2**31), 1129459]
    codes = string_hash_codes(texts).tolist()
    assert codes[:4] == expected
    assert codes[4] == 0xD83D * 31 + 0xDE00


@given(st.lists(st.integers(0, 40), max_size=90), st.binary(min_size=40, max_size=60))
def test_bytes_that_lie_anywhere_have_the_hash_codes_of_their_texts(lengths, data):
    """Unless they are not ASCII, or of more lengths than are hashed one by one."""
    stops = np.array(lengths, np.int64)
    starts = stops // 2
    codes = ascii_hash_codes(memoryview(data), starts, stops)
    texts = [data[start:stop] for start, stop in zip(starts, stops, strict=True)]
    if codes is None:
        assert not all(text.isascii() for text in texts)
        return
    assert codes.view(np.int32).tolist() == [
        int(string_hash_codes([text.decode()])[0]) for text in texts
    ]
