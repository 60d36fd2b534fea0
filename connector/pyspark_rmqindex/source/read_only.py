"""A data source that is only read: a write is refused by name, not as something missing."""

from __future__ import annotations

from typing import TYPE_CHECKING, NoReturn

from pyspark.sql.datasource import DataSource

if TYPE_CHECKING:
    from pyspark.sql.types import StructType


class ReadOnlySource(DataSource):
    """The source of files that the broker alone writes."""

    def writer(self, schema: StructType, overwrite: bool) -> NoReturn:  # noqa: ARG002
        """Refuse ``df.write``."""
        self._refuse("df.write")

    def streamWriter(self, schema: StructType, overwrite: bool) -> NoReturn:  # noqa: ARG002, N802
        """Refuse ``df.writeStream``."""
        self._refuse("df.writeStream")

    def _refuse(self, what: str) -> NoReturn:
        raise ValueError(
            f"{what}: the format {self.name()} is only read; an index is written with the format "
            "rmqindex"
        )
