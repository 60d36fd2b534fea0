"""Measuring contenders in turns, and comparing them."""

from __future__ import annotations

import statistics
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

__all__ = ["Comparison", "Goal", "compared", "interleaved", "timed"]

Times = dict[str, list[float]]


@dataclass(frozen=True, slots=True)
class Goal:
    """What a figure should be.

    Attributes:
        bound: The bound.
        at_least: Whether the figure should be at least the bound; else at most.
        unit: What follows the figure: ``x`` for a ratio, else a unit.
    """

    bound: float
    at_least: bool = True
    unit: str = "x"

    def met(self, figure: float) -> bool:
        """Tell whether a figure is good enough."""
        return figure >= self.bound if self.at_least else figure <= self.bound

    def __str__(self) -> str:
        """Return the goal as a table shows it."""
        return f"{'at least' if self.at_least else 'at most'} {self.bound:g}{_spaced(self.unit)}"

    def show(self, figure: float) -> str:
        """Return a figure as a table shows it."""
        return f"{figure:.2f}{_spaced(self.unit)}"


def _spaced(unit: str) -> str:
    return unit if unit == "x" else f" {unit}"


@dataclass(frozen=True, slots=True)
class Comparison:
    """One figure of the table.

    Attributes:
        work: What was done.
        against: What it is compared with.
        figure: The median over the rounds of the ratio, or of what was measured.
        goal: What it should be.
        ours: Our median seconds, where it is about time.
        theirs: The other's median seconds.
        rows: How many rows, keys or entries were worked on, for a rate.
        note: How it was measured, where that is not plain.
    """

    work: str
    against: str
    figure: float
    goal: Goal
    ours: float | None = None
    theirs: float | None = None
    rows: int | None = None
    note: str = ""


def timed(work: Callable[[], object]) -> Callable[[], float]:
    """Return a function that does the work and returns how many seconds it took."""

    def run() -> float:
        start = time.perf_counter()
        work()
        return time.perf_counter() - start

    return run


def interleaved(
    contenders: Mapping[str, Callable[[], float]], rounds: int, warm_ups: int = 1
) -> Times:
    """Run contenders in turns, the order reversed every other round.

    Args:
        contenders: By name, functions that return seconds.
        rounds: How often each is measured.
        warm_ups: How many rounds are not counted.

    Returns:
        The seconds of each round, by name.
    """
    times: Times = {name: [] for name in contenders}
    order = list(contenders.items())
    for number in range(warm_ups + rounds):
        for name, run in order if number % 2 == 0 else reversed(order):
            seconds = run()
            if number >= warm_ups:
                times[name].append(seconds)
    return times


def compared(
    times: Times,
    ours: str,
    theirs: str,
    *,
    work: str,
    goal: Goal,
    against: str | None = None,
    rows: int | None = None,
    note: str = "",
) -> Comparison:
    """Compare two contenders round by round.

    The figure is the other's time over ours where more is better, else ours over the other's;
    with a goal in seconds it is the difference.
    """
    pairs = list(zip(times[ours], times[theirs], strict=True))
    if goal.unit == "s more":
        figures = [mine - other for mine, other in pairs]
    elif goal.at_least:
        figures = [other / mine for mine, other in pairs]
    else:
        figures = [mine / other for mine, other in pairs]
    return Comparison(
        work=work,
        against=against or theirs,
        figure=statistics.median(figures),
        goal=goal,
        ours=statistics.median(times[ours]),
        theirs=statistics.median(times[theirs]),
        rows=rows,
        note=note,
    )
