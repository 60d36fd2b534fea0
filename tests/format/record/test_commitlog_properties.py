"""Properties and text, against plain code that follows the broker step by step."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from commitlog_encoder import java_properties
from rmqindex import parse_properties, property_pairs
from rmqindex.layout import COMMITLOG_SCHEMA
from rmqindex.record.properties import PropertyPairs
from rmqindex.record.text import cut, java_text, java_texts

# Names that matter, both separators, a NUL, other letters and broken UTF-8.
PIECES = st.sampled_from(
    [
        b"KEYS",
        b"UNIQ_KEY",
        b"TAGS",
        b"K",
        b"\x01",
        b"\x02",
        b"\x01",
        b"\x02",
        b"\0",
        b"v",
        "中".encode(),
    ]
)
FIELDS = st.lists(PIECES, max_size=14).map(b"".join) | st.binary(max_size=12)


@given(FIELDS)
def test_one_field_is_split_as_the_broker_splits_it(field):
    """Short pairs, empty values, missing separators, values with separators, duplicates."""
    assert parse_properties(field) == java_properties(java_text(field))


@given(st.lists(FIELDS, min_size=1, max_size=8))
def test_many_fields_are_split_like_one(fields):
    """The vectorised twin agrees: last values, all values, maps."""
    data = memoryview(b"".join(fields))
    stops = np.cumsum([len(field) for field in fields])
    pairs = PropertyPairs.split(cut(data, stops - [len(field) for field in fields], stops))
    parsed = [parse_properties(field) for field in fields]
    for name in ("KEYS", "UNIQ_KEY", "TAGS"):
        expected = [properties.get(name) for properties in parsed]
        assert pairs.last(name.encode()).to_pylist() == expected
        values = [[v for n, v in property_pairs(field) if n == name] for field in fields]
        list_type = COMMITLOG_SCHEMA.field("all_keys").type
        assert pairs.all(name.encode(), list_type).to_pylist() == values
    maps = pairs.maps(COMMITLOG_SCHEMA.field("properties").type).to_pylist()
    assert [dict(found) for found in maps] == parsed
    assert [len(found) for found in maps] == [len(properties) for properties in parsed]


@pytest.mark.parametrize(
    ("data", "text"),
    [
        ("eda080", "\ufffd"),
        ("eda0", "\ufffd"),
        ("eda041", "\ufffdA"),
        ("ed9fbf", "\ud7ff"),
        ("ed41", "\ufffdA"),
        ("edbfbfedbfbf", "\ufffd\ufffd"),
        ("c080", "\ufffd\ufffd"),
        ("e4b8", "\ufffd"),
        ("e0808041", "\ufffd\ufffd\ufffdA"),
        ("f4908080", "\ufffd\ufffd\ufffd\ufffd"),
        ("f09080", "\ufffd"),
        ("edc3a9", "\ufffdé"),
    ],
)
def test_malformed_utf8_becomes_what_java_reads(data, text):
    """One replacement for an encoded surrogate; the expected texts are Java's."""
    assert java_text(bytes.fromhex(data)) == text
    found = java_texts(pa.array([b"ok", None, bytes.fromhex(data)], pa.binary()))
    assert found.to_pylist() == ["ok", None, text]
