"""Apache RocketMQ IndexFiles as a Spark data source.

To find data sources, Spark imports every top-level module whose name begins with ``pyspark_``; one
that fails to import hides all the others.
So this module imports nothing from Spark until a name is used.
"""

from __future__ import annotations

import os
import sys
from importlib import import_module
from typing import TYPE_CHECKING, Any

from pyspark_rmqindex.spark_version import check_spark, source_class

if TYPE_CHECKING:
    from pyspark_rmqindex.join.lookup import lookup
    from pyspark_rmqindex.join.summary import LookupSummary
    from pyspark_rmqindex.messages.reader import MessagePlan
    from pyspark_rmqindex.read.plan_log import ScanPlan
    from pyspark_rmqindex.source.index import DefaultSource
    from pyspark_rmqindex.source.registration import register
    from pyspark_rmqindex.source.table import last_plan, table
    from pyspark_rmqindex.write.write_index import write_index

__all__ = [
    "DefaultSource",
    "LookupSummary",
    "MessagePlan",
    "ScanPlan",
    "last_plan",
    "lookup",
    "register",
    "table",
    "write_index",
]

_HOMES = {
    "DefaultSource": "source.index",
    "LookupSummary": "join.summary",
    "MessagePlan": "messages.reader",
    "ScanPlan": "read.plan_log",
    "last_plan": "source.table",
    "lookup": "join.lookup",
    "register": "source.registration",
    "table": "source.table",
    "write_index": "write.write_index",
}


def __getattr__(name: str) -> Any:  # noqa: ANN401  (a module attribute can be anything)
    """Import a public name on first use."""
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
    """Make Spark's workers run this interpreter, unless the user chose one or a session is running.

    Otherwise they run the ``python3`` on the PATH, which is the wrong one if a virtual environment
    is used without being activated.
    """
    context = getattr(sys.modules.get("pyspark.core.context"), "SparkContext", None)
    if sys.executable and getattr(context, "_active_spark_context", None) is None:
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)


_choose_worker_python()
