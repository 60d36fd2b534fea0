"""Lookups, explanations and key hashes as SQL functions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NoReturn, cast

from pyspark.errors import IllegalArgumentException
from pyspark.sql.functions import udtf
from pyspark.sql.pandas import functions

from pyspark_rmqindex.join.key_chunk import hash_columns
from pyspark_rmqindex.sql.calls import (
    at_directory,
    bind,
    check_path,
    plan_call,
    plan_files_of,
    time_range,
)
from pyspark_rmqindex.sql.explain import EXPLAIN, ExplainFunction
from pyspark_rmqindex.sql.key_finder import KeyFinder
from pyspark_rmqindex.sql.key_hash import UNITS, hash_of_units

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import SparkSession
    from pyspark.sql.types import StructType
    from pyspark.sql.udtf import AnalyzeArgument, UserDefinedTableFunction

    from pyspark_rmqindex.files.slices import FileSlice
    from pyspark_rmqindex.options import ReadOptions
    from pyspark_rmqindex.sql.calls import LookupPlan

_LOOKUP = "rmq_lookup"
_KEY_HASH = "rmq_key_hash"
_KEY_HASHES = "rmq_key_hashes"
# A function of its own, so that its argument is computed once.
_HASH_OF_UNITS = "rmq_key_hash_of_units"
# What DESCRIBE FUNCTION shows; Spark takes no text for functions in Python.
_KEY_HASH_DOC = "The hash by which a RocketMQ broker indexes a key of a topic."
_HASH_OF_UNITS_DOC = "Internal: a part of rmq_key_hash."
# What to use where an engine has no table functions that plan.
_INSTEAD = {
    _LOOKUP: "pyspark_rmqindex.lookup(keys, path), or a load with the options topic and keys",
    EXPLAIN: "rmqindex.explain_lookup(path, topic, key), or the command rmqindex explain",
}
# The number of listings that a task caches if each row has its own path.
_MAX_LISTINGS = 256


def register_functions(spark: SparkSession) -> None:
    """Register the functions in a session; see :func:`pyspark_rmqindex.register`."""
    spark.udf.register(_KEY_HASHES, _key_hashes())
    functions: dict[str, type] = {_LOOKUP: _LookupFunction, EXPLAIN: ExplainFunction}
    if not _creates_functions(spark):
        spark.udf.register(_KEY_HASH, _key_hashes())
        functions = {name: _refused(name, instead) for name, instead in _INSTEAD.items()}
    for name, function in functions.items():
        # Most calls return one row, for which Arrow batches are slower than plain rows.
        made = cast("UserDefinedTableFunction", udtf(function, useArrow=False))
        spark.udtf.register(name, made)


def _creates_functions(spark: SparkSession) -> bool:
    """Create ``rmq_key_hash`` in SQL; return False if the engine has no such functions, as Sail."""
    try:
        spark.sql(
            f"CREATE OR REPLACE TEMPORARY FUNCTION {_HASH_OF_UNITS}(units STRING) "
            f"RETURNS INT COMMENT '{_HASH_OF_UNITS_DOC}' RETURN {hash_of_units()}"
        ).collect()
        spark.sql(
            f"CREATE OR REPLACE TEMPORARY FUNCTION {_KEY_HASH}(topic STRING, key STRING) "
            f"RETURNS INT COMMENT '{_KEY_HASH_DOC}' RETURN {_HASH_OF_UNITS}({UNITS})"
        ).collect()
    except IllegalArgumentException:
        return False
    return True


def _refused(name: str, instead: str) -> type:
    """Return a table function whose every call is refused."""

    class Refused:
        @staticmethod
        def analyze(*_: AnalyzeArgument, **__: AnalyzeArgument) -> NoReturn:
            raise ValueError(
                f"{name}: expected an engine that passes what a table function plans on to its "
                f"tasks, as Spark does and Sail 0.7 does not; use {instead}"
            )

        def eval(self, *_: Any, **__: Any) -> Sequence[tuple[Any, ...]]:  # noqa: ANN401
            return []

    return Refused


def _key_hashes() -> Any:  # noqa: ANN401  (a function of Spark)
    """Return the function of whole columns, of Arrow's or, where Spark lacks those, pandas'."""
    # PySpark's stubs ask for the kind of function, and PySpark itself warns of naming it.
    if not hasattr(functions, "arrow_udf"):
        from pyspark_rmqindex.sql.key_hash import hash_series  # noqa: PLC0415

        return functions.pandas_udf(hash_series, "int")  # type: ignore[call-overload]
    return functions.arrow_udf(hash_columns, "int")  # type: ignore[call-overload]


class _LookupFunction:
    """The table function; Spark creates one for each task."""

    def __init__(self, plan: LookupPlan) -> None:
        assert plan.options is not None  # plan_call sets them
        self._options: ReadOptions = plan.options
        self._slices = plan.slices
        self._listings: dict[str | tuple[str, ...], list[FileSlice]] = {}
        self._finder: KeyFinder | None = None
        self._schema: StructType = plan.schema
        self._keeps_absent = plan.keeps_absent
        self._directory = plan.directory

    @staticmethod
    def analyze(*args: AnalyzeArgument, **kwargs: AnalyzeArgument) -> LookupPlan:
        """Return the columns of a call, and what it reads."""
        return plan_call(args, kwargs)

    def eval(self, *args: Any, **kwargs: Any) -> Sequence[tuple[Any, ...]]:  # noqa: ANN401
        """Return the rows of one call."""
        given = dict(zip(("path", "topic", "key", "begin", "end"), args, strict=False))
        if kwargs:
            given, _ = bind(args, kwargs)
        topic, key = given["topic"], given["key"]
        rows = [] if topic is None or key is None else self._rows(given)
        if not rows and self._keeps_absent:
            known = {"topic": topic, "key": key}
            return [tuple(known.get(name) for name in self._schema.names)]
        return rows

    def _rows(self, given: dict[str, Any]) -> list[tuple[Any, ...]]:
        if self._finder is None:
            self._finder = KeyFinder(self._options, self._schema)
        slices = self._slices
        if slices is None:
            check_path(given["path"])
            slices = self._list_files(given["path"])
        times = time_range(given.get("begin"), given.get("end"))
        return self._finder.rows(slices, given["topic"], given["key"], times)

    def terminate(self) -> None:
        """Check, after the last call, that all rows came from the files as listed."""
        if self._finder is not None:
            self._finder.ensure_same()

    def cleanup(self) -> None:
        """Close the files."""
        if self._finder is not None:
            self._finder.close()

    def _list_files(self, path: str | list[str]) -> list[FileSlice]:
        name = path if isinstance(path, str) else tuple(path)
        storage = self._options.storage
        paths = [path] if isinstance(path, str) else path
        places = [str(at_directory(place, storage, self._directory)) for place in paths]
        listing = self._listings.get(name)
        if listing is None:
            if len(self._listings) >= _MAX_LISTINGS:
                self._listings.clear()
            listing = self._listings[name] = plan_files_of(self._options, places)
        return listing
