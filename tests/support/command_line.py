"""The command ``rmqindex``, run in this process, and what it is made of."""

from __future__ import annotations

from inspect import isfunction

from rmqindex.cli.command import COMMANDS, load, run

__all__ = ["COMMANDS", "advised", "load", "run"]


def advised():
    """Return the names of the functions that write the commands which an explanation advises."""
    from rmqindex.explanation.commands import Commands

    functions = {name for name, each in vars(Commands).items() if isfunction(each)}
    of_audits = {"of_file", "shown"}
    return {name for name in functions - of_audits if not name.startswith("_")}
