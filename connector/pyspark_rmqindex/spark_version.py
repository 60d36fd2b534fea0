"""Which versions of PySpark this package runs on: the one place that decides.

It imports nothing of Spark until it is asked, and nothing that only later versions have.
"""

from __future__ import annotations

import re
from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql.datasource import DataSource

__all__ = ["check_spark", "refusal", "source_class"]

# The first that hands filters to data sources in Python.
_LOWEST = (4, 1)
_VERSION = re.compile(r"(\d+)\.(\d+)")


def refusal() -> str | None:
    """Return what to say of a PySpark that is too old, or not there; None of any other."""
    try:
        from pyspark.version import __version__ as found  # noqa: PLC0415
    except ModuleNotFoundError:
        found = "none"
    match = _VERSION.match(found)
    # Versions in another form are those of vendors, who count their own.
    if found != "none" and (match is None or (int(match[1]), int(match[2])) >= _LOWEST):
        return None
    lowest = ".".join(map(str, _LOWEST))
    return (
        f"rmqindex needs PySpark {lowest} or later, found {found}: pip install 'pyspark>={lowest}'"
    )


def check_spark() -> None:
    """See to it that this PySpark has what the package needs.

    Raises:
        ImportError: It is too old, or not there.
    """
    told = refusal()
    if told is not None:
        raise ImportError(told)


def source_class(module: str, name: str) -> type[DataSource]:
    """Return a data source for Spark to find by its name.

    Where PySpark is too old it is one that says so when it is used: a module that cannot be
    imported would hide the data sources of all other packages.

    Args:
        module: The module of this package that has it.
        name: The class.

    Raises:
        ImportError: PySpark has no data sources in Python, or is not there.
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
