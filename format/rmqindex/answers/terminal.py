"""Tables and texts for a terminal of any width, or a pipe."""

from __future__ import annotations

import os
import shutil
import sys
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple, TextIO, TypeAlias

from rmqindex.answers.text import COMMAND, cell_width, complain, folded, one_line, visible

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from pathlib import Path

# No table is this wide.
_UNBOUNDED = 10_000
# The blanks between columns: as many as there is room for.
_GAPS = (3, 2)
# A text column is not cut to less; to the second only where the first leaves the table too wide.
_LEAST_WIDTHS = (12, 8)
# The most columns for a text with characters that cannot be printed: each takes four.
_ESCAPED_WIDTH = 60
_CODES = {"bold": "1", "dim": "2", "red": "31", "green": "32", "yellow": "33"}


class Styled(NamedTuple):
    """A cell with a style of its own."""

    text: str
    style: str


Cell: TypeAlias = "str | Styled"


@dataclass(frozen=True, slots=True)
class Console:
    """Standard output, or another file, of some columns; files and pipes get every text whole."""

    width: int = _UNBOUNDED
    is_terminal: bool = False
    has_colours: bool = False
    file: TextIO | None = None

    def styled(self, text: str, style: str) -> str:
        """Return a text in a style, if styles are written."""
        if not style or not text or not self.has_colours:
            return text
        return f"\x1b[{_CODES[style]}m{text}\x1b[0m"

    def write(self, line: str = "") -> None:
        """Write a line."""
        (self.file or sys.stdout).write(f"{line}\n")


@dataclass(frozen=True, slots=True)
class _Column:
    head: str
    is_right: bool
    may_be_cut: bool
    spare: int


class _Arrangement(NamedTuple):
    """Columns of a table by number, how wide each is drawn, and the blanks between them."""

    numbers: Sequence[int]
    widths: Sequence[int]
    gap: int

    @property
    def width(self) -> int:
        return sum(self.widths) + self.gap * (len(self.widths) - 1)


class Table:
    """Rows under heads; a cell is one line."""

    def __init__(self) -> None:
        """Begin without columns."""
        self.columns: list[_Column] = []
        self.rows: list[list[Styled]] = []

    @property
    def heads(self) -> list[str]:
        """The heads of the columns."""
        return [column.head for column in self.columns]

    def add_column(
        self,
        head: str,
        *,
        right: bool = False,
        may_be_cut: bool = False,
        spare: int = 0,
    ) -> None:
        """Add a column, aligned to the right or not.

        Where the table is too wide, spare columns are dropped, from 1 up, and empty ones; then
        cells that may be cut, and long heads, lose their middle.
        """
        self.columns.append(_Column(head, right, may_be_cut, spare))

    def add_row(self, *cells: Cell, style: str = "") -> None:
        """Add a row, in a style; a cell without text is left out of paragraphs."""
        row = [cell if isinstance(cell, Styled) else Styled(cell, style) for cell in cells]
        self.rows.append([Styled(printable(cell.text), cell.style) for cell in row])

    def arrangements(self, width: int, *, may_cut: bool) -> Iterator[_Arrangement]:
        """Yield arrangements for a terminal of some columns, the best first; some are too wide."""
        cells = [
            max((cell_width(row[number].text) for row in self.rows), default=0)
            for number in range(len(self.columns))
        ]
        heads = [cell_width(column.head) for column in self.columns]
        widths = [max(pair) for pair in zip(cells, heads, strict=True)]
        spares = [
            column.spare or int(not cells[number]) for number, column in enumerate(self.columns)
        ]
        kept: list[int] = []
        bare = [
            max(cell, min(head, _LEAST_WIDTHS[0])) for cell, head in zip(cells, heads, strict=True)
        ]
        for dropped in sorted({0, *spares}):
            kept = [number for number, spare in enumerate(spares) if not 0 < spare <= dropped]
            for gap in _GAPS:
                yield _Arrangement(kept, [widths[number] for number in kept], gap)
            if may_cut:
                cut = _cut_widths([(widths[number], bare[number]) for number in kept], width)
                yield _Arrangement(kept, cut, _GAPS[-1])
        for least in _LEAST_WIDTHS if may_cut else ():
            floors = [
                least if column.may_be_cut else bare[number]
                for number, column in enumerate(self.columns)
            ]
            cut = _cut_widths([(widths[number], floors[number]) for number in kept], width)
            yield _Arrangement(kept, cut, _GAPS[-1])

    def line(self, console: Console, cells: Sequence[Styled], arranged: _Arrangement) -> str:
        """Return a row as a line."""
        parts = []
        for number, width in zip(arranged.numbers, arranged.widths, strict=True):
            text = shortened(cells[number].text, width)
            blank = " " * (width - cell_width(text))
            shown = console.styled(text, cells[number].style)
            if self.columns[number].is_right:
                parts.append(blank + shown)
            else:
                parts.append(shown if number == arranged.numbers[-1] else shown + blank)
        return (" " * arranged.gap).join(parts).rstrip()


def _cut_widths(columns: Iterable[tuple[int, int]], width: int) -> list[int]:
    """Return widths that make columns fit, as far as the least width of each allows it."""
    widths, floors = map(list, zip(*columns, strict=True))
    while (excess := sum(widths) + _GAPS[-1] * (len(widths) - 1) - width) > 0:
        room = [place for place, floor in enumerate(floors) if widths[place] > floor]
        if not room:
            break
        widest = max(room, key=widths.__getitem__)
        step = widths[widest] - max((widths[place] for place in room if place != widest), default=0)
        widths[widest] -= min(max(step, 1), widths[widest] - floors[widest], excess)
    return widths


