"""Builds new ConsumeQueues aside, and exchanges them with the present ones, all or none."""

from __future__ import annotations

import fcntl
import itertools
import os
import re
import shlex
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Self

from rmqindex.errors import RmqIndexError, command_line, unlink_line
from rmqindex.layout.store import BATCH_FOLDER, QUEUE_FOLDER
from rmqindex.storage.disk import (
    absent_directories,
    ensure_directory,
    make_directories,
    move_synced,
    naming,
    remove_empty,
    sync_directory,
    sync_name,
    sync_tree,
)
from rmqindex.storage.location import Location
from rmqindex.storage.records import RecordKind
from rmqindex.storage.writable import write_own
from rmqindex.store.contents import refuse_rocksdb_queues
from rmqindex.transaction.jobs import Recovery

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import TracebackType

    from rmqindex.storage.records import Fields

_FOLDERS = (QUEUE_FOLDER, BATCH_FOLDER)
_UNDO = "undo.json"
_FOLDER_NAME = re.compile("|".join(_FOLDERS))


@dataclass(frozen=True, slots=True)
class _Note:
    """An exchange under way: the names of the old folders and of the new ones."""

    old: tuple[str, ...]
    new: tuple[str, ...]

    @classmethod
    def of(cls, fields: Fields) -> _Note:
        what = f"names of {' and '.join(_FOLDERS)}"
        return cls(*(fields.names(name, _FOLDER_NAME, what) for name in ("old", "new")))


_NOTE = RecordKind(
    "the note of an exchange",
    _Note.of,
    "restore it from a backup, or remove it and rebuild the ConsumeQueues",
    limit=64 * 1024,
)


def is_unfinished(root: Path) -> bool:
    """Return whether ConsumeQueues of a store root are being rebuilt, or their rebuild died."""
    return os.path.lexists(_home(root))


def is_exchanging(root: Path) -> bool:
    """Return whether folders of a store root are being exchanged, or the exchange died."""
    return os.path.lexists(_home(root) / _UNDO)


def _home(root: Path) -> Path:
    return root / f".{QUEUE_FOLDER}.rmqindex"


def queue_folders(root: Path) -> list[Path]:
    """Return the folders of a store root that have queues."""
    folders = [root / name for name in _FOLDERS]
    return [folder for folder in folders if folder.is_dir() and not _is_vacant(folder)]


