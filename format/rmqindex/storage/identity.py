"""The identity of a file: whether a name still leads to the file that was planned.

A broker appends in place: the size, the inode, the header's ``begin_*`` fields and every counted
entry stay the same.
A relayout, an overwrite, a restored copy or a rewrite in place changes at least one of them.
Inode numbers are reused, so entries are compared as well: a page of the first and a page of the
last ones, since comparing all would cost as much as a scan.
An object store identifies the content of an object by its ETag.
A modification time alone (HDFS) proves nothing, so entries are compared there as well.
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

_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")
# What S3, Google Cloud Storage and Azure call the version of an object, without case and hyphens.
# In a bucket without versioning, every object may have the version "null".
_VERSIONS = ("etag", "generation", "versionid")
_NO_VERSION = b"null"


@dataclass(frozen=True, slots=True)
class FileIdentity:
    """Which file a path led to at one moment.

    Attributes:
        size: Bytes.
        version: The store's own identifier of a remote object's content; empty where it has none,
            and for a local file.
        machine: The boot of the kernel within which ``device`` is valid; empty for a remote object.
        device: The file system.
        inode: The file's number in it.
        modified: When its content was last changed, nanoseconds since the epoch; 0 for a remote
            object that has a version.
        changed: When it, its name or its links were last changed, likewise.
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

    def is_of(self, stat: os.stat_result) -> bool:
        """Return whether a local file's status is unchanged, its times included."""
        return (
            self.inode == stat.st_ino
            and self.size == stat.st_size
            and self.modified == stat.st_mtime_ns
            and self.changed == stat.st_ctime_ns
            and self.device == stat.st_dev
            and self.machine == _machine()
        )

    @classmethod
    def of_object(
        cls, size: int, metadata: Mapping[str, bytes], modified: Callable[[], int]
    ) -> FileIdentity:
        """Return the identity of a remote object."""
        marks = {name.lower().replace("-", ""): value for name, value in metadata.items()}
        for name in _VERSIONS:
            mark = marks.get(name)
            if mark and mark != _NO_VERSION:
                return cls(size=size, version=f"{name} {mark!r}")
        return cls(size=size, modified=modified())

    def names_same(self, found: FileIdentity) -> bool:
        """Return whether a file found later can be this one.

        Device numbers are compared on one machine only.
        On mounts whose inode numbers change with each opening, the times decide.
        """
        if self.size != found.size or self.version != found.version:
            return False
        if (self.modified, self.changed) == (found.modified, found.changed):
            return True
        is_local = bool(self.machine and found.machine)
        is_same_device = self.machine != found.machine or self.device == found.device
        return is_local and is_same_device and self.inode == found.inode


class FileChangedError(RmqIndexError):
    """A file is no longer the one that was found before.

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
    """Return what identifies this boot of this machine."""
    try:
        return _BOOT_ID.read_text(encoding="ascii").strip()
    except OSError:
        return platform.node() or "localhost"
