"""The advice of errors, which is for each interface, in the options of one command."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from rmqindex.display.text import in_flags

if TYPE_CHECKING:
    import click

    from rmqindex.errors import RmqIndexError

__all__ = ["told_for"]

_OPTION = re.compile(r"--[a-z][a-z-]*")
_OTHER_COMMAND = re.compile(r"`rmqindex ")
_CLAUSE_END = "; "


def told_for(error: RmqIndexError, command: click.Command) -> str:
    """Return the text of an error without advice to give options that a command does not have.

    Args:
        error: The error.
        command: The command that ends with it.
    """
    text = in_flags(str(error))
    hint = in_flags(f" {getattr(error, 'hint', '')}").strip()
    if not hint or hint not in text:
        return text
    options = {name for each in command.params for name in (*each.opts, *each.secondary_opts)}
    clauses = [
        clause
        for clause in hint.split(_CLAUSE_END)
        if _OTHER_COMMAND.search(clause) or options.issuperset(_OPTION.findall(clause))
    ]
    kept = text.replace(hint, _CLAUSE_END.join(clauses))
    return kept if clauses else kept.rstrip("; ")
