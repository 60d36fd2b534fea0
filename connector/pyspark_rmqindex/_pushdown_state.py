"""What all plannings of one relation asked for: a small locked file on the driver's host.

Spark 4.1 to 4.3 keep one plan for all scans of a relation and let a scan run with the plan that
another one made.
So each planning must ask for the rows of every earlier one as well, and planning processes come
and go: what was asked for is kept in a file, one for each relation, which is made where
``load()`` makes the data source.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import tempfile
import time
import uuid
from pathlib import Path
from typing import TYPE_CHECKING

from pyspark_rmqindex._filters import MAX_PAIRS, Wanted

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["RelationState", "create_state", "locked_state", "state_directory"]

# Where two threads plan one relation at once, Spark stores the plans in any order. A planning that
# met an unfinished one ends this much later, seconds, so that its own plan, the wider, is stored
# last. Measured: 0 of 800 lookups wrong, 4 of 700 without.
_SETTLING = 0.1

_MISSING = (
    "the record of this table()'s earlier queries is not at {path}: {error}. Without it, answers "
    "could be incomplete; make a fresh table()"
)


def state_directory() -> Path:
    """Return the directory for what planning processes leave to each other.

    Spark gives them a local directory of the application's own, which goes with it.
    """
    first = os.environ.get("SPARK_LOCAL_DIRS", "").split(",")[0]
    return Path(first or tempfile.gettempdir()) / "rmqindex"


def create_state() -> str:
    """Make the state of a new relation.

    Returns:
        The path of its file.

    Raises:
        OSError: The file cannot be made.
    """
    directory = state_directory()
    directory.mkdir(mode=0o700, parents=True, exist_ok=True)
    path = directory / f"relation-{uuid.uuid4().hex}.json"
    with path.open("x") as file:
        json.dump({"wanted": None, "finished": None}, file)
    return str(path)


class RelationState:
    """The state of one relation while its lock is held."""

    def __init__(self, path: str, wanted: Wanted | None) -> None:
        """Start from what earlier plannings asked for; None before the first."""
        self._path = path
        self.wanted = wanted

    def widen(self, wanted: Wanted) -> Wanted:
        """Return what this planning and all earlier ones ask for, and keep it.

        Raises:
            ValueError: Too many pairs.
        """
        widened = wanted if self.wanted is None else self.wanted.widened(wanted)
        if widened.pairs is not None and len(widened.pairs) > MAX_PAIRS:
            raise ValueError(
                f"{len(widened.pairs)} pairs of topic and key were asked of this table(): expected "
                f"at most {MAX_PAIRS} over all its queries; make a fresh table() for the next ones"
            )
        if widened.key_hashes is not None and len(widened.key_hashes) > MAX_PAIRS:
            widened = Wanted(
                None, None, widened.time, widened.phy_offset, widened.position
            )  # reading everything is right as well, only slower
        self.wanted = widened
        return widened


@contextlib.contextmanager
def locked_state(path: str, arrival: float) -> Iterator[RelationState]:
    """Hold the state of a relation for one planning.

    What was widened is written when the block ends, and not when it raises: a refused query is
    not recorded.

    Args:
        path: What :func:`create_state` returned.
        arrival: When this planning began, ``time.monotonic()`` seconds; on one host that clock is
            the same for all processes.

    Yields:
        The state; the lock is released at the end of the block.

    Raises:
        ValueError: The file is missing or damaged.
    """
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_CLOEXEC)
    except OSError as error:
        raise ValueError(_MISSING.format(path=path, error=error.strerror)) from error
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        try:
            data = json.loads(os.pread(descriptor, os.fstat(descriptor).st_size, 0))
            wanted = None if data["wanted"] is None else Wanted.from_json(data["wanted"])
            finished = data["finished"]
        except (ValueError, KeyError, TypeError) as error:
            raise ValueError(_MISSING.format(path=path, error="damaged")) from error
        overlapping = finished is not None and arrival < finished
        state = RelationState(path, wanted)
        yield state
        if overlapping:
            time.sleep(max(0.0, finished + _SETTLING - time.monotonic()))
        text = json.dumps(
            {
                "wanted": None if state.wanted is None else state.wanted.to_json(),
                "finished": time.monotonic(),
            }
        ).encode()
        os.pwrite(descriptor, text, 0)
        os.ftruncate(descriptor, len(text))
    finally:
        os.close(descriptor)  # which releases the lock
