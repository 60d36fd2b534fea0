"""``lookup()``: joins a DataFrame of keys, up to millions of them, with an index.

The files are listed once, when ``lookup()`` is called; each task searches all of them for its keys.
For each file and task, ``cost`` chooses between probing slots and scanning the whole file.
A task holds a bounded number of bytes in memory and spills further rows of keys to a local file.
"""

from typing import TYPE_CHECKING

from rmqindex.lazy_exports import lazy_exports

if TYPE_CHECKING:
    from pyspark_rmqindex.join.key_chunk import KeyColumns as KeyColumns
    from pyspark_rmqindex.join.key_chunk import hash_columns as hash_columns
    from pyspark_rmqindex.join.task import LookupTask as LookupTask
else:
    __getattr__, __dir__, __all__ = lazy_exports(__name__)
