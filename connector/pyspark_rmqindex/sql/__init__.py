"""Implements the SQL functions ``rmq_lookup``, ``rmq_explain`` and those of key hashes.

Constant arguments are checked, and the files of a constant path listed, during analysis.
A task looks up one key after another in files that it keeps open, and returns what ``table()``
returns.
``rmq_key_hash`` is a plain SQL expression, so that Spark can fold it and push it down.
"""

from typing import TYPE_CHECKING

from rmqindex.lazy_exports import lazy_exports

if TYPE_CHECKING:
    from pyspark_rmqindex.sql.calls import plan_files_of as plan_files_of
    from pyspark_rmqindex.sql.key_finder import KeyFinder as KeyFinder
else:
    __getattr__, __dir__, __all__ = lazy_exports(__name__)
