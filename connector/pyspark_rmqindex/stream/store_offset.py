"""How far a stream has come in each index directory, and its JSON in the checkpoint."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

from rmqindex.storage import from_json, to_json

if TYPE_CHECKING:
    from collections.abc import Mapping


@dataclass(frozen=True, slots=True)
class SeenFile:
    """A file with entries as an offset keeps it: JSON without a path, since a store may move.

    Unlike a snapshot's file, it is compared with those of other batches and other hosts.
    """

    name: str
    begin_timestamp: int  # final once there is an entry, as the next field is
    begin_phy_offset: int
    stop: int  # The position after the last entry that was counted
    checksum: int | None = None  # Of the entries below ``stop``; None if not computed

    @property
    def begin(self) -> tuple[int, bytes]:
        """The key that orders files by their first messages."""
        return self.begin_phy_offset, as_java_compares(self.name)


class PositionMark(NamedTuple):
    """Identifies the entries of a file before a position."""

    phy_offset: int | None  # That of the last of these entries; None if unknown
    checksum: int  # Of the header's final fields and of the first and the last of these entries


@dataclass(frozen=True, slots=True)
class StoreOffset:
    """How far a stream has come in one index directory."""

    SOURCE: ClassVar[str] = "rmqindex"

    file: str  # The name of the current file
    position: int  # The first entry of the current file that was not returned yet
    entries: int  # The number of entries returned from this directory so far
    phy_offset: int  # Where the message of the last of these starts, bytes
    begin_timestamp: int
    begin_phy_offset: int
    last_name: str  # The greatest name among the files that were begun
    furthest_phy_offset: int  # The greatest ``begin_phy_offset`` among them
    furthest_name: str
    # Of the entries of ``file`` before ``position``; None in an older checkpoint.
    checksum: int | None = None
    # The checksums of the files that the last batch read to the end before it reached
    # ``file``, by name.
    finished: dict[str, int] = field(default_factory=dict)
    # The names of the files that were begun, without those that expired since; None in an
    # older checkpoint.
    begun: tuple[str, ...] | None = None
    # The ``begin_phy_offset`` of each file that was seen and not begun yet, by name.
    pending: dict[str, int] = field(default_factory=dict)

    def has_begun(self, file: SeenFile) -> bool:
        """Return whether any entries of a file were returned."""
        return as_java_compares(file.name) <= as_java_compares(self.last_name) and file.begin <= (
            self.furthest_phy_offset,
            as_java_compares(self.furthest_name),
        )

    def to_json(self) -> dict[str, Any]:
        """Return the offset as JSON for the checkpoint, without derivable fields."""
        data: dict[str, Any] = to_json(self)
        derived = _derived_fields(data)
        if any(data[name] != derived[name] for name in ("furthest_phy_offset", "furthest_name")):
            del derived["furthest_phy_offset"], derived["furthest_name"]  # both, or neither
        derived |= {"checksum": None, "finished": {}, "begun": None, "pending": {}}
        return {
            name: value
            for name, value in data.items()
            if name not in derived or value != derived[name]
        }

    @classmethod
    def from_json(cls, data: object) -> StoreOffset:
        """Read what :meth:`to_json` returned."""
        given = from_json(dict, data)
        return from_json(cls, {**_derived_fields(given), **given})


def _derived_fields(data: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields of an offset that its JSON leaves out where they have these values."""
    return {
        "last_name": data.get("file"),
        "furthest_phy_offset": data.get("begin_phy_offset"),
        "furthest_name": data.get("file"),
    }


def as_java_compares(name: str) -> bytes:
    """Return the key by which Java orders names."""
    return name.encode("utf-16-be", "surrogatepass")
