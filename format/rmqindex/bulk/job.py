"""One write from its planning to its commit."""

from __future__ import annotations

import contextlib
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from rmqindex.bulk.index_state import IndexState, check_replaceable, find_layout, index_entries
from rmqindex.errors import RmqIndexError
from rmqindex.storage.s3 import S3Settings
from rmqindex.store.cover import ensure_coverable
from rmqindex.store.live_store import ensure_not_live
from rmqindex.transaction.staging import create_staging

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from rmqindex.indexfile.geometry import Layout
    from rmqindex.transaction.owner import Owner
    from rmqindex.transaction.staging import Staging

__all__ = ["WriteJob", "WriteOptions"]


@dataclass(frozen=True, slots=True)
class WriteOptions:
    """The options of one write, checked.

    Attributes:
        directory: The index directory, there or not; the URI of one on S3.
        layout: The geometry asked for, or None for that of the files there.
        zone: The name of the broker's time zone, or None for the system's.
        on_indexed: ``error`` or ``skip``: what to do with entries that are indexed already.
        broker_redispatch: Skip as a broker does instead.
        allow_overlap: Whether files may overlap.
        allow_live_store: Whether a broker may hold the store.
        index_members: Whether the keys of members of batches are indexed as well.
        index_tags: Whether tags are indexed as well.
        checkpoint: Whether the store's checkpoint is raised to cover the index.
        s3: How S3 is reached.
    """

    directory: Path | str
    layout: Layout | None = None
    zone: str | None = None
    on_indexed: str = "error"
    broker_redispatch: bool = False
    allow_overlap: bool = False
    allow_live_store: bool = False
    index_members: bool = False
    index_tags: bool = False
    checkpoint: bool = False
    s3: S3Settings = field(default_factory=S3Settings)


@dataclass(frozen=True, slots=True)
class WriteJob:
    """One write from its planning to its commit; picklable.

    Attributes:
        options: The options.
        overwrite: Whether what is there is replaced.
        layout: The geometry of the new files.
        end: The offset up to which the directory was indexed at planning; None for an overwrite.
        staging: Where its files wait.
    """

    options: WriteOptions
    overwrite: bool
    layout: Layout
    end: int | None
    staging: Staging

    @classmethod
    def start(cls, options: WriteOptions, *, overwrite: bool, owner: Owner) -> WriteJob:
        """Check everything that can be checked before the first row, and make the staging.

        Raises:
            RmqIndexError: A broker holds the store, the geometry is unknown or another one, or
                something is to be overwritten that is no index.
        """
        directory = options.directory
        if not options.allow_live_store:
            ensure_not_live(directory)
        if options.checkpoint:
            ensure_coverable(Path(directory))
        entries = index_entries(directory)
        if overwrite:
            check_replaceable(entries, options.layout)
        layout = find_layout(entries, options.layout, check=not overwrite)
        end = None if overwrite else IndexState.read(directory, layout).end
        return cls(options, overwrite, layout, end, create_staging(directory, owner))

    @property
    def accepts_indexed(self) -> bool:
        """Whether rows that lie before the end of what is indexed are written all the same."""
        options = self.options
        return (
            options.allow_overlap
            and options.on_indexed == "error"
            and not options.broker_redispatch
        )

    def already_indexed(self, end: int, phy_offset: int) -> ValueError:
        """Return the error for a row that is indexed already."""
        return ValueError(
            f"phy_offset {phy_offset}: expected rows after {end}, up to which "
            f"{self.staging.directory} is indexed; the option onIndexed=skip leaves out what is "
            "indexed already"
        )

    def state(self) -> IndexState:
        """Read what is indexed now; for an overwrite, nothing.

        Raises:
            RmqIndexError: A file of another geometry.
        """
        if self.overwrite:
            return IndexState()
        return IndexState.read(self.staging.directory, self.layout)

    def names_there(self) -> list[str]:
        """Return the names of the IndexFiles that are there, oldest first.

        Raises:
            RmqIndexError: Something is to be overwritten that is no index.
        """
        entries = index_entries(self.staging.directory)
        if self.overwrite:
            check_replaceable(entries, self.options.layout)
        return [entry.name for entry in entries]

    @contextlib.contextmanager
    def attempt(self, remove: Callable[[], None]) -> Iterator[None]:
        """Let a task leave the staging in the end, and remove what it staged when it fails.

        Raises:
            RmqIndexError: The staging directory is gone: the job was ended meanwhile.
        """
        try:
            yield
        except BaseException as error:
            remove()
            if isinstance(error, FileNotFoundError) and not self.staging.path.exists():
                raise RmqIndexError(
                    f"{self.staging.path}: expected the staging directory of this write, got "
                    "none: the write was ended, or this host does not share the file system with "
                    "the driver"
                ) from error
            raise
        finally:
            self.staging.leave()
