"""What stands among ConsumeQueues and is none: a rebuild that replaces their folders keeps it."""

from __future__ import annotations

import os
import shutil
from contextlib import suppress
from typing import TYPE_CHECKING

from rmqindex.consumequeue.paths import is_queue_file, is_queue_id
from rmqindex.errors import RmqIndexError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path


def keep_foreign(root: Path, folders: Sequence[Path], new: Path) -> tuple[str, ...]:
    """Put what is no queue's in folders of queues into those that replace them.

    Folders of topics and of queues are the queues' own, and so are files with the names of theirs.

    Args:
        root: The store root.
        folders: Its folders of queues.
        new: Where the new ones are built.

    Returns:
        The paths of what is kept, from the store root.

    Raises:
        RmqIndexError: Something is neither a file nor a folder, or a new queue has its place.
    """
    paths = [path.relative_to(root) for folder in folders for path in _below_folder(folder)]
    for path in paths:
        old, place = root / path, new / path
        is_folder = old.is_dir()
        if old.is_symlink() or not (is_folder or old.is_file()):
            got = "a link" if old.is_symlink() else "neither"
            raise RmqIndexError(
                f"{old}: expected a file or a folder, to keep it beside new ConsumeQueues, got "
                f"{got}: move it out of the store"
            )
        if os.path.lexists(place) or not _make_folders(root, new, place.parent):
            raise RmqIndexError(
                f"{old}: expected a place of its own, to keep it beside new ConsumeQueues, got one "
                "that these need: move it out of the store"
            )
        if is_folder:
            _make_folders(root, new, place)
        else:
            _copy(old, place)
    return tuple(map(str, paths))


def _below_folder(folder: Path) -> Iterator[Path]:
    for topic in sorted(folder.iterdir()):
        if not topic.is_dir():
            yield topic
            continue
        for queue in sorted(topic.iterdir()):
            if not (queue.is_dir() and is_queue_id(queue.name)):
                yield from _whole(queue)
                continue
            for file in sorted(queue.iterdir()):
                if file.is_dir() or not is_queue_file(file.name):
                    yield from _whole(file)


def _whole(path: Path) -> Iterator[Path]:
    yield path
    if path.is_dir() and not path.is_symlink():
        for each in sorted(path.iterdir()):
            yield from _whole(each)


def _make_folders(root: Path, new: Path, folder: Path) -> bool:
    """Make a folder like the one that is replaced; return whether nothing is in its way."""
    for each in (*reversed(folder.relative_to(new).parents), folder.relative_to(new)):
        place = new / each
        if not os.path.lexists(place):
            place.mkdir()
            with suppress(OSError):
                shutil.copystat(root / each, place)
        elif not place.is_dir():
            return False
    return True


def _copy(old: Path, place: Path) -> None:
    try:
        os.link(old, place)
    except OSError:  # across file systems, or not allowed
        shutil.copy2(old, place)
