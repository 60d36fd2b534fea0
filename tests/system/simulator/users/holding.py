"""A program that writes, and in between asks, or meets a broker that starts."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from .outcome import Outcome, attempt

if TYPE_CHECKING:
    from collections.abc import Callable

    from .outcome import Place

__all__ = ["write_meanwhile"]


def write_meanwhile(
    place: Place, what: str, sizes: tuple[int, int], meanwhile: Callable[[], object]
) -> Outcome:
    """Write into a store, and do something once when the first messages have been read.

    Args:
        place: The store.
        what: ``rebuild_index --resume``, ``rebuild_index`` or ``rebuild_consume_queues``; these
            replace what is there.
        sizes: Bytes of the broker's files of queues and of batch queues.
        meanwhile: What is done, in the same process.
    """
    from rmqindex import Layout, RmqIndexError, rebuild_consume_queues, rebuild_index

    done = []

    def progress(*_: int) -> None:
        if not done:
            done.append(meanwhile())

    def write(outcome: Outcome) -> None:
        root = Path(place.root)
        if what.startswith("rebuild_index"):
            layout = Layout(*place.layout) if place.layout else None
            how = {"resume" if what.endswith("resume") else "replace": True}
            result = rebuild_index(
                root, root / "index", layout, time_zone="UTC", progress=progress, **how
            )
        else:
            plain, batch = sizes
            how = {"file_size": plain, "batch_file_size": batch, "replace": True}
            result = rebuild_consume_queues(root, root, progress=progress, **how)
        outcome.notes += [part.text() for part in result.missing]

    outcome = Outcome(what, "written", {})
    return attempt(outcome, write, (RmqIndexError, ValueError))
