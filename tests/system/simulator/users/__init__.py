"""Those who use a store: commands as typed, methods as called, data sources as Spark calls them.

A user is asked by name, with a question of plain values, and gives an :class:`Outcome`; so a
question can be a step of a history, printed and asked again.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .codec import CODEC
from .commands import COMMANDS, run
from .holding import write_meanwhile
from .outcome import Outcome, Place
from .spark import SOURCES, STREAMS
from .store import METHODS, let_go
from .writing import write

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = [
    "READERS",
    "STREAMS",
    "Outcome",
    "Place",
    "ask",
    "let_go",
    "run",
    "write",
    "write_meanwhile",
]

#: Everyone who reads.
READERS: dict[str, Callable[[Place, dict[str, Any], str], Outcome]] = {
    **COMMANDS,
    **METHODS,
    **CODEC,
    **SOURCES,
    **STREAMS,
}


def ask(place: Place, user: str, question: dict[str, Any]) -> Outcome:
    """Ask someone.

    Args:
        place: The store.
        user: A name of ``READERS``.
        question: What is asked, as plain values.
    """
    return READERS[user](place, question, user)
