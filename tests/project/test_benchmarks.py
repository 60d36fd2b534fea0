"""The benchmarks: their arguments and their arithmetic, which depend on no clock."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.system

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def rounds(monkeypatch):
    """Import what compares contenders."""
    monkeypatch.syspath_prepend(ROOT)
    from benchmarks import _rounds

    return _rounds


def run(*arguments):
    """Run the command in the repository's folder."""
    return subprocess.run(
        [sys.executable, "-m", "benchmarks", *arguments],
        cwd=ROOT,
        env={**os.environ, "COLUMNS": "200"},  # no line's name is broken at its hyphen
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )


def test_help_names_every_line_and_needs_no_java():
    """``--help`` lists what ``--only`` takes."""
    shown = run("--help")
    assert shown.returncode == 0, shown.stderr
    for line in ("build", "lookup", "planning", "write-index", "requests", "workers", "rust"):
        assert line in shown.stdout


def test_an_unknown_line_is_refused():
    """A line that is not in the table is an error that names those that are."""
    shown = run("--only", "everything")
    assert shown.returncode == 2
    assert "build" in shown.stderr


def test_contenders_take_turns_and_the_order_is_reversed_every_other_round(rounds):
    """No contender always comes after the same other one; warm-ups are not counted."""
    order = []

    def contender(name):
        def measure():
            order.append(name)
            return float(len(order))

        return measure

    times = rounds.interleaved({"a": contender("a"), "b": contender("b")}, 2, warm_ups=1)
    assert order == ["a", "b", "b", "a", "a", "b"]
    assert times == {"a": [4.0, 5.0], "b": [3.0, 6.0]}


@pytest.mark.parametrize(
    ("goal", "figure", "met"),
    [
        ({"bound": 1.5}, 2.0, True),
        ({"bound": 3.0}, 2.0, False),
        ({"bound": 1.0, "at_least": False}, 0.5, True),
        ({"bound": 0.4, "at_least": False}, 0.5, False),
        ({"bound": 0.0, "at_least": False, "unit": "s more"}, -1.0, True),
    ],
)
def test_a_figure_is_the_median_of_the_rounds_in_the_goals_sense(rounds, goal, figure, met):
    """Speed where more is better, time where less is, seconds more where they are counted."""
    times = {"ours": [1.0, 2.0, 1.0], "theirs": [2.0, 3.0, 8.0]}
    goal = rounds.Goal(**goal)
    compared = rounds.compared(times, "ours", "theirs", work="work", goal=goal)
    assert compared.figure == figure
    assert goal.met(compared.figure) is met
