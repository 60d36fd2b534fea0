"""The command line of the kit."""

from __future__ import annotations

import argparse
import json
import sys
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rmq_index_conformance.archive import ArchiveError, read_archive
from rmq_index_conformance.cases import cases_of
from rmq_index_conformance.program import Program, ProgramError
from rmq_index_conformance.report import as_badge, as_data, as_junit, summary
from rmq_index_conformance.run import run_cases

if TYPE_CHECKING:
    from collections.abc import Sequence

_NAME = "rmq-index-conformance"
# Where an installed kit has them.
_VECTORS = resources.files("rmq_index_conformance") / "vectors.zip"
_TEXT = """Hold a program against the vectors of the RocketMQ index specification.

The program reads one JSON document a line and answers with one a line; the page "Conformance kit"
of the specification describes them. Exits with 0 if every case that the program claims passes,
with 1 if one fails, and with 2 if nothing could be run."""


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog=_NAME, description=_TEXT, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add = parser.add_argument
    told = "another archive than the kit's, or its folder"
    add("--vectors", type=Path, default=_VECTORS, metavar="PATH", help=told)
    add("--limit", type=float, default=10.0, metavar="SECONDS", help="for each answer; 10")
    add("--junit", type=Path, metavar="FILE", help="write a JUnit file")
    add("--json", type=Path, metavar="FILE", help="write counts and failures as JSON")
    add("--badge", type=Path, metavar="FILE", help="write a badge's JSON, as shields.io reads it")
    add("--only", metavar="TEXT", help="only the cases whose names contain it")
    add("--requirement", metavar="NAME", help="only the cases that show this requirement")
    add("--all", action="store_true", help="list all failures, and not the first 40")
    add("--requests", action="store_true", help="print the requests instead of asking a program")
    add("program", nargs="*", help="the program and its arguments, after --")
    return parser


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the kit.

    Args:
        arguments: What stands on the command line, unless told.

    Returns:
        The exit status.
    """
    parser = _parser()
    options = parser.parse_args(arguments)
    if not options.program and not options.requests:
        parser.error("expected a program after --")
    if options.limit <= 0:
        parser.error(f"--limit: expected more than 0 seconds, got {options.limit}")
    try:
        archive = read_archive(options.vectors)
        cases = [
            case
            for case in cases_of(archive)
            if (options.only or "") in case.name
            and (not options.requirement or options.requirement in case.requirements)
        ]
    except (ArchiveError, ValueError) as error:
        return _fail(str(error))
    if not cases:
        return _fail("no case has such a name and shows such a requirement")
    if options.requests:
        for case in cases:
            print(json.dumps({"case": case.name, **case.request, "expected": case.expected}))
        return 0
    program = Program(options.program, options.limit)
    try:
        outcome = run_cases(program, cases)
    except ProgramError as error:
        return _fail(str(error))
    finally:
        program.stop()
    data = as_data(outcome, archive)
    for path, written in (
        (options.junit, as_junit(outcome)),
        (options.json, _document(data)),
        (options.badge, _document(as_badge(data))),
    ):
        if path:
            path.write_bytes(written)
    text = summary(outcome, archive, everything=options.all)
    # A console may know fewer characters than names of files have.
    sys.stdout.buffer.write(text.encode(sys.stdout.encoding, "backslashreplace") + b"\n")
    return 1 if outcome.totals.failed else 0


def _document(data: dict[str, Any]) -> bytes:
    return f"{json.dumps(data, indent=1)}\n".encode("ascii")


def _fail(message: str) -> int:
    print(f"{_NAME}: {message}", file=sys.stderr)
    return 2
