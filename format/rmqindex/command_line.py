"""Command lines that errors and answers print, to be typed as they stand."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["command_line"]


def command_line(name: str, path: object, *arguments: str, options: Sequence[str] = ()) -> str:
    """Return a command line for a shell; none is printed without the path that it is about.

    Args:
        name: The command.
        path: What the user gave, or the file in question.
        arguments: What follows it.
        options: Its options; ``--`` keeps an argument that begins with a dash from being one.
    """
    given = [str(path), *arguments]
    if any(each.startswith("-") for each in given):
        return shlex.join(["rmqindex", name, *options, "--", *given])
    return shlex.join(["rmqindex", name, *given, *options])
