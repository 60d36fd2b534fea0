"""Numbers in properties."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rmqindex.record.text import java_integer, java_split


@pytest.mark.parametrize(
    ("text", "bits", "number"),
    [
        ("5", 32, 5),
        ("+3", 32, 3),
        ("-3", 32, -3),
        ("03", 32, 3),
        ("٣", 32, 3),
        ("\uff11\uff12", 16, 12),
        ("-0", 32, 0),
        ("0" * 30_000 + "7", 64, 7),
        ("2147483647", 32, 2**31 - 1),
        ("-2147483648", 32, -(2**31)),
        ("2147483648", 32, None),
        ("32768", 16, None),
        ("-32768", 16, -(2**15)),
        ("9223372036854775807", 64, 2**63 - 1),
        ("9223372036854775808", 64, None),
        ("-9223372036854775808", 64, -(2**63)),
        ("9" * 25, 64, None),
        ("9" * 30_000, 64, None),
        ("", 32, None),
        ("+", 32, None),
        ("-", 32, None),
        ("+-5", 32, None),
        (" 3", 32, None),
        ("3 ", 32, None),
        ("1_000", 32, None),
        ("0x10", 32, None),
        ("3.0", 32, None),
        ("²", 32, None),
        ("\U0001d7d1", 32, None),  # a digit of two UTF-16 code units
        ("\ud800", 32, None),
    ],
)
def test_texts_are_numbers_where_java_reads_them(text, bits, number):
    """``Short.parseShort``, ``Integer.parseInt`` and ``Long.parseLong``."""
    assert java_integer(text, bits) == number


@given(st.text(), st.sampled_from([16, 32, 64]))
def test_any_text_is_a_number_or_none(text, bits):
    """Of the type's range, and never an exception."""
    number = java_integer(text, bits)
    assert number is None or -(2 ** (bits - 1)) <= number < 2 ** (bits - 1)


@given(st.integers(-(2**70), 2**70), st.sampled_from([16, 32, 64]))
def test_a_number_is_read_if_the_type_holds_it(number, bits):
    """From its decimal digits."""
    fits = -(2 ** (bits - 1)) <= number < 2 ** (bits - 1)
    assert java_integer(str(number), bits) == (number if fits else None)


@pytest.mark.parametrize(
    ("text", "parts"),
    [("a,b", ["a", "b"]), ("a,b,,", ["a", "b"]), (",b", ["", "b"]), (",", []), (" ", [])],
)
def test_a_list_of_queues_has_no_empty_parts_at_its_end(text: str, parts: list[str]) -> None:
    """As ``String.split``; a blank text names nothing."""
    assert java_split(text) == parts
