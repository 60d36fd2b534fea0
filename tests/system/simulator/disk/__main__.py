"""Runs: ``python -m tests.system.simulator.disk --help``."""

from __future__ import annotations

import argparse
import multiprocessing
import os
import subprocess
import sys
from collections import Counter
from concurrent.futures import ProcessPoolExecutor

from .kinds import KINDS
from .power import MODELS
from .requests import REQUESTS, STORE_KINDS, run_one

ALL = (*MODELS, "EIO", "ENOSPC")
TOLD = {
    "cut": "calls cut or failed",
    "states": "states",
    "distinct": "of them distinct",
    "finished": "writes run again",
    "remedies": "commands of refusals typed",
    "faults": "faults",
}


def main(arguments: list[str] | None = None) -> int:
    """Cut the power after the calls of every kind of write; return 1 where anything was wrong."""
    parser = argparse.ArgumentParser(prog="python -m tests.system.simulator.disk")
    parser.add_argument("--write", action="append", help="only kinds with this in their name")
    parser.add_argument("--model", choices=(*ALL, REQUESTS), action="append", help="only this")
    parser.add_argument("--states", type=int, help="how many of a kind and model; by default all")
    parser.add_argument("--most", type=int, default=10, help="how many after one call")
    parser.add_argument("--seed", type=int, default=int.from_bytes(os.urandom(4)))
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--show", type=int, default=5, help="how many faults of each")
    given = parser.parse_args(arguments)
    commit = subprocess.run(
        ["git", "describe", "--always", "--dirty"],
        capture_output=True,
        text=True,
        check=False,
    )
    print(f"seed {given.seed}, commit {commit.stdout.strip()}")
    models = given.model or (*ALL, REQUESTS)
    work = [
        (kind.name, [model for model in some if model in models], *_how(given))
        for kinds, some in ((KINDS, ALL), (STORE_KINDS, (REQUESTS,)))
        for kind in kinds
        if not given.write or any(text in kind.name for text in given.write)
    ]
    work = [each for each in work if each[1]]
    total = Counter()
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(given.jobs, context, max_tasks_per_child=1) as pool:
        for tallies in pool.map(run_one, *zip(*work, strict=True)):
            for tally in tallies:
                _report(tally, given.show)
                total += Counter(
                    calls=tally.calls,
                    cut=tally.cut,
                    states=tally.states,
                    distinct=tally.distinct,
                    finished=tally.finished,
                    remedies=tally.remedies,
                    faults=len(tally.faults),
                )
    print(", ".join(f"{total[each]} {told}" for each, told in TOLD.items()))
    return min(total["faults"], 1)


def _how(given):
    return given.seed, given.most, given.states


def _report(tally, most):
    found = Counter()
    for place, count in tally.found.items():
        found["a part" if place.startswith(("a beg", "stage")) else place] += count
    print(
        f"{tally.kind} | {tally.model} | {tally.calls} calls, {tally.cut} cut | "
        f"{tally.states} states, {tally.distinct} distinct | {dict(found)} | "
        f"{tally.finished} finished, {tally.remedies} remedies | "
        f"{len(tally.faults)} faults | {tally.seconds:.0f} s",
        flush=True,
    )
    for fault in tally.faults[:most]:
        print(f"    {fault.where}\n        {fault.what}", flush=True)


if __name__ == "__main__":
    sys.exit(main())
