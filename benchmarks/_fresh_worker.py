"""What a source imports in a Python worker that has not met it: a process of its own.

Spark forks its workers from processes that have imported what is imported before the clock starts.
"""

from __future__ import annotations

import json
import sys
import time
from importlib import import_module

from pyspark.sql.datasource import CaseInsensitiveDict
from pyspark.sql.types import StructType
from pyspark.worker_util import pickleSer

__all__ = ["main"]

_WORKERS = (
    "pyspark.worker",
    "pyspark.sql.worker.create_data_source",
    "pyspark.sql.worker.data_source_pushdown_filters",
)


def main(home: str, name: str, schema: str, options: str) -> None:
    """Plan a source and read all of it, and print the modules it imported and the CPU seconds.

    Args:
        home: The module of the source.
        name: Its class.
        schema: The columns, as JSON.
        options: Those of ``load()``, as JSON.
    """
    for worker in _WORKERS:
        import_module(worker)
    columns = StructType.fromJson(json.loads(schema))
    modules, start = len(sys.modules), time.process_time()
    source = getattr(import_module(home), name)(CaseInsensitiveDict(json.loads(options)))
    source.schema()
    reader = source.reader(columns)
    partitions = reader.partitions()
    reader = pickleSer.loads(pickleSer.dumps(reader))
    for partition in partitions:
        for _ in reader.read(partition):
            pass
    seconds = time.process_time() - start
    print(json.dumps({"modules": len(sys.modules) - modules, "seconds": seconds}))


if __name__ == "__main__":
    main(*sys.argv[1:])
