"""Queries of a whole index: the broker's own search, exact lookups, and verification."""

from rmqindex.query.index_directory import IndexDirectory, QueryOffsetResult
from rmqindex.query.point_lookup import PointEntry, PointFile, PointLog
from rmqindex.query.ranks import Ranks, SearchedFile, Shares
from rmqindex.query.verification import (
    MATCH_CODES,
    NO_LOG,
    VERIFIED,
    VERIFIED_COLUMNS,
    Comparison,
    EntryVerifier,
    may_hold,
    pairs_kept,
)

__all__ = [
    "MATCH_CODES",
    "NO_LOG",
    "VERIFIED",
    "VERIFIED_COLUMNS",
    "Comparison",
    "EntryVerifier",
    "IndexDirectory",
    "PointEntry",
    "PointFile",
    "PointLog",
    "QueryOffsetResult",
    "Ranks",
    "SearchedFile",
    "Shares",
    "may_hold",
    "pairs_kept",
]
