"""Pushed filters to what a scan must find: a superset of the rows, never less."""

from __future__ import annotations

import datetime as dt

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql.datasource import (
    EqualNullSafe,
    EqualTo,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    IsNotNull,
    IsNull,
    LessThan,
    LessThanOrEqual,
    Not,
    StringStartsWith,
)

from pyspark_rmqindex.read.filters import (
    MAX_PAIRS,
    Wanted,
    column_of,
    filter_text,
    filters_to_wanted,
)
from pyspark_rmqindex.read.refusals import Calls
from rmqindex.messagestore import NOTHING, Range
from rmqindex.storage import from_json, to_json

TOPIC, KEY, HASH = ("topic",), ("key",), ("key_hash",)
TIME, OFFSET, POSITION = ("store_timestamp",), ("phy_offset",), ("position",)
T_1 = EqualTo(TOPIC, "t")
EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
ENDS = [end.replace(tzinfo=dt.UTC) for end in (dt.datetime.min, dt.datetime.max)]  # noqa: DTZ901
NOON = dt.datetime(2024, 1, 1, 12, tzinfo=dt.UTC)
NOON_MS = 1704110400000
BOUND = [T_1, EqualTo(KEY, "k")]


@pytest.mark.parametrize(
    ("filters", "pairs"),
    [
        ([IsNotNull(TOPIC), T_1, IsNotNull(KEY), EqualTo(KEY, "a")], {("t", "a")}),
        ([T_1, In(KEY, ["a", "b"])], {("t", "a"), ("t", "b")}),
        ([T_1, EqualNullSafe(KEY, "a")], {("t", "a")}),
        (
            [In(TOPIC, ["t", "u"]), In(KEY, ["a", "b"])],
            {("t", "a"), ("t", "b"), ("u", "a"), ("u", "b")},
        ),
        ([T_1, In(KEY, ["a", "b", "a"])], {("t", "a"), ("t", "b")}),
        ([T_1, In(KEY, ["a", None])], {("t", "a")}),
        ([T_1, In(KEY, ["a", "b"]), In(KEY, ["b", "c"])], {("t", "b")}),
        ([T_1, EqualTo(KEY, "a"), EqualTo(KEY, "b")], set()),
        ([T_1, IsNull(KEY)], set()),
        ([T_1, EqualNullSafe(KEY, None)], set()),
        ([T_1, EqualTo(KEY, "")], {("t", "")}),
        (
            [T_1, EqualTo(KEY, "a"), Not(EqualTo(KEY, "a")), StringStartsWith(KEY, "z")],
            {("t", "a")},
        ),
    ],
)
def test_topic_and_key_are_bound_by_equality_and_lists(filters, pairs):
    """Conjunctions intersect, NULL binds nothing, repeated values count once."""
    assert filters_to_wanted(filters, keys=True).pairs == pairs


@pytest.mark.parametrize(
    ("filters", "names"),
    [
        ([], "topic and key not bound"),
        ([T_1], "key not bound"),
        ([EqualTo(KEY, "a")], "topic not bound"),
        ([T_1, IsNotNull(KEY)], "key not bound"),
        ([T_1, StringStartsWith(KEY, "a")], "key not bound"),
        ([T_1, Not(EqualTo(KEY, "a"))], "key not bound"),
        ([T_1, GreaterThan(KEY, "a"), LessThan(KEY, "b")], "key not bound"),
        ([EqualTo(HASH, 5), GreaterThan(TIME, NOON)], "topic and key not bound"),
        ([T_1, EqualTo(("key", "part"), "a")], "key not bound"),
    ],
)
def test_a_query_that_does_not_bind_both_is_refused(filters, names):
    """The error says what to write instead."""
    with pytest.raises(ValueError, match=names) as caught:
        filters_to_wanted(filters, keys=True)
    assert "WHERE topic = 'TopicTest' AND key IN ('a', 'b')" in str(caught.value)
    assert "spark.read.format('rmqindex').load('/data/store')" in str(caught.value)


def test_too_many_pairs_are_refused():
    """One query may bind 4,096 pairs and no more."""
    keys = [str(n) for n in range(MAX_PAIRS)]
    assert len(filters_to_wanted([T_1, In(KEY, keys)], keys=True).pairs) == MAX_PAIRS
    with pytest.raises(ValueError, match="4097 pairs of topic and key: expected at most 4096"):
        filters_to_wanted([T_1, In(KEY, [*keys, "more"])], keys=True)


