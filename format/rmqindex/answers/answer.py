"""One answer of a command, and the three renderers that write it."""

from __future__ import annotations

import json
import sys
from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from io import TextIOWrapper
from typing import TYPE_CHECKING, Any, Literal, TextIO, TypeAlias, cast

from rmqindex.answers.terminal import make_console, print_text
from rmqindex.answers.text import complain
from rmqindex.errors import command_line
from rmqindex.times import format_millis

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from datetime import tzinfo

    from rmqindex.answers.terminal import Console

#: Who reads an answer: people, or programs.
Form: TypeAlias = Literal["text", "json", "csv"]
Row: TypeAlias = "dict[str, Any]"

# The exit codes of a search without an answer, and of bad usage, a bad file or a failed write.
NOT_FOUND = 1
BAD = 2
# Python quotes the characters of a line's end, and, before 3.13, no other line break.
_LINE_END = "\r\n"


@dataclass(frozen=True, slots=True)
class Zone:
    """A time zone, under the name that the user gave it."""

    name: str
    info: tzinfo

    def format(self, millis: int) -> str:
        """Return epoch milliseconds as local time."""
        return format_millis(millis, self.info)

    def window(self, begin: int | None, end: int | None) -> str:
        """Return a range of store times as part of a sentence; nothing without bounds."""
        low, high = (self._bound(bound) for bound in (begin, end))
        if begin is None and end is None:
            return ""
        if end is None:
            return f" stored at {low} or later ({self.name})"
        if begin is None:
            return f" stored at {high} or earlier ({self.name})"
        return f" stored from {low} to {high} ({self.name})"

    def _bound(self, millis: int | None) -> str:
        text = "-" if millis is None else self.format(millis)
        return f"{millis} ms" if text == "-" else text


@dataclass(frozen=True, slots=True)
class Nothing:
    """What was not found in a store.

    Attributes:
        text: What it is.
        asked: The topic and the key for which ``explain`` tells why; empty where it does not.
        options: The options that it needs, too.
    """

    text: str
    asked: tuple[str, ...] = ()
    options: tuple[str, ...] = ()

    def explain(self, *paths: str) -> str | None:
        """Return the command that tells why some stores do not have it, if one can be typed."""
        if not self.asked or "\0" in "".join(self.asked):
            return None
        first, *others = paths
        return command_line("explain", first, *others, *self.asked, options=self.options)

    def sentence(self, *paths: str) -> str:
        """Say that some stores do not have it, and which command tells why."""
        explain = self.explain(*paths)
        why = f"; `{explain}` tells why" if explain else ""
        return f"{', '.join(paths)}: {self.text}{why}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What a command found or did.

    Attributes:
        text: Prints the answer for people; without it there are only notes.
        columns: The names of the values of each row; none for an answer without rows.
        rows: The rows, which can be iterated once, and may be too many for memory.
        document: Returns the JSON document; without it each row is a document on a line.
        nothing: The path that was searched and what was not found there; said instead of a text,
            and instead of a missing document.
        is_told: Whether that is said beside a document, too, which does not tell why.
        notes: What else to say on standard error.
        exit_code: The exit code of the command.
    """

    text: Callable[[Console], None] | None = None
    columns: tuple[str, ...] = ()
    rows: Iterable[Row] = ()
    document: Callable[[], Row] | None = None
    nothing: tuple[str, Nothing] | None = None
    is_told: bool = False
    notes: Sequence[str] = ()
    exit_code: int = 0

    def headed(self, heading: str, *, is_first: bool) -> Answer:
        """Return the answer with a line above its text, for one of several."""
        text = self.text

        def headed_text(console: Console) -> None:
            print_text(console, f"{'' if is_first else chr(10)}{heading}\n")
            if text is not None:
                text(console)

        return replace(self, text=headed_text)


class Renderer(ABC):
    """Writes the answers of one command; the first columns or fields name one of several stores."""

    _is_for_people = False

    def __init__(self) -> None:
        """Begin without answers."""
        self._without_answer: dict[Nothing, list[str]] = {}

    def render(self, answer: Answer, named: Mapping[str, str]) -> None:
        """Write an answer to standard output, and what else to say to standard error."""
        self._write(answer, named)
        is_told = answer.document is None or answer.is_told or self._is_for_people
        if answer.nothing is not None and is_told:
            path, nothing = answer.nothing
            if named:
                self._without_answer.setdefault(nothing, []).append(path)
            else:
                complain(nothing.sentence(path))
        for note in answer.notes:
            complain(note)

    def close(self) -> None:
        """Write what depends on all answers."""
        for nothing, paths in self._without_answer.items():
            complain(nothing.sentence(*paths))

    @abstractmethod
    def _write(self, answer: Answer, named: Mapping[str, str]) -> None: ...


class _TextRenderer(Renderer):
    """Texts and tables, below a heading for each of several stores."""

    _is_for_people = True

    def __init__(self) -> None:
        super().__init__()
        self._output = _Headed(sys.stdout)

    def _write(self, answer: Answer, named: Mapping[str, str]) -> None:
        for store in named.values():
            self._output.head(store)
        if answer.nothing is None and answer.text is not None:
            answer.text(make_console(cast("TextIO", self._output)))


class _Headed:
    """Standard output, on which a heading is written once something follows it."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._heading = ""
        self._written = ""

    def head(self, heading: str) -> None:
        """Write a heading, with an empty line below, before what is written next."""
        if heading != self._written:
            self._heading = heading

    def write(self, text: str) -> int:
        """Write a text."""
        if self._heading and text:
            self._stream.write(f"{chr(10) if self._written else ''}{self._heading}\n\n")
            self._written, self._heading = self._heading, ""
        return self._stream.write(text)


