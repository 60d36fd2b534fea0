"""The chart: how many times as fast as what each line is compared with."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from benchmarks._rounds import Comparison

__all__ = ["draw"]

# Legible on white and on black.
_INK = "#7a828c"
_BAR = "#2f81f7"
_SHORT = "#d9822b"
_GOAL = "#7a828c"
_TICKS = (0.5, 1, 2, 5, 10, 20)


def draw(path: Path, results: Sequence[Comparison]) -> None:
    """Draw every line that is a ratio of times; nothing where there is none."""
    ratios = [each for each in results if each.goal.unit == "x" and each.goal.bound]
    if not ratios:
        return
    import matplotlib as mpl  # noqa: PLC0415  (slow to load)

    mpl.use("svg")
    from matplotlib import pyplot as plt  # noqa: PLC0415

    mpl.rcParams.update(
        {"svg.hashsalt": "rmqindex", "svg.fonttype": "none", "font.family": "sans-serif"}
    )
    figure, axes = plt.subplots(figsize=(9, 0.62 * len(ratios) + 0.9), layout="constrained")
    for place, each in enumerate(ratios):
        speed, goal = _speed(each, each.figure), _speed(each, each.goal.bound)
        met = each.goal.met(each.figure)
        axes.barh(place, speed, height=0.5, color=_BAR if met else _SHORT)
        axes.plot([goal, goal], [place - 0.38, place + 0.38], color=_GOAL, linewidth=2)
        axes.annotate(
            f"{speed:.2f}x",
            (max(speed, goal), place),
            xytext=(5, 0),
            textcoords="offset points",
            va="center",
            color=_INK,
        )
    axes.set_yticks(
        range(len(ratios)), [f"{each.work}\nagainst {each.against}" for each in ratios], fontsize=8
    )
    axes.invert_yaxis()
    axes.set_xscale("log")
    axes.set_xlim(0.3, max(_speed(each, each.figure) for each in ratios) * 1.6)
    axes.set_xticks(_TICKS, [f"{tick:g}x" for tick in _TICKS], minor=False)
    axes.xaxis.set_minor_locator(mpl.ticker.NullLocator())
    axes.axvline(1, color=_INK, linewidth=0.8)
    axes.set_xlabel("times as fast (the stroke across a bar is the goal)", color=_INK)
    axes.tick_params(colors=_INK)
    for side in axes.spines.values():
        side.set_color(_INK)
        side.set_linewidth(0.5)
    axes.spines[["top", "right"]].set_visible(False)
    figure.savefig(path, transparent=True, metadata={"Date": None})
    plt.close(figure)


def _speed(comparison: Comparison, figure: float) -> float:
    return figure if comparison.goal.at_least else 1 / figure
