"""The keys of ``rmqindex lookup``: as arguments, or from a file."""

from __future__ import annotations

import sys
from typing import IO, TYPE_CHECKING, Any

import click

from rmqindex.cli.options import (
    TEXT,
    argument,
)

if TYPE_CHECKING:
    import os
    from typing import BinaryIO

__all__ = ["keys_argument", "keys_file_option", "keys_of"]


class _KeysFile(click.File):
    """A file, or standard input unless that is closed."""

    def convert(
        self,
        value: str | os.PathLike[str] | IO[Any],
        param: click.Parameter | None,
        ctx: click.Context | None,
    ) -> IO[Any]:
        """Open the file.

        Raises:
            BadParameter: It cannot be opened, or standard input is closed.
        """
        if value == "-" and sys.stdin is None:
            self.fail("expected keys on standard input, which is closed", param, ctx)
        return super().convert(value, param, ctx)


keys_argument = argument(
    "keys",
    "KEY...",
    "One or several of the messages' KEYS, or unique keys (message ids).",
    TEXT,
    several=True,
    required=False,
)
keys_file_option = click.option(
    "--keys-file",
    metavar="FILE",
    type=_KeysFile("rb"),
    help="Read the keys from a file, one a line; '-' is standard input.",
)


def keys_of(keys: tuple[str, ...], file: BinaryIO | None) -> list[str]:
    """Return the keys that were given, each once; empty lines of a file are none.

    Raises:
        UsageError: No key, or a line that is not UTF-8.
    """
    found = list(keys)
    if file is not None:
        for number, line in enumerate(file.read().splitlines(), 1):
            try:
                found.append(line.decode().rstrip("\r"))
            except UnicodeDecodeError as error:
                raise click.BadParameter(
                    f"line {number}: expected UTF-8, got {line[:20]!r}", param_hint="--keys-file"
                ) from error
        found = [key for key in found if key]
    if not found:
        raise click.UsageError("Missing KEY: give at least one, or a --keys-file that has some.")
    return list(dict.fromkeys(found))
