"""The big run: ``python -m tests.system.random_sql --queries 2500 --session connect``.

The sessions ``duckdb``, ``polars`` and ``datafusion`` ask ``MessageStore.dataset()``; ``sail`` gets
Sail from a package index, unless it is there.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from random import SystemRandom
from tempfile import TemporaryDirectory

from tests.support.sail import sail_environment

from .datasets import ENGINES, run_dataset_trial
from .trial import classic_session, connect_session, run_trial, sail_session

_SESSIONS = {"classic": classic_session, "connect": connect_session, "sail": sail_session}
_MOST_SEEDS = 2**32
_MESSAGES = 10
_FAULTS_SHOWN = 10


def main() -> int:
    """Run statements; print the seed, the counts, the refusals and each difference.

    Returns:
        1 if an answer was wrong.
    """
    parser = argparse.ArgumentParser(prog="python -m tests.system.random_sql", description=__doc__)
    parser.add_argument("--queries", type=int, default=2600, help="how many")
    parser.add_argument("--session", choices=sorted([*_SESSIONS, *ENGINES]), default="classic")
    parser.add_argument("--seed", type=int, help="of all choices; by default a new one")
    arguments = parser.parse_args()
    if arguments.session == "sail" and find_spec("pysail") is None:
        with TemporaryDirectory() as wheels:
            again = [sys.executable, "-m", "tests.system.random_sql", *sys.argv[1:]]
            return subprocess.call(again, env=sail_environment(Path(wheels)))
    seed = SystemRandom().randrange(_MOST_SEEDS) if arguments.seed is None else arguments.seed
    print(f"seed {seed}, {arguments.session}", flush=True)
    if arguments.session in ENGINES:
        return _ask_datasets(arguments.session, arguments.queries, seed)
    with TemporaryDirectory() as name:
        spark = _SESSIONS[arguments.session](Path(name))
        outcome = run_trial(spark, Path(name), arguments.queries, seed, told_every=50)
        spark.stop()
    for fault in outcome.faults[:_FAULTS_SHOWN]:
        print(f"\n{fault}")
    shapes = ", ".join(f"{count} {name}" for name, count in outcome.queries.most_common())
    counts = f"{outcome.queries.total():,} queries in {outcome.statements:,} statements"
    print(f"\n{counts}, {outcome.seconds:.0f} s: {shapes}")
    print(
        f"{outcome.answered:,} answered ({outcome.rows:,} rows; {outcome.empty:,} without any; "
        f"{outcome.pushed:,} by keys that were handed over), "
        f"{outcome.refusals.total():,} refused, {outcome.spark_errors.total():,} refused by Spark "
        f"itself on both sides, {len(outcome.faults)} different"
    )
    for title, counts in (("refusals", outcome.refusals), ("Spark", outcome.spark_errors)):
        for message, count in counts.most_common(_MESSAGES):
            print(f"{title:9} {count:6,}  {message}")
    return 1 if outcome.faults else 0


def _ask_datasets(engine: str, queries: int, seed: int) -> int:
    with TemporaryDirectory() as name:
        found = run_dataset_trial(engine, Path(name), queries, seed)
    for fault in found.faults[:_FAULTS_SHOWN]:
        print(f"\n{fault}")
    shapes = ", ".join(f"{count} {shape}" for shape, count in found.queries.most_common())
    refused = ", ".join(f"{count} {what}" for what, count in found.refusals.most_common())
    print(f"\n{found.queries.total():,} queries in {found.seconds:.0f} s: {shapes}")
    print(
        f"{found.answered:,} answered ({found.rows:,} rows), {found.pushed:,} with a filter that "
        f"the engine handed over, refused: {refused or 'none'}, {found.engine_errors:,} refused by "
        f"the engine itself, {found.mistranslated:,} handed over wrongly, {len(found.faults)} "
        "different"
    )
    return 1 if found.faults else 0


if __name__ == "__main__":
    sys.exit(main())
