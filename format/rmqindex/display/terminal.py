"""Sets up rich for a terminal of any width, or a pipe."""

from __future__ import annotations

import os
import sys
import textwrap
from contextlib import contextmanager
from typing import TYPE_CHECKING

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from rmqindex.display.text import visible

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

__all__ = [
    "fits",
    "make_console",
    "plain_table",
    "print_table",
    "print_text",
    "progress_bar",
]

# No table is this wide.
_UNBOUNDED = 10_000


def make_console() -> Console:
    """Return a console for standard output: as wide as the terminal, or unbounded in a pipe.

    Colours follow ``NO_COLOR`` and whether a terminal is there, as rich decides.
    """
    console = Console(highlight=False)
    if not console.is_terminal and "COLUMNS" not in os.environ:
        console.width = _UNBOUNDED
    return console


def plain_table() -> Table:
    """Return a table without lines but the one below its head."""
    return Table(box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False, header_style="bold")


def fits(table: Table, console: Console) -> bool:
    """Return whether a table is no wider than the terminal."""
    return _width(table, console) <= console.width


def print_table(console: Console, table: Table) -> None:
    """Print a table whole; where it is wider than the terminal, its rows as paragraphs."""
    if fits(table, console):
        console.print(table, crop=False)
    else:
        console.print(_paragraphs(table, console.width), soft_wrap=True)


def print_text(console: Console, text: str) -> None:
    """Print text, with the lines of a terminal broken between words."""
    if console.is_terminal:
        lines = [_folded(line, console.width) for line in visible(text).split("\n")]
        text = "\n".join(lines)
    console.print(Text(visible(text)), soft_wrap=True)


def _folded(line: str, width: int) -> str:
    """Return a line as several, without breaking a word; those that follow keep the indent.

    A command is one line, so that it can be copied.
    """
    if line.startswith("    rmqindex "):
        return line
    indent = line[: len(line) - len(line.lstrip())]
    parts = textwrap.wrap(
        line, width, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False
    )
    return "\n".join(parts) if parts else line


def _paragraphs(table: Table, width: int) -> Text:
    """Return the rows of a table with a line for each cell: the column and the value."""
    heads = [Text.from_markup(str(column.header)).plain for column in table.columns]
    cells = [[Text.from_markup(str(cell)) for cell in column.cells] for column in table.columns]
    label = max(map(len, heads)) + 2
    found = Text()
    for number, row in enumerate(table.rows):
        # A row without its first cell belongs to the one before.
        if number and cells[0][number].plain:
            found.append("\n")
        for head, column in zip(heads, cells, strict=True):
            if column[number].plain:
                lines = _folded(column[number].plain, max(width - label, 1)).split("\n")
                text = f"\n{'':{label}}".join(lines)
                found.append(f"{head:<{label}}", "bold")
                found.append(f"{text}\n", row.style or column[number].style)
    found.rstrip()
    return found


@contextmanager
def progress_bar(what: str) -> Iterator[Callable[[int, int], None]]:
    """Show a bar on standard error while something long runs, where that is a terminal.

    Args:
        what: What is being done, in a word or two.

    Yields:
        A function that takes how much is done, and of how much.
    """
    console = Console(file=sys.stderr)
    if not console.is_terminal:
        # A bar that is disabled ends with an empty line in some versions of rich.
        yield lambda _done, _total: None
        return
    from rich.progress import (  # noqa: PLC0415  (only a terminal shows it)
        BarColumn,
        Progress,
        TaskProgressColumn,
        TextColumn,
        TimeRemainingColumn,
    )

    bar = Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        TaskProgressColumn(),
        TimeRemainingColumn(),
        console=console,
        transient=True,
    )
    with bar:
        task = bar.add_task(what, total=None)

        def report(done: int, total: int) -> None:
            bar.update(task, completed=done, total=total)

        yield report


def _width(table: Table, console: Console) -> int:
    """Return the columns that a table takes if nothing in it is cut."""
    return console.measure(table, options=console.options.update_width(_UNBOUNDED)).maximum
