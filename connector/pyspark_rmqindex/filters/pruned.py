"""Column pruning, for engines that ask readers for it; Spark does not, up to 5.0."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSourceReader
from pyspark.sql.types import StructType

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["PrunedReader"]


class PrunedReader(DataSourceReader):
    """A reader that can read fewer columns than its relation has."""

    _schema: StructType

    def pruneColumns(self, schema: StructType | pa.Schema) -> StructType:  # noqa: N802  (engines' name)
        """Read these columns alone, in this order.

        Sail calls it with an Arrow schema, after ``pushFilters``. The columns include those of the
        filters that remain with the engine.
        """
        if not schema.names:
            raise NotImplementedError("pruneColumns: expected at least one column, got none")
        known = {field.name.lower(): field for field in self._schema.fields}
        for name in schema.names:
            if name.lower() not in known:
                raise ValueError(
                    f"pruneColumns: expected columns among {', '.join(self._schema.names)}, got "
                    f"{name!r}"
                )
        self._schema = StructType([known[name.lower()] for name in schema.names])
        return self._schema
