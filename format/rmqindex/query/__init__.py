"""Queries of a whole index: the broker's own search, exact lookups, and verification."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rmqindex.rooms import importer

if TYPE_CHECKING:
    from rmqindex.query.index_directory import IndexDirectory, QueryOffsetResult
    from rmqindex.query.many_keys import LOOKUP_SCHEMA, lookup_keys
    from rmqindex.query.point_lookup import PointEntry, PointFile, PointLog
    from rmqindex.query.ranks import SearchedFile
    from rmqindex.query.verification import (
        MATCH_CODES,
        NO_LOG,
        VERIFIED,
        VERIFIED_COLUMNS,
        Comparison,
        Verdict,
        Verifier,
        may_hold,
        pairs_kept,
    )

__all__ = [
    "LOOKUP_SCHEMA",
    "MATCH_CODES",
    "NO_LOG",
    "VERIFIED",
    "VERIFIED_COLUMNS",
    "Comparison",
    "IndexDirectory",
    "PointEntry",
    "PointFile",
    "PointLog",
    "QueryOffsetResult",
    "SearchedFile",
    "Verdict",
    "Verifier",
    "lookup_keys",
    "may_hold",
    "pairs_kept",
]

__getattr__ = importer(
    __name__,
    {
        "index_directory": (
            "IndexDirectory",
            "QueryOffsetResult",
        ),
        "many_keys": (
            "LOOKUP_SCHEMA",
            "lookup_keys",
        ),
        "point_lookup": (
            "PointEntry",
            "PointFile",
            "PointLog",
        ),
        "ranks": ("SearchedFile",),
        "verification": (
            "Comparison",
            "MATCH_CODES",
            "NO_LOG",
            "VERIFIED",
            "VERIFIED_COLUMNS",
            "Verdict",
            "Verifier",
            "may_hold",
            "pairs_kept",
        ),
    },
)


def __dir__() -> list[str]:
    """List the room's names."""
    return __all__
