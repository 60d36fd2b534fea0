"""Key hashes of pandas columns, for PySpark 4.0, which has no functions of Arrow columns.

PySpark reads the kind of function from its type hints, so they are names of this module.
"""

from __future__ import annotations

import pandas as pd
import pyarrow as pa

from pyspark_rmqindex.join.key_hashes import hash_columns


def hash_series(topics: pd.Series, keys: pd.Series) -> pd.Series:
    """Hash a batch of columns; NULL gives NULL; pandas refuses text that is not UTF-8."""
    columns = (pa.Array.from_pandas(column, type=pa.string()) for column in (topics, keys))
    hashes: pd.Series = hash_columns(*columns).to_pandas(
        types_mapper={pa.int32(): pd.Int32Dtype()}.get
    )
    return hashes
