"""What came of one question: an answer, a refusal by name, or a crash."""

from __future__ import annotations

import io
import json
import sys
import threading
import traceback
import warnings
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

__all__ = ["Outcome", "Place", "Printed", "attempt", "capture"]

ANSWERED, REFUSED, CRASHED, HUNG = "answered", "refused", "crashed", "hung"


@dataclass(frozen=True)
class Place:
    """Where a store is, and where its users may put what they write.

    Attributes:
        root: The store root.
        aside: A folder of the users' own, for exports and checkpoints of streams.
        layout: The broker's slots and entries, or None where users have it inferred.
    """

    root: str
    aside: str
    layout: tuple[int, int] | None = None


@dataclass
class Outcome:
    """What came of one question.

    Attributes:
        user: Who asked, such as ``lookup`` or ``MessageStore.lookup``.
        kind: What the rows are: ``hits``, ``entries``, ``messages``, ``units``, ``findings`` ..
        asked: The question.
        status: ``answered``, ``refused``, ``crashed`` or ``hung``.
        rows: The answer, in the form of its kind.
        error: The class of the exception.
        text: What the refusal says, or the traceback.
        code: The exit code of a command.
        argv: What was typed.
        options: The options that the command has.
        documents: How many JSON documents were printed.
        notes: What the answer says about itself: warnings, metadata, lines on standard error.
    """

    user: str
    kind: str
    asked: dict[str, Any]
    status: str = ANSWERED
    rows: Any = None
    error: str = ""
    text: str = ""
    code: int | None = None
    argv: tuple[str, ...] = ()
    options: frozenset[str] = frozenset()
    documents: int = 0
    stdout: str = ""
    stderr: str = ""
    notes: list[str] = field(default_factory=list)

    @property
    def is_answer(self) -> bool:
        """Whether there are rows to judge."""
        return self.status == ANSWERED

    def told(self) -> str:
        """Return one line about it."""
        asked = json.dumps(self.asked, ensure_ascii=False)
        last = (self.text or self.stderr).strip().rpartition("\n")[2]
        return f"{self.user} {asked}: {self.status} {self.error} {last}".strip()


class Printed(threading.local):
    """What the current thread prints."""

    def __init__(self) -> None:
        """Begin with nothing."""
        self.streams: dict[str, io.TextIOWrapper] = {}
        self.warnings: list[str] = []


_PRINTED = Printed()


class _OfThread:
    """A standard stream, which each thread has for itself while it is captured."""

    def __init__(self, name: str, real: Any) -> None:
        self._name = name
        self._real = real

    def __getattr__(self, name: str) -> Any:
        return getattr(_PRINTED.streams.get(self._name, self._real), name)


def _show(message: Any, category: type[Warning], *_: Any, **__: Any) -> None:
    _PRINTED.warnings.append(f"{category.__name__}: {message}")


def _install() -> None:
    if not isinstance(sys.stdout, _OfThread):
        sys.stdout = _OfThread("stdout", sys.stdout)  # type: ignore[assignment]
        sys.stderr = _OfThread("stderr", sys.stderr)  # type: ignore[assignment]


@contextmanager
def capture(outcome: Outcome) -> Iterator[None]:
    """Take what is printed and warned meanwhile into an outcome."""
    _install()
    streams = {
        name: io.TextIOWrapper(io.BytesIO(), encoding="utf-8", write_through=True)
        for name in ("stdout", "stderr")
    }
    before, _PRINTED.streams = _PRINTED.streams, streams
    _PRINTED.warnings = []
    shown, warnings.showwarning = warnings.showwarning, _show  # type: ignore[assignment]
    filters = warnings.filters[:]
    warnings.simplefilter("always")
    warnings.filterwarnings("ignore", category=DeprecationWarning)
    warnings.filterwarnings("ignore", category=ResourceWarning)
    try:
        yield
    finally:
        warnings.showwarning = shown
        warnings.filters[:] = filters  # type: ignore[index]
        warnings._filters_mutated()  # type: ignore[attr-defined]
        _PRINTED.streams = before
        for name, stream in streams.items():
            data = stream.buffer.getvalue()  # type: ignore[attr-defined]
            setattr(outcome, name, data.decode("utf-8", "surrogateescape"))
        outcome.notes += _PRINTED.warnings


def attempt(
    outcome: Outcome,
    ask: Callable[[Outcome], Any],
    refusals: tuple[type[BaseException], ...],
) -> Outcome:
    """Ask, and return what came of it.

    Args:
        outcome: Who asks what; it is filled.
        ask: Returns rows; it may add notes.
        refusals: The exceptions that are refusals by name; any other is a crash.
    """
    with capture(outcome):
        try:
            outcome.rows = ask(outcome)
        except refusals as error:
            outcome.status, outcome.error, outcome.text = REFUSED, _name(error), str(error)
        except Exception as error:  # noqa: BLE001  (a crash is an outcome)
            outcome.status, outcome.error = CRASHED, _name(error)
            outcome.text = traceback.format_exc()
    outcome.notes += [line for line in outcome.stderr.splitlines() if line.strip()]
    return outcome


def _name(error: BaseException) -> str:
    return type(error).__name__
