"""The three kinds of tests, and which one a test is."""

from __future__ import annotations

from pathlib import Path

import pytest

KINDS = ("unit", "spark", "system")
#: Folders of ``tests`` whose tests run whole programs: brokers, clusters, writers that are killed.
SYSTEM_FOLDERS = frozenset({"broker", "cluster", "differential", "faults", "store_kinds"})
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
    if item.path.relative_to(_TESTS).parts[0] in SYSTEM_FOLDERS:
        return "system"
    return "spark" if "spark" in getattr(item, "fixturenames", ()) else "unit"


def mark_kinds(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Mark each test with its kind."""
    for item in items:
        kind = kind_of(item)
        if item.get_closest_marker(kind) is None:
            item.add_marker(kind)
    config.stash[COLLECTED] = {
        item.nodeid: [mark.name for mark in item.iter_markers() if mark.name in KINDS]
        for item in items
    }
