"""Where new ConsumeQueues are built, and their exchange with those that are there, all or none."""

from __future__ import annotations

import fcntl
import json
import os
import shutil
from typing import TYPE_CHECKING, Self

from rmqindex._consume_queue_layout import BATCH_FOLDER, QUEUE_FOLDER
from rmqindex._errors import RmqIndexError

if TYPE_CHECKING:
    from pathlib import Path
    from types import TracebackType

__all__ = ["QueueStaging"]

_FOLDERS = (QUEUE_FOLDER, BATCH_FOLDER)
_UNDO = "undo.json"


class QueueStaging:
    """A hidden directory in a store root, for one process at a time; a context manager.

    While folders are exchanged, ``undo.json`` says what was there: the next rebuild after one that
    died goes back to that first, and clears away what was half built.

    Attributes:
        path: Where new folders are built.
    """

    def __init__(self, root: Path) -> None:
        """Name the places; nothing is made before the context is entered.

        Args:
            root: The local store root.
        """
        self._root = root
        self._home = root / f".{QUEUE_FOLDER}.rmqindex"
        self._old = self._home / "old"
        self.path = self._home / "new"
        self._lock = -1

    def __enter__(self) -> Self:
        """Lock the root, undo an exchange that died, and begin with an empty directory.

        Raises:
            RmqIndexError: Another rebuild is under way.
            OSError: The disk is full or broken.
        """
        self._root.mkdir(parents=True, exist_ok=True)
        self._lock = os.open(self._root, os.O_RDONLY)
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(self._lock)
            raise RmqIndexError(
                f"{self._root}: expected no rebuild of ConsumeQueues under way, got one"
            ) from None
        self._undo()
        shutil.rmtree(self._home, ignore_errors=True)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Leave the old folders or the new ones, and nothing else."""
        self._undo()
        shutil.rmtree(self._home, ignore_errors=True)
        os.close(self._lock)

    def there(self) -> list[Path]:
        """Return the folders in the root that have queues."""
        folders = [self._root / name for name in _FOLDERS]
        return [folder for folder in folders if folder.is_dir() and any(folder.iterdir())]

    def exchange(self) -> None:
        """Put the new folders into the place of those that are there.

        Raises:
            OSError: A folder cannot be moved.
        """
        old = [name for name in _FOLDERS if (self._root / name).exists()]
        new = [name for name in _FOLDERS if (self.path / name).exists()]
        self._old.mkdir(parents=True)
        note = self._home / f"{_UNDO}.part"
        note.write_text(json.dumps({"old": old, "new": new}))
        note.replace(self._home / _UNDO)
        for name in old:
            (self._root / name).rename(self._old / name)
        for name in new:
            (self.path / name).rename(self._root / name)
        (self._home / _UNDO).unlink()

    def _undo(self) -> None:
        """Go back to what was there; each step may have been done before."""
        note = self._home / _UNDO
        if not note.exists():
            return
        was = json.loads(note.read_text())
        for name in was["new"]:
            if not (self.path / name).exists():
                (self._root / name).rename(self.path / name)
        for name in was["old"]:
            if (self._old / name).exists():
                (self._old / name).rename(self._root / name)
        note.unlink()
