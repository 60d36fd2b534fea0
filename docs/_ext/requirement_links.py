"""Requirements and errata of the specification: an anchor where each stands, a link elsewhere."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from spectext import ERRATUM_NAME, REQUIREMENT_NAME

if TYPE_CHECKING:
    from sphinx.application import Sphinx

_DEFINITION = re.compile(rf"^- \*\*({REQUIREMENT_NAME.pattern})\*\*:", re.MULTILINE)
_ERRATUM_HEADING = re.compile(rf"^### ({ERRATUM_NAME.pattern}):", re.MULTILINE)
# What must not be touched: code blocks, inline code, headings, links and anchors made here.
_KEPT = re.compile(
    r"^(?P<fence>```+|~~~+|:::+).*?^(?P=fence)[ ]*$|`[^`\n]*`|^#.*?$|\[[^]\n]*\][({][^)}\n]*[)}]",
    re.MULTILINE | re.DOTALL,
)


def link(text: str) -> str:
    """Return Markdown in which every definition is an anchor and every mention a link to it."""
    text = _DEFINITION.sub(lambda m: f"- [**{m[1]}**]{{#{m[1].lower()}}}:", text)
    text = _ERRATUM_HEADING.sub(lambda m: f"({m[1].lower()})=\n### {m[1]}:", text)
    parts, start = [], 0
    for kept in _KEPT.finditer(text):
        parts += [_linked(text[start : kept.start()]), kept[0]]
        start = kept.end()
    return "".join([*parts, _linked(text[start:])])


def _linked(text: str) -> str:
    for pattern in (REQUIREMENT_NAME, ERRATUM_NAME):
        text = pattern.sub(lambda m: f"[{m[0]}](#{m[0].lower()})", text)
    return text


def _read_source(_app: Sphinx, _document: str, source: list[str]) -> None:
    source[0] = link(source[0])


def setup(app: Sphinx) -> dict[str, bool]:
    """Register with Sphinx."""
    app.connect("source-read", _read_source)
    return {"parallel_read_safe": True}
