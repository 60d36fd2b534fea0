"""Parses the options that Spark passes into the dataclass of a format."""

from __future__ import annotations

import datetime as dt
import difflib
import json
import os
from typing import TYPE_CHECKING, Any, TypeVar

from pyspark_rmqindex.options.foreign import advice_on
from pyspark_rmqindex.options.kinds import options_of
from pyspark_rmqindex.options.read import (
    MessageOptions,
    MessageStreamOptions,
    QueueOptions,
    ReadOptions,
    StreamOptions,
)
from pyspark_rmqindex.options.shared import S3Options
from pyspark_rmqindex.options.write import SinkOptions
from rmqindex.arguments import is_int
from rmqindex.times import TimeUnitError, moment_now

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from pyspark_rmqindex.options.kinds import Option, Scope

T = TypeVar("T")

_CLASSES: dict[Scope, type[Any]] = {
    "read": ReadOptions,
    "table": ReadOptions,
    "write": SinkOptions,
    "messages": MessageOptions,
    "queues": QueueOptions,
    "stream": StreamOptions,
    "message_stream": MessageStreamOptions,
}
_STREAMS: frozenset[Scope] = frozenset({"stream", "message_stream"})
_NOT_HERE: dict[Scope, str] = {
    "read": "only for writing",
    "table": (
        "not with pushdown: bind topic and key in WHERE, or give this option to "
        "spark.read.format('rmqindex') without pushdown"
    ),
    "write": "only for reading",
    "messages": "not for the format rmqcommitlog",
    "queues": "not for the format rmqconsumequeue",
    "stream": "not for spark.readStream",
    "message_stream": "not for spark.readStream of the format rmqcommitlog",
}


def _options_in(options: type[Any], scope: Scope) -> dict[str, Option]:
    return {
        field: option
        for field, option in options_of(options).items()
        if not option.only or scope in option.only
    }


_BY_SCOPE: dict[Scope, dict[str, Option]] = {
    scope: {option.name: option for option in _options_in(options, scope).values()}
    for scope, options in _CLASSES.items()
}
_S3 = {option.name: option for option in options_of(S3Options).values()}
_OWN = {
    name: option
    for known in _BY_SCOPE.values()
    for name, option in known.items()
    if name not in _S3
}

#: Every option of the data sources.
OPTIONS = (*_OWN.values(), *_S3.values())


def scopes_of(option: Option) -> tuple[Scope, ...]:
    """Return the scopes that allow an option."""
    return tuple(scope for scope, known in _BY_SCOPE.items() if option.name in known)


def parse_options(
    options: type[T],
    raw: Mapping[str, str],
    scope: Scope,
    *,
    stream: Scope | None = None,
    without: Collection[str] = (),
    arguments: Sequence[str] = (),
) -> T:
    """Parse the options of one load, table, write or stream."""
    allowed = _options_in(options, scope)
    fields = {option.name.lower(): field for field, option in allowed.items()}
    texts: dict[str, str] = {}
    for name, text in raw.items():
        if name.lower() not in fields:
            raise ValueError(_misplaced_error(name, scope, stream, without, arguments))
        texts[fields[name.lower()]] = text
    now = moment_now()
    return options(**{field: _value(allowed[field], text, now) for field, text in texts.items()})


def _value(option: Option, text: str, now: int) -> object:
    try:
        value: object = option.kind.parse(text, *[now] * option.kind.is_time)
    except TimeUnitError as error:
        raise ValueError(f"option {option.name!r}: {error}") from error
    except ValueError as error:
        may_hold_keys = option.secret or (option.kind.check is not None and "@" in text)
        got = "another text" if may_hold_keys else repr(text)
        raise ValueError(f"option {option.name!r}: expected {error}, got {got}") from error
    if option.kind.check is not None:
        option.kind.check(value)
    return value


def _misplaced_error(
    name: str,
    scope: Scope,
    stream: Scope | None,
    without: Collection[str],
    arguments: Sequence[str],
) -> str:
    option = next((option for option in OPTIONS if option.name.lower() == name.lower()), None)
    foreign = advice_on(name, scope)
    if option is not None and not option.internal:
        advice = "" if foreign is None else f"; {foreign[1]}"
        return f"option {option.name!r}: {_reason(option, scope)}{advice}"
    if foreign is not None:
        return f"option {foreign[0]!r}: unknown here; {foreign[1]}"
    listed = sorted([*arguments, *(each for each in _listed(scope) if each.lower() not in without)])
    streamed = listed if stream is None else _listed(stream)
    lowered = {each.lower(): each for each in (*listed, *streamed)}
    close = difflib.get_close_matches(name.lower(), lowered, n=1)
    hint = f"; did you mean {lowered[close[0]]!r}" if close else ""
    shared = [each for each in listed if each in streamed]
    told = f"option {name!r}: unknown{hint}. Known here: {', '.join(shared)}"
    for reader, here, there in (("read", listed, streamed), ("readStream", streamed, listed)):
        only = [each for each in here if each not in there]
        if only:
            told += f"; only for spark.{reader}: {', '.join(only)}"
    return told


