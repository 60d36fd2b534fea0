"""Command lines that errors and answers print, to be typed as they stand."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["command_line"]

_SPACE, _DELETE = 0x20, 0x7F


def command_line(name: str, path: object, *arguments: str, options: Sequence[str] = ()) -> str:
    """Return a command line for a shell; none is printed without the path that it is about.

    Args:
        name: The command.
        path: What the user gave, or the file in question.
        arguments: What follows it.
        options: Its options; ``--`` keeps an argument that begins with a dash from being one.
    """
    given = [str(path), *arguments]
    words = [name, *given, *options]
    if any(each.startswith("-") for each in given):
        words = [name, *options, "--", *given]
    return " ".join(["rmqindex", *map(_quoted, words)])


def _quoted(word: str) -> str:
    """Quote a word for a shell, also one that no terminal shows as it is."""
    if word.isprintable():
        return shlex.quote(word)
    return f"$'{''.join(_escaped(octet) for octet in word.encode(errors='surrogateescape'))}'"


def _escaped(octet: int) -> str:
    is_plain = _SPACE <= octet < _DELETE and octet not in b"\\'"
    return chr(octet) if is_plain else f"\\{octet:03o}"
