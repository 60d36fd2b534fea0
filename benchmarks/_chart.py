"""The charts: how many times as fast each line is, and where a scan overtakes probes."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path
    from types import ModuleType

    from matplotlib.axes import Axes

    from benchmarks._growth_lines import Point
    from benchmarks._rounds import Comparison

    Line = tuple[int, float, Mapping[float, tuple[float, float]]]

__all__ = ["draw", "draw_bars", "draw_crossover", "draw_growth"]

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
    plt = _pyplot()
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
    axes.minorticks_off()
    axes.axvline(1, color=_INK, linewidth=0.8)
    axes.set_xlabel("times as fast (the stroke across a bar is the goal)", color=_INK)
    _dress(axes)
    figure.savefig(path, transparent=True, metadata={"Date": None})
    plt.close(figure)


def draw_bars(path: Path, bars: Sequence[tuple[str, float]]) -> None:
    """Draw how many times as fast each of a few lines is, from nothing, with the one at 1."""
    plt = _pyplot()
    figure, axes = plt.subplots(figsize=(8, 0.5 * len(bars) + 0.7), layout="constrained")
    for place, (_, speed) in enumerate(bars):
        axes.barh(place, speed, height=0.6, color=_BAR if speed >= 1 else _SHORT)
        text = f"{speed:.1f} times as fast" if speed >= 1 else f"{1 / speed:.1f} times as slow"
        axes.annotate(
            text, (speed, place), xytext=(5, 0), textcoords="offset points", va="center", color=_INK
        )
    axes.set_yticks(range(len(bars)), [name for name, _ in bars], fontsize=10)
    axes.invert_yaxis()
    axes.set_xlim(0, max(speed for _, speed in bars) * 1.25)
    axes.set_xticks([])
    axes.axvline(1, color=_INK, linewidth=0.8)
    _dress(axes)
    axes.spines["bottom"].set_visible(False)
    figure.savefig(path, transparent=True, metadata={"Date": None})
    plt.close(figure)


def _speed(comparison: Comparison, figure: float) -> float:
    return figure if comparison.goal.at_least else 1 / figure


def draw_crossover(path: Path, lines: Sequence[Line]) -> None:
    """Draw the time of a probe and of a scan over the number of keys.

    Args:
        path: The picture.
        lines: Of each file how many entries it has, from which share of them on ``lookup()``
            scans, and by shares the seconds of a probe and of a scan.
    """
    plt = _pyplot()
    figure, panels = plt.subplots(
        1, len(lines), figsize=(9, 3.6), layout="constrained", squeeze=False
    )
    for axes, (entries, edge, measured) in zip(panels[0], lines, strict=True):
        shares = list(measured)
        for place, (name, color) in enumerate((("probe", _BAR), ("scan", _SHORT))):
            seconds = [times[place] * 1000 for times in measured.values()]
            axes.plot(shares, seconds, color=color, marker="o", markersize=3, label=name)
        axes.axvline(
            edge, color=_GOAL, linewidth=1, linestyle="--", label="lookup() scans from here"
        )
        axes.set_xscale("log", base=2)
        axes.set_yscale("log")
        axes.set_xlabel(f"distinct keys for each of {entries:,} entries", color=_INK)
        axes.set_xticks(shares[::3], [f"1/{round(1 / share)}" for share in shares[::3]])
        axes.minorticks_off()
        _dress(axes)
    panels[0][0].set_ylabel("milliseconds", color=_INK)
    panels[0][0].legend(frameon=False, labelcolor=_INK, fontsize=8)
    figure.savefig(path, transparent=True, metadata={"Date": None})
    plt.close(figure)


def draw_growth(path: Path, points: Sequence[Point], rebuilds: Sequence[tuple[int, float]]) -> None:
    """Draw the seconds of each kind of work over the number of entries.

    Args:
        path: The picture.
        points: Of each index what it costs.
        rebuilds: Of each log how many messages it has, and the seconds of a rebuild.
    """
    plt = _pyplot()
    figure, (left, right) = plt.subplots(1, 2, figsize=(9, 3.8), layout="constrained")
    entries = [point.entries for point in points]
    for name, label, color in (
        ("query", "a key through table()", _GOAL),
        ("lookup", "a key, MessageStore.lookup", _BAR),
        ("plan", "list and prove the files", _SHORT),
    ):
        seconds = [getattr(point, name) for point in points]
        left.plot(entries, seconds, color=color, marker="o", markersize=3, label=label)
    scanned = [(point.entries, point.scan) for point in points if point.scan is not None]
    right.plot(*zip(*scanned, strict=True), color=_BAR, marker="o", markersize=3, label="scan")
    right.plot(
        *zip(*rebuilds, strict=True), color=_SHORT, marker="o", markersize=3, label="rebuild"
    )
    for axes, what in ((left, "entries"), (right, "entries, or messages")):
        axes.set_xscale("log")
        axes.set_yscale("log")
        axes.set_xlabel(what, color=_INK)
        axes.minorticks_off()
        axes.legend(frameon=False, labelcolor=_INK, fontsize=8)
        _dress(axes)
    left.set_ylabel("seconds", color=_INK)
    figure.savefig(path, transparent=True, metadata={"Date": None})
    plt.close(figure)


def _pyplot() -> ModuleType:
    """Return pyplot, set up to draw the same picture from the same figures."""
    import matplotlib as mpl  # noqa: PLC0415  (slow to load)

    mpl.use("svg")
    from matplotlib import pyplot as plt  # noqa: PLC0415

    mpl.rcParams.update(
        {"svg.hashsalt": "rmqindex", "svg.fonttype": "none", "font.family": "sans-serif"}
    )
    return plt


def _dress(axes: Axes) -> None:
    axes.tick_params(colors=_INK)
    for side in axes.spines.values():
        side.set_color(_INK)
        side.set_linewidth(0.5)
    axes.spines[["top", "right"]].set_visible(False)
