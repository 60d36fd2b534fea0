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
import zlib
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rmqindex.errors import RmqIndexError
from rmqindex.geometry.layout import (
    BEGIN_PHY_OFFSET_OFFSET,
    BEGIN_TIMESTAMP_OFFSET,
    ENTRY_SIZE,
    FIRST_POSITION,
)

if TYPE_CHECKING:
    import os
    from collections.abc import Callable, Iterable, Mapping

    from rmqindex.geometry.layout import Layout
    from rmqindex.storage.sources import ByteSource

__all__ = [
    "SAMPLED_ENTRY_BYTES",
    "FileChangedError",
    "FileIdentity",
    "FileMark",
    "Fingerprint",
    "Sample",
    "checksum_of",
    "ensure_same",
    "entries_checksum",
]

_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")
# What S3, Google Cloud Storage and Azure call the version of an object, without case and hyphens.
# Where a bucket keeps no versions, each object in turn may have the version "null".
_VERSIONS = ("etag", "generation", "versionid")
_NO_VERSION = b"null"
# Entries that are compared at either end: a page of each.
_SAMPLED_ENTRIES = 64
SAMPLED_ENTRY_BYTES = _SAMPLED_ENTRIES * ENTRY_SIZE
# Bytes that are compared at either end of a stretch: the fixed fields of a message, or three units.
_SAMPLED_BYTES = 64
# Eight bytes each, final once there is an entry.
_FINAL_FIELDS = (BEGIN_TIMESTAMP_OFFSET, BEGIN_PHY_OFFSET_OFFSET)


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


@dataclass(frozen=True, slots=True)
class Fingerprint:
    """What an IndexFile is recognised by; picklable, since planning and tasks are other processes.

    Attributes:
        identity: The file.
        stop: The position behind the last entry that was counted.
        checksum: CRC-32 of what no append changes: the header's ``begin_*`` fields and the first
            and the last entries below ``stop``. None where the store's own version is proof.
    """

    identity: FileIdentity
    stop: int
    checksum: int | None

    @classmethod
    def of(cls, source: ByteSource, layout: Layout, stop: int) -> Fingerprint:
        """Take the fingerprint of an open file.

        Args:
            source: The file.
            layout: Its geometry.
            stop: The position behind the last entry that is counted.

        Raises:
            CorruptIndexError: The file ends before that.
            RmqIndexError: The storage failed.
        """
        if source.identity.version:
            return cls(source.identity, stop, None)
        return cls(source.identity, stop, entries_checksum(source, layout, stop))

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Fingerprint:
        """Read what ``dataclasses.asdict`` made of one."""
        return cls(**{**data, "identity": FileIdentity(**data["identity"])})

    def matches(self, source: ByteSource, layout: Layout) -> bool:
        """Return whether an open file holds what was counted, below ``stop``.

        Raises:
            RmqIndexError: The storage failed.
        """
        if not self.identity.names_same(source.identity):
            return False
        if layout.entry_offset(self.stop) > source.size:
            return False
        return self.checksum is None or self.checksum == entries_checksum(source, layout, self.stop)


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


@dataclass(frozen=True, slots=True)
class Sample:
    """Some bytes of a file when it was looked at.

    Attributes:
        offset: Where they begin in the file.
        data: The bytes. Where one is zero, a broker may have written since.
    """

    offset: int
    data: bytes

    def is_in(self, read: Callable[[int, int], bytes | memoryview]) -> bool:
        """Return whether a file, given by what reads it, still holds the bytes."""
        now = read(self.offset, len(self.data))
        return now == self.data or all(
            not before or before == byte for before, byte in zip(self.data, now, strict=True)
        )


@dataclass(frozen=True, slots=True)
class FileMark:
    """What a file is recognised by whose bytes are added at its end; picklable.

    Attributes:
        identity: The file.
        samples: Bytes that no append changes; none where the store's own version is proof.
    """

    identity: FileIdentity
    samples: tuple[Sample, ...] = ()

    @classmethod
    def of(
        cls,
        source: ByteSource,
        stretches: Iterable[tuple[int, int]],
        sampled_bytes: int = _SAMPLED_BYTES,
    ) -> FileMark:
        """Mark an open file.

        Args:
            source: The file.
            stretches: Start and stop, bytes, of what a broker had begun to write.
            sampled_bytes: How many bytes are kept of either end of each stretch, at most.

        Raises:
            CorruptIndexError: The file ends before.
            RmqIndexError: The storage failed.
        """
        if source.identity.version:
            return cls(source.identity)
        ranges: dict[tuple[int, int], None] = {}
        for start, stop in stretches:
            length = min(sampled_bytes, stop - start)
            ranges |= {(start, length): None, (stop - length, length): None}
        samples = (Sample(start, bytes(source.read(start, length))) for start, length in ranges)
        return cls(source.identity, tuple(each for each in samples if any(each.data)))

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> FileMark:
        """Read what JSON made of ``dataclasses.asdict``, with bytes as hexadecimal digits."""
        samples = (Sample(each["offset"], bytes.fromhex(each["data"])) for each in data["samples"])
        return cls(FileIdentity(**data["identity"]), tuple(samples))

    def matches(self, source: ByteSource) -> bool:
        """Return whether an open file is the marked one.

        Raises:
            RmqIndexError: The storage failed.
        """
        return self.identity.names_same(source.identity) and all(
            sample.is_in(source.read) for sample in self.samples
        )


def ensure_same(source: ByteSource, mark: FileMark | None) -> None:
    """Refuse what was read of an open file if the file was changed meanwhile.

    Args:
        source: The file.
        mark: What it is recognised by; None where nothing is known, and nothing is asked.

    Raises:
        FileChangedError: It was cut, replaced or rewritten.
        RmqIndexError: The storage failed.
    """
    if mark is not None and not (source.is_current() and mark.matches(source)):
        raise FileChangedError(source.path, "replaced or rewritten")


def checksum_of(read: Callable[[int, int], bytes | memoryview], start: int, stop: int) -> int:
    """Return the CRC-32 of the first and the last bytes of a range.

    Args:
        read: Returns bytes of the file, by offset and length.
        start: Where the range begins, bytes.
        stop: Where it ends, bytes.
    """
    length = min(SAMPLED_ENTRY_BYTES, stop - start)
    first = zlib.crc32(read(start, length))
    return first if start + length == stop else zlib.crc32(read(stop - length, length), first)


def entries_checksum(source: ByteSource, layout: Layout, stop: int) -> int:
    """Return the CRC-32 of what no append changes, as :class:`Fingerprint` keeps it.

    Args:
        source: The file.
        layout: Its geometry.
        stop: The position behind the last entry that is counted.

    Raises:
        CorruptIndexError: The file ends before that.
        RmqIndexError: The storage failed.
    """
    header = source.header()
    begin = b"".join(bytes(header[offset : offset + 8]) for offset in _FINAL_FIELDS)
    first = layout.entry_offset(FIRST_POSITION)
    entries = checksum_of(source.read, first, max(first, layout.entry_offset(stop)))
    return zlib.crc32(begin, entries)


@cache
def _machine() -> str:
    """Return what tells this boot of this machine from all others."""
    try:
        return _BOOT_ID.read_text(encoding="ascii").strip()
    except OSError:
        return platform.node() or "localhost"
