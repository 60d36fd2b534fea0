"""The runner of documentation snippets notices a page that is wrong."""

from pathlib import Path

import pytest

from snippets import run_page, snippets


def page_of(directory: Path, *blocks: str) -> Path:
    """Write a page of fenced blocks, each given as ``language: code``."""
    page = directory / "page.md"
    fences = ["```{}\n{}\n```".format(*block.split(": ", 1)) for block in blocks]
    page.write_text("Some prose.\n\n" + "\n\n".join(fences) + "\n", encoding="utf-8")
    return page


def test_shown_output_that_is_printed_passes(tmp_path):
    """A block may be followed by exactly what it prints."""
    page = page_of(tmp_path, "python: print('a', 1)", "text: a 1")
    assert run_page(page, tmp_path) == 1


def test_shown_output_that_is_not_printed_fails(tmp_path):
    """A page that shows another output than the real one fails, with the place."""
    page = page_of(tmp_path, "python: x = 1", "python: print(x)", "text: 2")
    with pytest.raises(AssertionError, match=r"page\.md:7 prints\n1\nand the page shows\n2"):
        run_page(page, tmp_path)


def test_three_dots_stand_for_anything(tmp_path):
    """What differs from run to run is left out of the shown output."""
    page = page_of(tmp_path, "python: print('made in', 0.123, 's')", "text: made in ... s")
    assert run_page(page, tmp_path) == 1


def test_blocks_share_names_and_a_directory(tmp_path):
    """Python blocks see what earlier ones made, in memory and on disk, and so does the shell."""
    page = page_of(
        tmp_path,
        "python: from pathlib import Path",
        "python: Path('made').write_text('here')",
        "bash: cat made",
        "text: here",
    )
    assert run_page(page, tmp_path) == 3


def test_a_failing_command_fails_the_page(tmp_path):
    """A shell block fails at its first failing command, with what it wrote to stderr."""
    page = page_of(tmp_path, "bash: echo no such thing >&2; false; true")
    with pytest.raises(AssertionError, match="no such thing"):
        run_page(page, tmp_path)


def test_a_block_that_is_not_run_says_why(tmp_path):
    """A comment before a block keeps it from being run, and its reason is kept."""
    page = tmp_path / "page.md"
    page.write_text("<!-- not run: it never ends -->\n\n```bash\nyes\n```\n", encoding="utf-8")
    assert [snippet.not_run for snippet in snippets(page)] == ["it never ends"]
    assert run_page(page, tmp_path) == 0


def test_a_traceback_points_into_the_page(tmp_path):
    """An error in a Python block names the page and its line."""
    page = page_of(tmp_path, "python: y = 0\n1 / y")
    with pytest.raises(ZeroDivisionError) as caught:
        run_page(page, tmp_path)
    assert caught.traceback[-1].path == page
    assert caught.traceback[-1].lineno + 1 == 5


def test_the_reason_of_a_block_is_its_own(tmp_path):
    """It ends with its comment, and begins there, too."""
    page = tmp_path / "page.md"
    blocks = [
        "<!-- not run: one -->\n\n```bash\na\n```",
        "<!-- not run: two -->\n\n```bash\nb\n```",
    ]
    page.write_text("\n\n".join(blocks) + "\n")
    assert [found.not_run for found in snippets(page)] == ["one", "two"]
