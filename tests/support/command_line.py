"""The command ``rmqindex``, run in this process, and what it is made of."""

from __future__ import annotations

from inspect import isfunction

from rmqindex.cli.command import COMMANDS, load, run
from rmqindex.explanation.wording import Commands

__all__ = ["ADVISED", "COMMANDS", "load", "run"]

#: The names of the functions that write the commands which an explanation advises.
ADVISED = {
    name for name, each in vars(Commands).items() if isfunction(each) and not name.startswith("_")
}
