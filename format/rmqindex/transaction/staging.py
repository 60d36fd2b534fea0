"""What one job stages until its commit, wherever the index directory is."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Protocol

from rmqindex.storage.location import is_remote
from rmqindex.transaction.local_staging import LocalStaging
from rmqindex.transaction.object_staging import ObjectStaging

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from contextlib import AbstractContextManager
    from pathlib import Path

    from rmqindex.transaction.owner import Owner
    from rmqindex.transaction.undo import UndoableAppend

__all__ = ["Staging", "create_staging"]


class Staging(Protocol):
    """The files of one job, from their making in many processes to one commit; picklable.

    A process builds files below :attr:`path` and publishes them; another one, such as the one that
    commits, fetches those that it has to read.
    """

    @property
    def directory(self) -> Path | str:
        """The index directory; it need not exist yet."""

    @property
    def path(self) -> Path:
        """Where this process finds and builds the job's files."""

    @property
    def continues_in_place(self) -> bool:
        """Whether a commit can append to a file where it stands, which costs what it adds."""

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
        """Bring what other processes have published below :attr:`path`.

        Args:
            names: Their names; those that are there already stay.

        Raises:
            RmqIndexError: The storage failed, or the job was ended.
        """

    def fetch_indexed(self, place: str, name: str) -> None:
        """Copy a file of the index below :attr:`path`, to be continued there.

        Args:
            place: Where its bytes are, as a listing of the directory says.
            name: The name of the copy; nothing has it yet.

        Raises:
            RmqIndexError: The storage failed.
            OSError: The disk is full or broken, or the job was ended.
        """

    def leave(self) -> None:
        """Remove what this process has built and not published."""

    def exclusive(self, *, create: bool = False) -> AbstractContextManager[None]:
        """Keep other commits out, after undoing or finishing those that died.

        Args:
            create: Whether the job may have staged nothing so far.

        Raises:
            RmqIndexError: The job was ended, another commit is under way for too long, or the
                storage failed.
        """

    def last_name(self, there: Sequence[str], *, replaced: bool) -> str | None:
        """Return the name after which new files must be named; None for any.

        Args:
            there: The names of the IndexFiles that are there, in the broker's order.
            replaced: Whether new ones replace them all.

        Raises:
            RmqIndexError: What earlier commits kept cannot be understood or read.
        """

    def commit(
        self,
        new: Sequence[tuple[Path, str]],
        removed: Sequence[str],
        *,
        append: UndoableAppend | None = None,
        ledger: Mapping[str, object] | None = None,
    ) -> None:
        """Bring files into the directory and take others out of it, as one step.

        To be called within :meth:`exclusive`.

        Args:
            new: The published files, and their final names.
            removed: Names of files that go, be it without or by replacement.
            append: What is appended to a file of the directory, in the same step; only where
                :attr:`continues_in_place`.
            ledger: What is recorded in the same step, as JSON can hold it; likewise.

        Raises:
            RmqIndexError: The files cannot be brought in, or the storage failed.
        """

    def discard(self) -> None:
        """Remove what the job staged; harmless after its commit, and when done twice."""


def create_staging(directory: str | os.PathLike[str], owner: Owner) -> Staging:
    """Begin a job, and undo, finish or remove what dead ones left.

    Args:
        directory: The index directory, there or not: a local path, or a URI of an object store.
        owner: The process whose death makes the job void.

    Raises:
        RmqIndexError: The storage failed, or nothing can be staged beside the directory.
    """
    if is_remote(directory):
        return ObjectStaging.create(os.fspath(directory), owner)
    return LocalStaging.create(directory, owner)
