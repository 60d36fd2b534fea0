"""The files of one CommitLog, opened on first use."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rmqindex.commitlog.files import mapped_file_size_of
from rmqindex.storage.marks import ensure_same
from rmqindex.storage.opening import open_found

if TYPE_CHECKING:
    from rmqindex.commitlog.files import LogFile
    from rmqindex.storage.source import ByteSource

__all__ = ["OpenFiles"]

# Bytes of the size and the magic code, which are not both 0 in a written record.
_MARK_SIZE = 8


class OpenFiles:
    """The files of a log; each stays open from its first use until all are closed.

    Attributes:
        files: The files by offset.
    """

    def __init__(self, files: tuple[LogFile, ...]) -> None:
        """Set the files, without opening any.

        Args:
            files: By offset.
        """
        self.files = files
        self._sources: dict[int, ByteSource] = {}

    @property
    def mapped_file_size(self) -> int | None:
        """The size in bytes that the broker gives to files; None without files."""
        return mapped_file_size_of(self.files)

    def source(self, file: LogFile) -> ByteSource:
        """Return one of the files, which stays open until the log is closed."""
        source = self._sources.get(file.start)
        if source is None:
            source = self.open_file(file)
            self._sources[file.start] = source
        return source

    def open_file(self, file: LogFile) -> ByteSource:
        """Open one of the files anew; the caller closes it.

        Raises:
            RmqIndexError: It is gone, cannot be read, or was changed since it was found.
        """
        return open_found(file.path, file.size, file.mark)

    def ensure_same(self) -> None:
        """Raise if an open file was changed since it was opened."""
        for file in self.files:
            if file.start in self._sources:
                ensure_same(self._sources[file.start], file.mark)

    def close(self) -> None:
        """Close all files; they are reopened when needed."""
        for source in self._sources.values():
            source.close()
        self._sources.clear()

    def last_with_data(self) -> int:
        """Return the place in :attr:`files` of the last file with data; -1 without any."""
        for number in range(len(self.files) - 1, -1, -1):
            if self._holds_data(self.files[number]):
                return number
        return -1

    def _holds_data(self, file: LogFile) -> bool:
        """Return whether anything was written to a file."""
        source = self.source(file)
        return any(bytes(source.read(0, min(_MARK_SIZE, source.size, file.size))))
