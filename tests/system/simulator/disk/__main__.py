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
from .trial import run_trial

ERRORS = ("EIO", "ENOSPC")


def main() -> int:
    """Cut the power after the calls of every kind of write; return how many faults there are."""
    parser = argparse.ArgumentParser(prog="python -m tests.system.simulator.disk")
    parser.add_argument("--write", action="append", help="only kinds with this in their name")
    parser.add_argument("--model", choices=(*MODELS, *ERRORS), action="append", help="only this")
    parser.add_argument("--states", type=int, help="how many of a kind and model; by default all")
    parser.add_argument("--most", type=int, default=40, help="how many after one call")
    parser.add_argument("--seed", type=int, default=int.from_bytes(os.urandom(4)))
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--show", type=int, default=5, help="how many faults of each")
    given = parser.parse_args()
    commit = subprocess.run(
        ["git", "describe", "--always", "--dirty"],
        capture_output=True,
        text=True,
        check=False,
    )
    print(f"seed {given.seed}, commit {commit.stdout.strip()}")
    kinds = [k.name for k in KINDS if not given.write or any(w in k.name for w in given.write)]
    work = [
        (kind, model, given.seed, given.most, given.states)
        for kind in kinds
        for model in given.model or (*MODELS, *ERRORS)
    ]
    faults = states = 0
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(given.jobs, context, max_tasks_per_child=1) as pool:
        for tally in pool.map(run_trial, *zip(*work, strict=True)):
            states += tally.states
            faults += len(tally.faults)
            found = Counter()
            for place, count in tally.found.items():
                found["a part" if place.startswith(("a beg", "stage")) else place] += count
            print(
                f"{tally.kind} | {tally.model} | {tally.calls} calls, {tally.syncs} syncs | "
                f"{tally.states} states | {dict(found)} | {len(tally.faults)} faults | "
                f"{tally.seconds:.0f} s",
                flush=True,
            )
            for fault in tally.faults[: given.show]:
                print(f"    {fault.where}\n        {fault.what}", flush=True)
    print(f"{states} states, {faults} faults")
    return min(faults, 1)


if __name__ == "__main__":
    sys.exit(main())
