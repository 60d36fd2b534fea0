"""The campaign: ``python -m tests.system.faults --seed 1``."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from argparse import ArgumentParser, BooleanOptionalAction
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from random import Random, SystemRandom

from .disks import mounting
from .spark_app import WRITES as SPARK_WRITES
from .spark_app import session
from .spark_kills import run_applications, run_workers
from .stops import IN_COMMITS, OTHERS, run_stops
from .tally import Tally
from .two_writers import PAIRS, run_pair
from .writes import RECOVERIES, WRITES

_MOST_SEEDS = 2**32
# Sessions that start at once.
_AT_ONCE = 3
STOPS = (IN_COMMITS, OTHERS)
# Every commit has as many steps at least.
_FEWEST_IN_COMMIT = 6


def main() -> int:
    """Run the campaign; print the seed and a table.

    Returns:
        1 if anything was wrong.
    """
    parser = ArgumentParser(prog="python -m tests.system.faults", description=__doc__)
    parser.add_argument("--rounds", type=int, default=20, help="of each two writers at once")
    parser.add_argument(
        "--disks", action=BooleanOptionalAction, default=True, help="let Spark's disk be full"
    )
    parser.add_argument("--stops", action=BooleanOptionalAction, default=True, help="stop writers")
    parser.add_argument("--commands", type=int, default=30, help="at so many steps of commits")
    parser.add_argument("--queries", type=int, default=2, help="of Spark, of each stopped write")
    parser.add_argument("--seed", type=int, help="of all choices; by default a new one")
    parser.add_argument("--workers", type=int, default=8, help="Spark's killed, of each write")
    parser.add_argument("--applications", type=int, default=4, help="killed, of each write")
    arguments = parser.parse_args()
    seed = SystemRandom().randrange(_MOST_SEEDS) if arguments.seed is None else arguments.seed
    print(f"seed {seed}", flush=True)
    start = time.monotonic()
    tallies = []
    for tally in _campaign(arguments, seed):
        tallies.append(tally)
        print(f"{time.monotonic() - start:6.0f} s  {_told(tally)}", file=sys.stderr, flush=True)
        for fault in tally.faults:
            print(f"         {fault}", file=sys.stderr, flush=True)
    print()
    _print_table(tallies)
    kills = sum(tally.times.total() for tally in tallies if not _is_other(tally))
    stops = sum(tally.times[name] for tally in tallies for name in STOPS)
    faults = sum(len(tally.faults) for tally in tallies)
    seconds = time.monotonic() - start
    print(f"\n{kills} kills, {stops} stops, {faults} faults, {seconds:.0f} s")
    for tally in tallies:
        for fault in tally.faults:
            print(f"\n{tally.kind}: {fault}")
    return 1 if faults else 0


def _campaign(arguments, seed):
    """Yield the tallies of all parts; real applications run beside the rest."""
    with ThreadPoolExecutor(_AT_ONCE) as beside:
        running = []
        parts = ((run_applications, arguments.applications), (run_workers, arguments.workers))
        for run, kills in parts:
            for name in SPARK_WRITES:
                if kills:
                    chance = Random(f"{seed}/{run.__name__}/{name}")
                    running.append(beside.submit(run, name, kills, chance))
        if arguments.stops:
            yield from _stops(arguments.commands, arguments.queries, seed)
        yield from _other_faults(arguments, seed)
        for future in running:
            yield future.result()


def _other_faults(arguments, seed):
    for pair in PAIRS if arguments.rounds else ():
        yield run_pair(pair, arguments.rounds, seed)
    if arguments.disks:
        yield from _disks()


def _stops(commands, queries, seed):
    """Stop every kind of write at each of its steps; a Spark session is asked a few times."""
    first = range(1, commands + 1)
    spark = session("local[2]") if queries else None
    try:
        for write in (*WRITES, *RECOVERIES):
            chance = Random(f"{seed}/stops/{write.name}")
            places = frozenset(chance.sample(range(1, _FEWEST_IN_COMMIT + 1), queries))
            yield run_stops(write, commands=first, spark=spark, queries=places)
    finally:
        if spark is not None:
            spark.stop()


def _disks():
    """Run the program that needs a disk of its own, where file systems can be mounted."""
    mounts = mounting()
    if mounts is None:
        print("no disks: no file system can be mounted here", file=sys.stderr)
        return
    command = [*mounts, sys.executable, "-m", f"{__package__}.spark_disk"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        for line in process.stdout:
            kind, times, found, faults = json.loads(line)
            yield Tally(kind, Counter(times), Counter(found), faults)
    if process.returncode:
        yield Tally("spark_disk", faults=[f"ended with {process.returncode}"])


def _is_other(tally):
    return {"rounds", "refused", *STOPS} & set(tally.times)


def _counted(counter):
    return ", ".join(f"{name} {count}" for name, count in sorted(counter.items()))


def _told(tally):
    return f"{tally.kind}: {_counted(tally.times)}; {_counted(tally.found)}; {len(tally.faults)}"


def _print_table(tallies):
    print("| what | times | of which | found | faults |")
    print("|---|--:|---|---|--:|")
    for tally in tallies:
        cells = [
            tally.kind,
            tally.times.total(),
            _counted(tally.times),
            _counted(tally.found),
            len(tally.faults),
        ]
        print("| " + " | ".join(map(str, cells)) + " |")


if __name__ == "__main__":
    sys.exit(main())
