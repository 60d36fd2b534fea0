"""Questions to a whole index: the broker's own search, exact lookups, and explanations."""

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
from rmqindex.query.verification import STATE_OF_LOG

__all__ = [
    "EXPLAIN_REASONS",
    "STATE_OF_LOG",
    "FileExplanation",
    "HitExplanation",
    "IndexDirectory",
    "LookupExplanation",
    "OtherTopic",
    "PointEntry",
    "PointFile",
    "PointLog",
    "QueryOffsetResult",
    "explain_lookup",
]