# No Staging of rmqindex.transaction: that commits files of one directory, this whole folder trees.
class QueueStaging:
    """A hidden directory in a store root, for one process at a time; a context manager.

    While folders are exchanged, ``undo.json`` says what was there: the next rebuild after one that
    died goes back to that first, and clears away what was half built.
    Once a new folder is in place it goes forward, since a broker may have continued that folder.

    Attributes:
        path: Where new folders are built.
        recovered: What was done, when the context was entered, about a rebuild that died.
    """

    def __init__(self, root: Path) -> None:
        """Name the places; nothing is made before the context is entered.

        Args:
            root: The local store root.
        """
        self._root = root
        self._home = _home(root)
        self._old = self._home / "old"
        self.path = self._home / "new"
        self.recovered: Recovery | None = None
        self._lock = -1
        # What is made for the new queues goes again where there are none in the end.
        self._absent = absent_directories(root)

    def __enter__(self) -> Self:
        """Lock the root, undo or finish an exchange that died, and begin with an empty directory.

        Raises:
            RmqIndexError: Another rebuild is under way; an old one set ConsumeQueues of RocksDB
                aside; a broker has made queues since an exchange died; or the staging directory,
                or the note in it, is not one of this project.
        """
        make_directories(self._root)
        self._lock = os.open(self._root, os.O_RDONLY)
        try:
            with naming(self._root):
                fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(self._lock)
            raise RmqIndexError(
                f"{self._root}: expected no rebuild of ConsumeQueues under way, got one"
            ) from None
        try:
            left = is_unfinished(self._root)
            self.recovered = self._settle() or (Recovery.REMOVED if left else None)
            self._clear()
        except BaseException:
            os.close(self._lock)
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Leave the old folders or the new ones, and nothing else."""
        try:
            self._settle()
            shutil.rmtree(self._home, ignore_errors=True)
            remove_empty(self._absent)
        finally:
            os.close(self._lock)

    def there(self) -> list[Path]:
        """Return the folders in the root that have queues.

        Raises:
            RmqIndexError: The root has ConsumeQueues in RocksDB, which are never replaced,
                something that is no folder in the place of one, or links, which new queues would
                not keep.
        """
        for folder in (self._root / name for name in _FOLDERS):
            if os.path.lexists(folder) and not folder.is_dir():
                raise RmqIndexError(
                    f"{folder}: expected a folder of ConsumeQueues, or none, got neither: move it "
                    "out of the store"
                )
        refuse_rocksdb_queues(Location.of(self._root))
        folders = queue_folders(self._root)
        link = next((link for folder in folders for link in _links(folder)), None)
        if link is not None:
            raise RmqIndexError(
                f"{link}: expected no link, got one to {link.readlink()}: new ConsumeQueues would "
                f"stand in its place, and not where it leads. `{unlink_line(link)}` puts a copy "
                "in its place"
            )
        return folders

    def exchange(self) -> None:
        """Sync the new folders to disk, and exchange them with the present ones.

        Raises:
            RmqIndexError: A broker has begun to keep ConsumeQueues in RocksDB meanwhile.
            OSError: A folder cannot be moved, or the disk is full or broken.
        """
        refuse_rocksdb_queues(Location.of(self._root))
        old = [name for name in _FOLDERS if os.path.lexists(self._root / name)]
        new = [name for name in _FOLDERS if (self.path / name).exists()]
        ensure_directory(self._home)
        self._old.mkdir(parents=True)
        sync_tree(self._home)
        sync_directory(self._root)
        note = self._home / f"{_UNDO}.part"
        write_own(note, _NOTE.encode(str(note), {"old": old, "new": new}))
        move_synced(note, self._home / _UNDO)
        for name in old:
            (self._root / name).rename(self._old / name)
        for name in new:
            (self.path / name).rename(self._root / name)
        self._sync_moves()
        self._forget()

    def _clear(self) -> None:
        if os.path.lexists(self._home):
            refuse_rocksdb_queues(Location.of(self._old))
            try:
                shutil.rmtree(self._home)
            except OSError as error:
                raise OSError(error.errno, error.strerror, str(self._home)) from error

    def _settle(self) -> Recovery | None:
        """Restore the old queues, or finish where new ones are in place: a broker may use them.

        Safe to repeat if it dies at any point.
        """
        for place in (self._home, self._old, self.path):
            ensure_directory(place)
        note = _NOTE.read(self._home / _UNDO)
        if note is None:
            return None
        is_begun = any(
            not (self.path / name).exists() and not _is_vacant(self._root / name)
            for name in note.new
        )
        source = self.path if is_begun else self._old
        names = note.new if is_begun else note.old
        moves = [name for name in names if os.path.lexists(source / name)]
        for name in moves:
            _ensure_absent(self._root / name)
        for name in moves:
            (source / name).rename(self._root / name)
        self._sync_moves()
        self._forget()
        return Recovery.FINISHED if is_begun else Recovery.UNDONE

    def _sync_moves(self) -> None:
        for folder in (self._root, self._old, self.path):
            if folder.exists():
                sync_directory(folder)

    def _forget(self) -> None:
        """Remove the note, which makes the present queues final."""
        (self._home / _UNDO).unlink()
        sync_name(self._home / _UNDO)


def _links(folder: Path) -> Iterator[Path]:
    """Yield the links to folders and files in a folder of queues, itself first."""
    if folder.is_symlink():
        yield folder
    for place, folders, files in os.walk(folder):
        for path in (Path(place, name) for name in (*folders, *files)):
            if path.is_symlink() and (path.is_dir() or path.is_file()):
                yield path


def _is_vacant(folder: Path) -> bool:
    """Return whether a path is absent or an empty folder."""
    try:
        return not os.listdir(folder)  # noqa: PTH208  (no paths are needed)
    except NotADirectoryError:
        return False
    except FileNotFoundError:  # or a link to nothing
        return not os.path.lexists(folder)


def _ensure_absent(folder: Path) -> None:
    if _is_vacant(folder):
        return
    places = (folder.with_name(f"{folder.name}.{number}") for number in itertools.count(1))
    aside = next(place for place in places if not os.path.lexists(place))
    move = shlex.join(["mv", str(folder), str(aside)])
    raise RmqIndexError(
        f"{folder}: expected none, as a rebuild of ConsumeQueues that died left it, got one that "
        f"another program has made since; set it aside with `{move}`, then "
        f"`{command_line('recover', folder.parent)}` puts back what the rebuild moved, and "
        f"`{command_line('rebuild-queues', folder.parent, options=['--replace'])}` makes all queues"
    )
