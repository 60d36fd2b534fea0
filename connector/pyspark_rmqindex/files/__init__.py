"""Resolves the paths of a load to IndexFiles, stores and CommitLogs.

``list_slices`` runs on the driver and returns a ``FileSlice`` for each file with entries.
``open_slice`` runs in a task and raises if the file is no longer the planned one.
``store_of`` names the store of a file by its path alone, without any I/O.
"""
