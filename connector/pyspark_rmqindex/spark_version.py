"""Decides which versions of PySpark this package runs on.

It imports nothing from Spark until it is called, and nothing that only later versions have.
"""

from __future__ import annotations

import re
from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql.datasource import DataSource

__all__ = ["check_spark", "refusal", "source_class"]

# The first version that passes filters to Python data sources.
_LOWEST = (4, 1)
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
    """Raise unless PySpark is recent enough for this package.

    Raises:
        ImportError: PySpark is too old, or not installed.
    """
    told = refusal()
    if told is not None:
        raise ImportError(told)


def source_class(module: str, name: str) -> type[DataSource]:
    """Return a data source for Spark to find by its name.

    If PySpark is too old, the source returned says so when it is used; raising here would make
    Spark ignore the data sources of all other packages.

    Args:
        module: The module of this package that has it.
        name: The class.

    Raises:
        ImportError: PySpark has no Python data sources, or is not installed.
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