class _JsonRenderer(Renderer):
    """One JSON document; of several answers, or of several stores, a list."""

    def __init__(self) -> None:
        super().__init__()
        self._documents: list[Row] = []
        self._is_list = False

    def _write(self, answer: Answer, named: Mapping[str, str]) -> None:
        if answer.document is None:
            for row in answer.rows:
                sys.stdout.write(json.dumps({**named, **row}) + "\n")
            return
        self._documents.append({**named, **answer.document()})
        self._is_list |= bool(named) or len(self._documents) > 1

    def close(self) -> None:
        super().close()
        if self._documents:
            whole = {"answers": self._documents} if self._is_list else self._documents[0]
            sys.stdout.write(json.dumps(whole, indent=2) + "\n")


class _CsvRenderer(Renderer):
    """A line of names, then a line for each row; lists and objects are JSON, None is empty.

    It is UTF-8, whatever the terminal takes: in CSV, an escape cannot be told from a text.
    """

    def __init__(self) -> None:
        super().__init__()
        if isinstance(sys.stdout, TextIOWrapper):
            sys.stdout.reconfigure(encoding="utf-8", errors=sys.stdout.errors)
        self._names: list[str] = []

    def _write(self, answer: Answer, named: Mapping[str, str]) -> None:
        import csv  # noqa: PLC0415  (few ask for it)

        if not answer.columns:
            return
        names = [*named, *answer.columns]
        writer = csv.DictWriter(self, names, restval="", lineterminator=_LINE_END)
        if names != self._names:
            self._names = names
            writer.writeheader()
        for row in answer.rows:
            cells = {**named, **row}
            writer.writerow({name: _cell(value) for name, value in cells.items()})

    @staticmethod
    def write(line: str) -> int:
        """Write a line with a line feed."""
        return sys.stdout.write(f"{line.removesuffix(_LINE_END)}\n")


def _cell(value: object) -> object:
    return json.dumps(value, ensure_ascii=False) if isinstance(value, (dict, list)) else value


def renderer_of(form: Form) -> Renderer:
    """Return the renderer of a form."""
    if form == "csv":
        return _CsvRenderer()
    return _JsonRenderer() if form == "json" else _TextRenderer()
