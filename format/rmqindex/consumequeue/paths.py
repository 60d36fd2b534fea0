"""Finds ConsumeQueues by their paths: ``consumequeue/<topic>/<queue id>/<20 digits>``."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from rmqindex.consumequeue.staging import is_exchanging
from rmqindex.errors import RmqIndexError, command_line
from rmqindex.layout.index_file import INT32_MAX, INT64_MAX
from rmqindex.layout.record import FILE_NAME_DIGITS
from rmqindex.layout.store import BATCH_FOLDER, QUEUE_FOLDER
from rmqindex.storage.location import Location
from rmqindex.storage.opening import FileMark, UnsteadyError, read_steady
from rmqindex.store.contents import refuse_database, refuse_rocksdb_queues
from rmqindex.store.surroundings import empty_error, ensure_may_be_empty
from rmqindex.transaction.directories import (
    FileEntry,
    directory_entries,
    exists,
    unloadable_files,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from rmqindex.storage.location import PathLike

T = TypeVar("T")

_EXPECTED = f"a store with a folder {QUEUE_FOLDER}, that folder, or one below"
_FILE_NAME = re.compile(rf"[0-9]{{{FILE_NAME_DIGITS}}}")
_QUEUE_ID = re.compile(r"0|[1-9][0-9]{0,9}")
# How much alike two topics are of which one may be meant for the other, of 1.
_LIKENESS = 0.8


@dataclass(frozen=True, slots=True)
class QueueFile:
    """A file of a queue.

    Attributes:
        path: Where it lies: a local path or a URI.
        start: Where it begins in the queue, bytes; its name.
        size: Its size, bytes.
        mark: Its mark, checked on opening; None where only its size is known.
    """

    path: Location
    start: int
    size: int
    mark: FileMark | None = field(default=None, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class FoundQueue:
    """A queue as its directory tells it."""

    topic: str
    queue_id: int
    is_batch: bool
    files: tuple[QueueFile, ...]


def find_queues(path: PathLike) -> list[FoundQueue]:
    """Find the queues of a path, by topic and number."""
    location = Location.of(path)
    if location.local is None:
        return _find(location)
    whole = location.local.absolute()
    return _read_settled(_store_root(whole), lambda: _find(location.storage.at(whole)))


def _read_settled(root: Path, read: Callable[[], T]) -> T:
    """Read a store's queues, and refuse to while their folders are exchanged."""
    found = read_unexchanged(root, lambda: (read(),))
    if found is None:
        raise RmqIndexError(
            f"{root}: expected no exchange of ConsumeQueues under way, got one; run this again "
            "when the rebuild of the queues has ended, or, if it died, run "
            f"`{command_line('recover', root)}`"
        )
    return found[0]


def read_unexchanged(root: Path, read: Callable[[], T]) -> T | None:
    """Return what is read of a store's queues; None while their folders are exchanged for others.

    Raises:
        RmqIndexError: The reading raised it, or the folders were exchanged again and again.
    """

    def read_once() -> T | None:
        before = _folder_ids(root)
        outcome: T | RmqIndexError
        try:
            outcome = read()
        except RmqIndexError as error:
            outcome = error
        if is_exchanging(root):
            return None
        if _folder_ids(root) != before:
            raise UnsteadyError("a folder of queues was exchanged")
        if isinstance(outcome, RmqIndexError):
            raise outcome
        return outcome

    return read_steady(root, read_once)


def _store_root(path: Path) -> Path:
    """Return the store that a path is, or lies in."""
    for folder in (path, *path.parents):
        if folder.name in (QUEUE_FOLDER, BATCH_FOLDER):
            return folder.parent
    return path


def _folder_ids(root: Path) -> list[tuple[int, int] | None]:
    """Return the identities of the queue folders, which show an exchange."""
    ids: list[tuple[int, int] | None] = []
    for name in (QUEUE_FOLDER, BATCH_FOLDER):
        try:
            status = (root / name).stat()
        except OSError:
            ids.append(None)
        else:
            ids.append((status.st_dev, status.st_ino))
    return ids


def _find(location: Location) -> list[FoundQueue]:
    if not exists(location):
        raise RmqIndexError(f"{location}: no such file or directory")
    if is_queue_file(location.name):
        return [_only_file(location)]
    entries = directory_entries(location)
    if any(not each.is_directory and is_queue_file(each.name) for each in entries):
        return [_queue(location)]
    return _find_below(location, entries)


def _find_below(location: Location, entries: list[FileEntry]) -> list[FoundQueue]:
    if location.name in (QUEUE_FOLDER, BATCH_FOLDER):
        queues = _queues_of_folder(entries, is_batch=location.name == BATCH_FOLDER)
        if not queues and location.name == QUEUE_FOLDER:
            refuse_rocksdb_queues(location.parent)
        if not queues:
            ensure_may_be_empty(location, {location.name: location}, entries, _EXPECTED)
        return queues
    folders = {each.name: each for each in entries if each.name in (QUEUE_FOLDER, BATCH_FOLDER)}
    plain = _queues_in(folders.get(QUEUE_FOLDER))
    if not plain:
        refuse_rocksdb_queues(location)
    if folders:
        found = [*plain, *_queues_in(folders.get(BATCH_FOLDER))]
        if not found:
            empty = {name: folder.path for name, folder in folders.items()}
            ensure_may_be_empty(location, empty, entries, _EXPECTED)
        return found
    refuse_database(location, entries)
    folder = location.parent.name
    if folder in (QUEUE_FOLDER, BATCH_FOLDER):
        return _queues_of_topic(location.name, entries, is_batch=folder == BATCH_FOLDER)
    raise empty_error(location, entries, _EXPECTED)


