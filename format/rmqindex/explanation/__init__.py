"""Why a key is or is not found: by the broker's search, the CommitLog, and what tools ask for."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rmqindex.rooms import importer

if TYPE_CHECKING:
    from rmqindex.explanation.coverage import Uncovered, uncovered, uncovered_in
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
    "Uncovered",
    "explain_lookup",
    "uncovered",
    "uncovered_in",
]

__getattr__ = importer(
    __name__,
    {
        "coverage": ("Uncovered", "uncovered", "uncovered_in"),
        "explain": (
            "SEARCHES",
            "Search",
            "explain_lookup",
        ),
        "reasons": (
            "EXPLAIN_REASONS",
            "Reason",
        ),
        "result": (
            "FileExplanation",
            "HitExplanation",
            "IndexReach",
            "LogReach",
            "LookupExplanation",
            "OtherTopic",
        ),
    },
)


def __dir__() -> list[str]:
    """List the room's names."""
    return __all__
