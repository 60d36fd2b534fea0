"""All or nothing: several files enter an index directory at once, or none does.

A commit leaves an undo log that readers obey, so that nobody ever sees a mixture.
"""

from rmqindex.transaction.directories import FileEntry, directory_entries, entries_or_none, exists
from rmqindex.transaction.journal import Journal, effective_listing, staging_root
from rmqindex.transaction.local_staging import LocalStaging
from rmqindex.transaction.owner import Owner

__all__ = [
    "FileEntry",
    "Journal",
    "LocalStaging",
    "Owner",
    "directory_entries",
    "effective_listing",
    "entries_or_none",
    "exists",
    "staging_root",
]
