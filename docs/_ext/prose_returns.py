"""What a function returns and what a property is are prose here; the types are in the signature.

Napoleon takes the words before a colon for a type, wherever one stands in the first line.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from sphinx.ext.napoleon.docstring import GoogleDocstring

if TYPE_CHECKING:
    from sphinx.application import Sphinx


def _consume_returns_section(
    self: GoogleDocstring,
    preprocess_types: bool = False,  # noqa: ARG001  (Napoleon passes it)
) -> list[tuple[str, str, list[str]]]:
    lines = self._dedent(self._consume_to_next_section())
    return [("", "", lines)] if lines else []


def _consume_inline_attribute(self: GoogleDocstring) -> tuple[str, list[str]]:
    return "", [self._lines.next(), *self._dedent(self._consume_to_end())]


def setup(app: Sphinx) -> dict[str, bool]:
    """Teach Napoleon; nothing is registered."""
    del app
    GoogleDocstring._consume_returns_section = _consume_returns_section  # type: ignore[method-assign]  # noqa: SLF001
    GoogleDocstring._consume_inline_attribute = _consume_inline_attribute  # type: ignore[method-assign]  # noqa: SLF001
    return {"parallel_read_safe": True}
