"""What an index directory holds at one moment, so that a long job notices another writer."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING

from rmqindex._errors import RmqIndexError
from rmqindex._paths import list_index_files
from rmqindex._storage import open_source

if TYPE_CHECKING:
    from rmqindex._paths import FileEntry

__all__ = ["Snapshot"]


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The IndexFiles of a directory.

    Attributes:
        files: They, oldest first.
        headers: Name, size in bytes and header of each.
    """

    files: tuple[FileEntry, ...]
    headers: tuple[tuple[str, int, bytes], ...]

    @classmethod
    def of(cls, directory: str | os.PathLike[str]) -> Snapshot:
        """Read the headers; a directory that is not there has no files.

        Raises:
            RmqIndexError: A file cannot be read.
        """
        files = list_index_files(directory) if os.path.exists(directory) else []  # noqa: PTH110
        return cls(tuple(files), tuple(map(_identity, files)))

    @property
    def names(self) -> list[str]:
        """The names of the files."""
        return [entry.name for entry in self.files]

    def ensure_unchanged(self, directory: str | os.PathLike[str]) -> None:
        """Refuse to go on where another writer has changed the directory.

        To be called within :meth:`rmqindex._journal.Staging.exclusive`.

        Raises:
            RmqIndexError: It holds other files, or more entries.
        """
        if Snapshot.of(directory).headers != self.headers:
            raise RmqIndexError(
                f"{os.fspath(directory)}: the index was changed by another writer meanwhile; "
                "nothing was changed here, run this again"
            )


def _identity(entry: FileEntry) -> tuple[str, int, bytes]:
    with open_source(entry.path) as source:
        header = bytes(source.header()) if source.size else b""
    return entry.name, entry.size, header
