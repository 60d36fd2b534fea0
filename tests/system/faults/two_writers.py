"""Two writers at once in one directory: what is left is what one after the other would leave."""

from __future__ import annotations

import shutil
import tempfile
import threading
from functools import partial
from itertools import permutations
from pathlib import Path
from typing import NamedTuple

from . import processes
from .kills import Tally
from .states import errors_in, left_beside, seen
from .writes import (
    ADDED,
    OLD,
    df_write,
    logged,
    logged_and_indexed,
    play_write_index,
    rebuild,
    rebuild_aside,
    relayout,
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


def run_pair(pair, rounds, chance, parent=None):
    """Start two writes at once, over and over; return the tally."""
    tally = Tally(pair.name)
    scratch = Path(tempfile.mkdtemp(prefix="rmqindex-faults-", dir=parent))
    try:
        before = scratch / "before"
        before.mkdir()
        outcome = processes.run(pair.prepare, before, log=scratch / "log")
        assert not outcome.exitcode, outcome.error
        index = before / "store" / "index"
        allowed, seconds = {(): {seen(index)}}, 0.0
        for order in [(0,), (1,), *permutations((0, 1))]:
            folder = scratch / "-".join(map(str, order))
            shutil.copytree(before, folder)
            ends = [processes.run(pair.writes[n], folder, log=scratch / "log") for n in order]
            seconds = max(seconds, *(end.seconds for end in ends))
            done = tuple(sorted(n for n, end in zip(order, ends, strict=True) if not end.exitcode))
            allowed.setdefault(done, set()).add(seen(folder / "store" / "index"))
        for number in range(rounds):
            folder = scratch / f"round-{number}"
            shutil.copytree(before, folder)
            _at_once(pair, folder, allowed, tally, chance.uniform(-seconds, seconds) / 2)
            shutil.rmtree(folder)
    finally:
        shutil.rmtree(scratch)
    return tally


def _at_once(pair, folder, allowed, tally, lead):
    ends = [None, None]

    def start(number, wait):
        threading.Event().wait(wait)
        log = folder / f"log-{number}"
        ends[number] = processes.run(pair.writes[number], folder, log=log)

    threads = [
        threading.Thread(target=start, args=(number, max(wait, 0)))
        for number, wait in enumerate((lead, -lead))
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    index = folder / "store" / "index"
    done = tuple(number for number, end in enumerate(ends) if not end.exitcode)
    tally.kills["rounds"] += 1
    tally.found["both, one after the other" if len(done) == 2 else "one, the other refused"] += 1
    errors = [end.error.strip().splitlines()[-1:] for end in ends if end.exitcode]
    if not done:
        tally.faults.append(f"both were refused: {errors}")
    elif seen(index) not in allowed.get(done, ()):
        counts = [(size, len(rows)) for size, rows in seen(index)]
        tally.faults.append(f"a mix after {done}, {errors}: {counts}")
    elif errors_in(index):
        tally.faults.append(f"the audit finds {errors_in(index)[0]}")
    elif left_beside(index, streams="writeStream" in pair.name):
        tally.faults.append(f"left behind: {left_beside(index)}")
