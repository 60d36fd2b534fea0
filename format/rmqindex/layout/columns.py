"""The columns of tables of messages and units."""

from __future__ import annotations

import pyarrow as pa


def required_field(name: str, data_type: pa.DataType) -> pa.Field:
    """Return a column that is never null."""
    return pa.field(name, data_type, nullable=False)
