"""Shortens a failing script: fewer steps, then simpler ones, as long as the same fault comes."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from .session import Script, play

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from .judge import Fault

__all__ = ["shrink"]

Step = dict[str, Any]

#: What a step can do without, and what it takes the place of.
_SIMPLER = {
    "codec": None, "born_v6": None, "store_v6": None, "property_crc": None, "tail_first": None,
    "cut": None, "batch": None, "light": None, "wait": 1000, "queue": 0, "body": "",
}  # fmt: skip


def shrink(script: Script, fault: Fault, folder: Path, *, seconds: float = 60) -> Script:
    """Return a shorter script with a fault of the same kind.

    Args:
        script: A script that gives the fault.
        fault: The fault.
        folder: Where scripts are played; it is emptied each time.
        seconds: When to stop.
    """
    deadline = time.monotonic() + seconds

    def fails(steps: list[Step]) -> bool:
        if time.monotonic() > deadline:
            return False
        try:
            report = play(Script(script.seed, script.config, steps), folder)
        except Exception:  # noqa: BLE001  (the world cannot take these steps)
            return False
        return any(found.kind == fault.kind for found in report.faults)

    steps = script.steps[: fault.step + 1] if fault.step >= 0 else list(script.steps)
    if not fails(steps):
        return script
    before: list[Step] = []
    while steps != before:
        before, steps = steps, _with_simpler(_with_fewer(steps, fails), fails)
    return Script(script.seed, script.config, steps)


def _with_fewer(steps: list[Step], fails: Callable[[list[Step]], bool]) -> list[Step]:
    size = max(len(steps) // 2, 1)
    while size:
        at = len(steps) - size
        while at > -size:
            shorter = steps[: max(at, 0)] + steps[at + size :]
            if shorter and fails(shorter):
                steps = shorter
            at -= size
        size //= 2
    return steps


def _with_simpler(steps: list[Step], fails: Callable[[list[Step]], bool]) -> list[Step]:
    for number in range(len(steps)):
        for simpler in _simpler(steps[number]):
            shorter = [*steps[:number], simpler, *steps[number + 1 :]]
            if fails(shorter):
                steps = shorter
    return steps


def _simpler(step: Step) -> Iterator[Step]:
    """Yield simpler steps that may take the place of one; each is made of the step as it was."""
    if step["name"] == "during":
        yield step["step"]
        for asked in step["asks"]:
            yield asked
            yield {**step, "asks": [asked]}
    for name, simple in _SIMPLER.items():
        if step.get(name, simple) != simple:
            simpler = {key: value for key, value in step.items() if key != name}
            yield simpler | ({} if simple is None else {name: simple})
