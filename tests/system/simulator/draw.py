"""Every choice of a history comes from one seed."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Sequence

T = TypeVar("T")


class Draw:
    """Choices of one seed; a part of a history can have choices of its own by :meth:`of`."""

    def __init__(self, seed: int | str) -> None:
        """Begin with a seed."""
        self.seed = seed
        self._random = random.Random(str(seed))

    def of(self, name: str) -> Draw:
        """Return choices that those drawn here do not change."""
        return Draw(f"{self.seed}/{name}")

    def number(self, least: int, most: int) -> int:
        """Return a number, both ends included."""
        return self._random.randint(least, most)

    def skewed(self, least: int, most: int) -> int:
        """Return a number, small ones more often."""
        return least + int((most - least + 1) * self._random.random() ** 3)

    def chance(self, probability: float) -> bool:
        """Return True with a probability."""
        return self._random.random() < probability

    def one(self, choices: Sequence[T]) -> T:
        """Return one of several."""
        return self._random.choice(choices)

    def weighted(self, choices: Sequence[tuple[float, T]]) -> T:
        """Return one of several with weights."""
        weights = [weight for weight, _ in choices]
        return self._random.choices([choice for _, choice in choices], weights)[0]

    def some(self, choices: Sequence[T], most: int) -> list[T]:
        """Return some of several, each at most once, in a new order."""
        return self._random.sample(choices, min(self._random.randint(0, most), len(choices)))

    def shuffled(self, choices: Sequence[T]) -> list[T]:
        """Return all of several in a new order."""
        return self._random.sample(choices, len(choices))

    def data(self, size: int) -> bytes:
        """Return random bytes."""
        return self._random.randbytes(size)
