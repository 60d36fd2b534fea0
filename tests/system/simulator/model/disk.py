"""The files of the model broker: each write goes to the disk at once, as through a mapping."""

from __future__ import annotations

import fcntl
import os
import shutil
import struct
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

    from tests.system.simulator.draw import Draw

# The functions as they are now: a recorder of the package's calls does not see the broker's.
_open, _close, _pwrite = os.open, os.close, os.pwrite
_ftruncate, _unlink, _makedirs = os.ftruncate, os.unlink, os.makedirs


class Disk:
    """The files below one directory."""

    def __init__(self, root: Path) -> None:
        """Begin with a directory, which need not exist."""
        self.root = root
        self._open_files: dict[str, int] = {}
        self._lock = -1
        #: What of the files would survive a power cut, and which of them were changed since.
        self._synced: dict[str, bytes] = {}
        self._changed: set[str] = set()

    def write(self, name: str, at: int, data: bytes) -> None:
        """Change bytes of a file, which is made if it is not there."""
        file = self._open_files.get(name)
        if file is None:
            path = self.root / name
            _makedirs(path.parent, exist_ok=True)
            file = self._open_files[name] = _open(path, os.O_RDWR | os.O_CREAT, 0o644)
        _pwrite(file, data, at)
        self._changed.add(name)

    def create(self, name: str, size: int) -> None:
        """Make a file of zeros, or give one that is there its size."""
        self.write(name, 0, b"")
        _ftruncate(self._open_files[name], size)

    def replace(self, name: str, data: bytes) -> None:
        """Give a file these bytes and no others."""
        self.create(name, len(data))
        self.write(name, 0, data)

    def read(self, name: str) -> bytes:
        """Return the bytes of a file, none if it is not there."""
        path = self.root / name
        return path.read_bytes() if path.is_file() else b""

    def names(self, folder: str) -> list[str]:
        """Return the names of a folder in order."""
        path = self.root / folder
        return sorted(each.name for each in path.iterdir()) if path.is_dir() else []

    def delete(self, name: str) -> None:
        """Delete a file."""
        self.forget(name)
        (self.root / name).unlink(missing_ok=True)
        self._changed.add(name)

    def delete_folder(self, name: str) -> None:
        """Delete a folder with what is in it."""
        for each in [file for file in self._open_files if file.startswith(f"{name}/")]:
            self.forget(each)
        self._changed |= {each for each in self._synced if each.startswith(f"{name}/")}
        shutil.rmtree(self.root / name, ignore_errors=True)

    def forget(self, name: str) -> None:
        """Close a file."""
        file = self._open_files.pop(name, None)
        if file is not None:
            _close(file)

    def sync(self, *folders: str) -> None:
        """Bring the files of folders, or files, to the disk for good; "" is everything."""
        for name in [each for each in self._changed if each.startswith(folders)]:
            self._changed.discard(name)
            if (self.root / name).is_file():
                self._synced[name] = self.read(name)
            else:
                self._synced.pop(name, None)

    def cut_power(self, draw: Draw, page: int, loss: float) -> None:
        """Lose some of what was not synced.

        Args:
            draw: What is lost.
            page: Bytes that are lost or kept together.
            loss: How probably.
        """
        for name in sorted(self._changed):
            path = self.root / name
            old = self._synced.get(name)
            if not path.is_file():
                if old is not None and draw.chance(loss / 2):
                    self.replace(name, old)  # its deletion is lost
                continue
            now = self.read(name)
            if old is None and draw.chance(loss / 4):
                path.unlink()
                continue
            if old is None and draw.chance(loss / 4):
                self.replace(name, b"")
                continue
            was = (old or b"").ljust(len(now), b"\0")
            kept = b"".join(
                (was if draw.chance(loss) else now)[at : at + page]
                for at in range(0, len(now), page)
            )
            self.replace(name, kept)
        self.sync("")
        self.close()

    def lock(self) -> bool:
        """Take the store's lock as a broker does; tell whether it was free.

        The lock is of the open file, so that it holds within this process too, and conflicts with
        those of processes as the broker's does.
        """
        _makedirs(self.root, exist_ok=True)
        file = _open(self.root / "lock", os.O_RDWR | os.O_CREAT, 0o644)
        request = struct.pack("hhqqi4x", fcntl.F_WRLCK, os.SEEK_SET, 0, 1, 0)
        try:
            fcntl.fcntl(file, fcntl.F_OFD_SETLK, request)
        except OSError:
            _close(file)
            return False
        _pwrite(file, b"lock", 0)
        self._lock = file
        return True

    def close(self) -> None:
        """Close every file; the lock goes with them."""
        for file in self._open_files.values():
            _close(file)
        self._open_files.clear()
        if self._lock >= 0:
            _close(self._lock)
            self._lock = -1
