"""Small HTML tables, by which notebooks show objects."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

# The most rows of a table; those in the middle are left out of a longer one.
_MOST_ROWS = 20


def html_table(title: str, names: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
    """Return a table with a line above it; numbers are aligned to the right."""
    shown: list[str] = []
    for number, row in enumerate(rows):
        if len(rows) <= _MOST_ROWS or not _MOST_ROWS // 2 <= number < len(rows) - _MOST_ROWS // 2:
            shown.append(f"<tr>{''.join(_cell(value) for value in row)}</tr>")
        elif number == _MOST_ROWS // 2:
            more = f"{len(rows) - _MOST_ROWS:,} more"
            shown.append(f'<tr><td colspan="{len(names)}">… {more} …</td></tr>')
    heads = "".join(
        f'<th style="{_style(values)}">{escape(name)}</th>'
        for name, values in zip(names, zip(*rows, strict=True), strict=False)
    )
    body = f"<table><thead><tr>{heads}</tr></thead><tbody>{''.join(shown)}</tbody></table>"
    return f"<div><p>{escape(title)}</p>{body if rows else ''}</div>"


def _cell(value: object) -> str:
    text = "" if value is None else escape(str(value))
    return f'<td style="{_style([value])}">{text}</td>'


def _style(values: Sequence[object]) -> str:
    """Return how cells are laid out: to the right if they are numbers."""
    is_number = any(isinstance(value, int) for value in values)
    side = "right" if is_number else "left"
    return f"text-align: {side}; vertical-align: top; padding: 0.1em 0.6em"
