"""The fingerprint of an IndexFile, which shows whether another one has taken its name."""

from __future__ import annotations

import zlib
from dataclasses import dataclass
from typing import TYPE_CHECKING

from rmqindex.layout.index_file import (
    BEGIN_PHY_OFFSET_OFFSET,
    BEGIN_TIMESTAMP_OFFSET,
    ENTRY_SIZE,
    FIRST_POSITION,
    HEADER_SIZE,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from rmqindex.indexfile.geometry import Layout
    from rmqindex.storage.source import IndexSource
from rmqindex.storage.identity import FileIdentity  # noqa: TC001  (read by from_json)
from rmqindex.storage.opening import ends_of

# Entries compared at either end: a page of each.
_SAMPLED_ENTRIES = 64

SAMPLED_ENTRY_BYTES = _SAMPLED_ENTRIES * ENTRY_SIZE

#: The fields of the header that no append changes once there is an entry: start and stop, bytes.
FINAL_FIELDS = tuple(
    (start, start + 8) for start in (BEGIN_TIMESTAMP_OFFSET, BEGIN_PHY_OFFSET_OFFSET)
)


@dataclass(frozen=True, slots=True)
class Fingerprint:
    """What recognizes an IndexFile by its counted entries; picklable, since tasks compare it.

    Counted entries are final, so a checksum of them suffices, and streams keep it in checkpoints.
    Every slice of a plan has one, so it is short; :class:`FileMark` recognizes other files.

    Attributes:
        identity: The file.
        stop: The position behind the last entry that was counted.
        checksum: CRC-32 of the bytes that no append changes: the header's ``begin_*`` fields and
            the first and the last entries below ``stop``. None where the store's own version
            suffices.
    """

    identity: FileIdentity
    stop: int
    checksum: int | None

    @classmethod
    def of(cls, source: IndexSource, layout: Layout, stop: int) -> Fingerprint:
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

    def matches(self, source: IndexSource, layout: Layout) -> bool:
        """Return whether an open file holds the same entries below ``stop``.

        Raises:
            RmqIndexError: The storage failed.
        """
        if not self.identity.names_same(source.identity):
            return False
        if layout.entry_offset(self.stop) > source.size:
            return False
        return self.checksum is None or self.checksum == entries_checksum(source, layout, self.stop)


def checksum_of(read: Callable[[int, int], bytes | memoryview], start: int, stop: int) -> int:
    """Return the CRC-32 of the first and the last bytes of a range."""
    checksum = 0
    for offset, length in ends_of(start, stop, SAMPLED_ENTRY_BYTES):
        checksum = zlib.crc32(read(offset, length), checksum)
    return checksum


def entries_checksum(source: IndexSource, layout: Layout, stop: int) -> int:
    """Return the CRC-32 of the bytes that no append changes, as in :class:`Fingerprint`."""
    return checksum_below(source.read, layout, stop, source.header())


def checksum_below(
    read: Callable[[int, int], bytes | memoryview],
    layout: Layout,
    stop: int,
    header: bytes | memoryview | None = None,
) -> int:
    """As :func:`entries_checksum`; the header is read unless it is given."""
    if header is None:
        header = read(0, HEADER_SIZE)
    begin = b"".join(bytes(header[low:high]) for low, high in FINAL_FIELDS)
    first = layout.entry_offset(FIRST_POSITION)
    entries = checksum_of(read, first, max(first, layout.entry_offset(stop)))
    return zlib.crc32(begin, entries)
