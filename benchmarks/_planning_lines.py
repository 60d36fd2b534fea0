"""The line of a query that reads next to nothing: planning, and what a new worker imports."""

from __future__ import annotations

import json
import subprocess
import sys
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from benchmarks._data import FILE_NAME, TOPIC, key_strings, make_file
from benchmarks._floor import load_floor
from benchmarks._rounds import Comparison, Goal, compared, interleaved, timed
from pyspark_rmqindex import table
from rmqindex import Layout

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from pyspark.sql import DataFrame

    from benchmarks._context import Context

__all__ = ["planning"]

_ENTRIES = 10
_LAYOUT = Layout(100, 400)
_OURS, _FLOOR = "rmqindex", "an almost empty Python source"


def planning(context: Context) -> Iterator[Comparison]:
    """Run queries of a few rows, each on a DataFrame of its own, and import in new processes."""
    index = context.work / "planning"
    make_file(index / FILE_NAME, _LAYOUT, 0, _ENTRIES)
    yield from _queries(context, index)
    yield from _imports(context, index)


def _queries(context: Context, index: Path) -> Iterator[Comparison]:
    key = key_strings(np.zeros(1, np.uint64))[0].as_py()
    one_key = f"topic = '{TOPIC}' AND key = '{key}'"

    def load() -> DataFrame:
        return context.spark.read.format("rmqindex").load(str(index))

    def look_up() -> DataFrame:
        return table(context.spark, index)

    for work, ours, rows, condition in (
        (f"load() of an index of {_ENTRIES} entries", load, _ENTRIES, "true"),
        (f"one key through table(), an index of {_ENTRIES} entries", look_up, 1, one_key),
    ):
        floor = partial(load_floor, ours(), rows)
        assert len(ours().where(condition).collect()) == rows
        measured = interleaved(
            {_OURS: _collected(ours, condition), _FLOOR: _collected(floor, condition)},
            4 * context.sizes.rounds,
            warm_ups=5,
        )
        yield compared(measured, _OURS, _FLOOR, work=work, goal=Goal(1.1, at_least=False))


def _collected(make: Callable[[], DataFrame], condition: str) -> Callable[[], float]:
    """Return what makes a DataFrame, plans it, runs it and gets its rows."""
    return timed(lambda: make().where(condition).collect())


def _imports(context: Context, index: Path) -> Iterator[Comparison]:
    ours = context.spark.read.format("rmqindex").load(str(index))
    floor = {"schema": "unused", "rows": str(_ENTRIES), "partitions": "1"}
    sources = {
        _OURS: ("pyspark_rmqindex.source.index", "DefaultSource", {"path": str(index)}),
        _FLOOR: ("benchmarks._floor", "Floor", floor),
    }
    modules: dict[str, int] = {}

    def fresh(name: str) -> Callable[[], float]:
        home, source, options = sources[name]
        arguments = [home, source, ours.schema.json(), json.dumps(options)]
        command = [sys.executable, "-m", "benchmarks._fresh_worker", *arguments]

        def run() -> float:
            root = Path(__file__).parent.parent
            output = subprocess.run(command, cwd=root, check=True, capture_output=True).stdout
            result = json.loads(output)
            modules[name] = result["modules"]
            seconds: float = result["seconds"]
            return seconds

        return run

    measured = interleaved({name: fresh(name) for name in sources}, 2 * context.sizes.rounds)
    work = f"plan and read {_ENTRIES} entries in a Python worker that is new, with all imports"
    yield compared(
        measured,
        _OURS,
        _FLOOR,
        work=work,
        goal=Goal(0, at_least=False),
        note=f"CPU time; {modules[_OURS]} modules and {modules[_FLOOR]}, beyond Spark's own",
    )
    yield Comparison(
        work=work,
        against=f"modules beyond those of {_FLOOR}",
        figure=modules[_OURS] - modules[_FLOOR],
        goal=Goal(0, at_least=False, unit="modules"),
    )
