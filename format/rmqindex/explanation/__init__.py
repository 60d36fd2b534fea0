"""Why a key is or is not found: by the broker's search, the CommitLog, and what tools ask for."""

from rmqindex.explanation.explain import SEARCHES, Search, explain_lookup
from rmqindex.explanation.reasons import EXPLAIN_REASONS, Reason
from rmqindex.explanation.result import (
    FileExplanation,
    HitExplanation,
    IndexReach,
    LogReach,
    LookupExplanation,
    OtherTopic,
)

__all__ = [
    "EXPLAIN_REASONS",
    "SEARCHES",
    "FileExplanation",
    "HitExplanation",
    "IndexReach",
    "LogReach",
    "LookupExplanation",
    "OtherTopic",
    "Reason",
    "Search",
    "explain_lookup",
]
