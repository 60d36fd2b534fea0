"""Plans a scan or a lookup of entries, and reads them in tasks.

``filters`` turns what Spark pushes down into a superset of the rows that pass; Spark filters again,
and a filter that is not understood is ignored, never guessed at.
The driver's planning processes list files, prune them, divide them among tasks and log the plan.
A task reads only the files it was planned for, or raises, and returns batches of exactly the Arrow
schema that Spark asked for.
"""

from typing import TYPE_CHECKING

from rmqindex.lazy_exports import lazy_exports

if TYPE_CHECKING:
    from pyspark_rmqindex.read.plan_log import log_plan as log_plan
    from pyspark_rmqindex.read.planning import IndexPartition as IndexPartition
    from pyspark_rmqindex.read.planning import Query as Query
    from pyspark_rmqindex.read.reader import IndexReader as IndexReader
else:
    __getattr__, __dir__, __all__ = lazy_exports(__name__)
