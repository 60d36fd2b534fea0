"""Headers of several IndexFiles as a line of text and as a table of HTML."""

from __future__ import annotations

from datetime import UTC
from typing import TYPE_CHECKING

from rmqindex.markup import html_table
from rmqindex.times import format_millis

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rmqindex.header import IndexHeader

__all__ = ["headers_html", "headers_text"]


def headers_text(headers: Sequence[IndexHeader]) -> str:
    """Return how many files and entries there are."""
    entries = sum(header.entry_count for header in headers)
    return (
        f"{len(headers)} file{'' if len(headers) == 1 else 's'}, "
        f"{entries} entr{'y' if entries == 1 else 'ies'}"
    )


def headers_html(title: str, names: Sequence[str], headers: Sequence[IndexHeader]) -> str:
    """Return a table of the files."""
    rows: list[tuple[object, ...]] = []
    for name, header in zip(names, headers, strict=True):
        if header.entry_count:
            moments = (header.begin_timestamp, header.end_timestamp)
            times = (f"{format_millis(moment, UTC)} UTC" for moment in moments)
            rows.append((name, header.entry_count, *times))
        else:
            rows.append((name, 0, None, None))
    return html_table(title, ("file", "entries", "first stored", "last stored"), rows)
