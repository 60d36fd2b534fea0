"""Usage errors in plain words: what was expected, and what was given."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["reworded"]

_NO_NUMBER = re.compile(r"(?P<got>.*) is not a valid (?:integer|float)(?: range)?\.", re.DOTALL)
_OUT_OF_RANGE = re.compile(r"(?P<got>\S+) is not in the range .*\.")
_NO_CHOICE = re.compile(r"(?P<got>.*) is not one of .*\.", re.DOTALL)
_TOO_MANY = re.compile(r"Got unexpected extra arguments? \((?P<got>.*)\)", re.DOTALL)


def reworded(error: click.UsageError) -> click.UsageError:
    """Return an error with the message in other words, where click wrote it."""
    too_many = _TOO_MANY.fullmatch(error.message)
    if too_many:
        return click.UsageError(f"Expected no more arguments, got {too_many['got']}", error.ctx)
    if isinstance(error, click.BadParameter) and error.param is not None:
        expected = _expected(error.param.type)
        for pattern in (_NO_NUMBER, _OUT_OF_RANGE, _NO_CHOICE):
            match = pattern.fullmatch(error.message)
            if match and expected:
                text = f"expected {expected}, got {match['got']}"
                return click.BadParameter(text, error.ctx, error.param, error.param_hint)
    return error


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
