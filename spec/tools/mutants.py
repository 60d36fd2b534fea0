"""For each requirement, an implementation that breaks it, which the kit must catch.

Each is the oracle behind the protocol with a line of its source changed:
``python spec/tools/mutants.py serve IDX-PUT-1`` is a program for the kit to run, and
``python spec/tools/mutants.py`` runs them all and prints what caught them.
"""

from __future__ import annotations

import sys
import tempfile
import types
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

HERE = Path(__file__).resolve().parent
SPEC = HERE.parent
ADAPTERS = SPEC / "kit" / "adapters"
sys.path[:0] = [str(HERE), str(SPEC / "kit"), str(ADAPTERS)]

from make_archive import build  # noqa: E402
from rmq_index_conformance.archive import read_archive  # noqa: E402
from rmq_index_conformance.cases import cases_of  # noqa: E402
from rmq_index_conformance.program import Program  # noqa: E402
from rmq_index_conformance.run import FAILED, run_cases  # noqa: E402
from serve import serve  # noqa: E402

if TYPE_CHECKING:
    from collections.abc import Callable

    from rmq_index_conformance.cases import Case

TABLE = HERE / "mutants.txt"
#: The steps of the text as programs, in the order in which they import each other.
SOURCES = {
    "oracle": HERE / "oracle.py",
    "logs_oracle": HERE / "logs_oracle.py",
    "queue_oracle": HERE / "queue_oracle.py",
    "oracle_store": ADAPTERS / "oracle_store.py",
    "oracle_adapter": ADAPTERS / "oracle_adapter.py",
}
_HANG_LIMIT = 1.0

#: Requirements that no answer can break, and why.
NOT_BY_AN_ANSWER = {
    "IDX-PUT-5": "the order of writes is over when a program answers; killed writers show it",
    "IDX-PUT-10": "it permits, and what it demands is over when a program answers",
    "IDX-LKP-4": "it needs a CommitLog, which no request carries",
    "IDX-TMM-2": "no request of a strict or lenient reader carries a range of times",
    "IDX-LOD-9": "no request carries a symbolic link",
    "IDX-CON-4": "a program that claims no class is asked nothing",
    "IDX-SEC-2": "it needs a CommitLog, which no request carries",
    "LOG-BOD-4": "it leaves the bound to the reader, and a body that goes beyond every bound "
    "fits no request",
    "LOG-FIL-5": "no request asks for the message at an offset",
    "LOG-WLK-6": "no field of the protocol says what a reader tells beside its answer",
    "LOG-RCV-4": "it is about what a reader may expect of a broker that starts later",
    "CQ-TAG-2": "no request asks for the messages of a tag",
    "CHK-FLD-2": "it is about what a reader takes from a field that it has read",
    "MID-UKY-4": "it recommends, so that another answer conforms",
}


@dataclass(frozen=True)
class Mutant:
    """One change of the oracles or their adapters.

    Attributes:
        requirement: What it breaks.
        old: The text that is changed; it stands in one of the files, once.
        new: What stands there instead.
        hangs: Whether it never answers, so that it has to be run as a program of its own.
    """

    requirement: str
    old: str
    new: str
    hangs: bool = False

    def sources(self) -> dict[str, str]:
        """Return the sources by the names of their modules, one of them changed.

        Raises:
            ValueError: The text does not stand in them exactly once.
        """
        texts = {name: path.read_text(encoding="utf-8") for name, path in SOURCES.items()}
        count = sum(text.count(self.old) for text in texts.values())
        if count != 1:
            raise ValueError(f"{self.requirement}: expected once, found {count} times: {self.old}")
        return {name: text.replace(self.old, self.new) for name, text in texts.items()}


