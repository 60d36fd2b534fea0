"""Checks the arguments of ``rmq_lookup`` and ``rmq_explain``, and plans what a lookup reads.

Spark asks for the columns of a call before it runs, with the values of its constant arguments.
"""

from __future__ import annotations

import datetime as dt
import difflib
import json
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from pyspark.sql.types import (
    ArrayType,
    DataType,
    IntegerType,
    LongType,
    NullType,
    StringType,
    TimestampType,
)
from pyspark.sql.udtf import AnalyzeResult

from pyspark_rmqindex.files.listing import list_slices
from pyspark_rmqindex.files.stores import absolute_log, with_logs
from pyspark_rmqindex.log_lines import log_warning
from pyspark_rmqindex.options import AUTO, OPTIONS, option_text, read_options, scopes_of
from pyspark_rmqindex.options.foreign import FOREIGN, options_named
from pyspark_rmqindex.read.lacking import lacking, warn_of_topics
from pyspark_rmqindex.schema import entry_schema
from rmqindex.messagestore import Range
from rmqindex.times import (
    MILLISECOND,
    TimeUnitError,
    check_milliseconds,
    microseconds_of,
    time_text,
    to_milliseconds,
)

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pyspark.sql.udtf import AnalyzeArgument

    from pyspark_rmqindex.files.slices import FileSlice
    from pyspark_rmqindex.options import ReadOptions
    from rmqindex.storage import Location, Storage

T = TypeVar("T")

_NAME = "rmq_lookup"
_PARAMETERS = ("path", "topic", "key", "begin", "end")
_REQUIRED = _PARAMETERS[:3]
_TIMES = _PARAMETERS[3:]
# Options of a load that a call expresses by its arguments, or that make no sense here.
_NOT_HERE = frozenset(
    {
        "audit",
        "beginTimestamp",
        "endTimestamp",
        "key",
        "keyColumns",
        "keyHash",
        "keys",
        "lastPlan",
        "logLevel",
        "maxPartitionBytes",
        "path",
        "paths",
        "pushdown",
        "relation",
        "timeZone",
        "topic",
    }
)
_OPTIONS = tuple(
    option.name
    for option in OPTIONS
    if "read" in scopes_of(option) and option.name not in _NOT_HERE
)
# Options that name a time, and the parameters for it.
_BOUNDS = {"begintimestamp": "begin", "endtimestamp": "end"}
_HOW = "how"
_INNER, _LEFT = "inner", "left"


@dataclass
class LookupPlan(AnalyzeResult):
    """What a call returns and reads; Spark sends it to every task."""

    # The base class has fields with defaults, so these need defaults too.
    options: ReadOptions | None = None
    # The whole files, with their CommitLogs; None unless the path is constant.
    slices: list[FileSlice] | None = field(default=None)
    keeps_absent: bool = False  # Whether a key without entries returns a row
    directory: str = ""  # The directory of relative paths of rows, since tasks may run in another


def bind(
    args: Sequence[T], kwargs: Mapping[str, T], function: str = _NAME
) -> tuple[dict[str, T], dict[str, T]]:
    """Bind the arguments of a call to its parameters; names are case-insensitive."""
    if len(args) > len(_PARAMETERS):
        raise ValueError(
            f"{function}: expected at most {len(_PARAMETERS)} arguments without names "
            f"({', '.join(_PARAMETERS)}), got {len(args)}; options are named: mode => 'FAILFAST'"
        )
    parameters = dict(zip(_PARAMETERS, args, strict=False))
    options: dict[str, T] = {}
    for name, value in kwargs.items():
        lowered = name.lower()
        target = parameters if lowered in _PARAMETERS else options
        if lowered in target:
            raise ValueError(f"{function}: argument {name!r} is given twice")
        target[lowered] = value
    missing = [name for name in _REQUIRED if name not in parameters]
    if missing:
        got = " and ".join(f"no {name}" for name in missing)
        raise ValueError(f"{function}: expected path, topic and key, got {got}")
    return parameters, options