def queue_topics(path: str) -> list[str]:
    """Return the topics that have a ConsumeQueue in a local store, or beside its ``commitlog``."""
    root = Path(path)
    for store in (root, root.parent):
        topics = _read_settled(store, partial(_topics_in, store))
        if topics is not None:
            return topics
    return []


def unknown_topics(path: str, asked: Sequence[str]) -> list[tuple[str, str | None]]:
    """Return topics without a ConsumeQueue, each with the one that it may be meant for.

    That is one that differs in case or blanks, else one that is much like it; None without one.
    Nothing is known of a store without ConsumeQueues.
    """
    try:
        topics = queue_topics(path) if asked else []
    except (RmqIndexError, OSError):
        return []
    return [(each, nearest_topic(each, topics)) for each in asked if topics and each not in topics]


def nearest_topic(topic: str, topics: Sequence[str]) -> str | None:
    """Return the topic that may be meant by another: equal but for case or blanks, else like it."""
    from difflib import get_close_matches  # noqa: PLC0415  (few need it)

    likely = {each.strip().casefold(): each for each in topics}
    if (same := likely.get(topic.strip().casefold())) is not None:
        return same
    return next(iter(get_close_matches(topic, topics, 1, _LIKENESS)), None)


def _topics_in(store: Path) -> list[str] | None:
    """Return the topics of a store; None where it has no folder of queues."""
    folders = [store / name for name in (QUEUE_FOLDER, BATCH_FOLDER)]
    there = [folder for folder in folders if folder.is_dir()]
    listed = [entry for folder in there for entry in directory_entries(folder)]
    topics = {entry.name for entry in listed if entry.is_directory}
    if not topics:
        refuse_rocksdb_queues(Location.of(store))
    return sorted(topics) if there else None


def _queues_in(folder: FileEntry | None) -> list[FoundQueue]:
    if folder is None:
        return []
    is_batch = folder.name == BATCH_FOLDER
    return _queues_of_folder(directory_entries(folder.path), is_batch=is_batch)


def _queues_of_folder(entries: list[FileEntry], *, is_batch: bool) -> list[FoundQueue]:
    return [
        queue
        for topic in sorted(entries, key=lambda each: each.name)
        if topic.is_directory
        for queue in _queues_of_topic(topic.name, _still_there(topic), is_batch=is_batch)
    ]


def _queues_of_topic(topic: str, entries: list[FileEntry], *, is_batch: bool) -> list[FoundQueue]:
    numbered = [each for each in entries if each.is_directory and is_queue_id(each.name)]
    return [
        FoundQueue(topic, int(each.name), is_batch, _files(_still_there(each)))
        for each in sorted(numbered, key=lambda each: int(each.name))
    ]


def _still_there(folder: FileEntry) -> list[FileEntry]:
    """Return the entries of a listed folder, which its broker may have deleted since."""
    try:
        return directory_entries(folder.path)
    except RmqIndexError as error:
        if isinstance(error.__cause__, FileNotFoundError):
            return []
        raise


def is_queue_id(name: str) -> bool:
    """Return whether a folder's name is a queue's number.

    A broker opens folders by the number that ``Integer.parseInt`` reads: it never looks into
    ``00``.
    """
    return _QUEUE_ID.fullmatch(name) is not None and int(name) <= INT32_MAX


def is_queue_file(name: str) -> bool:
    """Return whether a file of a queue can have a name: where it begins, in 20 digits."""
    return _FILE_NAME.fullmatch(name) is not None and int(name) <= INT64_MAX


def foreign_files(folder: Path) -> list[tuple[FileEntry, str]]:
    """Return the files in a queue's folder with which no broker loads it, and what it expects.

    None, if the broker deleted the queue meanwhile.
    """
    location = Location.of(folder)
    listed = _still_there(FileEntry(location, location.name, 0, is_directory=True))
    folders = [each for each in listed if each.is_directory and is_queue_file(each.name)]
    return [
        *unloadable_files(listed, is_queue_file),
        *((folder, "no folder that has a file's name") for folder in folders),
    ]


def no_folder(root: Path, path: Path) -> Path | None:
    """Return what is no folder in the place of a folder of queues, or of one that it is in."""
    inside = path.relative_to(root).parts
    places = [root.joinpath(*inside[: n + 1]) for n in range(len(inside))]
    return next((each for each in places if os.path.lexists(each) and not each.is_dir()), None)


def _queue(location: Location) -> FoundQueue:
    topic = location.parent
    if not topic.name or not is_queue_id(location.name):
        raise RmqIndexError(f"{location}: expected the directory of a queue, named by its number")
    is_batch = topic.parent.name == BATCH_FOLDER
    files = _files(directory_entries(location))
    return FoundQueue(topic.name, int(location.name), is_batch, files)


def _only_file(location: Location) -> FoundQueue:
    whole = _queue(location.parent)
    return replace(
        whole, files=tuple(each for each in whole.files if each.start == int(location.name))
    )


def _files(entries: list[FileEntry]) -> tuple[QueueFile, ...]:
    files = [
        QueueFile(
            each.path,
            int(each.name),
            each.size,
            None if each.identity is None else FileMark(each.identity),
        )
        for each in entries
        if not each.is_directory and is_queue_file(each.name)
    ]
    return tuple(sorted(files, key=lambda file: file.start))
