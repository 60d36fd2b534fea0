"""What was found of one kind of fault."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field


@dataclass
class Tally:
    """What was found of one kind of write.

    Attributes:
        kind: The kind of write.
        times: How often each fault was tried.
        found: How often readers found what.
        faults: What was wrong, in words.
    """

    kind: str
    times: Counter[str] = field(default_factory=Counter)
    found: Counter[str] = field(default_factory=Counter)
    faults: list[str] = field(default_factory=list)
