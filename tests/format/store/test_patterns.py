"""Patterns in paths: bounded, and within the directory that they name."""

from __future__ import annotations

import pytest

from rmqindex.storage import Location
from rmqindex.store import expand, matcher


def test_braces_do_not_multiply_without_end(tmp_path):
    """Thirty pairs would stand for a thousand million names."""
    with pytest.raises(ValueError, match="at most 1000 alternatives in all"):
        matcher("{a,b}" * 30)
    with pytest.raises(ValueError, match="at most 1000 alternatives in all"):
        list(expand(Location(f"{tmp_path}/{'{a,b}' * 30}")))
    assert matcher("{a,{b,c}}{d,e}")("cd")
    assert matcher("{a,b}" * 9)("ababababa")


def test_stars_cost_no_more_than_the_name_is_long():
    """A pattern that nearly fits is not tried in every way."""
    assert not matcher("*a" * 200 + "b")("a" * 255)


def test_a_pattern_does_not_leave_its_directory(tmp_path):
    """Names that are paths do not exist, and dots are names like others."""
    (tmp_path / "a").mkdir()
    (tmp_path / "secret").touch()
    assert [hit.path for hit in expand(Location(f"{tmp_path}/a/*"))] == []
    assert [hit.path for hit in expand(Location(f"{tmp_path}/a/{{..,.}}*"))] == []
