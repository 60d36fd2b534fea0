"""The README's snippets do what it says, and its tables name what there is."""

import re
from pathlib import Path

import pytest

from snippets import run_page, snippets

README = Path(__file__).resolve().parents[2] / "README.md"


@pytest.mark.spark_streams
def test_every_snippet_prints_what_the_readme_shows(spark, tmp_path):
    """All blocks run from top to bottom, as a reader would paste them."""
    try:
        assert run_page(README, tmp_path) >= 10  # it gets this session from getOrCreate()
    finally:
        spark.sql("DROP VIEW IF EXISTS broker_a")
        spark.sql("DROP TABLE IF EXISTS broker_a_files")
        spark.catalog.dropTempView("messages")
        spark.conf.unset("spark.sql.python.filterPushdown.enabled")


def test_only_the_set_up_is_not_run_here():
    """The blocks that are left out are those which .ci/run runs."""
    left_out = [snippet.code.split()[0] for snippet in snippets(README) if snippet.not_run]
    assert left_out == ["make", "pip"]


def test_the_two_commands_are_targets_of_the_makefile():
    """What the README says to type is there."""
    makefile = (README.parent / "Makefile").read_text()
    (set_up,) = [s for s in snippets(README) if s.not_run and s.code.startswith("make")]
    targets = re.findall(r"^make (\w+)", set_up.code, re.MULTILINE)
    assert targets == ["demo", "test"]
    for target in targets:
        assert re.search(rf"^{target}:", makefile, re.MULTILINE)


def test_options_in_the_readme_exist():
    """Each name in the table of options is an option of the data source."""
    from pyspark_rmqindex.options import OPTIONS

    table = README.read_text().split("## Options")[1].split("## Limits")[0]
    names = [
        name
        for row in re.findall(r"^\| (`.*?) \|", table, re.MULTILINE)
        for name in re.findall(r"`(\w+)`", row)
    ]
    assert len(names) > 10
    assert set(names) <= {option.name for option in OPTIONS}


def test_paths_in_the_readme_exist():
    """Each place in the table of the tree is there."""
    table = README.read_text().split("## In this tree")[1].split("## Licence")[0]
    for path in re.findall(r"`([\w./]+/|Makefile|\.ci/run)`", table):
        assert (README.parent / path).exists(), path
