"""Errors in the words of the command line: what was expected, and the options of a command."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import click

from rmqindex.answers.text import in_flags

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rmqindex.errors import RmqIndexError

_NO_NUMBER = re.compile(r"(?P<got>.*) is not a valid (?:integer|float)(?: range)?\.", re.DOTALL)
_OUT_OF_RANGE = re.compile(r"(?P<got>\S+) is not in the range .*\.")
_NO_CHOICE = re.compile(r"(?P<got>.*) is not one of .*\.", re.DOTALL)
_TOO_MANY = re.compile(r"Got unexpected extra arguments? \((?P<got>.*)\)", re.DOTALL)
_OPTION = re.compile(r"--[a-z][a-z-]*")
_OTHER_COMMAND = re.compile(r"`rmqindex ")
_CLAUSE_END = "; "


def reworded(error: click.UsageError) -> click.UsageError:
    """Return an error with the message in other words, where click wrote it."""
    too_many = _TOO_MANY.fullmatch(error.message)
    if too_many:
        return click.UsageError(_too_many(too_many["got"], error.ctx), error.ctx)
    if isinstance(error, click.MissingParameter) and _is_first_of_several(error.param, error.ctx):
        assert error.ctx is not None
        pieces = " ".join(error.ctx.command.collect_usage_pieces(error.ctx)[1:])
        return click.UsageError(f"Expected {pieces}: an argument is missing", error.ctx)
    if isinstance(error, click.BadParameter) and error.param is not None:
        expected = _expected(error.param.type)
        for pattern in (_NO_NUMBER, _OUT_OF_RANGE, _NO_CHOICE):
            match = pattern.fullmatch(error.message)
            if match and expected:
                text = f"expected {expected}, got {match['got']}"
                return click.BadParameter(text, error.ctx, error.param, error.param_hint)
    return error


def _arguments_of(context: click.Context | None) -> list[click.Argument]:
    params = () if context is None else context.command.params
    return [param for param in params if isinstance(param, click.Argument)]


def _too_many(got: str, context: click.Context | None) -> str:
    arguments = _arguments_of(context)
    if context is None or len(arguments) != 1:
        return f"Expected no more arguments, got {got}"
    name = arguments[0].human_readable_name
    return f"Expected one {name}, got also {got}: run {context.info_name!r} for each"


def _is_first_of_several(param: click.Parameter | None, context: click.Context | None) -> bool:
    """Return whether a parameter is what others leave over, so that any of them may be missing."""
    arguments = _arguments_of(context)
    return len(arguments) > 1 and param is arguments[0] and param.nargs == -1


def _expected(kind: click.ParamType[Any]) -> str | None:
    if isinstance(kind, click.Choice):
        return _either([str(choice) for choice in kind.choices])
    if isinstance(kind, click.IntRange):
        if kind.max is None:
            return f"a whole number of at least {kind.min}"
        return f"a whole number from {kind.min} to {kind.max}"
    return "a whole number" if kind is click.INT else None


def _either(names: Sequence[str]) -> str:
    return " or ".join(filter(None, [", ".join(names[:-1]), names[-1]]))


def error_text(error: RmqIndexError, command: click.Command) -> str:
    """Return an error's text without advice to give options that the command lacks."""
    text = in_flags(str(error))
    hint = in_flags(f" {getattr(error, 'hint', '')}").strip()
    if not hint or hint not in text:
        return text
    options = {name for param in command.params for name in (*param.opts, *param.secondary_opts)}
    clauses = [
        clause
        for clause in hint.split(_CLAUSE_END)
        if _OTHER_COMMAND.search(clause) or options.issuperset(_OPTION.findall(clause))
    ]
    advised = text.replace(hint, _CLAUSE_END.join(clauses))
    return advised if clauses else advised.rstrip("; ")