def plan_call(args: Sequence[AnalyzeArgument], kwargs: Mapping[str, AnalyzeArgument]) -> LookupPlan:
    """Check the arguments of a call, and list its files where the path is constant."""
    parameters, named = bind(args, kwargs)
    check_parameters(parameters)
    _check_constant_times(*(parameters.get(name) for name in _TIMES))
    texts = option_texts(named, (_HOW, *_OPTIONS))
    how = texts.pop(_HOW, _INNER).lower()
    if how not in (_INNER, _LEFT):
        raise ValueError(f"{_NAME}: argument 'how': expected one of inner, left, got {how!r}")
    given = {"commitlog": AUTO} | texts
    path = parameters["path"]
    if path.isConstantExpression and path.value is not None:
        options = read_options(given | _path_options(path.value))
        slices = plan_files_of(options)
        topic, key = (parameters[name].value or "" for name in ("topic", "key"))
        if topic:  # constant; the key need not be
            warn_of_topics(slices, [(topic, key)], options)
    else:
        # The path of each row may name another store.
        options = read_options({"storecolumn": "true"} | given)
        slices = None
    options = with_absolute_log(options)
    schema = entry_schema(
        options.columns,
        keys=True,
        log=options.has_log,
        message=options.message,
        store=options.has_store,
        text=options.body_text,
    )
    return LookupPlan(
        schema=schema,
        options=options,
        slices=slices,
        keeps_absent=how == _LEFT,
        directory=str(Path.cwd()),
    )


def check_parameters(parameters: Mapping[str, AnalyzeArgument], function: str = _NAME) -> None:
    """Check the types of path, topic, key and times, and the path and topic if constant."""
    for name in ("topic", "key"):
        _check_type(function, name, parameters[name], (StringType,), "STRING")
    for name in _TIMES:
        if name in parameters:
            allowed = (TimestampType, LongType, IntegerType)
            described = "TIMESTAMP, or BIGINT epoch milliseconds"
            _check_type(function, name, parameters[name], allowed, described)
    _check_path(function, parameters["path"])
    if parameters["topic"].isConstantExpression:
        check_topic(parameters["topic"].value, function)


def plan_files_of(options: ReadOptions, path: str | Sequence[str] | None = None) -> list[FileSlice]:
    """List the files of a path, each with its CommitLog if the options ask for it."""
    if path is not None:
        paths = (path,) if isinstance(path, str) else tuple(path)
        options = replace(options, path=None, path_list=paths)
    listing = list_slices(options)
    slices = listing.slices
    for text in (*listing.lacking, *lacking(slices, options)):
        log_warning(text)
    return slices if options.commit_log is None else with_logs(slices, options.commit_log)


def check_path(path: str | Sequence[str | None] | None, function: str = _NAME) -> None:
    """Raise unless the value is a path or a list of paths."""
    paths = [path] if path is None or isinstance(path, str) else path
    if not paths or not all(paths):
        raise ValueError(f"{function}: argument 'path': expected a path, got {path!r}")


def check_topic(topic: str | None, function: str = _NAME) -> None:
    """Raise for an empty topic, which RocketMQ does not have; NULL matches nothing."""
    if topic == "":
        raise ValueError(f"{function}: argument 'topic': expected the name of a topic, got ''")


def with_absolute_log(options: ReadOptions) -> ReadOptions:
    """Return options whose CommitLog is the same for tasks in other working directories."""
    if options.commit_log is None or options.commit_log == AUTO:
        return options
    return replace(options, log=str(absolute_log(options.storage.at(options.commit_log))))


def at_directory(path: str, storage: Storage, directory: str) -> Location:
    """Return the absolute location of a path of a row."""
    location = storage.at(path)
    local = location.local
    if local is None or local.is_absolute():
        return location
    return storage.at(str(Path(directory) / local))


