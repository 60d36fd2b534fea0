"""What the site is made of is complete, and its generated parts are right."""

from __future__ import annotations

import posixpath
import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import pyspark_rmqindex
import rmqindex
from command_line import COMMANDS
from pyspark_rmqindex.options import OPTIONS

if TYPE_CHECKING:
    from types import ModuleType

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
sys.path[:0] = [str(DOCS / "_ext"), str(ROOT / "spec" / "tools")]

import requirement_links  # noqa: E402  (it lies outside of any package)
from page_texts import OPTION_GROUPS  # noqa: E402


def pages() -> dict[str, str]:
    """Return the pages of the site that are not the specification's, by name."""
    patterns = ("*.md", "use/*.md", "use/*.ipynb", "reference/*.md", "project/*.md")
    found = [page for pattern in patterns for page in DOCS.glob(pattern)]
    return {page.relative_to(DOCS).with_suffix("").as_posix(): page.read_text() for page in found}


@pytest.mark.parametrize("package", [rmqindex, pyspark_rmqindex], ids=lambda each: each.__name__)
def test_every_public_name_is_in_the_api_page(package: ModuleType) -> None:
    """The page documents each name of the package's ``__all__``, and no other."""
    page = pages()[f"reference/{package.__name__}"]
    documented = re.findall(rf":: {package.__name__}\.(\w+)$", page, re.MULTILINE)
    assert sorted(set(documented)) == sorted(package.__all__)


def listed(name: str) -> list[str]:
    """Return the pages in the tables of contents of a page, by their names in the site."""
    trees = re.findall(r"```\{toctree\}\n(.*?)```", pages()[name], re.DOTALL)
    lines = [line for tree in trees for line in tree.splitlines()]
    entries = [line for line in lines if line and not line.startswith(":")]
    return [posixpath.normpath(posixpath.join(posixpath.dirname(name), each)) for each in entries]


def test_every_page_is_in_the_contents() -> None:
    """Each once, in the list of the first page or of the page that it belongs to."""
    found = [each for name in pages() for each in listed(name) if each in pages()]
    assert sorted(found) == sorted(pages().keys() - {"index"})


def test_the_contents_are_short_and_their_parts_do_not_mix() -> None:
    """The list beside each page fits a screen: use, then reference, then proof and building."""
    entries = listed("index")
    assert len(entries) <= 26
    parts = [posixpath.dirname(each) for each in entries if "/" in each]
    order = {"use": 0, "reference": 1, "spec": 1, "project": 2}
    assert [order[part] for part in parts] == sorted(order[part] for part in parts)
    for name in pages().keys() - {"index"}:
        assert all(posixpath.dirname(each) == posixpath.dirname(name) for each in listed(name))


def test_titles_need_no_word_of_the_project() -> None:
    """A reader meets them before the page that explains such a word."""
    titles = [re.search(r"^# (.+)$", text, re.MULTILINE) for text in pages().values()]
    found = [title[1] for title in titles if title]
    assert len(found) > 40
    words = re.compile(r"\b(rooms?|growth|leaks?)\b", re.IGNORECASE)
    assert not [each for each in found if words.search(each)]


def test_what_users_read_is_short() -> None:
    """Use and reference have at most 20,000 words outside of code and what it prints."""
    count = 0
    for name, text in pages().items():
        if name.startswith(("use/", "reference/")) and name != "use/notebook":
            prose = re.sub(
                r"^( *)(```+)(?!\{).*?^\1\2 *$", "", text, flags=re.DOTALL | re.MULTILINE
            )
            count += len(re.sub(r"<!--.*?-->", "", prose, flags=re.DOTALL).split())
    assert 10_000 < count <= 20_000


def test_the_options_page_has_each_option_in_one_group() -> None:
    """Internal options are in none; each option has a name of its own and says what it does."""
    headings = re.findall(
        r"^## (.+)\n\n```\{option-list\} \1\n", pages()["reference/options"], re.MULTILINE
    )
    assert headings == list(OPTION_GROUPS)
    listed = [name for group in OPTION_GROUPS.values() for name in group]
    assert sorted(listed) == sorted(option.name for option in OPTIONS if not option.internal)
    names = [option.name for option in OPTIONS]
    assert len(names) == len({name.lower() for name in names})
    assert all(option.doc.endswith(".") for option in OPTIONS)


def test_the_command_line_page_has_each_command() -> None:
    """In the order of the help, each below its name."""
    page = pages()["reference/command-line"]
    assert re.findall(r"^### (.+)\n\n```\{command\} \1\n", page, re.MULTILINE) == list(COMMANDS)


def test_every_command_that_a_text_advises_exists():
    """Errors, remedies and docstrings of the packages name commands that can be typed."""
    texts = [
        path.read_text()
        for package in ("format", "connector")
        for path in (ROOT / package).rglob("*.py")
    ]
    advised = {name for text in texts for name in re.findall(r"`rmqindex ([a-z][a-z-]*)", text)}
    assert "rebuild" in advised
    assert advised <= set(COMMANDS)


def test_requirements_become_anchors_and_links() -> None:
    """A definition is an anchor, a mention a link; code and headings stay as they are."""
    text = (
        "# IDX-HDR-1\n\n- **IDX-HDR-1**: A writer MUST, see IDX-HDR-2 and ERR-3.\n\n"
        "`IDX-HDR-2`\n\n```text\nIDX-HDR-2\n```\n"
    )
    assert requirement_links.link(text) == (
        "# IDX-HDR-1\n\n- [**IDX-HDR-1**]{#idx-hdr-1}: A writer MUST, see "
        "[IDX-HDR-2](#idx-hdr-2) and [ERR-3](#err-3).\n\n"
        "`IDX-HDR-2`\n\n```text\nIDX-HDR-2\n```\n"
    )


def test_an_erratum_gets_an_anchor() -> None:
    """Its heading can be linked to by its name."""
    assert requirement_links.link("### ERR-3: A put\n") == "(err-3)=\n### ERR-3: A put\n"


def test_pictures_can_be_seen_in_the_dark() -> None:
    """One with a white ground is a figure, which the style turns dark; others have no ground."""
    style = (DOCS / "_static" / "site.css").read_text()
    for theme in ("dark", "auto"):
        for place in ("figure img", ".cell_output img"):
            rule = rf'body\[data-theme="{theme}"\] {re.escape(place)}[^}}]*{{\s*filter: invert'
            assert re.search(rule, style), (theme, place)
    texts = [*pages().values(), *(page.read_text() for page in (ROOT / "spec").glob("*.md"))]
    for picture in [*DOCS.rglob("*.svg"), *(ROOT / "spec").rglob("*.svg")]:
        if DOCS / "_build" in picture.parents:  # what make docs made, and other projects' icons
            continue
        if any(re.search(rf"\{{figure\}} \S*{picture.name}", text) for text in texts):
            continue
        first = re.search(r'<(?:path|rect)[^>]*?style="([^"]*)"', picture.read_text())
        assert first is not None, picture
        assert "fill: none" in first[1], picture
