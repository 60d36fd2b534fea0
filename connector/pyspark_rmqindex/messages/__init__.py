"""Reads CommitLog messages and ConsumeQueue units as rows.

Planning divides log files at record boundaries, and packs queue files by their size.
Tasks return batches of exactly the Arrow schema that Spark asked for.
Damage raises in the mode ``FAILFAST`` and is skipped in ``DROPMALFORMED``.
"""

from typing import TYPE_CHECKING

from rmqindex.lazy_exports import lazy_exports

if TYPE_CHECKING:
    from pyspark_rmqindex.messages.reader import MessageReader as MessageReader
else:
    __getattr__, __dir__, __all__ = lazy_exports(__name__)