def test_without_key_columns_nothing_must_be_bound():
    """Key hashes are bound by equality and lists; a range of them is left to Spark."""
    assert filters_to_wanted([], keys=False) == Wanted()
    assert filters_to_wanted([EqualTo(HASH, 5)], keys=False).key_hashes == {5}
    both = [In(HASH, [5, 6]), In(HASH, [6, 7])]
    assert filters_to_wanted(both, keys=False).key_hashes == {6}
    assert filters_to_wanted([IsNull(HASH)], keys=False).key_hashes == set()
    assert filters_to_wanted([GreaterThan(HASH, 5)], keys=False).key_hashes is None


@pytest.mark.parametrize(
    ("filter_", "expected"),
    [
        (GreaterThanOrEqual(TIME, NOON), Range(NOON_MS, None)),
        (GreaterThan(TIME, NOON), Range(NOON_MS + 1, None)),
        (LessThanOrEqual(TIME, NOON), Range(None, NOON_MS)),
        (LessThan(TIME, NOON), Range(None, NOON_MS - 1)),
        (EqualTo(TIME, NOON), Range(NOON_MS, NOON_MS)),
        (GreaterThanOrEqual(TIME, NOON.replace(microsecond=1)), Range(NOON_MS + 1, None)),
        (GreaterThan(TIME, NOON.replace(microsecond=1)), Range(NOON_MS + 1, None)),
        (LessThanOrEqual(TIME, NOON.replace(microsecond=1)), Range(None, NOON_MS)),
        (LessThan(TIME, NOON.replace(microsecond=1)), Range(None, NOON_MS)),
        (EqualTo(TIME, NOON.replace(microsecond=1)), NOTHING),
        (In(TIME, [NOON, NOON + dt.timedelta(seconds=1)]), Range(NOON_MS, NOON_MS + 1000)),
        (GreaterThan(TIME, NOON.replace(tzinfo=None)), Range()),
        (Not(GreaterThan(TIME, NOON)), Range()),
        (IsNull(TIME), NOTHING),
    ],
)
def test_times_become_whole_milliseconds(filter_, expected):
    """A bound between two milliseconds moves to the one that can still pass."""
    assert filters_to_wanted([*BOUND, filter_], keys=True).time == expected


@pytest.mark.parametrize(
    ("filters", "expected"),
    [
        ([GreaterThan(OFFSET, 5), LessThan(OFFSET, 9)], Range(6, 8)),
        ([GreaterThanOrEqual(OFFSET, 5), LessThanOrEqual(OFFSET, 9)], Range(5, 9)),
        ([EqualTo(OFFSET, 5), EqualTo(OFFSET, 6)], Range(6, 5)),
        ([In(OFFSET, [9, 5, None])], Range(5, 9)),
        ([In(OFFSET, [])], NOTHING),
        ([EqualTo(OFFSET, 5.5)], Range()),
        ([In(OFFSET, [5, "x"])], Range()),
    ],
)
def test_integers_become_ranges(filters, expected):
    """What is not an integer is left to Spark."""
    assert filters_to_wanted(filters, keys=False).phy_offset == expected


BOUNDS = st.one_of(st.none(), st.integers(-9, 9))
RANGES = st.builds(Range, BOUNDS, BOUNDS)
WANTED = st.builds(
    Wanted,
    pairs=st.frozensets(st.tuples(st.sampled_from("tu"), st.sampled_from("abc"))),
    key_hashes=st.one_of(st.none(), st.frozensets(st.integers(0, 5))),
    time=RANGES,
    phy_offset=RANGES,
    position=RANGES,
)


def holds(wanted, row):
    """Tell whether a row is wanted, the obvious way."""
    pair, key_hash, time, offset, position = row
    inside = all(
        (bounds.low is None or bounds.low <= value)
        and (bounds.high is None or value <= bounds.high)
        for bounds, value in (
            (wanted.time, time),
            (wanted.phy_offset, offset),
            (wanted.position, position),
        )
    )
    hashes = wanted.key_hashes is None or key_hash in wanted.key_hashes
    return inside and hashes and pair in wanted.pairs


@given(
    st.lists(WANTED, min_size=1, max_size=4),
    st.tuples(
        st.tuples(st.sampled_from("tu"), st.sampled_from("abc")),
        st.integers(0, 5),
        st.integers(-10, 10),
        st.integers(-10, 10),
        st.integers(-10, 10),
    ),
)
def test_what_is_widened_holds_every_row_of_each_part(parts, row):
    """Whatever plan a scan picks up, its own rows are in it."""
    widened = parts[0]
    for part in parts[1:]:
        widened = widened.widen(part)
    if any(holds(part, row) for part in parts):
        assert holds(widened, row)


@given(WANTED)
def test_what_is_wanted_survives_its_json(wanted):
    """The state of a relation is kept as JSON."""
    import json

    assert from_json(Wanted, json.loads(json.dumps(to_json(wanted)))) == wanted


