"""For each requirement, an implementation that breaks it, which the kit must catch.

Each is the oracle behind the protocol with a line of its source changed:
``python spec/tools/mutants.py serve IDX-PUT-1`` is a program for the kit to run, and
``python spec/tools/mutants.py`` runs them all and prints what caught them.
``python spec/tools/mutants.py rules`` runs the changes of ``mutants_by_rule.py``, and prints those
that are missed without a reason.
"""

from __future__ import annotations

import signal
import sys
import tempfile
import types
from collections import Counter, defaultdict
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache, lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

HERE = Path(__file__).resolve().parent
SPEC = HERE.parent
ADAPTERS = SPEC / "kit" / "adapters"
sys.path[:0] = [str(HERE), str(SPEC / "kit"), str(ADAPTERS)]

import mutants_by_rule  # noqa: E402
from make_archive import build  # noqa: E402
from rmq_index_conformance.archive import read_archive  # noqa: E402
from rmq_index_conformance.cases import cases_of  # noqa: E402
from rmq_index_conformance.run import FAILED, run_cases  # noqa: E402
from serve import serve  # noqa: E402

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

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
#: Seconds of the processor that an answer may take; none takes a tenth.
_LIMIT = 0.5

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
    """

    requirement: str
    old: str
    new: str

    def sources(self) -> dict[str, str]:
        """Return the sources by the names of their modules, one of them changed.

        Raises:
            ValueError: The text does not stand in them exactly once.
        """
        texts = sources()
        count = sum(text.count(self.old) for text in texts.values())
        if count != 1:
            raise ValueError(f"{self.requirement}: expected once, found {count} times: {self.old}")
        return {name: text.replace(self.old, self.new) for name, text in texts.items()}


@cache
def sources() -> dict[str, str]:
    """Return the sources as they are, by the names of their modules."""
    return {name: path.read_text(encoding="utf-8") for name, path in SOURCES.items()}


@lru_cache(64)
def _compiled(name: str, text: str) -> types.CodeType:
    return compile(text, str(SOURCES[name]), "exec")


def mutants() -> list[Mutant]:
    """Read ``mutants.txt``."""
    found = []
    for block in TABLE.read_text(encoding="utf-8").split("\n\n"):
        lines = [line for line in block.splitlines() if line and not line.startswith("#")]
        if lines:
            old, new = ("\n".join(line[2:] for line in lines if line[0] == sign) for sign in "-+")
            found.append(Mutant(lines[0], old, new))
    return found


class Hung(Exception):
    """An answer took longer than any does."""


@contextmanager
def _limited() -> Iterator[None]:
    """Raise :class:`Hung` in what runs too long; its own time counts, not that of the machine."""

    def stop(*_: object) -> None:
        raise Hung

    before = signal.signal(signal.SIGPROF, stop)
    signal.setitimer(signal.ITIMER_PROF, _LIMIT)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)


class InProcess:
    """A mutant that answers within this process."""

    def __init__(self, changed: dict[str, str]) -> None:
        """Load its sources."""
        self._handlers = handlers_of(changed)

    def ask(self, request: dict[str, Any]) -> dict[str, Any]:
        """Answer one request; a handler that fails or hangs says so, as an adapter does."""
        try:
            with _limited():
                return self._handlers[request["op"]](request)
        except Exception as error:  # noqa: BLE001  (what a broken program may do)
            return {"error": repr(error)}


def handlers_of(changed: dict[str, str]) -> dict[str, Callable[[dict[str, Any]], dict[str, Any]]]:
    """Return the operations that sources give, by the names of their modules."""
    before = {name: sys.modules.pop(name, None) for name in SOURCES}
    modules = {}
    try:
        for name, path in SOURCES.items():
            module = types.ModuleType(name)
            module.__file__ = str(path)
            modules[name] = sys.modules[name] = module
            exec(_compiled(name, changed[name]), module.__dict__)  # noqa: S102  (ours)
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
    outcome = run_cases(InProcess(mutant.sources()), shown)
    return [result.case.name for result in outcome.results if result.status == FAILED]


def changes() -> list[mutants_by_rule.Change]:
    """Return every change that a rule makes of the sources."""
    return [
        change
        for name, text in sources().items()
        for change in mutants_by_rule.changes_of(name, text)
    ]


def by_function(cases: list[Case]) -> dict[str, list[Case]]:
    """Return the cases that go through each function of the sources."""
    oracle = InProcess(sources())
    found: defaultdict[str, list[Case]] = defaultdict(list)
    called: set[str] = set()

    def note(frame: types.FrameType, event: str, _: object) -> None:
        if event == "call" and frame.f_globals.get("__name__") in SOURCES:
            name = frame.f_code.co_qualname.replace(".<locals>", "")
            called.add(f"{frame.f_globals['__name__']}.{name}")

    for case in cases:
        called.clear()
        sys.setprofile(note)
        try:
            run_cases(oracle, [case])
        finally:
            sys.setprofile(None)
        for name in called:
            found[name].append(case)
    return dict(found)


def catcher_of(change: mutants_by_rule.Change, cases: list[Case]) -> Case | None:
    """Return the first case that a change fails; the first of all where it does not start."""
    try:
        mutant = InProcess({**sources(), change.module: change.source})
        return next((case for case in cases if run_cases(mutant, [case]).totals.failed), None)
    except Exception:  # noqa: BLE001  (what a broken source may do)
        return cases[0]


def serve_mutant(requirement: str, number: int = 0) -> None:
    """Be the program that breaks a requirement, in one of the ways that there are."""
    named = [each for each in mutants() if each.requirement == requirement]
    serve(handlers_of(named[number].sources()))


def run_all(cases: list[Case]) -> int:
    """Run those of ``mutants.txt``, and print what caught each; return how many are missed."""
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
    return missed


def run_rules(cases: list[Case], begins: str = "") -> int:
    """Run the changes by rule; print and count those missed without a reason, or caught with one.

    Args:
        cases: What they must fail.
        begins: What the names of the changes begin with.
    """
    reasons = mutants_by_rule.reasons()
    told: Counter[tuple[str, str]] = Counter()
    wrong = set(reasons) - {change.name for change in changes()}
    for name in sorted(wrong):
        print(f"NOT MADE  {name}")
    through = by_function(cases)
    for change in changes():
        if not change.name.startswith(begins):
            continue
        case = catcher_of(change, through.get(change.function, cases))
        result = "caught" if case else "without effect" if change.name in reasons else "missed"
        told[change.rule, result] += 1
        if result == "missed" or (case and change.name in reasons):
            wrong.add(change.name)
            print(f"{result.upper()}  {change.name}", flush=True)
    for (rule, result), count in sorted(told.items()):
        print(f"{rule}: {count} {result}")
    return len(wrong)


def main(arguments: list[str]) -> int:
    """Run all of one kind."""
    with tempfile.TemporaryDirectory() as folder:
        cases = cases_of(read_archive(build(Path(folder))))
    wrong = run_rules(cases, *arguments[1:]) if arguments[:1] == ["rules"] else run_all(cases)
    return 1 if wrong else 0


if __name__ == "__main__":
    if sys.argv[1:2] == ["serve"]:
        serve_mutant(sys.argv[2], int((sys.argv[3:] or ["0"])[0]))
    else:
        sys.exit(main(sys.argv[1:]))
