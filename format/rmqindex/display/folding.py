"""Breaks texts between words, and leaves commands whole, so that they can be copied."""

from __future__ import annotations

import re

__all__ = ["COMMAND", "cell_width", "folded", "wrapped"]

#: How a line begins that is to be copied.
COMMAND = "    rmqindex "
# A command in a sentence.
_QUOTED = re.compile(r"`[^`]*`")
# Keeps the spaces of a command from being broken at; no visible text has it.
_GLUE = "\x00"


def cell_width(text: str) -> int:
    """Return how many columns of a terminal a text takes."""
    if text.isascii():
        return len(text)
    from rich.cells import cell_len  # noqa: PLC0415  (most texts are ASCII)

    return cell_len(text)


def folded(line: str, width: int, indent: str | None = None) -> list[str]:
    """Return a line as several, broken between words; a word that is too long stays whole.

    A command is one line, so that it can be copied.

    Args:
        line: The line.
        width: How many columns a line may have.
        indent: What those that follow begin with; by default the line's own indent.
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
    """Return a text as lines, broken between words; commands that it quotes stay whole.

    Args:
        text: The text, one line.
        width: How many columns a line may have.
        indent: What those that follow begin with.
    """
    kept = _QUOTED.sub(lambda quoted: quoted[0].replace(" ", _GLUE), text)
    return [line.replace(_GLUE, " ") for line in folded(kept, width, indent)]
