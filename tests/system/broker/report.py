"""What was compared, and what differed."""

from __future__ import annotations

from collections import Counter
from typing import Any

_MOST_TOLD = 3
_MOST_CHARACTERS = 300


class Report:
    """Counts of comparisons, and differences in words."""

    def __init__(self) -> None:
        """Begin with nothing."""
        self.counts: Counter[str] = Counter()
        self.remarks: list[str] = []
        self._by_kind: dict[str, list[str]] = {}

    @property
    def differences(self) -> list[str]:
        """Every difference, in words."""
        return [f"{what} {told}" for what, all_ in self._by_kind.items() for told in all_]

    def compare(self, what: str, expected: Any, found: Any) -> None:
        """Count a comparison, and note a difference.

        Args:
            what: In the plural, since it is counted.
            expected: What is right; of two dictionaries each item is a comparison.
            found: What is there.
        """
        if isinstance(expected, dict) and isinstance(found, dict):
            for name in dict.fromkeys([*expected, *found]):
                self._compare(what, name, expected.get(name), found.get(name))
        else:
            self._compare(what, "", expected, found)

    def _compare(self, what: str, name: Any, expected: Any, found: Any) -> None:
        self.counts[what] += 1
        if expected != found:
            told = f"{name!r}: expected {_shown(expected)}, got {_shown(found)}"
            self._by_kind.setdefault(what, []).append(told)

    def lines(self) -> list[str]:
        """Return the report as lines of text."""
        told = [f"{count:>8,} {what}" for what, count in self.counts.items()]
        told += [f"         {remark}" for remark in self.remarks]
        for what, differences in self._by_kind.items():
            told += [f"DIFFERS  {what} {each}" for each in differences[:_MOST_TOLD]]
        return [*told, f"{len(self.differences):>8,} differences"]


def _shown(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= _MOST_CHARACTERS else f"{text[:_MOST_CHARACTERS]}.."
