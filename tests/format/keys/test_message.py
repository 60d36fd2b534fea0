"""Index keys of messages, one at a time and by the column."""

from __future__ import annotations

import json

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from recorded import ROCKETMQ_CLASSES
from rmqindex import expand_messages, index_key, key_hash, message_keys

TEXTS = st.text(st.sampled_from(["a", "B", "#", "é", "中", "😀", "\t"]), max_size=4)
KEYS = st.none() | st.text(st.sampled_from([" ", "a", "B", "中"]), max_size=8)
PARTS = st.none() | st.lists(st.none() | TEXTS, max_size=4)
MESSAGES = st.tuples(TEXTS, st.none() | TEXTS, KEYS, st.none() | st.integers(0, 31))


class TestOneMessage:
    """What ``buildIndex`` does with topic, unique key, keys and flags."""

    def test_the_unique_key_comes_first(self):
        """Then the parts of the keys, in their order."""
        assert message_keys("T", "U", "b a", 0) == ["T#U", "T#b", "T#a"]

    def test_nothing_is_de_duplicated(self):
        """A key that repeats the unique key is indexed again."""
        assert message_keys("T", "U", "U U", 0) == ["T#U", "T#U", "T#U"]

    def test_empty_parts_are_dropped(self):
        """Keys are split at each single space, and nothing between two spaces is no key."""
        assert message_keys("T", None, "  a  b ", 0) == ["T#a", "T#b"]
        assert message_keys("T", None, "   ", 0) == []
        assert message_keys("T", None, "", 0) == []

    def test_only_a_space_separates(self):
        """Tabs, commas and wide spaces belong to the key."""
        assert message_keys("T", None, "a\tb,c\u3000d", 0) == ["T#a\tb,c\u3000d"]

    def test_an_empty_unique_key_is_a_key_and_none_is_not(self):
        """The broker tests it for null only."""
        assert message_keys("T", "", None, 0) == ["T#"]
        assert message_keys("T", None, None, 0) == []

    def test_only_a_rollback_is_not_indexed(self):
        """Of the four transaction states; other flags do not matter."""
        indexed = [flag for flag in range(64) if message_keys("T", "U", None, flag)]
        assert indexed == [flag for flag in range(64) if flag & 12 != 12]

    def test_parts_may_be_given_as_a_list(self):
        """Empty ones and None are dropped, as empty parts of a text are."""
        assert message_keys("T", "U", ["a", "", None, "b"], 0) == ["T#U", "T#a", "T#b"]

    def test_a_list_part_with_a_space_is_refused(self):
        """The broker could only have stored two keys."""
        with pytest.raises(ValueError, match=r"without a space.*'a b'"):
            message_keys("T", None, ["a b"], 0)


def test_the_stores_messages_have_keys_unless_rolled_back_or_without_any():
    """The broker marks rollbacks as not indexed; of the others only keyless ones give nothing."""
    for message in json.loads((ROCKETMQ_CLASSES / "store_messages.json").read_text())["messages"]:
        sent = message["sent"]
        keys = message_keys(sent["topic"], sent["uniq_key"], sent["keys"], sent["sys_flag"])
        has_some = sent["uniq_key"] is not None or bool((sent["keys"] or "").strip(" "))
        assert bool(keys) is (message["indexed"] and has_some)


def expand_singly(messages):
    """Expand messages one after the other."""
    return [
        (row, ordinal, key_hash(key))
        for row, message in enumerate(messages)
        for ordinal, key in enumerate(message_keys(*message))
    ]


def tuples_of(expanded):
    """Return an expansion as tuples, having checked its types."""
    rows, ordinals, hashes = expanded
    assert (rows.dtype, ordinals.dtype, hashes.dtype) == (np.int64, np.int32, np.int32)
    return list(zip(rows.tolist(), ordinals.tolist(), hashes.tolist(), strict=True))


STRING_TYPES = st.sampled_from(
    [pa.string(), pa.large_string(), pa.string_view(), pa.dictionary(pa.int32(), pa.string())]
)
FLAG_TYPES = st.sampled_from([pa.int32(), pa.int64(), pa.int8(), pa.uint16()])


def column(values, kind):
    """Make an Arrow array that does not begin at its buffers' start."""
    if pa.types.is_dictionary(kind):
        array = pa.array([None, *values], kind.value_type).dictionary_encode()
    else:
        array = pa.array([None, *values], kind)
    return array.slice(1)


