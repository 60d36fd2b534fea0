"""How a command runs: its parameters as one object, its help, its answer for each store."""

from __future__ import annotations

import inspect
import os
import re
from dataclasses import fields, replace
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

import click
from click.core import ParameterSource

from rmqindex.answers.text import complain, in_flags
from rmqindex.errors import RmqIndexError, options_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence
    from dataclasses import Field

    from rmqindex.answers.answer import Answer, Renderer


#: The metadata of a field of a command's parameters: its options, and the function that computes
#: the field's value from the values of all options; without it the value is that of one option.
OPTIONS = "options"
VALUE = "value"

# Where the context has the name of the store that a command answers for, of several.
_NAMED = "rmqindex.named"
# Lines are broken at a hyphen but not at this one.
_HYPHEN = "\u2011"
# Wider terms stand on a line of their own, which leaves room for the texts.
_TERM_WIDTH = 24
# A day, and a time of day that a blank without quotes made an argument of its own.
_DAY_OPTION = re.compile(r"--(?:begin|end|since)(?:=(?P<day>.*))?", re.DOTALL)
_DAY = re.compile(r"\d{4}-\d{1,2}-\d{1,2}|today|yesterday", re.IGNORECASE)
_TIME_OF_DAY = re.compile(r"\d{1,2}:\d{2}(?::\d{2}(?:\.\d+)?)?")


class HelpFormatter(click.HelpFormatter):
    """Never breaks the name of an option into two lines."""

    def write_dl(
        self,
        rows: Iterable[tuple[str, str]],
        col_max: int = _TERM_WIDTH,
        col_spacing: int = 2,
    ) -> None:
        """Write terms and what they mean."""
        unbroken = [(term, text.replace("-", _HYPHEN)) for term, text in rows]
        super().write_dl(unbroken, col_max, col_spacing)

    def write_text(self, text: str) -> None:
        """Write paragraphs."""
        super().write_text(text.replace("-", _HYPHEN))

    def getvalue(self) -> str:
        """Return what was written."""
        return super().getvalue().replace(_HYPHEN, "-")


class Context(click.Context):
    """Formats help with the formatter above."""

    formatter_class = HelpFormatter


class Argument(click.Argument):
    """An argument that the help explains; click has this from 8.5 on, under another heading."""

    def __init__(self, declarations: Sequence[str], text: str, **attributes: Any) -> None:  # noqa: ANN401
        """Take the text of the help and what click takes."""
        super().__init__(declarations, **attributes)
        self.text = text

    @property
    def human_readable_name(self) -> str:
        """Its name in errors and in the list of arguments, without the dots of several."""
        return super().human_readable_name.removesuffix("...")

    def get_error_hint(self, ctx: click.Context | None) -> str:  # noqa: ARG002  (click's own signature)
        """Return the name as errors quote it."""
        return f"'{self.human_readable_name}'"


class Parameters(Protocol):
    """The parameters of a command: a frozen dataclass whose docstring is the help.

    The first one may name several stores, each of which is answered for.
    """

    __dataclass_fields__: ClassVar[dict[str, Field[Any]]]

    def answers(self) -> Iterable[Answer]:
        """Compute what the command prints."""


class Command(click.Command):
    """Writes the answers of its parameters for each store that they name.

    The exit code is the worst of all answers; for a search it is 0 if anything was found.
    """

    context_class = Context

    def __init__(
        self, name: str, parameters: type[Parameters], *, several: str, is_search: bool, epilog: str
    ) -> None:
        """Take the dataclass of the parameters, and what several stores are."""
        self._parameters = parameters
        self._fields = fields(parameters)
        self._several = several
        self._is_search = is_search
        options: list[click.Parameter] = []
        for field in self._fields:
            options += field.metadata[OPTIONS]
            if VALUE not in field.metadata:
                options[-1].name = field.name
        help_text = inspect.cleandoc(parameters.__doc__ or "")
        super().__init__(name, params=options, callback=self._run, help=help_text, epilog=epilog)

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Refuse a time whose blank was not quoted: its half would be a path or a key."""
        for number, arg in enumerate(args):
            option = _DAY_OPTION.fullmatch(arg)
            if option is None:
                continue
            day, *rest = [option["day"], *args[number + 1 :]][option["day"] is None :] or [""]
            if _DAY.fullmatch(day) and rest and _TIME_OF_DAY.fullmatch(rest[0]):
                name = arg.partition("=")[0]
                raise click.UsageError(
                    f"{name} {day} {rest[0]}: put a time with a blank in quotes, "
                    f"{name} '{day} {rest[0]}'",
                    ctx,
                )
        return super().parse_args(ctx, args)

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the arguments above the options."""
        arguments = [param for param in self.get_params(ctx) if isinstance(param, Argument)]
        with formatter.section("Arguments"):
            formatter.write_dl([(param.human_readable_name, param.text) for param in arguments])
        super().format_options(ctx, formatter)

    def _run(self, **values: Any) -> None:  # noqa: ANN401  (click's own values)
        from rmqindex.answers.answer import BAD, renderer_of  # noqa: PLC0415  (help needs none)

        asked = self._parameters(**{field.name: _value(field, values) for field in self._fields})
        renderer = renderer_of(getattr(asked, "form", "text"))
        try:
            codes = list(self._codes(asked, renderer))
        finally:
            renderer.close()
        is_found = self._is_search and BAD not in codes
        if code := (min if is_found else max)(codes, default=0):
            raise click.exceptions.Exit(code)

    def _codes(self, asked: Parameters, renderer: Renderer) -> Iterator[int]:
        """Write the answers, and yield their exit codes; of several stores, errors have one."""
        from rmqindex.answers.answer import BAD  # noqa: PLC0415

        first = self._fields[0].name
        given = getattr(asked, first)
        stores = [given]
        if self._several:
            stores = _stores_of([given] if isinstance(given, str) else given)
        for store in stores:
            named = {self._several: store} if len(stores) > 1 else {}
            click.get_current_context().meta[_NAMED] = named
            try:
                for answer in replace(asked, **{first: store}).answers():
                    renderer.render(answer, named)
                    yield answer.exit_code
            except RmqIndexError as error:
                if not named:
                    raise
                complain(error_text(error, self))
                yield BAD


