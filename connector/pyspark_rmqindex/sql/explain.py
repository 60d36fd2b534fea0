"""``rmq_explain``: why keys are or are not found, a row for each reason."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pyspark.sql.types import ArrayType, LongType, StringType, StructField, StructType
from pyspark.sql.udtf import AnalyzeResult

from pyspark_rmqindex.options import AUTO, read_options
from pyspark_rmqindex.sql.calls import (
    at_directory,
    bind,
    check_parameters,
    check_path,
    check_topic,
    option_texts,
    time_range,
    with_absolute_log,
)
from rmqindex import RmqIndexError
from rmqindex.explanation import SEARCHES, explain_lookup
from rmqindex.store import expand, has_pattern
from rmqindex.times import zone_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from pyspark.sql.udtf import AnalyzeArgument

    from pyspark_rmqindex.options import ReadOptions
    from rmqindex.explanation import Search
    from rmqindex.storage import Location, Storage

EXPLAIN = "rmq_explain"
_SEARCH, _ZONE = "searchLog", "timeZone"
_OPTIONS = ("commitLog", "maxHashSlotNum", "maxIndexNum", _SEARCH, _ZONE)
_SCHEMA = StructType(
    [
        StructField("path", StringType()),
        StructField("topic", StringType()),
        StructField("key", StringType()),
        StructField("code", StringType()),
        StructField("sentence", StringType()),
        StructField("remedy", StringType()),
        StructField("other_topic", StringType()),
        StructField("phy_offsets", ArrayType(LongType())),
    ]
)


@dataclass
class ExplainPlan(AnalyzeResult):
    """What a call returns and reads; Spark sends it to every task."""

    # The base class has fields with defaults, so these need defaults too.
    options: ReadOptions | None = None
    search_log: Search = SEARCHES[0]
    time_zone: str = "UTC"
    directory: str = ""


def plan_explain(
    args: Sequence[AnalyzeArgument], kwargs: Mapping[str, AnalyzeArgument]
) -> ExplainPlan:
    """Check the arguments of a call."""
    parameters, named = bind(args, kwargs, EXPLAIN)
    check_parameters(parameters, EXPLAIN)
    texts = option_texts(named, _OPTIONS, EXPLAIN)
    asked = texts.pop(_SEARCH.lower(), SEARCHES[0]).lower()
    search = next((name for name in SEARCHES if name == asked), None)
    if search is None:
        raise ValueError(
            f"{EXPLAIN}: argument {_SEARCH!r}: expected one of {', '.join(SEARCHES)}, got {asked!r}"
        )
    zone = texts.pop(_ZONE.lower(), "UTC")
    try:
        zone_of(zone)
    except ValueError as error:
        raise ValueError(f"{EXPLAIN}: argument {_ZONE!r}: {error}") from error
    options = with_absolute_log(read_options({"commitlog": AUTO} | texts))
    return ExplainPlan(
        schema=_SCHEMA,
        options=options,
        search_log=search,
        time_zone=zone,
        directory=str(Path.cwd()),
    )


class ExplainFunction:
    """The table function; Spark creates one for each task."""

    def __init__(self, plan: ExplainPlan) -> None:
        """Take what was planned."""
        self._plan = plan

    @staticmethod
    def analyze(*args: AnalyzeArgument, **kwargs: AnalyzeArgument) -> ExplainPlan:
        """Return the columns of a call, and what it reads."""
        return plan_explain(args, kwargs)

    def eval(self, *args: Any, **kwargs: Any) -> Iterator[tuple[Any, ...]]:  # noqa: ANN401
        """Yield the rows of one call."""
        given, _ = bind(args, kwargs, EXPLAIN)
        topic, key = given["topic"], given["key"]
        if topic is None or key is None:
            return
        check_topic(topic, EXPLAIN)
        check_path(given["path"], EXPLAIN)
        options = self._plan.options
        assert options is not None  # plan_explain sets them
        times = time_range(given.get("begin"), given.get("end"))
        log = options.commit_log
        for path in _paths(given["path"], options.storage, self._plan.directory):
            explained = explain_lookup(
                path,
                topic,
                key,
                times.low,
                times.high,
                log if log is None or log == AUTO else options.storage.at(log),
                options.layout,
                search_log=self._plan.search_log,
                time_zone=self._plan.time_zone,
            )
            for reason in explained.reasons:
                yield (
                    str(path),
                    topic,
                    key,
                    reason.code,
                    reason.sentence,
                    reason.remedy,
                    reason.topic,
                    list(reason.phy_offsets),
                )


def _paths(given: str | Sequence[str], storage: Storage, directory: str) -> Iterator[Location]:
    """Yield each path, or each that a pattern fits."""
    for text in [given] if isinstance(given, str) else given:
        path = at_directory(text, storage, directory)
        if not has_pattern(path):
            yield path
            continue
        matches = [hit.path for hit in expand(path)]
        if not matches:
            raise RmqIndexError(f"{path}: nothing fits the pattern")
        yield from matches