@given(st.lists(MESSAGES, max_size=8), STRING_TYPES, STRING_TYPES, STRING_TYPES, FLAG_TYPES)
def test_columns_expand_as_single_messages_do(messages, topic_type, uniq_type, key_type, flag_type):
    """For every string type of Arrow, sliced arrays included."""
    topics, uniq_keys, keys, flags = [[m[place] for m in messages] for place in range(4)]
    expanded = expand_messages(
        column(topics, topic_type),
        column(uniq_keys, uniq_type),
        column(keys, key_type),
        column(flags, flag_type),
    )
    assert tuples_of(expanded) == expand_singly(messages)


@given(
    st.lists(st.tuples(TEXTS, st.none() | TEXTS, PARTS, st.integers(0, 15)), max_size=8),
    st.sampled_from(
        [pa.list_(pa.string()), pa.large_list(pa.string()), pa.list_(pa.large_string())]
    ),
)
def test_columns_of_lists_expand_as_single_messages_do(messages, key_type):
    """Null lists, null elements and empty elements give no keys."""
    topics, uniq_keys, keys, flags = [[m[place] for m in messages] for place in range(4)]
    expanded = expand_messages(
        column(topics, pa.string()),
        column(uniq_keys, pa.string()),
        pa.array([["x", None], *keys], key_type).slice(1),
        column(flags, pa.int32()),
    )
    assert tuples_of(expanded) == expand_singly(messages)


def test_columns_that_are_not_there_hold_nothing():
    """Without keys and flags only the unique keys are indexed."""
    rows, ordinals, hashes = expand_messages(["T", "T"], ["U", None], None)
    assert (rows.tolist(), ordinals.tolist()) == ([0], [0])
    assert hashes.tolist() == [key_hash(index_key("T", "U"))]


def test_chunked_columns_are_taken_whole():
    """As a Spark or Parquet reader may hand them out."""
    topics = pa.chunked_array([["T"], ["S", "R"]])
    rows, _, hashes = expand_messages(topics, None, pa.chunked_array([["a b", "c"], ["d"]]))
    assert rows.tolist() == [0, 0, 1, 2]
    assert hashes.tolist() == [key_hash(key) for key in ("T#a", "T#b", "S#c", "R#d")]


def test_no_messages_have_no_keys():
    """Empty columns of any type, and of none."""
    empty = pa.array([], pa.string())
    assert tuples_of(expand_messages(empty, empty, empty, pa.array([], pa.int32()))) == []
    assert tuples_of(expand_messages([], [], [], [])) == []


def test_a_null_topic_matters_only_where_there_are_keys():
    """The row is named."""
    assert tuples_of(expand_messages(pa.array([None, "T"]), [None, "U"], None))[0][0] == 1
    with pytest.raises(ValueError, match="topics: expected a string at 1, got null"):
        expand_messages(pa.array(["T", None]), [None, "U"], None)


def test_a_list_element_with_a_space_is_refused_with_its_row():
    """The element is named too."""
    with pytest.raises(ValueError, match=r"keys at 1: .*'b c'"):
        expand_messages(["T", "T"], None, pa.array([["a"], ["", "b c"]]))


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ((["T"], ["U", "V"], None, None), "uniq_keys: expected 1, as many as topics, got 2"),
        ((["T"], None, ["a", "b"], None), "keys: expected 1, as many as topics, got 2"),
        ((["T"], None, None, [0, 0]), "sys_flags: expected 1, as many as topics, got 2"),
    ],
)
def test_columns_of_other_lengths_are_refused(columns, message):
    """A shifted column would index other keys."""
    with pytest.raises(ValueError, match=message):
        expand_messages(*columns)


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        (([1], None, ["a"], None), "topics: expected strings, got int64"),
        ((["T"], [1], None, None), "uniq_keys: expected strings, got int64"),
        ((["T"], None, [1], None), "keys: expected strings, got int64"),
        ((["T"], None, [[1]], None), "keys: expected strings, got int64"),
        ((["T"], None, None, ["0"]), "sys_flags: expected integers, got string"),
        ((["T"], None, [1.5], None), "keys: expected strings, got double"),
        ((["T", "T"], None, ["a", 1], None), "keys: expected a column of one type"),
    ],
)
def test_columns_of_other_types_are_refused(columns, message):
    """The column and its type are named."""
    with pytest.raises(TypeError, match=message):
        expand_messages(*columns)