def time_range(begin: dt.datetime | int | None, end: dt.datetime | int | None) -> Range:
    """Return the store times of a call, epoch milliseconds."""
    for name, bound in zip(_TIMES, (begin, end), strict=True):
        if isinstance(bound, int):
            try:
                check_milliseconds(bound)
            except TimeUnitError as error:
                raise ValueError(f"{_NAME}: argument {name!r}: {error}") from error
    # Spark passes times in the worker's zone; ``fold`` tells the two runs of a repeated hour apart.
    low, high = (
        to_milliseconds(microseconds_of(bound), up=up) if isinstance(bound, dt.datetime) else bound
        for bound, up in ((begin, True), (end, False))
    )
    return Range(low, high)


def _check_constant_times(begin: AnalyzeArgument | None, end: AnalyzeArgument | None) -> None:
    """Raise if the times are constants, and wrong by themselves or together."""
    constants = [
        argument.value if argument is not None and argument.isConstantExpression else None
        for argument in (begin, end)
    ]
    times = time_range(*constants)
    if times.low is not None and times.high is not None and times.low > times.high + 1:
        low, high = (time_text(bound * MILLISECOND) for bound in (times.low, times.high))
        raise ValueError(
            f"{_NAME}: argument 'begin': expected a time at or before 'end', {high}, got {low}"
        )


def _check_type(
    function: str,
    name: str,
    argument: AnalyzeArgument,
    allowed: tuple[type[DataType], ...],
    described: str,
) -> None:
    # By name, as workers may have a second copy of PySpark.
    names = {NullType.typeName(), *(each.typeName() for each in allowed)}
    type_: Any = argument.dataType
    if argument.isTable or type_.typeName() not in names:
        got = "a table" if argument.isTable else type_.simpleString().upper()
        raise ValueError(f"{function}: argument {name!r}: expected {described}, got {got}")


def _check_path(function: str, argument: AnalyzeArgument) -> None:
    type_: Any = argument.dataType
    element = type_.elementType if type_.typeName() == ArrayType.typeName() else type_
    if argument.isTable or element.typeName() != StringType.typeName():
        got = "a table" if argument.isTable else type_.simpleString().upper()
        raise ValueError(
            f"{function}: argument 'path': expected STRING or ARRAY<STRING>, got {got}"
        )
    if argument.isConstantExpression:
        check_path(argument.value, function)


def _path_options(value: str | list[str]) -> dict[str, str]:
    return {"path": value} if isinstance(value, str) else {"paths": json.dumps(value)}


def _bound_named(name: str) -> str | None:
    """Return the time that an option of a load, or of another source, stands for."""
    _, advice = FOREIGN.get(name.lower(), ("", {}))
    options = {name.lower(), *map(str.lower, options_named(advice.get("entries", "")))}
    return next((bound for option, bound in _BOUNDS.items() if option in options), None)


def option_texts(
    named: Mapping[str, AnalyzeArgument], options: Sequence[str], function: str = _NAME
) -> dict[str, str]:
    """Return options as texts by their names in lower case; a NULL counts as not given."""
    known = {name.lower(): name for name in options}
    texts = {}
    for name, argument in named.items():
        if name not in known:
            bound = _bound_named(name)
            if bound is not None:
                raise ValueError(f"{function}: argument {name!r}: unknown here; write {bound}")
            close = difflib.get_close_matches(name, [*known, *_PARAMETERS], n=1)
            hint = f"; did you mean {known.get(close[0], close[0])!r}" if close else ""
            raise ValueError(
                f"{function}: argument {name!r}: unknown{hint}. Known: "
                f"{', '.join([*_PARAMETERS, *known.values()])}"
            )
        if argument.isTable or not argument.isConstantExpression:
            raise ValueError(f"{function}: option {known[name]!r}: expected a constant")
        if argument.value is not None:
            texts[name] = option_text(known[name], argument.value)
    return texts
