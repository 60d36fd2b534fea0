"""Apache RocketMQ IndexFiles as a Spark data source.

Spark imports every top-level module whose name begins with ``pyspark_`` to find data sources, and
one that fails hides all the others; so this module imports nothing of Spark until a name is asked
for.
"""

from __future__ import annotations

import os
import sys
from importlib import import_module
from typing import TYPE_CHECKING, Any

from pyspark_rmqindex.spark_version import check_spark, source_class

if TYPE_CHECKING:
    from pyspark_rmqindex.api.registration import register
    from pyspark_rmqindex.api.table import last_plan, table
    from pyspark_rmqindex.join.lookup import lookup
    from pyspark_rmqindex.scan.plan_log import ScanPlan
    from pyspark_rmqindex.source.index import DefaultSource
    from pyspark_rmqindex.write.write_index import write_index

__all__ = ["DefaultSource", "ScanPlan", "last_plan", "lookup", "register", "table", "write_index"]

_HOMES = {
    "DefaultSource": "source.index",
    "ScanPlan": "scan.plan_log",
    "last_plan": "api.table",
    "lookup": "join.lookup",
    "register": "api.registration",
    "table": "api.table",
    "write_index": "write.write_index",
}


def __getattr__(name: str) -> Any:  # noqa: ANN401  (a module attribute can be anything)
    """Import a public name when it is first asked for.

    Raises:
        ImportError: PySpark is older than 4.1, or not there.
    """
    if name == "DefaultSource":
        return source_class(_HOMES[name], name)
    if name in _HOMES:
        check_spark()
        return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    """List the public names."""
    return __all__


def _choose_worker_python() -> None:
    """Make Spark's workers run this interpreter, unless the user chose one or a session runs.

    Otherwise they run the ``python3`` of the PATH, which is not that of a virtual environment
    that is not activated.
    """
    context = getattr(sys.modules.get("pyspark.core.context"), "SparkContext", None)
    if sys.executable and getattr(context, "_active_spark_context", None) is None:
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)


_choose_worker_python()
