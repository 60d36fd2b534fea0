"""One write from its planning to its commit."""

from __future__ import annotations

import contextlib
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from rmqindex.bulk.index_state import IndexState, check_replaceable, find_layout, index_entries
from rmqindex.errors import RmqIndexError
from rmqindex.store.checkpoint import ensure_coverable, present_checkpoint
from rmqindex.transaction.broker_lock import BrokerLock
from rmqindex.transaction.staging import create_staging

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from rmqindex.indexfile.geometry import Layout
    from rmqindex.storage.location import Location
    from rmqindex.transaction.owner import Owner
    from rmqindex.transaction.staging import Staging

__all__ = ["WriteJob", "WriteOptions"]


@dataclass(frozen=True, slots=True)
class WriteOptions:
    """The options of one write, checked.

    Attributes:
        directory: The index directory, which may be absent: a local path, or a URI on S3.
        layout: The requested geometry; None for that of the present files.
        zone: The name of the broker's time zone, or None for the system's.
        on_indexed: ``error`` or ``skip``: what to do with entries that are indexed already.
        broker_redispatch: Skip them as a broker does instead.
        allow_overlap: Whether files may overlap.
        allow_live_store: Whether a broker may run on the store.
        index_members: Whether to index the keys of the members of batches as well.
        index_tags: Whether to index tags as well; None where the files decide.
        checkpoint: Whether to raise the store's checkpoint so that it covers the index.
    """

    directory: Path | Location
    layout: Layout | None = None
    zone: str | None = None
    on_indexed: str = "error"
    broker_redispatch: bool = False
    allow_overlap: bool = False
    allow_live_store: bool = False
    index_members: bool = False
    index_tags: bool | None = False
    checkpoint: bool = False


@dataclass(frozen=True, slots=True)
class WriteJob:
    """One write from its planning to its commit; picklable.

    Attributes:
        options: The options.
        overwrite: Whether the write replaces the present files.
        layout: The geometry of the new files.
        end: The offset of the last indexed message at planning; None for an overwrite.
        staging: Its staging.
    """

    options: WriteOptions
    overwrite: bool
    layout: Layout
    end: int | None
    staging: Staging

    @classmethod
    def start(cls, options: WriteOptions, *, overwrite: bool, owner: Owner) -> WriteJob:
        """Check everything that can be checked before the first row, and create the staging.

        Raises:
            RmqIndexError: A broker runs on the store, the geometry is unknown or differs, or an
                overwrite would replace something that is not an index.
        """
        directory = options.directory
        lock = BrokerLock.around(directory)
        with lock.hold(allow_live_store=options.allow_live_store):  # it may undo a dead commit
            if options.checkpoint:
                ensure_coverable(Path(directory))
                present_checkpoint(Path(directory))
            return cls._start(options, overwrite=overwrite, owner=owner)

    @classmethod
    def _start(cls, options: WriteOptions, *, overwrite: bool, owner: Owner) -> WriteJob:
        directory = options.directory
        entries = index_entries(directory)
        if overwrite:
            check_replaceable(entries, options.layout)
        layout = find_layout(entries, options.layout, check=not overwrite)
        end = None if overwrite else IndexState.read(directory, layout).end
        return cls(options, overwrite, layout, end, create_staging(directory, owner))

    @property
    def accepts_indexed(self) -> bool:
        """Whether rows before the end of the index are written all the same."""
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
        """Read the present state of the index; an empty one for an overwrite."""
        if self.overwrite:
            return IndexState()
        return IndexState.read(self.staging.directory, self.layout)

    def names_there(self) -> list[str]:
        """Return the names of the present IndexFiles, oldest first.

        Raises:
            RmqIndexError: An overwrite would replace something that is not an index.
        """
        entries = index_entries(self.staging.directory)
        if self.overwrite:
            check_replaceable(entries, self.options.layout)
        return [entry.name for entry in entries]

    @contextlib.contextmanager
    def attempt(self, remove: Callable[[], None]) -> Iterator[None]:
        """Run a task: at its end it leaves the staging, and if it fails, its files are removed.

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
