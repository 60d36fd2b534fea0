"""All or nothing: several files enter an index directory at once, or none does.

A commit leaves an undo log that readers obey, so that nobody ever sees a mixture.
"""

from rmqindex.transaction.directories import FileEntry, directory_entries, entries_or_none, exists
from rmqindex.transaction.journal import Journal, Staging, effective_listing, staging_root
from rmqindex.transaction.object_staging import RemoteStaging, download
from rmqindex.transaction.owner import Owner

__all__ = [
    "FileEntry",
    "Journal",
    "Owner",
    "RemoteStaging",
    "Staging",
    "directory_entries",
    "download",
    "effective_listing",
    "entries_or_none",
    "exists",
    "staging_root",
]