def _listed(scope: Scope) -> list[str]:
    return sorted(option.name for option in _BY_SCOPE[scope].values() if not option.internal)


def _reason(option: Option, scope: Scope) -> str:
    scopes = set(scopes_of(option))
    if scopes == {"write"}:
        return "only for writing"
    if scopes == {"messages"} and scope == "message_stream":
        return "only for spark.read; a stream begins at its startingPosition"
    if scopes == {"messages"}:
        return "only for the format rmqcommitlog"
    if scopes == {"message_stream"} and scope == "stream":
        return "not for spark.readStream of the format rmqindex"
    if scopes <= _STREAMS and scope not in _STREAMS:
        return "only for spark.readStream"
    return _NOT_HERE[scope]


_SET_BY_TABLE = frozenset({"path", "paths", "pushdown"})


def wants_pushdown(raw: Mapping[str, str]) -> bool:
    """Return whether the options ask for pushdown, before any of them is checked."""
    return _is_true(raw, "pushdown")


def wants_plan(raw: Mapping[str, str]) -> bool:
    """Return whether the options ask for the last plan alone, before any of them is checked."""
    return _is_true(raw, "lastplan")


def _is_true(raw: Mapping[str, str], option: str) -> bool:
    return any(
        name.lower() == option and text.strip().lower() == "true" for name, text in raw.items()
    )


def read_options(
    raw: Mapping[str, str], *, without: Collection[str] = (), arguments: Sequence[str] = ()
) -> ReadOptions:
    """Parse the options of a load or a table of entries; see :func:`parse_options`."""
    if not wants_pushdown(raw):
        return parse_options(ReadOptions, raw, "read", without=without, arguments=arguments)
    is_function = any(name.lower() == "relation" for name in raw)
    return parse_options(ReadOptions, raw, "table", without=_SET_BY_TABLE if is_function else ())


def message_options(raw: Mapping[str, str]) -> MessageOptions:
    """Parse the options of a load of messages; see :func:`parse_options`."""
    return parse_options(MessageOptions, raw, "messages")


def queue_options(raw: Mapping[str, str]) -> QueueOptions:
    """Parse the options of a load of ConsumeQueues; see :func:`parse_options`."""
    return parse_options(QueueOptions, raw, "queues")


def stream_options(raw: Mapping[str, str]) -> StreamOptions:
    """Parse the options of a stream of entries; see :func:`parse_options`."""
    return parse_options(StreamOptions, raw, "stream")


def message_stream_options(raw: Mapping[str, str]) -> MessageStreamOptions:
    """Parse the options of a stream of messages; see :func:`parse_options`."""
    return parse_options(MessageStreamOptions, raw, "message_stream")


def schema_options(raw: Mapping[str, str]) -> ReadOptions:
    """Parse the options that determine the columns of entries.

    Spark asks for the columns before it says whether it wants a stream.
    """
    if _has_stream_option(raw):
        return stream_options(raw)
    if wants_pushdown(raw):
        return read_options(raw)
    return parse_options(ReadOptions, raw, "read", stream="stream")


def message_schema_options(raw: Mapping[str, str]) -> MessageOptions:
    """Parse the options that determine the columns of messages; see :func:`schema_options`."""
    if _has_stream_option(raw):
        return message_stream_options(raw)
    return parse_options(MessageOptions, raw, "messages", stream="message_stream")


def _has_stream_option(raw: Mapping[str, str]) -> bool:
    names = {name.lower() for name in raw}
    return any(
        option.name.lower() in names and _STREAMS.issuperset(scopes_of(option))
        for option in OPTIONS
    )


def option_text(name: str, value: object) -> str:
    """Return a Python value as the text of an option: bool, int, list, time, path or text."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if is_int(value):
        return str(value)
    if isinstance(value, str):
        return value
    if isinstance(value, (list, tuple)):
        return json.dumps([int(each) if is_int(each) else each for each in value])
    if isinstance(value, dt.datetime):
        return value.isoformat(sep=" ")
    if isinstance(value, os.PathLike):
        return str(os.fspath(value))
    raise TypeError(
        f"option {name!r}: expected bool, int, str, list, datetime or path, got {value!r}"
    )
