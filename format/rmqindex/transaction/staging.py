"""The staging of one job until its commit: its interface, local or on S3."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from rmqindex.storage.location import Location
from rmqindex.transaction.local_staging import LocalStaging
from rmqindex.transaction.object_staging import ObjectStaging

if TYPE_CHECKING:
    import os
    from collections.abc import Mapping, Sequence
    from contextlib import AbstractContextManager
    from pathlib import Path

    from rmqindex.transaction.append_undo import UndoableAppend
    from rmqindex.transaction.owner import Owner


class Staging(Protocol):
    """The files of one job, from their making in many processes to one commit; picklable.

    One process builds files in :attr:`path` and publishes them; another one, such as the one that
    commits, fetches those that it has to read.
    """

    @property
    def directory(self) -> Path | Location:
        """The index directory; it need not exist yet."""

    @property
    def path(self) -> Path:
        """The local directory in which this process finds and builds the job's files."""

    @property
    def continues_in_place(self) -> bool:
        """Whether a commit can append to a file in place, instead of replacing it."""

    @property
    def can_move(self) -> bool:
        """Whether a staged file can be moved into the directory in one step."""

    def publish(self, names: Sequence[str]) -> None:
        """Make files that this process has built available to the others."""

    def fetch(self, names: Sequence[str]) -> None:
        """Bring files that other processes have published into :attr:`path`."""

    def fetch_indexed(self, place: Location, name: str) -> None:
        """Copy a file of the index into :attr:`path`, to continue it there."""

    def leave(self) -> None:
        """Remove the files that this process has built but not published."""

    def exclusive(self, *, create: bool = False) -> AbstractContextManager[None]:
        """Keep other commits out, after undoing or finishing dead ones."""

    def last_name(
        self, there: Sequence[str], *, replaced: bool, latest: str | None = None
    ) -> str | None:
        """Return the name that new names must come after; None for any."""

    def commit(
        self,
        new: Sequence[tuple[Path, str]],
        removed: Sequence[str],
        *,
        append: UndoableAppend | None = None,
        ledger: Mapping[str, object] | None = None,
    ) -> None:
        """Add files to the directory and remove others, in one step.

        Call it within :meth:`exclusive`.
        """

    def discard(self) -> None:
        """Remove the job's files; harmless after its commit, and when done twice."""


def create_staging(directory: str | os.PathLike[str], owner: Owner) -> Staging:
    """Begin a job, and undo, finish or remove dead ones."""
    location = Location.of(directory)
    if location.local is None:
        return ObjectStaging.create(location, owner)
    return LocalStaging.create(location.local, owner)
