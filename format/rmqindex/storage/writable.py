"""Files that are being written: each error names its file, and no write is cut short in silence.

``os.write`` and its kin know only a descriptor, and may write less than they were given. So all
writing goes through :class:`WritableFile`; other modules may not call them.
"""

from __future__ import annotations

import contextlib
import errno
import io
import os
import stat
from typing import TYPE_CHECKING

from rmqindex.storage.disk import naming, open_regular, open_to_read

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from typing_extensions import Buffer

_COPY_BYTES = 1 << 24
_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL


class WritableFile(io.FileIO):
    """A regular file, unbuffered; a symbolic link or a pipe is refused."""

    def __init__(self, path: str | os.PathLike[str], flags: int = _NEW) -> None:
        """Open it."""
        super().__init__(os.fspath(path), "r+b", opener=lambda name, _: open_regular(name, flags))

    def write(self, data: Buffer, /) -> int:
        """Write all bytes at the file's position; return how many."""
        left = memoryview(data).cast("B")
        size = len(left)
        with naming(self.name):
            while left:
                left = left[os.write(self.fileno(), left) :]  # noqa: TID251  (the one place)
        return size

    def write_at(self, data: Buffer, offset: int) -> None:
        """Write all bytes at an offset."""
        left = memoryview(data).cast("B")
        with naming(self.name):
            while left:
                written = os.pwrite(self.fileno(), left, offset)  # noqa: TID251  (the one place)
                left, offset = left[written:], offset + written

    def read_at(self, size: int, offset: int) -> bytes:
        """Read exactly ``size`` bytes, with zeros behind the end of the file."""
        parts = []
        with naming(self.name):
            while size:
                part = os.pread(self.fileno(), size, offset) or bytes(size)
                parts.append(part)
                size, offset = size - len(part), offset + len(part)
        return b"".join(parts)

    def resize(self, size: int) -> None:
        """Cut the file, or extend it by a hole."""
        with naming(self.name):
            os.ftruncate(self.fileno(), size)  # noqa: TID251  (the one place)

    def sync(self) -> None:
        """Sync its bytes and its size to disk, but not its name."""
        with naming(self.name):
            os.fsync(self.fileno())  # noqa: TID251  (with directories, the one place)

    def sync_data(self) -> None:
        """Sync its bytes to disk, and of its metadata what reading them needs."""
        with naming(self.name):
            os.fdatasync(self.fileno())  # noqa: TID251  (the one place)

    def close(self) -> None:
        """Close it."""
        with naming(self.name):
            super().close()


def write_own(path: Path, data: bytes, mode: int | None = None, *, sync: bool = True) -> None:
    """Replace a file of this project, and sync it to disk.

    Args:
        path: The file; whatever has its name is replaced, a link included.
        data: Its whole content.
        mode: Its permissions; None for those of any new file.
        sync: False for one that nobody needs after the machine has failed.

    Raises:
        OSError: It cannot be written.
    """
    path.unlink(missing_ok=True)
    with WritableFile(path) as file:
        file.write(data)
        if mode is not None:
            with naming(path):
                os.fchmod(file.fileno(), mode)
        if sync:
            file.sync()


def copy_sparse(source: Path, target: Path) -> None:
    """Copy a file without filling its holes; the copy is synced to disk.

    Its mode is kept, and its owner where this process may set it: a broker must still be able to
    open the copy.
    """
    with open(source, "rb", 0, opener=open_to_read) as reader, WritableFile(target) as writer:
        status = os.fstat(reader.fileno())
        with naming(target):
            os.fchmod(writer.fileno(), stat.S_IMODE(status.st_mode))
            with contextlib.suppress(PermissionError):
                os.fchown(writer.fileno(), status.st_uid, status.st_gid)
        writer.resize(status.st_size)
        for start, data in _written_blocks(source, reader.fileno(), status.st_size):
            writer.write_at(data, start)
        writer.sync()


def _written_blocks(path: Path, descriptor: int, size: int) -> Iterator[tuple[int, bytes]]:
    """Yield the bytes of a file outside its holes, each block with its offset."""
    with naming(path):
        stop = 0
        while stop < size:
            try:
                start = os.lseek(descriptor, stop, os.SEEK_DATA)
            except OSError as error:
                if error.errno == errno.ENXIO:  # only a hole follows
                    return
                raise
            stop = os.lseek(descriptor, start, os.SEEK_HOLE)
            while start < stop:
                data = os.pread(descriptor, min(_COPY_BYTES, stop - start), start)
                if not data:
                    break
                yield start, data
                start += len(data)
