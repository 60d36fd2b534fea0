"""The command line of the kit."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from kit.archive import ArchiveError, read_archive
from kit.cases import cases_of
from kit.program import Program, ProgramError
from kit.report import as_data, as_junit, summary
from kit.run import run_cases

if TYPE_CHECKING:
    from collections.abc import Sequence

_TEXT = """Hold a program against the vectors of the RocketMQ index specification.

The program reads one JSON document a line and answers with one a line; the page "Conformance kit"
of the specification describes them. Exits with 0 if every case that the program claims passes,
with 1 if one fails, and with 2 if nothing could be run."""


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="kit", description=_TEXT, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add = parser.add_argument
    add("--vectors", type=Path, required=True, metavar="PATH", help="the archive, or its folder")
    add("--limit", type=float, default=10.0, metavar="SECONDS", help="for each answer; 10")
    add("--junit", type=Path, metavar="FILE", help="write a JUnit file")
    add("--json", type=Path, metavar="FILE", help="write counts and failures as JSON")
    add("--only", metavar="TEXT", help="only the cases whose names contain it")
    add("--requirement", metavar="NAME", help="only the cases that show this requirement")
    add("--all", action="store_true", help="list all failures, and not the first 40")
    add("--requests", action="store_true", help="print the requests instead of asking a program")
    add("program", nargs="*", help="the program and its arguments, after --")
    return parser


def main(arguments: Sequence[str]) -> int:
    """Run the kit.

    Args:
        arguments: What stands on the command line.

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
    if options.junit:
        options.junit.write_bytes(as_junit(outcome))
    if options.json:
        text = json.dumps(as_data(outcome, archive), indent=1)
        options.json.write_text(f"{text}\n", encoding="ascii")
    text = summary(outcome, archive, everything=options.all)
    # A console may know fewer characters than names of files have.
    sys.stdout.buffer.write(text.encode(sys.stdout.encoding, "backslashreplace") + b"\n")
    return 1 if outcome.totals.failed else 0


def _fail(message: str) -> int:
    print(f"kit: {message}", file=sys.stderr)
    return 2
