"""The three kinds of tests, and which one a test is."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterable

    from _pytest.mark.structures import ParameterSet

Case = TypeVar("Case")

KINDS = ("unit", "spark", "system")
#: The folder of the tests that run whole programs: brokers, clusters, writers that are killed.
SYSTEM_FOLDER = "system"
#: The kind of each collected test, by its id, whether it is selected or not.
COLLECTED = pytest.StashKey[dict[str, list[str]]]()

_TESTS = Path(__file__).resolve().parents[1]


def kind_of(item: pytest.Item) -> str:
    """Return what a test is marked with, or else what its folder and its fixtures make it.

    Raises:
        ValueError: It is marked as a unit test, which none need be, or with two kinds.
    """
    told = {mark.name for mark in item.iter_markers() if mark.name in KINDS}
    if len(told) > 1 or "unit" in told:
        found = " and ".join(sorted(told))
        raise ValueError(f"{item.nodeid}: expected the mark spark or system or none, got {found}")
    if told:
        return told.pop()
    if item.path.relative_to(_TESTS).parts[0] == SYSTEM_FOLDER:
        return "system"
    return "spark" if "spark" in getattr(item, "fixturenames", ()) else "unit"


def sampled(cases: Iterable[Case], *kept: Case) -> list[ParameterSet | Case]:
    """Return parameters: ``make test`` runs those that are kept, ``make test-system`` the rest.

    Raises:
        ValueError: What is to be kept is not among the cases.
    """
    found = list(cases)
    if missing := [case for case in kept if case not in found]:
        raise ValueError(f"expected cases among {found}, got {missing}")
    return [
        case if case in kept else pytest.param(case, marks=pytest.mark.system) for case in found
    ]


def mark_kinds(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Mark each test with its kind."""
    for item in items:
        kind = kind_of(item)
        if item.get_closest_marker(kind) is None:
            item.add_marker(kind)
    config.stash[COLLECTED] = {
        item.nodeid: sorted({mark.name for mark in item.iter_markers() if mark.name in KINDS})
        for item in items
    }
