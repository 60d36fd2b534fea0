"""What functions refuse before they ask Spark for anything."""

from __future__ import annotations

import sys

import pytest

from pyspark_rmqindex import last_plan, table
from pyspark_rmqindex.api.registration import wrong_python
from pyspark_rmqindex.options import message_options


@pytest.mark.parametrize("path", [None, 5, [None]])
def test_a_path_that_is_none_is_refused(path):
    """The error says what is expected."""
    with pytest.raises(TypeError, match=r"path: expected a path, or a list of paths, got"):
        table(None, path)


def test_last_plan_of_anything_else_names_it():
    """It asks for a DataFrame."""
    with pytest.raises(TypeError, match="expected a DataFrame of a classic session, got str"):
        last_plan("TopicTest")


def test_a_python_of_workers_that_lacks_the_package_is_named(tmp_path):
    """Beside the one that has it, and what to set."""
    other = tmp_path / "python3"
    other.write_text("#!/bin/sh\nexit 1\n")
    other.chmod(0o755)
    told = wrong_python(str(other))
    assert f"Spark's workers run {other}, which cannot import pyspark_rmqindex" in told
    assert f"Set PYSPARK_PYTHON={sys.executable}" in told


@pytest.mark.parametrize("script", ["exit 0", None])
def test_a_python_of_workers_that_has_the_package_will_do(tmp_path, script):
    """Also one that is not on this machine."""
    other = tmp_path / "python3"
    if script is not None:
        other.write_text(f"#!/bin/sh\n{script}\n")
        other.chmod(0o755)
    assert wrong_python(str(other)) is None
    assert wrong_python(sys.executable) is None


def test_an_option_with_a_unit_names_it():
    """So that nobody gives seconds."""
    with pytest.raises(ValueError, match=r"an integer from 0 to \d+, milliseconds, got '-1'"):
        message_options({"path": "store", "maxClockStep": "-1"})
