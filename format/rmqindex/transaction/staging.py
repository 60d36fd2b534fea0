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

    from rmqindex.transaction.owner import Owner
    from rmqindex.transaction.undo import UndoableAppend

__all__ = ["Staging", "create_staging"]


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
        """Make files that this process has built available to the others.

        Args:
            names: Names below :attr:`path`.

        Raises:
            RmqIndexError: The storage failed.
        """

    def fetch(self, names: Sequence[str]) -> None:
        """Bring files that other processes have published into :attr:`path`.

        Args:
            names: Their names; those that :attr:`path` already has are kept.

        Raises:
            RmqIndexError: The storage failed, or the job was ended.
        """

    def fetch_indexed(self, place: Location, name: str) -> None:
        """Copy a file of the index into :attr:`path`, to continue it there.

        Args:
            place: The path of its bytes, from a listing of the directory.
            name: The name of the copy, not in use yet.

        Raises:
            RmqIndexError: The storage failed.
            OSError: The disk is full or broken, or the job was ended.
        """

    def leave(self) -> None:
        """Remove the files that this process has built but not published."""

    def exclusive(self, *, create: bool = False) -> AbstractContextManager[None]:
        """Keep other commits out, after undoing or finishing dead ones.

        Args:
            create: Whether to accept a job that has staged nothing so far.

        Raises:
            RmqIndexError: The job was ended, another commit is under way for too long, or the
                storage failed.
        """

    def last_name(
        self, there: Sequence[str], *, replaced: bool, latest: str | None = None
    ) -> str | None:
        """Return the name that new names must come after; None for any.

        Args:
            there: The names of the present IndexFiles, in the broker's order.
            replaced: Whether the commit replaces all of them.
            latest: The greatest name that is not in the future, as :func:`last_used` takes it.

        Raises:
            RmqIndexError: The name that an earlier commit kept is damaged or unreadable.
        """

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

        Args:
            new: The published files, and their final names.
            removed: The names of the files to remove, whether or not a new one takes the name.
            append: The append to a file of the directory, made in the same step; only where
                :attr:`continues_in_place`.
            ledger: The ledger entry, as JSON can hold it, made in the same step; likewise.

        Raises:
            RmqIndexError: The files cannot be added, or the storage failed.
        """

    def discard(self) -> None:
        """Remove the job's files; harmless after its commit, and when done twice."""


def create_staging(directory: str | os.PathLike[str], owner: Owner) -> Staging:
    """Begin a job, and undo, finish or remove dead ones.

    Args:
        directory: The index directory, which may be absent: a local path, or a URI of an object
            store.
        owner: The process whose death makes the job void.

    Raises:
        RmqIndexError: The storage failed, or no file can be staged beside the directory.
    """
    location = Location.of(directory)
    if location.local is None:
        return ObjectStaging.create(location, owner)
    return LocalStaging.create(location.local, owner)
