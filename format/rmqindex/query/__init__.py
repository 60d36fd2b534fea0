"""Queries of a whole index: the broker's own search, exact lookups, and verification.

Whatever reads raises ``RmqIndexError`` where a file cannot be used or the storage fails, and
``FileChangedError`` where a file was changed since it was listed or opened.
"""

from typing import TYPE_CHECKING

from rmqindex.lazy_exports import lazy_exports

if TYPE_CHECKING:
    from rmqindex.indexfile.chains import PointEntry as PointEntry
    from rmqindex.query.comparison import PARTS as PARTS
    from rmqindex.query.comparison import Difference as Difference
    from rmqindex.query.comparison import PartComparison as PartComparison
    from rmqindex.query.comparison import StoreComparison as StoreComparison
    from rmqindex.query.comparison import compare_stores as compare_stores
    from rmqindex.query.index_directory import IndexDirectory as IndexDirectory
    from rmqindex.query.index_directory import QueryOffsetResult as QueryOffsetResult
    from rmqindex.query.key_usage import KeyUsage as KeyUsage
    from rmqindex.query.key_usage import KeyUsageRow as KeyUsageRow
    from rmqindex.query.key_usage import measure_keys as measure_keys
    from rmqindex.query.many_keys import LOOKUP_SCHEMA as LOOKUP_SCHEMA
    from rmqindex.query.many_keys import lookup_keys as lookup_keys
    from rmqindex.query.message_keys import SearchedFile as SearchedFile
    from rmqindex.query.point_lookup import PointFile as PointFile
    from rmqindex.query.point_lookup import PointLog as PointLog
    from rmqindex.query.usage import FolderUsage as FolderUsage
    from rmqindex.query.usage import Usage as Usage
    from rmqindex.query.usage import UsageRow as UsageRow
    from rmqindex.query.usage import folder_usage as folder_usage
    from rmqindex.query.usage import measure_usage as measure_usage
    from rmqindex.query.usage import with_entries as with_entries
    from rmqindex.query.verification import MATCH_CODES as MATCH_CODES
    from rmqindex.query.verification import NO_LOG as NO_LOG
    from rmqindex.query.verification import VERIFIED as VERIFIED
    from rmqindex.query.verification import VERIFIED_COLUMNS as VERIFIED_COLUMNS
    from rmqindex.query.verification import Comparison as Comparison
    from rmqindex.query.verification import Verdict as Verdict
    from rmqindex.query.verification import Verifier as Verifier
    from rmqindex.query.verification import may_hold as may_hold
    from rmqindex.query.verification import pairs_kept as pairs_kept
else:
    __getattr__, __dir__, __all__ = lazy_exports(__name__)
