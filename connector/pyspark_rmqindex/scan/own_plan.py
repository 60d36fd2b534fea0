"""The reader of ``table()`` where Spark plans each scan by itself, as from 5.0 on.

Nothing of one query remains for the next: there is no record of queries, no limit on how many keys
one ``table()`` sees in its life, and no waiting between threads.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark_rmqindex.filters.filters import filters_to_wanted
from pyspark_rmqindex.scan.reader import IndexReader

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql.datasource import Filter, InputPartition

    from pyspark_rmqindex.filters.filters import Wanted

__all__ = ["OwnPlanReader"]


class OwnPlanReader(IndexReader):
    """Pushes the WHERE of one scan down to slots, entries and files.

    Spark may make several readers for one scan, and ask each for its filters; only ``partitions``
    reads files, and Spark calls it once.
    """

    _filters: tuple[Filter, ...] = ()

    def pushFilters(self, filters: list[Filter]) -> list[Filter]:  # noqa: N802  (Spark's name)
        """Keep the filters; the answer depends on nothing else, so asking again is harmless."""
        self._filters = tuple(filters)
        self._wanted()
        return filters

    def partitions(self) -> Sequence[InputPartition]:
        """List the files and divide the work."""
        return self._plan(self._wanted(), self._filters)

    def _wanted(self) -> Wanted:
        keys = self._options.key_columns
        return filters_to_wanted(self._filters, keys=keys, calls=self._calls)
