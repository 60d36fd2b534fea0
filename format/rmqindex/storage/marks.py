"""Marks that recognize a file to which bytes are appended."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from rmqindex.storage.source import ByteSource
from rmqindex.storage.identity import FileChangedError, FileIdentity

__all__ = ["FileMark", "Sample", "ensure_same"]


# Bytes compared at either end of a stretch: the fixed fields of a message, or three units.
_SAMPLED_BYTES = 64


@dataclass(frozen=True, slots=True)
class Sample:
    """Some bytes of a file at one moment.

    Attributes:
        offset: Where they begin in the file.
        data: The bytes. A broker may since have written where one is zero.
    """

    offset: int
    data: bytes

    def is_in(self, read: Callable[[int, int], bytes | memoryview]) -> bool:
        """Return whether a file still holds the bytes."""
        now = read(self.offset, len(self.data))
        return now == self.data or all(
            not before or before == byte for before, byte in zip(self.data, now, strict=True)
        )


@dataclass(frozen=True, slots=True)
class FileMark:
    """What recognizes a file that grows at its end; picklable.

    Attributes:
        identity: The file.
        samples: Bytes that no append changes; empty where the store's own version suffices.
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
            stretches: Start and stop, bytes, of each range that a broker had begun to write.
            sampled_bytes: The most bytes to keep from either end of each stretch.

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
        """Rebuild a mark from its JSON, where bytes are hexadecimal digits."""
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
    """Raise if an open file was changed while it was read.

    Args:
        source: The file.
        mark: Its mark; None to check nothing.

    Raises:
        FileChangedError: It was truncated, replaced or rewritten.
        RmqIndexError: The storage failed.
    """
    if mark is not None and not (source.is_current() and mark.matches(source)):
        raise FileChangedError(source.path, "replaced or rewritten")
