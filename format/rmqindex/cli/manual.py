"""The manual page of the command, from the same texts as its help."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import click

from rmqindex.cli.invocation import Argument

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

_EXIT_CODES = {
    "0": "An answer; of several keys or stores, for one of them at least.",
    "1": "A search that found nothing, or an audit that found errors.",
    "2": "Bad usage, a bad file, or a standard output that cannot be written.",
    "130": "Interrupted.",
    "141": "The reader of standard output wanted no more.",
}
_ENVIRONMENT = {
    "RMQINDEX_TIME_ZONE": "The time zone of times, where --time-zone is not given.",
    "NO_COLOR": "No colours.",
    "COLUMNS": "The width of the output.",
}


def manual_page(group: click.Command, commands: Mapping[str, click.Command], summary: str) -> str:
    """Return a page for ``man``, in the language of its macros."""
    name = "rmqindex"
    lines = [f".TH {name.upper()} 1", ".SH NAME", _plain(f"{name} - {summary}")]
    lines += [".SH SYNOPSIS", f".B {name}", _plain("COMMAND [OPTIONS] ARGUMENTS")]
    lines += [".SH DESCRIPTION", *_paragraphs(group.help or "")]
    lines += [".SH OPTIONS", *_options(group.params)]
    for title, command in commands.items():
        arguments = [param.metavar for param in command.params if isinstance(param, Argument)]
        pieces = " ".join(["[OPTIONS]", *filter(None, arguments)])
        lines += [f'.SH "{name.upper()} {title.upper()}"', f".B {_plain(f'{name} {title}')}"]
        lines += [_plain(pieces), ".PP", *_paragraphs(command.help or "")]
        lines += _options(command.params)
        lines += _paragraphs(command.epilog or "")
    for heading, terms in (("EXIT STATUS", _EXIT_CODES), ("ENVIRONMENT", _ENVIRONMENT)):
        lines += [f".SH {heading}"]
        for term, text in terms.items():
            lines += [".TP", f".B {_plain(term)}", _plain(text)]
    return "\n".join(lines) + "\n"


def _options(params: Sequence[click.Parameter]) -> Iterator[str]:
    """Yield the arguments, then the options, with what they mean."""
    for param in params:
        if isinstance(param, Argument):
            yield from (".TP", f".I {_plain(param.human_readable_name)}", _plain(param.text))
    for param in params:
        if isinstance(param, click.Option) and not param.hidden:
            names = ", ".join((*param.opts, *param.secondary_opts))
            value = "" if param.is_flag or not param.metavar else f" {param.metavar}"
            default = f" Default: {param.default}." if param.show_default else ""
            yield from (".TP", f".B {_plain(names + value)}", _plain(f"{param.help}{default}"))


def _paragraphs(text: str) -> Iterator[str]:
    """Yield paragraphs; one behind a backspace keeps its lines."""
    for paragraph in re.split(r"\n\s*\n", text.strip()):
        if paragraph.startswith("\b"):
            yield from (".PP", ".nf", *map(_plain, paragraph.splitlines()[1:]), ".fi")
        else:
            yield from (".PP", _plain(" ".join(paragraph.split())))


def _plain(text: str) -> str:
    """Return a text that no macro is read in."""
    escaped = text.replace("\\", "\\e").replace("-", "\\-")
    return f"\\&{escaped}" if escaped.startswith((".", "'")) else escaped
