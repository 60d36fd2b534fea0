"""Limits of the packages made small, so that a few rows reach them.

Which module has a limit, and what it is called there, stands here alone.
"""

from __future__ import annotations

import contextlib
from importlib import import_module
from unittest import mock

__all__ = ["small"]

_PLACES = {
    "flush_entries": ("rmqindex.bulk.rebuild", "_FLUSH_ENTRIES"),
    "copy_bytes": ("rmqindex.transaction.object_staging", "_COPY_BYTES"),
    "run_rows": ("pyspark_rmqindex.write.job", "_RUN_ROWS"),
    "write_index_run_rows": ("pyspark_rmqindex.write.write_index", "_RUN_ROWS"),
    "commit_rows": ("pyspark_rmqindex.write.write_index", "_COMMIT_ROWS"),
    "stream_run_rows": ("pyspark_rmqindex.stream.writer", "_RUN_ROWS"),
    "inline_rows": ("pyspark_rmqindex.stream.writer", "_INLINE_ROWS"),
}


@contextlib.contextmanager
def small(**limits):
    """Run the block, or the decorated test, with other limits.

    Args:
        limits: By their names here, rows, entries or bytes.
    """
    with contextlib.ExitStack() as stack:
        for name, value in limits.items():
            module, constant = _PLACES[name]
            stack.enter_context(mock.patch.object(import_module(module), constant, value))
        yield
