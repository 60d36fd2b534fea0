"""Microseconds to milliseconds and back, at both ends of 64 bits."""

from __future__ import annotations

import itertools
from datetime import UTC, datetime, timedelta, timezone
from fractions import Fraction
from math import ceil, floor

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from rmqindex import IndexFile, IndexFileWriter, Layout
from rmqindex.layout import INT64_MAX, INT64_MIN
from rmqindex.time_units import LAST_MILLISECOND, to_microseconds, to_milliseconds
from rmqindex.times import format_millis, parse_millis

ENDS = [INT64_MIN, INT64_MIN + 1, -1001, -1000, -999, -1, 0, 1, 999, 1000, INT64_MAX - 1, INT64_MAX]
NUMBERS = st.lists(st.sampled_from(ENDS) | st.integers(INT64_MIN, INT64_MAX))
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@given(NUMBERS)
@example(ENDS)
def test_milliseconds_are_rounded_as_exact_fractions_are(micros):
    """Up and down, of one number and of an array, without an overflow."""
    array = np.array(micros, np.int64)
    for up, rounded in ((True, ceil), (False, floor)):
        expected = [rounded(Fraction(each, 1000)) for each in micros]
        assert [to_milliseconds(each, up=up) for each in micros] == expected
        assert to_milliseconds(array, up=up).tolist() == expected


@given(NUMBERS)
@example(ENDS)
@example([LAST_MILLISECOND, -LAST_MILLISECOND])
@example([LAST_MILLISECOND + 1, -LAST_MILLISECOND - 1])
def test_microseconds_are_exact_or_masked(millis):
    """What 64 bits cannot hold is told, never wrapped around."""
    micros, beyond = to_microseconds(np.array(millis, np.int64))
    fits = [INT64_MIN <= each * 1000 <= INT64_MAX for each in millis]
    assert (beyond is None) == all(fits)
    assert [not each for each in (beyond if beyond is not None else np.zeros(len(fits)))] == fits
    assert micros.tolist() == [
        each * 1000 if fit else 0 for each, fit in zip(millis, fits, strict=True)
    ]


class TestTexts:
    """Times of a command line."""

    @pytest.mark.parametrize("millis", [INT64_MIN, -1, 0, INT64_MAX])
    def test_digits_reach_both_ends(self, millis):
        """Whatever the rounding."""
        assert parse_millis(str(millis), UTC, up=True) == millis
        assert parse_millis(str(millis), UTC, up=False) == millis

    @pytest.mark.parametrize("text", [str(INT64_MIN - 1), str(INT64_MAX + 1), "9" * 5000])
    def test_digits_beyond_are_refused(self, text):
        """No file holds such a time, so it is a slip."""
        with pytest.raises(ValueError, match="expected epoch milliseconds of 64 bits"):
            parse_millis(text, UTC, up=False)

    @given(st.datetimes())
    @example(datetime.min)  # noqa: DTZ901
    @example(datetime.max)  # noqa: DTZ901
    def test_texts_are_rounded_to_the_side_that_is_asked_for(self, time):
        """In any zone, the years 1 and 9999 included."""
        for hours in (-14, 0, 14):
            zone = timezone(timedelta(hours=hours))
            micros = (time.replace(tzinfo=zone) - EPOCH) // timedelta(microseconds=1)
            for up in (True, False):
                expected = to_milliseconds(micros, up=up)
                assert parse_millis(time.isoformat(), zone, up=up) == expected

    @given(st.sampled_from(ENDS) | st.integers(INT64_MIN, INT64_MAX))
    def test_every_time_has_a_text(self, millis):
        """A dash where there is no calendar for it."""
        text = format_millis(millis, timezone(timedelta(hours=14)))
        assert text == "-" or parse_millis(text, timezone(timedelta(hours=14)), up=True) == millis


@pytest.mark.parametrize("stored", [INT64_MIN, -1, 0, 1_700_000_000_000, INT64_MAX])
def test_a_broker_is_asked_for_any_range(tmp_path, stored):
    """The two searches of a file compare exactly, whatever the bounds."""
    path = tmp_path / "20231114221320000"
    with IndexFileWriter(path, Layout(7, 20)) as writer:
        writer.put("T#a", 5, stored)
    with IndexFile(path, Layout(7, 20)) as file:
        for begin, end in itertools.product([INT64_MIN, 0, stored, INT64_MAX], repeat=2):
            is_inside = begin <= stored <= end
            assert file.select_phy_offset("T#a", 64, begin, end) == ([5] if is_inside else [])
            if begin <= end:
                assert file.is_time_matched(begin, end) == is_inside
