"""Resolves the paths of a load to IndexFiles, stores and CommitLogs.

``list_slices`` runs on the driver and returns a ``FileSlice`` for each file with entries.
``open_slice`` runs in a task and raises if the file is no longer the planned one.
``store_of`` names the store of a file by its path alone, without any I/O.
"""

from typing import TYPE_CHECKING

from rmqindex.lazy_exports import lazy_exports

if TYPE_CHECKING:
    from pyspark_rmqindex.files.listing import list_files as list_files
    from pyspark_rmqindex.files.listing import list_slices as list_slices
    from pyspark_rmqindex.files.slices import FileSlice as FileSlice
    from pyspark_rmqindex.files.stores import logs_of as logs_of
    from pyspark_rmqindex.files.stores import store_of_log as store_of_log
    from pyspark_rmqindex.files.stores import with_logs as with_logs
else:
    __getattr__, __dir__, __all__ = lazy_exports(__name__)
