"""Which inputs are worth keeping: the smallest that together reach every arc of the package."""

from __future__ import annotations

import sys
from pathlib import Path

import pyspark_rmqindex
import rmqindex

from .kept import FINDING, inputs_of, keep, name_of
from .memory import in_memory
from .run import load

_CODE = tuple(str(Path(module.__file__).parent) for module in (rmqindex, pyspark_rmqindex))


def minimise(target: str, work: Path) -> tuple[int, int]:
    """Keep the inputs of a target that reach more than smaller ones.

    What was once a finding is kept in any case.

    Args:
        target: Its name.
        work: The folder in which runs kept inputs.

    Returns:
        How many inputs there were, and how many are kept.
    """
    module = load(target)
    there = inputs_of(target)
    grown = (path.read_bytes() for path in (work / target).glob("*"))
    inputs = {*there.values(), *grown, *module.seeds()}
    kept = {name: data for name, data in there.items() if name.startswith(FINDING)}
    reached: set[tuple[str, int, int]] = set()
    with in_memory():
        for data in kept.values():
            reached |= _arcs(module.check, data)
        for data in sorted(inputs, key=lambda data: (len(data), data)):
            arcs = _arcs(module.check, data)
            if not arcs <= reached:
                reached |= arcs
                kept[name_of(data)] = data
    keep(target, kept)
    return len(inputs), len(kept)


def _arcs(check, data):
    """Run an input; return which line of the package followed which."""
    arcs = set()

    def enter(frame, event, _):
        file = frame.f_code.co_filename
        if event != "call" or not file.startswith(_CODE):
            return None
        last = -frame.f_code.co_firstlineno

        def step(frame, event, _):
            nonlocal last
            if event == "line":
                arcs.add((file, last, frame.f_lineno))
                last = frame.f_lineno
            return step

        return step

    sys.settrace(enter)
    try:
        check(data)
    finally:
        sys.settrace(None)
    return arcs
