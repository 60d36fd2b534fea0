"""Decides which versions of PySpark this package runs on.

It imports nothing from Spark until it is called, and nothing that only later versions have.
"""

from __future__ import annotations

import re
from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql.datasource import DataSource

# The first version whose data sources in Python read and write Arrow batches.
_LOWEST = (4, 0)
# The first version that plans each scan of a relation by itself.
_OWN_PLANS = (5, 0)
#: What to write where no filter reaches a data source.
WITHOUT_PUSHDOWN = (
    "use pyspark_rmqindex.lookup(df, path), or load(path) with the options topic and key, or keys"
)
_VERSION = re.compile(r"(\d+)\.(\d+)")


def refusal() -> str | None:
    """Return the error text if PySpark is too old or not installed, else None."""
    try:
        from pyspark.version import __version__ as found  # noqa: PLC0415
    except ModuleNotFoundError:
        found = "none"
    match = _VERSION.match(found)
    # A version in another form is a vendor's own numbering.
    if found != "none" and (match is None or (int(match[1]), int(match[2])) >= _LOWEST):
        return None
    lowest = ".".join(map(str, _LOWEST))
    return (
        f"rmqindex needs PySpark {lowest} or later, found {found}: pip install 'pyspark>={lowest}'"
    )


def check_spark() -> None:
    """Raise unless PySpark is recent enough for this package."""
    told = refusal()
    if told is not None:
        raise ImportError(told)


def later_spark_needed(feature: str, lowest: str, instead: str) -> str:
    """Return the error text for what this PySpark lacks."""
    from pyspark.version import __version__ as found  # noqa: PLC0415

    return f"{feature}: expected PySpark {lowest} or later, got {found}; {instead}"


def check_pushdown_support(feature: str) -> None:
    """Raise unless this PySpark passes filters to Python data sources.

    Platforms number and extend PySpark in their own ways, so its parts decide, not its version.
    """
    if not hasattr(import_module("pyspark.sql.datasource"), "EqualTo"):
        raise ValueError(
            later_spark_needed(
                feature,
                "4.1",
                WITHOUT_PUSHDOWN,
            )
        )


def plans_each_scan() -> bool:
    """Return whether this PySpark plans each scan of a relation by itself.

    Spark 4.1 to 4.3 keep one plan for all scans of a relation. The change that ended this came
    with ``pushLimit``; but drafts of it had the method alone, so the number must agree.
    """
    from pyspark.version import __version__ as found  # noqa: PLC0415

    match = _VERSION.match(found)
    has_limit = hasattr(import_module("pyspark.sql.datasource").DataSourceReader, "pushLimit")
    return has_limit and match is not None and (int(match[1]), int(match[2])) >= _OWN_PLANS


def source_class(module: str, name: str) -> type[DataSource]:
    """Return a data source for Spark to find by its name.

    If PySpark is too old, the source returned says so when it is used; raising here would make
    Spark ignore the data sources of all other packages.
    """
    told = refusal()
    try:
        home = import_module(f"{__package__}.{module if told is None else 'source.refused'}")
    except ModuleNotFoundError as error:
        if told is None:
            raise
        raise ImportError(told) from error
    found: type[DataSource] = getattr(home, name)
    return found