def mutants() -> list[Mutant]:
    """Read ``mutants.txt``."""
    found = []
    for block in TABLE.read_text(encoding="utf-8").split("\n\n"):
        lines = [line for line in block.splitlines() if line and not line.startswith("#")]
        if lines:
            requirement, _, mark = lines[0].partition(" ")
            old, new = ("\n".join(line[2:] for line in lines if line[0] == sign) for sign in "-+")
            found.append(Mutant(requirement, old, new, hangs=mark == "hangs"))
    return found


class InProcess:
    """A mutant that answers within this process."""

    def __init__(self, mutant: Mutant) -> None:
        """Load its changed sources."""
        self._handlers = handlers_of(mutant)

    def ask(self, request: dict[str, Any]) -> dict[str, Any]:
        """Answer one request; a handler that fails says so, as an adapter does."""
        try:
            return self._handlers[request["op"]](request)
        except Exception as error:  # noqa: BLE001  (what a broken program may do)
            return {"error": repr(error)}


def handlers_of(mutant: Mutant) -> dict[str, Callable[[dict[str, Any]], dict[str, Any]]]:
    """Return the operations of a mutant."""
    sources = mutant.sources()
    before = {name: sys.modules.pop(name, None) for name in SOURCES}
    modules = {}
    try:
        for name, path in SOURCES.items():
            module = types.ModuleType(name)
            module.__file__ = str(path)
            modules[name] = sys.modules[name] = module
            exec(compile(sources[name], str(path), "exec"), module.__dict__)  # noqa: S102  (ours)
    finally:
        for name, module in before.items():
            if module is None:
                sys.modules.pop(name, None)
            else:
                sys.modules[name] = module
    operations: dict[str, Callable[[dict[str, Any]], dict[str, Any]]]
    operations = modules["oracle_adapter"].OPERATIONS
    return operations


def caught_by(mutant: Mutant, cases: list[Case]) -> list[str]:
    """Return the names of the cases that a mutant fails, of those that show its requirement."""
    shown = [case for case in cases if mutant.requirement in case.requirements]
    if mutant.hangs:
        return _hang_of(mutant, shown)
    outcome = run_cases(InProcess(mutant), shown)
    return [result.case.name for result in outcome.results if result.status == FAILED]


def _hang_of(mutant: Mutant, cases: list[Case]) -> list[str]:
    """Return the name of the first case on which a mutant hangs; each takes the whole limit."""
    number = [each for each in mutants() if each.requirement == mutant.requirement].index(mutant)
    command = [sys.executable, __file__, "serve", mutant.requirement, str(number)]
    program = Program(command, _HANG_LIMIT)
    try:
        for case in cases:
            if run_cases(program, [case]).totals.failed:
                return [case.name]
    finally:
        program.stop()
    return []


def serve_mutant(requirement: str, number: int = 0) -> None:
    """Be the program that breaks a requirement, in one of the ways that there are."""
    named = [each for each in mutants() if each.requirement == requirement]
    serve(handlers_of(named[number]))


def main() -> int:
    """Run all, and print what caught each."""
    with tempfile.TemporaryDirectory() as folder:
        cases = cases_of(read_archive(build(Path(folder))))
    missed = 0
    for mutant in mutants():
        failed = caught_by(mutant, cases)
        missed += not failed
        shown = sum(mutant.requirement in case.requirements for case in cases)
        first = failed[0] if failed else "MISSED"
        print(f"{mutant.requirement:<12}{len(failed):>5} of {shown:>5}  {first}")
    broken = {mutant.requirement for mutant in mutants()}
    print(
        f"{len(mutants())} mutants of {len(broken)} requirements, {missed} missed; "
        f"{len(NOT_BY_AN_ANSWER)} requirements cannot be broken by an answer:"
    )
    for name, why in NOT_BY_AN_ANSWER.items():
        print(f"{name}: {why}")
    return 1 if missed else 0


if __name__ == "__main__":
    if sys.argv[1:2] == ["serve"]:
        serve_mutant(sys.argv[2], int((sys.argv[3:] or ["0"])[0]))
    else:
        sys.exit(main())
