"""The command line, ``rmqindex``.

Standard output carries the answer, as a table for people or as JSON for machines.
Standard error carries errors, one line each, and progress bars at a terminal.
The exit code is 0 for an answer, 1 for a search that found nothing or an audit that found errors,
2 for bad usage or a bad file.
"""

from __future__ import annotations

import os
import sys
from importlib import import_module
from importlib.metadata import version
from io import TextIOWrapper
from pathlib import Path
from typing import Annotated

import typer

from rmqindex.cli.options import BAD, app, complain
from rmqindex.errors import RmqIndexError

__all__ = ["main"]

# Importing a module of commands is what makes them commands.
_MODULES = ("info", "lookup", "explain", "messages", "audit", "write", "queues", "recover")
for _name in _MODULES:
    import_module(f"rmqindex.cli.{_name}")


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"rmqindex {version('rmqindex')}")
        raise typer.Exit


@app.callback()
def _options(
    _version: Annotated[
        bool,
        typer.Option(
            "--version", callback=_print_version, is_eager=True, help="Print the version and exit."
        ),
    ] = False,
) -> None:
    pass


def main() -> None:
    """Run the command line, with an error as one line on standard error."""
    if sys.stdout is None:
        # Started without one, as by `>&-`: what is printed goes nowhere, as with print().
        sys.stdout = Path(os.devnull).open("w", encoding="utf-8")  # noqa: SIM115  (to the end)
    if isinstance(sys.stdout, TextIOWrapper):
        # A name that the terminal's encoding lacks is shown escaped, not as a traceback.
        sys.stdout.reconfigure(errors="backslashreplace")
    try:
        app(prog_name="rmqindex")
    except RmqIndexError as error:
        complain(str(error))
    except OSError as error:
        complain(f"{error.filename}: {error.strerror}" if error.filename else str(error))
    sys.exit(BAD)
