"""Dataclasses as JSON: they come back as they were, or are refused."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import NamedTuple

import pytest

from rmqindex.storage import Location, S3Settings, Storage, from_json, to_json


class Pair(NamedTuple):
    """A named tuple."""

    low: int | None
    high: int | None = None


NO_PAIR = Pair(None)
ROOT = Location("/")


@dataclass(frozen=True)
class Inner:
    """A dataclass in another."""

    data: bytes
    flag: bool = False


@dataclass(frozen=True)
class Outer:
    """One of each type."""

    name: str
    number: int
    inner: Inner
    seconds: float | None = None
    pair: Pair = NO_PAIR
    inners: tuple[Inner, ...] = ()
    two: tuple[str, int] = ("", 0)
    some: list[int] = field(default_factory=list)
    keys: frozenset[tuple[str, str]] | None = None
    counts: dict[str, int] = field(default_factory=dict)
    place: Location = ROOT


LEAST = {"name": "a", "number": 1, "inner": {"data": ""}}
WHOLE = Outer(
    "a", -(2**63), Inner(b"\0\xff", flag=True), 1.5, Pair(1, 2), (Inner(b""), Inner(b"x")),
    ("b", 2), [3, 4], frozenset({("t", "k"), ("t", "j")}), {"x": 5}, Location("s3://b/i"),
)  # fmt: skip


@pytest.mark.parametrize("value", [WHOLE, Outer("a", 2**64 - 1, Inner(b""))])
def test_a_value_goes_through_json_as_it_is(value):
    """Each type of a field is kept."""
    again = from_json(Outer, json.loads(json.dumps(to_json(value))), {Location: Location})
    assert again == value
    assert type(again.place) is Location


def test_a_location_is_reached_as_the_reader_says():
    """JSON holds its text alone, and no key."""
    storage = Storage(S3Settings(secret_key="SECRET"))
    text = json.dumps(to_json(Outer("a", 1, Inner(b""), place=storage.at("s3://b/i"))))
    assert "SECRET" not in text
    again = from_json(Outer, json.loads(text), {Location: storage.at})
    assert again.place.storage == storage


def test_a_field_that_is_missing_has_its_default_and_a_further_one_is_ignored():
    """An earlier release did not write it, or a later one does."""
    assert from_json(Outer, {**LEAST, "later": 1}) == Outer("a", 1, Inner(b""))


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({"name": 1}, "name: expected a text, got 1"),
        ({"number": True}, "number: expected an integer of 64 bits, got True"),
        ({"number": 1.0}, "number: expected an integer of 64 bits, got 1.0"),
        ({"number": 2**64}, "number: expected an integer of 64 bits, got 18446744073709551616"),
        ({"inner": []}, r"inner: expected a JSON object, got \[\]"),
        ({"inner": {}}, "data: expected this field, got none"),
        ({"inner": {"data": "0g"}}, "data: expected hexadecimal digits, got"),
        ({"inner": {"data": 0}}, "data: expected hexadecimal digits, got 0"),
        ({"inner": {"data": "", "flag": 1}}, "flag: expected true or false, got 1"),
        ({"seconds": "1"}, "seconds: expected a number, got '1'"),
        ({"pair": [1]}, "pair: expected 2 items, got"),
        ({"pair": [1, "2"]}, "pair: expected an integer of 64 bits, got '2'"),
        ({"inners": {}}, "inners: expected a list, got {}"),
        ({"two": ["a"]}, "two: expected 2 items, got"),
        ({"keys": [["t"]]}, "keys: expected 2 items, got"),
        ({"counts": {"x": None}}, "x: expected an integer of 64 bits, got None"),
        ({"place": 5}, "place: expected a text, got 5"),
    ],
)
def test_a_value_of_another_type_is_named(change, expected):
    """The error says which field, what was expected and what was found."""
    with pytest.raises(ValueError, match=expected):
        from_json(Outer, {**LEAST, **change}, {Location: Location})


def test_what_is_no_object_is_refused():
    """A document of another kind has no fields."""
    with pytest.raises(ValueError, match=r"the document: expected a JSON object, got \[\]"):
        from_json(Outer, [])
