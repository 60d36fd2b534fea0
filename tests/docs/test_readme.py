"""The README's snippets do what it says, and what it names is there."""

import re
from pathlib import Path

from command_line import COMMANDS
from snippets import run_page, snippets

README = Path(__file__).resolve().parents[2] / "README.md"


def test_every_snippet_prints_what_the_readme_shows(spark, tmp_path):
    """All blocks run from top to bottom, as a reader would paste them."""
    try:
        assert run_page(README, tmp_path) == 4  # it gets this session from getOrCreate()
    finally:
        spark.catalog.dropTempView("messages")
        spark.conf.unset("spark.sql.python.filterPushdown.enabled")


def test_only_the_set_up_is_not_run_here():
    """The blocks that are left out are those which .ci/run runs."""
    left_out = [snippet.code.split()[0] for snippet in snippets(README) if snippet.not_run]
    assert left_out == ["pip", "make"]


def test_the_two_commands_are_targets_of_the_makefile():
    """What the README says to type is there."""
    makefile = (README.parent / "Makefile").read_text()
    (set_up,) = [s for s in snippets(README) if s.not_run and s.code.startswith("make")]
    targets = re.findall(r"^make (\w+)", set_up.code, re.MULTILINE)
    assert targets == ["demo", "test"]
    for target in [*targets, *re.findall(r"`make (\w+)`", README.read_text())]:
        assert re.search(rf"^{target}:", makefile, re.MULTILINE)


def test_commands_in_the_readme_exist():
    """Each that its table of symptoms says to type is a command."""
    typed = re.findall(r"rmqindex ([a-z-]+) STORE", README.read_text())
    assert len(typed) >= 5
    assert set(typed) <= set(COMMANDS)


def test_paths_in_the_readme_exist():
    """Each page that it links to is there, and so is its heading."""
    links = re.findall(r"\]\(([^)#:]+)(?:#([^)]+))?\)", README.read_text())
    assert len(links) > 20
    for path, anchor in links:
        page = README.parent / path
        assert page.exists(), path
        titles = re.findall(r"^#+ (.+)$", page.read_text(), re.MULTILINE) if anchor else []
        headings = {re.sub(r"[^\w -]", "", title.lower()).replace(" ", "-") for title in titles}
        assert not anchor or anchor in headings


def test_the_readme_is_short():
    """What is more is on the site."""
    assert len(README.read_text().split()) <= 1000
