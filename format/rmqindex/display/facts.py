"""Facts about IndexFiles from their headers, sizes and geometry, without a scan."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from rmqindex.storage.identity import FileIdentity

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rmqindex.store.snapshot import SnapshotFile

__all__ = ["FileFacts", "Totals", "describe", "total"]

# Path.stat() counts the space on disk in these units, whatever the file system's own are.
_DISK_BLOCK = 512


@dataclass(frozen=True, slots=True)
class FileFacts:
    """One IndexFile.

    Attributes:
        path: Its path.
        name: Its name, the broker's local time when it was made.
        size: Its size in bytes.
        disk_size: Its size on disk in bytes, less than ``size`` where it is sparse; ``None``
            on remote storage and where no file is behind the name.
        hash_slot_num: Hash slots it has; ``None`` if it has no entries and no geometry was given.
        index_num: Entry places it has; likewise.
        entry_count: Entries in it.
        hash_slot_count: Slots in use, as its header says.
        load_factor: Entries per slot; ``None`` where the slots are not known.
        begin_timestamp: Store time of the first entry, epoch milliseconds.
        end_timestamp: Store time of the last entry put, epoch milliseconds; not the maximum.
        begin_phy_offset: CommitLog offset of the first entry, bytes.
        end_phy_offset: CommitLog offset of the last entry put, bytes.
        error: Why it cannot be used, or ``None``; the fields that it hides are ``None`` too.
    """

    path: str
    name: str
    size: int
    disk_size: int | None = None
    hash_slot_num: int | None = None
    index_num: int | None = None
    entry_count: int | None = None
    hash_slot_count: int | None = None
    load_factor: float | None = None
    begin_timestamp: int | None = None
    end_timestamp: int | None = None
    begin_phy_offset: int | None = None
    end_phy_offset: int | None = None
    error: str | None = None


@dataclass(frozen=True, slots=True)
class Totals:
    """Several IndexFiles together, those with an error left out of all but the sizes.

    Attributes:
        file_count: How many files.
        size: Their sizes in bytes.
        disk_size: What they take on disk in bytes; ``None`` unless it is known for all.
        entry_count: Their entries.
        begin_timestamp: The earliest ``begin_timestamp`` of a file with entries.
        end_timestamp: The latest ``end_timestamp`` of a file with entries.
        begin_phy_offset: The smallest ``begin_phy_offset`` of a file with entries.
        end_phy_offset: The greatest ``end_phy_offset`` of a file with entries.
    """

    file_count: int
    size: int
    disk_size: int | None
    entry_count: int
    begin_timestamp: int | None
    end_timestamp: int | None
    begin_phy_offset: int | None
    end_phy_offset: int | None


def describe(planned: SnapshotFile) -> FileFacts:
    """Describe a file as of its listing; one that cannot be used has its ``error`` set.

    Raises:
        FileChangedError: It is gone, or another one has its name.
    """
    entry, header, found = planned.entry, planned.header, planned.layout
    disk_size = _disk_size(planned)
    if planned.error is not None:
        return FileFacts(
            path=entry.path,
            name=entry.name,
            size=entry.size,
            disk_size=disk_size,
            error=str(planned.error),
        )
    return FileFacts(
        path=entry.path,
        name=entry.name,
        size=entry.size,
        disk_size=disk_size,
        hash_slot_num=found.hash_slot_num if found else None,
        index_num=found.index_num if found else None,
        entry_count=planned.entry_count,
        hash_slot_count=header.hash_slot_count,
        load_factor=round(planned.entry_count / found.hash_slot_num, 4) if found else None,
        begin_timestamp=header.begin_timestamp,
        end_timestamp=header.end_timestamp,
        begin_phy_offset=header.begin_phy_offset,
        end_phy_offset=header.end_phy_offset,
    )


def total(facts: Sequence[FileFacts]) -> Totals:
    """Sum files up."""
    disk_sizes = [file.disk_size for file in facts if file.disk_size is not None]
    filled = [file for file in facts if file.entry_count]
    return Totals(
        file_count=len(facts),
        size=sum(file.size for file in facts),
        disk_size=sum(disk_sizes) if len(disk_sizes) == len(facts) else None,
        entry_count=sum(file.entry_count or 0 for file in facts),
        begin_timestamp=min((_known(file.begin_timestamp) for file in filled), default=None),
        end_timestamp=max((_known(file.end_timestamp) for file in filled), default=None),
        begin_phy_offset=min((_known(file.begin_phy_offset) for file in filled), default=None),
        end_phy_offset=max((_known(file.end_phy_offset) for file in filled), default=None),
    )


def _known(value: int | None) -> int:
    assert value is not None  # a file with entries has every field
    return value


def _disk_size(planned: SnapshotFile) -> int | None:
    path, identity = planned.entry.path, planned.entry.identity
    if path.local is None:
        return None
    try:
        status = path.local.stat()
    except FileNotFoundError as error:
        if planned.error is not None:
            return None
        raise planned.changed_error("removed") from error
    if identity is not None and not identity.names_same(FileIdentity.of_stat(status)):
        raise planned.changed_error("replaced")
    return status.st_blocks * _DISK_BLOCK
