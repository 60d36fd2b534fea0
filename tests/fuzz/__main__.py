"""The command: ``python -m tests.fuzz TARGET --runs N --seed S``."""

from __future__ import annotations

import argparse
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from .kept import archive_of, inputs_of, keep_finding
from .memory import in_memory
from .minimise import minimise
from .run import TARGETS, Result, load, run

_SECONDS = 20


def main() -> int:
    """Run targets; print counts and findings.

    Returns:
        1 if there was a finding.
    """
    arguments = _arguments()
    if arguments.replay:
        return _replay(arguments.target)
    if arguments.keep:
        (target,) = arguments.target
        for path in arguments.keep:
            print(f"{archive_of(target)}: {keep_finding(target, path.read_bytes())}", flush=True)
        return 0
    if arguments.minimise:
        for target in arguments.target:
            there, kept = minimise(target, arguments.work)
            print(f"{target}: {kept} of {there} inputs kept", flush=True)
        return 0
    failed = total = 0
    begin = time.monotonic()

    def one(target: str) -> Result:
        return run(
            target,
            runs=load(target).SHORT if arguments.short else arguments.runs,
            seconds=arguments.seconds,
            seed=arguments.seed,
            work=arguments.work,
            findings=arguments.findings,
        )

    # Each run is a process of its own.
    pool = ThreadPoolExecutor(arguments.jobs)
    for target, result in zip(arguments.target, pool.map(one, arguments.target), strict=True):
        total += result.executions
        print(
            f"{target}: {result.executions:,} executions, cov: {result.edges} ft: "
            f"{result.features}, {len(result.findings)} findings",
            flush=True,
        )
        if result.has_failed:
            failed += 1
            print(result.log[-6000:], *result.findings, sep="\n", flush=True)
    took = time.monotonic() - begin
    print(f"{total:,} executions in {took:.0f} s, {failed} targets with findings")
    return 1 if failed else 0


def _arguments():
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    parser.add_argument("target", nargs="*", help=f"of {', '.join(TARGETS)}; by default all")
    parser.add_argument("--runs", type=int, default=-1, help="how many executions of each")
    parser.add_argument("--seconds", type=int, default=0, help="how long each at most")
    parser.add_argument("--seed", type=int, default=1, help="of all choices")
    parser.add_argument("--jobs", type=int, default=1, help="how many targets at a time")
    parser.add_argument("--short", action="store_true", help="as many executions as CI runs")
    parser.add_argument("--work", type=Path, help="where inputs that reach new code are kept")
    parser.add_argument("--findings", type=Path, help="where inputs that fail are kept")
    parser.add_argument("--replay", action="store_true", help="run the kept inputs, no others")
    parser.add_argument(
        "--minimise", action="store_true", help="keep those of --work that reach new code"
    )
    parser.add_argument(
        "--keep", type=Path, nargs="+", metavar="FILE", help="add inputs that failed to the corpus"
    )
    arguments = parser.parse_args()
    unknown = set(arguments.target) - set(TARGETS)
    if unknown:
        parser.error(f"expected targets of {', '.join(TARGETS)}, got {', '.join(unknown)}")
    if arguments.minimise and arguments.work is None:
        parser.error("expected --work with --minimise")
    if arguments.keep and len(arguments.target) != 1:
        parser.error("expected one target with --keep, the one that failed")
    if arguments.runs < 0 and not arguments.seconds and not arguments.short:
        arguments.seconds = _SECONDS
    arguments.target = arguments.target or list(TARGETS)
    return arguments


def _replay(targets) -> int:
    """Run the kept inputs in this process, as ``coverage`` needs it."""
    with in_memory():
        for target in targets:
            module = load(target)
            inputs = [*module.seeds(), *inputs_of(target).values()]
            for data in inputs:
                module.check(data)
            print(f"{target}: {len(inputs)} inputs", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
