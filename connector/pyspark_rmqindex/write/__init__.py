"""Writes rows as IndexFiles: ``df.write.format("rmqindex")`` and ``write_index``.

``InputShape`` decides from the schema alone how rows become entries.
Tasks stage runs or files; nothing in the index changes before the commit.
The driver commits all staged rows or none, and undoes an unfinished commit.
"""

from typing import TYPE_CHECKING

from rmqindex.lazy_exports import lazy_exports

if TYPE_CHECKING:
    from pyspark_rmqindex.write.job import IndexWriter as IndexWriter
    from pyspark_rmqindex.write.job import write_options as write_options
else:
    __getattr__, __dir__, __all__ = lazy_exports(__name__)
