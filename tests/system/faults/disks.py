"""File systems in memory, where they can be mounted."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

PAGE = 4096
_SIZE = 64 << 20

# As root, and as anybody where the kernel gives name spaces to all.
_NAME_SPACES = (("unshare", "--mount"), ("unshare", "--mount", "--map-root-user"))
_TRY = ("mount", "-t", "tmpfs", "tmpfs", "/mnt")


def mounting():
    """Return the command under which a program may mount, or None."""
    for command in _NAME_SPACES:
        try:
            tried = subprocess.run([*command, *_TRY], check=False, capture_output=True)
        except FileNotFoundError:
            return None
        if not tried.returncode:
            return command
    return None


class SmallDisk:
    """A file system in memory; a context manager."""

    def __init__(self, folder):
        """Mount it on a folder."""
        self.folder = Path(folder)
        mount = ["mount", "-t", "tmpfs", "-o", f"size={_SIZE}", "tmpfs", self.folder]
        subprocess.run(mount, check=True, capture_output=True)

    def __enter__(self):
        """Return the disk."""
        return self

    def __exit__(self, *_):
        """Unmount it, with all that it holds."""
        subprocess.run(["umount", "--lazy", self.folder], check=True)

    def fill(self, left):
        """Fill it, but for some bytes."""
        status = os.statvfs(self.folder)
        free = status.f_bavail * status.f_bsize
        with (self.folder / "filler").open("wb") as file:
            os.posix_fallocate(file.fileno(), 0, max(free - left, PAGE))

    def drain(self):
        """Undo :meth:`fill`."""
        (self.folder / "filler").unlink()


def fill_holes(directory):
    """Write every byte of files.

    Even to read a hole through a mapping, this kind of file system needs a free page; on a full
    one the process that reads is ended by SIGBUS. No other kind does that.
    """
    for path in directory.iterdir():
        data = path.read_bytes()
        with path.open("r+b") as file:
            file.write(data)
