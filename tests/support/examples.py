"""How many examples Hypothesis draws."""

from __future__ import annotations

import os

__all__ = ["ALL", "examples"]

#: Whether it draws all of them, as in ``.ci/run``; otherwise a quarter, for those who wait.
ALL = bool(os.environ.get("RMQINDEX_ALL_EXAMPLES"))


def examples(count: int = 100) -> int:
    """Return how many examples of so many are drawn."""
    return count if ALL else count // 4
