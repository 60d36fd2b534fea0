"""The line that starts a whole process: from the shell's prompt to the answer."""

from __future__ import annotations

import statistics
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks._broker import resolve_jars
from benchmarks._rounds import Comparison, Goal, compared, interleaved, timed
from rmqindex.store import sample_store

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from benchmarks._context import Context

__all__ = ["start_up"]

_TOOLS = "org.apache.rocketmq.tools.command.MQAdminStartup"


def _process(*command: str) -> Callable[[], float]:
    return timed(lambda: subprocess.run(command, check=True, stdout=subprocess.DEVNULL))


def start_up(context: Context) -> Iterator[Comparison]:
    """Look up a key of the sample store, each time in a new process."""
    jars = resolve_jars(context.work.parent)
    command = str(Path(sys.executable).parent / "rmqindex")
    contenders = {
        "rmqindex": _process(command, "lookup", str(sample_store()), "TopicTest", "BB"),
        "mqadmin, which lists its commands": _process("java", "-cp", f"{jars}/*", _TOOLS),
        "import numpy": _process(sys.executable, "-c", "import numpy"),
    }
    measured = interleaved(contenders, 3 * context.sizes.rounds)
    work = "rmqindex lookup on the sample store, a whole process"
    yield Comparison(
        work=work,
        against="seconds",
        figure=statistics.median(measured["rmqindex"]),
        goal=Goal(0.4, at_least=False, unit="s"),
    )
    for theirs, bound in zip(list(contenders)[1:], (1.0, 0.0), strict=True):
        goal = Goal(bound, at_least=False)
        yield compared(measured, "rmqindex", theirs, work=work, goal=goal)
