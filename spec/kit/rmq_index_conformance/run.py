"""Drive a program through the cases that it claims."""

from __future__ import annotations

import time
from collections import Counter, defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

from rmq_index_conformance.cases import CLASSES, EDITIONS
from rmq_index_conformance.judge import problem_of
from rmq_index_conformance.program import ProgramError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from rmq_index_conformance.cases import Case

PROTOCOL = 1
PASSED, FAILED, SKIPPED = "passed", "failed", "skipped"
# A program that gives no answer so often in a row is not asked on.
_GIVE_UP_AFTER = 20


class Answers(Protocol):
    """What answers requests: a program, or a stand-in for one."""

    def ask(self, request: dict[str, Any]) -> dict[str, Any]:
        """Answer one request."""


@dataclass(frozen=True)
class Claims:
    """What a program says of itself.

    Attributes:
        name: Its name.
        version: Its version.
        classes: The conformance classes that it claims.
        editions: The editions of which it is.
        operations: The operations that it knows.
    """

    name: str
    version: str
    classes: tuple[str, ...]
    editions: tuple[str, ...]
    operations: tuple[str, ...]


@dataclass(frozen=True)
class Result:
    """What became of one case.

    Attributes:
        case: The case.
        status: ``passed``, ``failed`` or ``skipped``.
        why: What was wrong, or why it was skipped.
        seconds: How long the answer took.
    """

    case: Case
    status: str
    why: str = ""
    seconds: float = 0.0


@dataclass
class Counts:
    """How many cases passed, failed and were skipped."""

    passed: int = 0
    failed: int = 0
    skipped: int = 0

    def add(self, status: str) -> None:
        """Count one more."""
        setattr(self, status, getattr(self, status) + 1)


@dataclass
class Outcome:
    """All that a run found.

    Attributes:
        claims: What the program claimed.
        results: One result a case, in order.
    """

    claims: Claims
    results: list[Result] = field(default_factory=list)

    @property
    def totals(self) -> Counts:
        """The counts of all cases."""
        return self._counted(lambda _: ["all"])["all"]

    @property
    def by_class(self) -> dict[str, Counts]:
        """The counts of each class; cases of every class stand under ``every class``."""
        return self._counted(lambda case: [case.conformance_class or "every class"])

    @property
    def by_requirement(self) -> dict[str, Counts]:
        """The counts of each requirement that the cases name."""
        return self._counted(lambda case: case.requirements)

    @property
    def skips(self) -> Counter[str]:
        """How many cases were skipped for which reason."""
        return Counter(result.why for result in self.results if result.status == SKIPPED)

    def _counted(self, names_of: Callable[[Case], Iterable[str]]) -> defaultdict[str, Counts]:
        counts: defaultdict[str, Counts] = defaultdict(Counts)
        for result in self.results:
            for name in names_of(result.case):
                counts[name].add(result.status)
        return counts


def hello(program: Answers) -> Claims:
    """Ask a program what it claims.

    Raises:
        ProgramError: It does not answer, or with something else.
    """
    try:
        answer = program.ask({"op": "hello"})
    except ProgramError as error:
        raise ProgramError(f"hello: {error}") from error

    def texts(name: str, known: tuple[str, ...] = ()) -> tuple[str, ...]:
        found = answer.get(name)
        if not isinstance(found, list) or not all(isinstance(each, str) for each in found):
            raise ProgramError(f"hello: {name}: expected a list of texts, got {found!r}")
        if unknown := [each for each in found if known and each not in known]:
            wanted = ", ".join(known)
            raise ProgramError(f"hello: {name}: expected some of {wanted}, got {unknown[0]!r}")
        return tuple(found)

    if "error" in answer:
        raise ProgramError(f"hello: the program's own error: {str(answer['error'])[:300]}")
    if answer.get("protocol") != PROTOCOL:
        found = answer.get("protocol")
        raise ProgramError(f"hello: protocol: expected {PROTOCOL}, got {found!r}")
    return Claims(
        str(answer.get("name", "unnamed")),
        str(answer.get("version", "")),
        texts("classes", CLASSES),
        texts("editions", EDITIONS),
        texts("operations"),
    )


def skip_reason(case: Case, claims: Claims) -> str | None:
    """Return why a program need not answer a case; None if it has to."""
    if case.operation not in claims.operations:
        return f"operation {case.operation} not claimed"
    if case.conformance_class is not None and case.conformance_class not in claims.classes:
        return f"class {case.conformance_class} not claimed"
    if case.editions and not set(case.editions) & set(claims.editions):
        return f"edition {' or '.join(case.editions)} not claimed"
    return None


def run_cases(
    program: Answers, cases: Iterable[Case], note: Callable[[Result], None] = lambda _: None
) -> Outcome:
    """Ask a program everything that it claims.

    Args:
        program: The program.
        cases: What to ask.
        note: Called with each result.

    Returns:
        The results.

    Raises:
        ProgramError: The program does not say what it claims.
    """
    outcome = Outcome(hello(program))
    silent = 0
    for case in cases:
        reason = skip_reason(case, outcome.claims)
        if reason is not None:
            result = Result(case, SKIPPED, reason)
        elif silent >= _GIVE_UP_AFTER:
            why = f"not asked: {_GIVE_UP_AFTER} cases in a row without an answer"
            result = Result(case, FAILED, why)
        else:
            result, is_silent = _run_case(program, case, outcome.claims)
            silent = silent + 1 if is_silent else 0
        outcome.results.append(result)
        note(result)
    return outcome


def _run_case(program: Answers, case: Case, claims: Claims) -> tuple[Result, bool]:
    request = dict(case.request)
    if case.editions:
        request["edition"] = [each for each in case.editions if each in claims.editions][-1]
    start = time.monotonic()
    try:
        answer = program.ask(request)
    except ProgramError as error:
        return Result(case, FAILED, str(error), time.monotonic() - start), True
    seconds = time.monotonic() - start
    if "unsupported" in answer:
        why = f"the program does not support it: {answer['unsupported']}"
        return Result(case, SKIPPED, why, seconds), False
    if "error" in answer:
        why = f"the program's own error: {str(answer['error'])[:300]}"
        return Result(case, FAILED, why, seconds), False
    problem = problem_of(case.expected, answer)
    if problem is None:
        return Result(case, PASSED, "", seconds), False
    return Result(case, FAILED, problem, seconds), False
