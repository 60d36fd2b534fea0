"""The command ``rmqindex``, run in this process, and what it is made of."""

from __future__ import annotations

from inspect import isfunction

from rmqindex.cli.command import COMMANDS, load, run

__all__ = ["COMMANDS", "advised", "load", "run"]


def advised():
    """Return the names of the functions that write the commands which an explanation advises."""
    from rmqindex.explanation.wording import Commands

    functions = {name for name, each in vars(Commands).items() if isfunction(each)}
    return {name for name in functions if not name.startswith("_")}
