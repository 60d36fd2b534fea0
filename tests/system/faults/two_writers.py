"""Two writers at once in one directory: what is left is what one after the other would leave.

Each is a process of its own that stops before each of its calls; a seed picks who goes on.
"""

from __future__ import annotations

import shutil
import tempfile
from functools import partial
from itertools import permutations
from pathlib import Path
from typing import NamedTuple

from tests.system.simulator.draw import Draw
from tests.system.simulator.schedule import together
from tests.system.simulator.users.outcome import ANSWERED, REFUSED

from .states import errors_in, left_beside, seen
from .tally import Tally
from .writes import (
    ADDED,
    OLD,
    df_write,
    logged,
    logged_and_indexed,
    outcome_of,
    play_write_index,
    rebuild,
    rebuild_aside,
    relayout,
    silent,
    some_rows,
    stream,
)

# Behind the end of the sample store's CommitLog, in units of 100 bytes.
_BEYOND = range(20_000, 20_300)


class Pair(NamedTuple):
    """Two writes that start at once.

    Attributes:
        name: What they are.
        prepare: Makes what is there before.
        writes: The two, each given the folder.
    """

    name: str
    prepare: object
    writes: tuple


def _beyond(folder):
    """Append rows that no CommitLog has, with the geometry that is there."""
    df_write(folder, _BEYOND, on_indexed="error", geometry={})


_FIRST = partial(df_write, offsets=ADDED, on_indexed="error")
_LATER = range(ADDED.stop, ADDED.stop + 300)
_SECOND = partial(df_write, offsets=_LATER, on_indexed="error")
_NEW = partial(df_write, offsets=OLD, overwrite=True)

PAIRS = (
    Pair("df.write append, df.write append", some_rows, (_FIRST, _SECOND)),
    Pair("df.write append, df.write overwrite", some_rows, (_FIRST, partial(_NEW, offsets=ADDED))),
    Pair(
        "df.write overwrite, df.write overwrite",
        some_rows,
        (_NEW, partial(_NEW, offsets=ADDED)),
    ),
    Pair(
        "write_index append, writeStream",
        some_rows,
        (partial(play_write_index, offsets=ADDED, on_indexed="error"), partial(stream, until=3)),
    ),
    Pair("rmqindex rebuild, df.write append", logged, (rebuild, _beyond)),
    Pair(
        "rmqindex rebuild --replace, df.write append", logged_and_indexed, (rebuild_aside, _beyond)
    ),
    Pair("rmqindex relayout, df.write append", logged_and_indexed, (relayout, _beyond)),
    Pair("rmqindex relayout, rmqindex rebuild", logged_and_indexed, (relayout, rebuild_aside)),
)


def run_pair(pair, rounds, seed, parent=None):
    """Let two writers take turns call by call, over and over; return the tally."""
    tally = Tally(pair.name)
    scratch = Path(tempfile.mkdtemp(prefix="rmqindex-faults-", dir=parent))
    try:
        before = scratch / "before"
        before.mkdir()
        with silent():
            pair.prepare(before)
        allowed = {(): {_state(before)}}
        for order in [(0,), (1,), *permutations((0, 1))]:
            folder = scratch / "-".join(map(str, order))
            shutil.copytree(before, folder)
            ends = [outcome_of(pair.writes[number], folder) for number in order]
            done = [n for n, end in zip(order, ends, strict=True) if end.is_answer]
            allowed.setdefault(tuple(sorted(done)), set()).add(_state(folder))
        for number in range(rounds):
            folder = scratch / f"round-{number}"
            shutil.copytree(before, folder)
            _meet(pair, folder, allowed, tally, Draw(f"{seed}/{pair.name}/{number}"))
            shutil.rmtree(folder)
    finally:
        shutil.rmtree(scratch)
    return tally


def _state(folder):
    return seen(folder / "store" / "index")


def _meet(pair, folder, allowed, tally, draw):
    works = [partial(outcome_of, write, folder) for write in pair.writes]
    ends = together(draw, str(folder), works, iter(()), {})
    index = folder / "store" / "index"
    done = tuple(number for number, end in enumerate(ends) if end.is_answer)
    errors = [end.text.strip()[-300:] for end in ends if not end.is_answer]
    strange = [end.text for end in ends if end.status not in {ANSWERED, REFUSED}]
    tally.times["rounds"] += 1
    tally.found["both, one after the other" if len(done) == 2 else "one, the other refused"] += 1
    if strange:
        tally.faults.append(f"no refusal: {strange}")
    elif not done:
        tally.faults.append(f"both were refused: {errors}")
    elif seen(index) not in allowed.get(done, ()):
        counts = [(size, len(rows)) for size, rows in seen(index)]
        tally.faults.append(f"a mix after {done}, {errors}: {counts}")
    elif errors_in(index):
        tally.faults.append(f"the audit finds {errors_in(index)[0]}")
    elif left_beside(index, streams="writeStream" in pair.name):
        tally.faults.append(f"left behind: {left_beside(index)}")
