"""Telling a file that was planned from another one that took its name since.

A broker appends in place: it leaves the size, the inode, the header's ``begin_*`` fields and every
entry that was counted as they were.
Whatever else replaces a file, such as a relayout, an overwrite, a copy that is restored or a
rewrite in place, changes at least one of them.
Inode numbers are given out again, so entries are compared as well: the first and the last ones, a
page of each, since comparing all would cost as much as a scan.
An object store says by itself whether an object is the same: its ETag.
A store that knows only when a file was modified (HDFS) proves nothing by that; entries are compared
there as well.
"""

from __future__ import annotations

import platform
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from rmqindex.errors import RmqIndexError

if TYPE_CHECKING:
    import os
    from collections.abc import Callable, Mapping


__all__ = ["FileChangedError", "FileIdentity"]

_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")
# What S3, Google Cloud Storage and Azure call the version of an object, without case and hyphens.
# Where a bucket keeps no versions, each object in turn may have the version "null".
_VERSIONS = ("etag", "generation", "versionid")
_NO_VERSION = b"null"


@dataclass(frozen=True, slots=True)
class FileIdentity:
    """Which file a path named when it was looked at.

    Attributes:
        size: Bytes.
        version: The store's own mark of the content of a remote object; empty where it has none,
            and for a local file.
        machine: Where ``device`` means anything: the boot of a kernel; empty for a remote object.
        device: The file system.
        inode: The file's number in it.
        modified: When its content was changed last, nanoseconds since the epoch; 0 for a remote
            object that has a version.
        changed: When it, its name or its links were changed last, likewise.
    """

    size: int
    version: str = ""
    machine: str = ""
    device: int = 0
    inode: int = 0
    modified: int = 0
    changed: int = 0

    @classmethod
    def of_stat(cls, stat: os.stat_result) -> FileIdentity:
        """Return the identity of a local file."""
        return cls(
            size=stat.st_size,
            machine=_machine(),
            device=stat.st_dev,
            inode=stat.st_ino,
            modified=stat.st_mtime_ns,
            changed=stat.st_ctime_ns,
        )

    @classmethod
    def of_object(
        cls, size: int, metadata: Mapping[str, bytes], modified: Callable[[], int]
    ) -> FileIdentity:
        """Return the identity of a remote object.

        Args:
            size: Its size in bytes.
            metadata: What the store says of it.
            modified: Asks the store when it was modified; called where ``metadata`` has no version.
        """
        marks = {name.lower().replace("-", ""): value for name, value in metadata.items()}
        for name in _VERSIONS:
            mark = marks.get(name)
            if mark and mark != _NO_VERSION:
                return cls(size=size, version=f"{name} {mark!r}")
        return cls(size=size, modified=modified())

    def names_same(self, found: FileIdentity) -> bool:
        """Return whether a file that was found later can be this one.

        Device numbers are compared on one machine only, and on mounts whose inode numbers change
        from one opening to the next the times decide.
        """
        if self.size != found.size or self.version != found.version:
            return False
        if (self.modified, self.changed) == (found.modified, found.changed):
            return True
        is_local = bool(self.machine and found.machine)
        is_same_device = self.machine != found.machine or self.device == found.device
        return is_local and is_same_device and self.inode == found.inode


class FileChangedError(RmqIndexError):
    """A file is not the one that was found before.

    Attributes:
        path: The file.
        what: What was done to it.
        remedy: What to do about it.
    """

    def __init__(self, path: object, what: str, remedy: str = "open it again") -> None:
        """Keep the parts of the message as attributes."""
        super().__init__(f"{path}: the file was {what} since it was found; {remedy}")
        self.path = str(path)
        self.what = what
        self.remedy = remedy

    def __reduce__(self) -> tuple[type[FileChangedError], tuple[str, str, str]]:
        """Pickle by the parts."""
        return (type(self), (self.path, self.what, self.remedy))


@cache
def _machine() -> str:
    """Return what tells this boot of this machine from all others."""
    try:
        return _BOOT_ID.read_text(encoding="ascii").strip()
    except OSError:
        return platform.node() or "localhost"
