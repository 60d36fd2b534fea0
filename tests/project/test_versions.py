"""The versions that are supported are those that the tests were run on."""

import argparse
import sys
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest
from tests.system.versions import (
    QUICK,
    ROOT,
    SHOWN,
    find_python,
    known_versions,
    lower_bounds,
    pinned,
    project,
    reason_of,
    supported_pythons,
)

from pyspark_rmqindex.spark_version import _LOWEST


def columns_of(page: Path) -> dict[str, dict[str, str]]:
    """Return the columns of the table of versions, by their names."""
    _, _, behind = page.read_text().partition("| versions |")
    table, _, _ = ("| versions |" + behind).partition("\n\n")
    header, _, *rows = (
        [cell.strip() for cell in line.split("|")[1:-1]] for line in table.split("\n")
    )
    return {
        name: {row[0]: row[number] for row in rows} for number, name in enumerate(header) if number
    }


RUNS = columns_of(ROOT / "docs" / "project" / "tested-versions.md")


def test_the_lowest_versions_that_were_run_are_the_bounds():
    """Whoever changes a bound runs the tests again."""
    bounds = lower_bounds()
    assert set(SHOWN) == set(bounds)
    for name, bound in bounds.items():
        assert (RUNS["lowest"][name] + ".0.0").startswith(bound + "."), name


def test_the_lowest_pyspark_is_that_of_its_refusal():
    """Whoever raises the bound raises what the sentence says."""
    assert ".".join(map(str, _LOWEST)) == lower_bounds()["pyspark"]


def test_the_pythons_that_were_run_are_the_oldest_and_the_newest():
    """Those that the classifiers name; the oldest is what installers ask for."""
    pythons = supported_pythons()
    assert project()["project"]["requires-python"] == f">={pythons[0]}"
    assert RUNS["lowest"]["Python"].startswith(f"{pythons[0]}.")
    assert RUNS["newest"]["Python"].startswith(f"{pythons[-1]}.")


def test_nothing_failed():
    """A table with failures would say what is not supported."""
    assert {run["failed"] for run in RUNS.values()} == {"0"}


def test_the_quick_part_is_there():
    """Each of its files."""
    assert not [path for path in QUICK if not (ROOT / path).is_file()]


def test_a_run_is_named_by_a_version_of_pyspark_too():
    """Only that is fixed then."""
    assert pinned(known_versions("4.0.2")) == {"pyspark": "4.0.2"}
    assert pinned(known_versions("4.2.*")) == {"pyspark": "4.2.*"}
    assert pinned(known_versions("lowest")) == lower_bounds()
    assert pinned(known_versions("newest")) == {}
    with pytest.raises(argparse.ArgumentTypeError, match=r"such as 4\.0\.2 or 4\.2\.\*, got '4'"):
        known_versions("4")


def test_a_python_is_found_or_named():
    """The one that runs this needs no name on the PATH."""
    assert find_python(["3.0", f"3.{sys.version_info.minor}", "3.1"]) == sys.executable
    with pytest.raises(FileNotFoundError, match=r"expected python3\.0 or python3\.1 on the PATH"):
        find_python(["3.0", "3.1"])


def test_a_module_that_was_skipped_has_its_reason():
    """Behind the file, where pytest says only that the collection was skipped."""
    test = ET.Element("skipped", message="streams need PySpark 4.2 or later")
    test.text = "/tests/test_a.py:5: streams need PySpark 4.2 or later"
    assert reason_of(test) == "streams need PySpark 4.2 or later"
    module = ET.Element("skipped", message="collection skipped")
    reason = "cannot import name 'EqualTo' from 'pyspark.sql.datasource'"
    module.text = f"""('tests/test_b.py', 0, "Skipped: {reason}")"""
    assert reason_of(module) == reason
