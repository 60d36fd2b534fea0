"""Which inputs are worth keeping: the smallest that together reach every arc of the package."""

from __future__ import annotations

import hashlib
import shutil
import sys
from pathlib import Path

import pyspark_rmqindex
import rmqindex

from .memory import in_memory
from .run import CORPUS, inputs_of, load

_CODE = tuple(str(Path(module.__file__).parent) for module in (rmqindex, pyspark_rmqindex))
_FINDING = "finding"


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
    inputs = {path.read_bytes() for path in [*inputs_of(target), *(work / target).glob("*")]}
    inputs |= set(module.seeds())
    findings = [path for path in inputs_of(target) if path.name.startswith(_FINDING)]
    kept = {path.name: path.read_bytes() for path in findings}
    reached: set[tuple[str, int, int]] = set()
    with in_memory():
        for data in kept.values():
            reached |= _arcs(module.check, data)
        for data in sorted(inputs, key=lambda data: (len(data), data)):
            arcs = _arcs(module.check, data)
            if not arcs <= reached:
                reached |= arcs
                kept[hashlib.sha256(data).hexdigest()[:16]] = data
    shutil.rmtree(CORPUS / target, ignore_errors=True)
    (CORPUS / target).mkdir(parents=True)
    for name, data in kept.items():
        (CORPUS / target / name).write_bytes(data)
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