def _value(field: Field[Any], values: Mapping[str, Any]) -> Any:  # noqa: ANN401
    value = field.metadata.get(VALUE)
    return values[field.name] if value is None else value(values)


def command(
    name: str,
    parameters: type[Parameters],
    *examples: str,
    note: str = "",
    several: str = "",
    is_search: bool = False,
) -> Command:
    """Return the command with some parameters, whose help ends with examples and a note.

    Where the first parameter may name several stores or files, ``several`` is what they are, and
    the name of their column; of a search, the answer of one is enough.
    """
    heading = "Examples" if len(examples) > 1 else "Example"
    lines = "\n".join(f"  {line}" for example in examples for line in example.splitlines())
    epilog = f"{heading}:\n\n\b\n{lines}" + (f"\n\n{note}" if note else "")
    return Command(name, parameters, several=several, is_search=is_search, epilog=epilog)


def several_named() -> dict[str, str]:
    """Return the current store of several, by what they are; nothing for a single store."""
    named: dict[str, str] = click.get_current_context().meta[_NAMED]
    return named


def typed_options(*left_out: str) -> list[str]:
    """Return the options that were typed, for a line to type instead, but for some of them."""
    context = click.get_current_context()
    given: dict[str, Any] = {}
    for param in context.command.params:
        typed = context.get_parameter_source(param.name or "") is ParameterSource.COMMANDLINE
        if typed and isinstance(param, click.Option) and param.opts[0] not in left_out:
            value = context.params[param.name or ""]
            if value is False:
                given[param.secondary_opts[0]] = True
            else:
                given[param.opts[0]] = value if isinstance(value, bool | tuple) else str(value)
    return options_of(given)


def _stores_of(paths: Sequence[str]) -> list[str]:
    """Return the paths that some paths, patterns and folders of stores stand for."""
    stores = [store for path in paths for store in _expanded(path)]
    return list(dict.fromkeys(stores))


def _expanded(path: str) -> list[str]:
    from rmqindex.storage.location import Location  # noqa: PLC0415  (help needs no storage)
    from rmqindex.store.store import expand, has_pattern  # noqa: PLC0415

    given = Location.of(path)
    if has_pattern(given) and (given.local is None or not os.path.lexists(given)):
        hits: list[str] = [hit.path for hit in expand(given.absolute)]
        if not hits:
            raise click.BadParameter(f"{path}: no path matches")
        if given.local is not None and not given.local.is_absolute():
            hits = [os.path.relpath(hit) for hit in hits]
        return [store for hit in hits for store in _stores_in(hit)]
    return list(_stores_in(path))


def _stores_in(path: str) -> Iterator[str]:
    """Yield the stores in a local folder, or the path if it is a store or has none."""
    if os.path.isdir(path) and not _is_store(path):  # noqa: PTH112
        with os.scandir(path) as entries:
            inner = sorted(entry.path for entry in entries if os.path.isdir(entry))  # noqa: PTH112
        stores = [folder for folder in inner if _is_store(folder)]
        if stores:
            yield from stores
            return
    yield path


def _is_store(path: str) -> bool:
    """Return whether a directory has a folder of a store; DLedger's own has one of such a name."""
    from rmqindex.layout.store import (  # noqa: PLC0415  (help needs none)
        COMMITLOG_FOLDER,
        DLEDGER_PREFIX,
        INDEX_FOLDER,
        QUEUE_FOLDER,
    )

    if os.path.basename(os.path.abspath(path)).startswith(DLEDGER_PREFIX):  # noqa: PTH100, PTH119
        return False
    with os.scandir(path) as entries:
        return any(
            os.path.isdir(entry)  # noqa: PTH112  (a link to itself is none, and no error)
            and (
                entry.name in (COMMITLOG_FOLDER, INDEX_FOLDER, QUEUE_FOLDER)
                or entry.name.startswith(DLEDGER_PREFIX)
            )
            for entry in entries
        )


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
    if isinstance(error, click.NoSuchOption) and error.ctx is not None:
        return click.UsageError(_no_option(error.option_name, error.ctx), error.ctx)
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


def _no_option(typed: str, context: click.Context) -> str:
    """Return that there is no such option, and what may be meant, by the letters without hyphens.

    The hyphens of two names are alike, and so short a name as ``--end`` like any other.
    """
    word = typed.lstrip("-")
    options = [name for each in context.command.params for name in each.opts if name[:2] == "--"]
    names = {option.lstrip("-"): option for option in options}
    near = [name for name in names if len(word) > 1 and name.startswith(word)]
    if not near and (alike := get_close_matches(word, names)):
        near = [next((name for name in alike if name[:2] == word[:2]), alike[0])]
    text = f"No such option {typed!r}."
    if near:
        text += f" Did you mean {' or '.join(repr(names[name]) for name in near)}?"
    arguments = [each.human_readable_name for each in _arguments_of(context)]
    noun = word.removesuffix("s").upper()
    if noun in (each.rstrip(".") for each in arguments):
        pieces = " ".join(context.command.collect_usage_pieces(context)[1:])
        text += f" {noun} is an argument: {context.command_path} {pieces}"
    elif noun == "KEY":
        text += " The command lookup finds the messages with a key."
    return text


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