@pytest.mark.parametrize(
    ("filter_", "text"),
    [
        (EqualTo(KEY, "a"), "key = 'a'"),
        (Not(In(KEY, ["a", "b"])), "NOT (key IN ['a', 'b'])"),
        (IsNotNull(KEY), "key IS NOT NULL"),
        (IsNull(KEY), "key IS NULL"),
        (GreaterThanOrEqual(TIME, NOON), "store_timestamp >= '2024-01-01 12:00:00+00:00'"),
    ],
)
def test_filters_are_shown_as_people_write_them(filter_, text):
    """For the log line and ``last_plan``."""
    assert filter_text(filter_) == text


@pytest.mark.parametrize("end", ENDS)
def test_times_at_the_ends_of_the_calendar_are_exact_bounds(end):
    """Which Spark pushes where they stand for no bound."""
    micros = (end - EPOCH) // dt.timedelta(microseconds=1)
    ceiling, floor = -(-micros // 1000), micros // 1000
    for filter_, expected in (
        (GreaterThanOrEqual(TIME, end), Range(ceiling, None)),
        (GreaterThan(TIME, end), Range(floor + 1, None)),
        (LessThanOrEqual(TIME, end), Range(None, floor)),
        (LessThan(TIME, end), Range(None, ceiling - 1)),
    ):
        assert filters_to_wanted([filter_], keys=False).time == expected


@pytest.mark.parametrize(
    ("filters", "hashes"),
    [
        ([EqualTo(HASH, -5)], set()),
        ([EqualNullSafe(HASH, -1)], set()),
        ([In(HASH, [-5, 5, None, 2**31])], {5}),
        ([EqualTo(HASH, 2**31 - 1)], {2**31 - 1}),
        ([IsNull(HASH)], set()),
    ],
)
def test_key_hashes_that_no_entry_has_are_not_looked_up(filters, hashes):
    """They are no rows, and no error in the task."""
    assert filters_to_wanted(filters, keys=False).key_hashes == hashes


@pytest.mark.parametrize("value", [-(2**63), -1, 0, 2**31, 2**63 - 1])
@pytest.mark.parametrize("column", [OFFSET, POSITION])
def test_numbers_at_both_ends_are_exact_bounds(column, value):
    """Also those that no entry has."""
    name = column[0]
    for filter_, expected in (
        (EqualTo(column, value), Range(value, value)),
        (In(column, [value, None]), Range(value, value)),
        (GreaterThan(column, value), Range(value + 1, None)),
        (LessThan(column, value), Range(None, value - 1)),
    ):
        assert getattr(filters_to_wanted([filter_], keys=False), name) == expected


def test_names_are_taken_in_any_case():
    """A schema may write them so, and Spark pushes them as they are written there."""
    filters = [EqualTo(("TOPIC",), "t"), EqualTo(("Key",), "k"), GreaterThan(("Position",), 4)]
    wanted = filters_to_wanted(filters, keys=True)
    assert (wanted.pairs, wanted.position.low) == ({("t", "k")}, 5)
    assert column_of(filters[0]) == "topic"
    assert column_of(EqualTo(("a", "b"), 1)) is None


def test_a_refusal_shows_what_was_pushed():
    """Without what follows from it, and without the whole of a long list."""
    with pytest.raises(ValueError, match="Spark pushed down topic = 't' AND position >= 1: it"):
        filters_to_wanted([IsNotNull(TOPIC), T_1, GreaterThanOrEqual(POSITION, 1)], keys=True)
    with pytest.raises(ValueError, match="Spark pushed down nothing: it pushes no OR"):
        filters_to_wanted([IsNotNull(KEY)], keys=True)
    with pytest.raises(ValueError, match="key not bound") as caught:
        filters_to_wanted([In(TOPIC, [f"topic-{n}" for n in range(4000)])], keys=True)
    assert len(str(caught.value)) < 2000


def test_a_refusal_has_the_lookup_to_write():
    """With the path of the relation, for one query and for a list of keys that is too long."""
    call = r"pyspark_rmqindex\.lookup\(keys, '/data/b'\)"
    with pytest.raises(ValueError, match=call):
        filters_to_wanted([T_1], keys=True, calls=Calls("/data/b"))
    many = In(KEY, [str(number) for number in range(MAX_PAIRS + 1)])
    with pytest.raises(ValueError, match=call):
        filters_to_wanted([T_1, many], keys=True, calls=Calls("/data/b"))
    with pytest.raises(ValueError, match=r"lookup\(keys, \['/data/a', '/data/b'\]\)"):
        filters_to_wanted([T_1], keys=True, calls=Calls(["/data/a", "/data/b"]))
