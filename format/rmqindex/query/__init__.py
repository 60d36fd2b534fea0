"""Queries of a whole index: the broker's own search, exact lookups, and explanations."""

from rmqindex.query.explain import (
    EXPLAIN_REASONS,
    FileExplanation,
    HitExplanation,
    LookupExplanation,
    OtherTopic,
    explain_lookup,
)
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
    "EXPLAIN_REASONS",
    "MATCH_CODES",
    "NO_LOG",
    "VERIFIED",
    "VERIFIED_COLUMNS",
    "Comparison",
    "EntryVerifier",
    "FileExplanation",
    "HitExplanation",
    "IndexDirectory",
    "LookupExplanation",
    "OtherTopic",
    "PointEntry",
    "PointFile",
    "PointLog",
    "QueryOffsetResult",
    "Ranks",
    "SearchedFile",
    "Shares",
    "explain_lookup",
    "may_hold",
    "pairs_kept",
]
