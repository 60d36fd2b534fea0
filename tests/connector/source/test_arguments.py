"""What functions refuse before they ask Spark for anything."""

from __future__ import annotations

import pytest

from pyspark_rmqindex import last_plan, table
from pyspark_rmqindex.options import message_options


@pytest.mark.parametrize("path", [None, 5, [None]])
def test_a_path_that_is_none_is_refused(path):
    """The error says what is expected."""
    with pytest.raises(TypeError, match=r"path: expected a path, or a list of paths, got"):
        table(None, path)


def test_last_plan_of_anything_else_names_it():
    """It asks for a DataFrame."""
    with pytest.raises(TypeError, match="expected a DataFrame, got str"):
        last_plan("TopicTest")


def test_an_option_with_a_unit_names_it():
    """So that nobody gives seconds."""
    with pytest.raises(ValueError, match=r"an integer from 0 to \d+, milliseconds, got '-1'"):
        message_options({"path": "store", "maxClockStep": "-1"})
