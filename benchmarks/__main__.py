"""Measure rmqindex against RocketMQ's own classes, Spark's floors and Parquet.

python -m benchmarks                 everything, into docs/benchmarks
python -m benchmarks --only scan     one line of the table (may be repeated)
python -m benchmarks --only rust     beside the Rust rewrite, not part of everything (needs Cargo)
python -m benchmarks --quick         small sizes: does it all run?
"""

from __future__ import annotations

import argparse
import importlib
import os
from pathlib import Path

__all__ = ["LINES", "main"]

_ROOT = Path(__file__).parent.parent

# Each line of the table: what --only calls it, its module and its function.
# The first need no Spark, and what drops a file from memory comes before others map it.
LINES = {
    "cold": ("_format_lines", "cold"),
    "build": ("_format_lines", "build"),
    "lookup": ("_format_lines", "look_up"),
    "decode": ("_format_lines", "decode"),
    "warm": ("_warm_lines", "warm"),
    "start-up": ("_shell_lines", "start_up"),
    "dataset": ("_dataset_lines", "dataset"),
    "engines": ("_engine_lines", "engines"),
    "rebuild": ("_rebuild_lines", "rebuild"),
    "recovery": ("_rebuild_lines", "recovery"),
    "crossover": ("_join_lines", "crossover"),
    "scan": ("_spark_lines", "scan"),
    "scan-default": ("_spark_lines", "scan_default"),
    "one-key": ("_spark_lines", "one_key"),
    "planning": ("_planning_lines", "planning"),
    "small-files": ("_spark_lines", "many_files"),
    "join": ("_join_lines", "join"),
    "join-few": ("_join_lines", "join_few"),
    "join-verified": ("_join_lines", "join_verified"),
    "write": ("_spark_lines", "write"),
    "write-index": ("_spark_lines", "write_sorted"),
    "memory": ("_spark_lines", "memory"),
    "messages": ("_message_lines", "messages"),
    "verified": ("_message_lines", "verified"),
    "export": ("_message_lines", "export"),
    "growth": ("_growth_lines", "growth"),
    "requests": ("_request_lines", "requests"),
    "workers": ("_cluster_lines", "workers"),
    "stream": ("_stream_lines", "micro_batch"),
    "rust": ("_rust_lines", "rust"),
}
# Those that are measured only when they are named: Cargo is needed for nothing else.
_BY_NAME_ALONE = {"rust"}


def _arguments(argv: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "--only", action="append", choices=LINES, metavar="LINE", help=", ".join(LINES)
    )
    parser.add_argument("--quick", action="store_true", help="small sizes, few rounds")
    parser.add_argument(
        "--work",
        type=Path,
        default=Path(__file__).parent / ".work",
        help="where data are made and kept, about 8 GB on a disk (default: %(default)s)",
    )
    parser.add_argument(
        "--output",
        type=Path,
        help="where the table and the chart go (default: docs/benchmarks; the folder of --work "
        "with --quick or --only)",
    )
    return parser.parse_args(argv)


def main(argv: list[str] | None = None) -> None:
    """Measure, print and write the results.

    Args:
        argv: The arguments; by default those of the command line.
    """
    arguments = _arguments(argv)
    from benchmarks._context import Context  # noqa: PLC0415  (--help needs none of it)
    from benchmarks._data import Sizes  # noqa: PLC0415
    from benchmarks._report import machine, show, write_report  # noqa: PLC0415

    work = (arguments.work / ("quick" if arguments.quick else "full")).resolve()
    work.mkdir(parents=True, exist_ok=True)
    partial = arguments.quick or arguments.only
    output = arguments.output or (work if partial else _ROOT / "docs" / "benchmarks")
    context = Context(work, Sizes.quick() if arguments.quick else Sizes(), output)
    about = machine()
    results = []
    for name in arguments.only or [name for name in LINES if name not in _BY_NAME_ALONE]:
        module, function = LINES[name]
        measure = getattr(importlib.import_module(f"benchmarks.{module}"), function)
        for comparison in measure(context):
            print(f"{os.getloadavg()[0]:5.2f}  {show(comparison)}", flush=True)
            results.append(comparison)
    write_report(output, results, about)
    print(f"{output}/table.inc")


if __name__ == "__main__":
    main()
