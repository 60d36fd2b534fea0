"""A snapshot of an index directory, by which a long job notices another writer."""

from __future__ import annotations

import os
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from rmqindex.errors import RmqIndexError
from rmqindex.fileset.paths import list_index_files
from rmqindex.indexfile.committed import open_index_source, read_header
from rmqindex.layout import HEADER_SIZE
from rmqindex.transaction.directories import exists

if TYPE_CHECKING:
    from rmqindex.header import IndexHeader
    from rmqindex.storage.identity import FileIdentity
    from rmqindex.transaction.directories import FileEntry

__all__ = ["Snapshot"]


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The IndexFiles of a directory at one moment.

    Attributes:
        files: The files, oldest first.
        headers: The name, size in bytes and header of each; None for a file shorter than a header.
        identities: The identity of each, without the time that linking changes.
    """

    files: tuple[FileEntry, ...]
    headers: tuple[tuple[str, int, IndexHeader | None], ...]
    identities: tuple[FileIdentity, ...]

    @classmethod
    def of(cls, directory: str | os.PathLike[str]) -> Snapshot:
        """Read the headers; an absent directory has no files.

        Raises:
            RmqIndexError: A file cannot be read.
        """
        files = list_index_files(directory) if exists(directory) else []
        headers, identities = [], []
        for entry in files:
            with open_index_source(entry.path) as source:
                header = read_header(source) if source.size >= HEADER_SIZE else None
                identities.append(replace(source.identity, changed=0))
            headers.append((entry.name, entry.size, header))
        return cls(tuple(files), tuple(headers), tuple(identities))

    @property
    def names(self) -> list[str]:
        """The names of the files."""
        return [entry.name for entry in self.files]

    @property
    def entry_count(self) -> int:
        """How many entries the headers count; a file without a header has none."""
        return sum(header.entry_count for _, _, header in self.headers if header is not None)

    def without_last(self) -> Snapshot:
        """Return the snapshot without the last file."""
        return Snapshot(self.files[:-1], self.headers[:-1], self.identities[:-1])

    def ensure_unchanged(self, directory: str | os.PathLike[str]) -> None:
        """Raise if another writer has changed the directory.

        Call it within :meth:`rmqindex.transaction.Staging.exclusive`.

        Raises:
            RmqIndexError: It has other files, or one was written to.
        """
        if Snapshot.of(directory) != self:
            raise RmqIndexError(
                f"{os.fspath(directory)}: the index was changed by another writer meanwhile; "
                "nothing was changed here, run this again"
            )
