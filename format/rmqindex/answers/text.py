"""Texts for people: visible, folded, and complaints on standard error."""

from __future__ import annotations

import os
import re
import sys
from typing import TYPE_CHECKING

from rmqindex.errors import SAID_GEOMETRY

if TYPE_CHECKING:
    from collections.abc import Iterable

    from rmqindex.commitlog import MissingPart
    from rmqindex.store.snapshot import SnapshotFile

#: The beginning of a line that is to be copied.
COMMAND = "    rmqindex "
# A command in a sentence.
_QUOTED = re.compile(r"`[^`]*`")
# Keeps the spaces of a command from being broken at; no visible text has it.
_GLUE = "\x00"
_UNITS = ("bytes", "KiB", "MiB", "GiB", "TiB")
# C0 but for tab and line feed, DEL, C1, the separators of lines and paragraphs, and what turns the
# direction of text: with these a topic or a name could set a terminal's title, move its cursor,
# break a line, or look like another one.
_COMMANDS = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]")

# No terminal is narrower; one that says so does not know.
_LEAST_WIDTH = 20
# Arguments that errors of the codec advise to give, and their options on the command line.
_FLAGS = {
    "allow_live_store=True": "--allow-live-store",
    "resume=True": "--resume",
    "replace=True": "--replace",
    "allow_loss=True": "--allow-loss",
    "leave_out=": "--leave-out ",
    "batch_topics": "--batch-topic",
    "batch_file_size=": "--batch-file-size ",
    "file_size=": "--file-size ",
    "checkpoint=False": "--no-checkpoint",
    "index_tags=True": "--index-tags",
    "index_tags=False": "--no-index-tags",
    "decompress_body=False": "--no-decompress",
    "raw_bodies=True": "--raw-bodies",
    "max_body_size": "--max-body-size",
    "mode='DROPMALFORMED'": "--mode DROPMALFORMED",
    "mode=DROPMALFORMED": "--mode DROPMALFORMED",
    SAID_GEOMETRY: "--max-hash-slot-num and --max-index-num",
}
# Whole words, which no part of a path is.
_ARGUMENTS = re.compile(rf"(?<= )(?:{'|'.join(map(re.escape, _FLAGS))})")


def visible(text: str) -> str:
    r"""Return a text with its control characters written out, such as ``\x1b``.

    Tabs and line feeds stay.
    """
    return _COMMANDS.sub(lambda match: ascii(match[0])[1:-1], text)


def one_line(text: str) -> str:
    r"""Return a visible text with its tabs and line feeds written out, too."""
    return visible(text).replace("\n", "\\n").replace("\t", "\\t")


def size_text(size: int) -> str:
    """Return a number of bytes in the largest unit that gives 1 or more."""
    amount = float(size)
    for unit in _UNITS:
        if amount < 1024 or unit == _UNITS[-1]:
            break
        amount /= 1024
    return f"{size} bytes" if unit == "bytes" else f"{amount:.1f} {unit}"


def in_flags(message: str) -> str:
    """Return a message with the flags of the command line for the arguments that it names."""
    return _ARGUMENTS.sub(lambda match: _FLAGS[match[0]], message)


def cell_width(text: str) -> int:
    """Return how many columns of a terminal a text takes."""
    if text.isascii():
        return len(text)
    from rich.cells import cell_len  # noqa: PLC0415  (most texts are ASCII)

    return cell_len(text)


def folded(line: str, width: int, indent: str | None = None) -> list[str]:
    """Break a line between words; the others are indented, by default as the first one is.

    A word that is too long stays whole, and so does a command, so that it can be copied.
    """
    if cell_width(line) <= width or line.startswith(COMMAND):
        return [line]
    blank = line[: len(line) - len(line.lstrip())]
    begin = blank if indent is None else indent
    lines: list[str] = []
    for word in line[len(blank) :].split(" "):
        if lines and cell_width(f"{lines[-1]} {word}") <= width:
            lines[-1] += f" {word}"
        elif word or not lines:
            lines.append((begin if lines else blank) + word)
    return lines


def wrapped(text: str, width: int, indent: str = "") -> list[str]:
    """Break a text between words; commands that it quotes stay whole."""
    glued = _QUOTED.sub(lambda quoted: quoted[0].replace(" ", _GLUE), text)
    return [line.replace(_GLUE, " ") for line in folded(glued, width, indent)]


def complain(message: str) -> None:
    """Write one line to standard error, whatever the message holds; in a terminal, wrapped."""
    line = f"rmqindex: {visible(in_flags(' '.join(message.split())))}"
    width = _terminal_width()
    lines = [line] if width is None else wrapped(line, width, "  ")
    sys.stderr.write("\n".join(lines) + "\n")
    sys.stderr.flush()


def _terminal_width() -> int | None:
    """Return the columns of the terminal that shows standard error; None where none does."""
    if not sys.stderr.isatty():
        return None
    try:
        return max(int(os.environ["COLUMNS"]), _LEAST_WIDTH)
    except (KeyError, ValueError):
        pass
    try:
        return max(os.get_terminal_size(sys.stderr.fileno()).columns, _LEAST_WIDTH)
    except (OSError, ValueError):
        return None


def complain_of_lacking(files: Iterable[SnapshotFile]) -> None:
    """Say on standard error what an answer lacks of damaged IndexFiles."""
    for planned in files:
        if planned.lacking is not None:
            complain(planned.lacking)


def complain_of_missing(
    missing: Iterable[MissingPart], what: str = "the answer", *, is_read: bool = True
) -> None:
    """Say on standard error which parts a log lacks, and hence what is made of it.

    A log that is read to its end says by itself that the end is missing.
    """
    for part in missing:
        if part.part != "end" or not is_read:
            complain(part.text(what))