def make_console(file: TextIO | None = None) -> Console:
    """Return standard output: as wide as the terminal, or unbounded in a pipe.

    ``COLUMNS`` is the width of either; ``NO_COLOR`` and a dumb terminal turn colours off.
    """
    is_terminal = sys.stdout.isatty()
    width = _UNBOUNDED
    if is_terminal or "COLUMNS" in os.environ:
        width = shutil.get_terminal_size().columns
    is_plain = bool(os.environ.get("NO_COLOR")) or os.environ.get("TERM") in {"dumb", "unknown"}
    return Console(width, is_terminal, is_terminal and not is_plain, file)


def fits(table: Table, console: Console) -> bool:
    """Return whether a whole table is no wider than the terminal."""
    return next(table.arrangements(console.width, may_cut=False)).width <= console.width


def print_table(console: Console, table: Table) -> None:
    """Print a table: whole, or narrowed, or, where that is too wide, rows as paragraphs."""
    arrangements = table.arrangements(console.width, may_cut=console.is_terminal)
    arranged = next((each for each in arrangements if each.width <= console.width), None)
    if arranged is None:
        _print_paragraphs(console, table)
        return
    heads = [Styled(head, "bold") for head in table.heads]
    console.write(table.line(console, heads, arranged))
    console.write(rule(arranged.width))
    for row in table.rows:
        console.write(table.line(console, row, arranged))


def print_text(console: Console, text: str) -> None:
    """Print text, with the lines of a terminal broken between words."""
    for line in visible(text).split("\n"):
        for part in folded(line, console.width) if console.is_terminal else [line]:
            # A command or a path is whole, so that it can be copied; a long key is not.
            is_cut = console.is_terminal and "/" not in part and not part.startswith(COMMAND)
            console.write(shortened(part, console.width) if is_cut else part)


def rule(width: int) -> str:
    """Return a horizontal line."""
    return _drawn("\u2500", "-") * width


def shortened(text: str, width: int) -> str:
    """Return a text without its middle if it is wider than some columns of a terminal."""
    if cell_width(text) <= width:
        return text
    mark = _drawn("\u2026", "...")[:width]
    room = max(width - len(mark), 0)
    head = _begin(text, room - room // 2)
    tail = _begin(text[::-1], room - cell_width(head))[::-1]
    return head + mark + tail


def printable(text: str) -> str:
    """Return a text as one line, without its middle if it has much that cannot be printed."""
    line = one_line(text)
    return line if line == text else shortened(line, _ESCAPED_WIDTH)


def broken(text: str, width: int) -> list[str]:
    """Return a text as lines of some columns, broken anywhere; nothing is lost."""
    lines = []
    for line in text.split("\n"):
        rest = line
        while cell_width(rest) > width:
            # A character wider than the terminal stands alone.
            first = _begin(rest, width) or rest[0]
            lines.append(first)
            rest = rest[len(first) :]
        lines.append(rest)
    return lines


def _begin(text: str, width: int) -> str:
    """Return as much of a text as some columns hold."""
    used = 0
    for number, char in enumerate(text):
        used += cell_width(char)
        if used > width:
            return text[:number]
    return text


def _drawn(char: str, plain: str) -> str:
    """Return a character, or what stands for it where the encoding of the output lacks it."""
    is_unicode = (sys.stdout.encoding or "utf-8").lower().startswith("utf")
    return char if is_unicode else plain


def _print_paragraphs(console: Console, table: Table) -> None:
    """Print the rows of a table with a line for each cell: the head and the value."""
    label = max(map(cell_width, table.heads)) + 2
    room = max(console.width - label, 1)
    for number, row in enumerate(table.rows):
        # A row without its first cell belongs to the one before.
        if number and row[0].text:
            console.write()
        for head, cell in zip(table.heads, row, strict=True):
            for place, line in enumerate(folded(cell.text, room) if cell.text else ()):
                name = "" if place else console.styled(head, "bold")
                blank = " " * (label - (0 if place else cell_width(head)))
                shown = shortened(line, room) if console.is_terminal else line
                console.write(f"{name}{blank}{console.styled(shown, cell.style)}")


@contextmanager
def progress_bar(what: str) -> Iterator[Callable[[int, int], None]]:
    """Yield a function that shows how much is done of how much, on standard error at a terminal."""
    if not sys.stderr.isatty():
        yield lambda _done, _total: None
        return
    from rich.console import Console as Bars  # noqa: PLC0415  (only a terminal shows it)
    from rich.progress import (  # noqa: PLC0415
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
        console=Bars(file=sys.stderr),
        transient=True,
    )
    with bar:
        task = bar.add_task(what, total=None)

        def report(done: int, total: int) -> None:
            bar.update(task, completed=done, total=total)

        yield report


@contextmanager
def explain_interrupt(folders: Sequence[Path], then: str) -> Iterator[None]:
    """Say of an interrupted write if it changed a file of some folders, and what to do then."""
    before = _files_in(folders)
    try:
        yield
    except KeyboardInterrupt:
        is_same = _files_in(folders) == before
        complain("interrupted; " + ("nothing was changed" if is_same else then))
        raise


def _files_in(folders: Sequence[Path]) -> list[tuple[str, int, int, int]]:
    files = []
    for folder in folders:
        for parent, _, names in os.walk(folder):
            for name in names:
                path = os.path.join(parent, name)  # noqa: PTH118  (many files)
                with suppress(OSError):  # it is gone, or a link to nothing
                    status = os.stat(path)  # noqa: PTH116
                    files.append((path, status.st_ino, status.st_size, status.st_mtime_ns))
    return sorted(files)
