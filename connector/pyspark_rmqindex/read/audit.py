"""The audit as rows: ``spark.read.format("rmqindex").option("audit", "true")``."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, InputPartition

from pyspark_rmqindex.files.slices import as_planned
from pyspark_rmqindex.files.stores import absolute_log
from pyspark_rmqindex.options import AUTO
from pyspark_rmqindex.schema import arrow_schema, check_not_null
from rmqindex import CommitLog, RmqIndexError
from rmqindex.audit import plan_audit, run_audit
from rmqindex.store import Store, expand, has_pattern, is_index_name
from rmqindex.times import LocalTime, to_milliseconds
from rmqindex.transaction import exists

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from pyspark.sql.types import StructType

    from pyspark_rmqindex.options import ReadOptions
    from rmqindex.audit import AuditUnit, StoreUnit
    from rmqindex.storage import Location


@dataclass
class AuditPartition(InputPartition):
    """The work of one task: one file, or what lies around the files of a store.

    Attributes:
        unit: What to audit.
    """

    unit: StoreUnit | AuditUnit


class AuditReader(DataSourceReader):
    """Audits each file of an index in a task of its own."""

    def __init__(self, options: ReadOptions, schema: StructType) -> None:
        """Store the request."""
        self._options = options
        self._schema = schema

    def partitions(self) -> Sequence[InputPartition]:
        """Read both ends of each file, and divide the work."""
        begin = self._options.begin
        assert not isinstance(begin, LocalTime)  # refused with the options
        since = None if begin is None else to_milliseconds(begin, up=True)
        units: dict[tuple[type, str], StoreUnit | AuditUnit] = {}
        for path in self._options.paths:
            for found_path in _matches(path.absolute):
                where = self._log_of(found_path)
                log = None if where is None else CommitLog(where)
                for unit in plan_audit(found_path, log, self._options.layout, since):
                    # Audit a file once if several paths name it.
                    units.setdefault((type(unit), unit.place), unit)
                if log is not None:
                    log.close()
        return [AuditPartition(unit) for unit in units.values()]

    def _log_of(self, path: Location) -> Location | None:
        commit_log = self._options.commit_log
        if commit_log is None:
            return None
        if commit_log == AUTO:
            return Store.open(path, needs_index=False).log()
        return absolute_log(path.storage.at(commit_log))

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Audit the file of one task, and return the findings."""
        if not isinstance(partition, AuditPartition):
            return  # Spark runs one task even if there is nothing to audit
        schema = arrow_schema(self._schema)
        audits = (run_audit(unit) for unit in [partition.unit])
        for findings in as_planned(audits):
            if findings.num_rows:
                arrays = [findings[field.name.lower()].cast(field.type) for field in schema]
                check_not_null(schema, arrays)
                yield pa.RecordBatch.from_arrays(arrays, schema=schema)


def _matches(path: Location) -> list[Location]:
    """Return the path itself if it exists, else what matches it as a pattern."""
    if not has_pattern(path) or exists(path):
        return [path]
    hits = [
        path
        for path, entry in expand(path)
        if entry is None or entry.is_directory or is_index_name(entry.name)
    ]
    if not hits:
        raise RmqIndexError(f"{path}: no file fits the pattern")
    return hits
