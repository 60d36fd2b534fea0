"""Writes the files of new ConsumeQueues (RocketMQ: ``ConsumeQueue.putMessagePositionInfo``).

What stands among those that they replace and is no queue's is put beside them.
"""

from __future__ import annotations

import os
import shutil
from contextlib import suppress
from functools import partial
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np

from rmqindex.consumequeue.paths import is_queue_file, is_queue_id
from rmqindex.consumequeue.places import Places
from rmqindex.consumequeue.reader import expired_units, in_kind
from rmqindex.errors import RmqIndexError
from rmqindex.layout.queue import (
    BATCH_UNIT_DTYPE,
    BLANK_SIZE,
    NO_COMPACTED_OFFSET,
    UNIT_DTYPE,
    unit_dtype,
)
from rmqindex.layout.record import FILE_NAME_DIGITS
from rmqindex.layout.store import BATCH_FOLDER, QUEUE_FOLDER
from rmqindex.storage.writable import WritableFile

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
    from pathlib import Path

    from numpy.typing import NDArray

    from rmqindex.consumequeue.dispatch import QueueUnits, Refusal
    from rmqindex.consumequeue.places import Key, Proof, Run
    from rmqindex.consumequeue.reader import ConsumeQueue

    # Queue offsets, and the units at them, ascending.
    OlderUnits = Iterable[tuple[NDArray[np.int64], NDArray[Any]]]

# So many blank units are written at once.
_BLANK_UNITS = 1 << 16


class QueueWriters:
    """The queues in the making."""

    def __init__(
        self,
        root: Path,
        file_sizes: dict[bool, int],
        refuse: Callable[[Refusal], None],
        proof: Proof,
        older: Callable[[Key, int], OlderUnits],
    ) -> None:
        """Begin without queues."""
        self._root = root
        self._older = older
        self._file_sizes = file_sizes
        self.places = Places(refuse, proof)
        self._writers: dict[Key, QueueWriter] = {}

    @property
    def file_count(self) -> int:
        """How many files they have."""
        return sum(writer.file_count for writer in self._writers.values())

    @property
    def kept_count(self) -> int:
        """How many older units they have."""
        return sum(writer.kept_count for writer in self._writers.values())

    def append(self, units: QueueUnits) -> None:
        """Append the units of one queue."""
        queue = self.places.of(units)
        if queue is None:
            return
        key = (units.topic, units.queue_id, units.is_batch)
        writer = self._writers.get(key)
        if writer is None:
            writer = self._writers[key] = self._begun(key)
        data = writer.encoded(units)
        for run in queue.take(units):
            writer.write(run, int(units.queue_offset[run.first]), data[run.first : run.last])

    def keep(self, queues: Mapping[Key, ConsumeQueue], min_offset: int) -> list[tuple[str, int]]:
        """Keep queues of messages before the log alone, in files of the size of the others."""
        for key, queue in queues.items():
            self._begun(key).keep(in_kind(expired_units(queue, min_offset), is_batch=key[2]))
        return [key[:2] for key in queues]

    def _begun(self, key: Key) -> QueueWriter:
        topic, queue_id, is_batch = key
        folder = self._root / (BATCH_FOLDER if is_batch else QUEUE_FOLDER)
        directory = folder / topic / str(queue_id)
        directory.mkdir(parents=True)
        older = partial(self._older, key)
        return QueueWriter(directory, self._file_sizes[is_batch], older, is_batch=is_batch)

    def remove(self, key: Key) -> None:
        """Remove one queue."""
        del self.places.queues[key]
        self._writers.pop(key).remove()

    def clear(self) -> None:
        """Remove all queues, to begin again."""
        for folder in (QUEUE_FOLDER, BATCH_FOLDER):
            shutil.rmtree(self._root / folder, ignore_errors=True)
        self.places.queues.clear()
        self._writers.clear()


class QueueWriter:
    """The files of one queue."""

    def __init__(
        self,
        directory: Path,
        file_size: int,
        older: Callable[[int], OlderUnits],
        *,
        is_batch: bool,
    ) -> None:
        """Begin without a unit."""
        self._is_batch = is_batch
        self._older = older
        self.kept_count = 0
        self._directory = directory
        self._file_size = file_size
        self._byte = 0  # where its next unit goes
        self.file_count = 0

    def encoded(self, units: QueueUnits) -> NDArray[Any]:
        """Return units as they are in files."""
        data = np.zeros(len(units.phy_offset), unit_dtype(is_batch=self._is_batch))
        for name in ("phy_offset", "size", "tags_code"):
            data[name] = getattr(units, name)
        if self._is_batch:
            data["store_timestamp"] = units.store_timestamp
            data["batch_size"] = units.batch_size
            data["msg_base_offset"] = units.queue_offset
            data["compacted_offset"] = NO_COMPACTED_OFFSET
        return data

    def write(self, run: Run, queue_offset: int, data: NDArray[Any]) -> None:
        """Write a run of units from a queue offset on."""
        if run.is_anew:
            self._clear()
        if run.after is None:
            self.keep(self._older(queue_offset))
        self._put(queue_offset, data)

    def keep(self, older: OlderUnits) -> None:
        """Write units of messages that the log no longer has, those of batches in their order."""
        if self._is_batch:
            empty = np.zeros(0, BATCH_UNIT_DTYPE)
            units = np.concatenate([empty, *(each for _, each in older)], dtype=BATCH_UNIT_DTYPE)
            units = units[np.lexsort((units["phy_offset"], units["msg_base_offset"]))]
            units = units[np.append(units[:-1] != units[1:], True)[: len(units)]]  # each once
            self._put(0, units)
            self.kept_count += len(units)
            return
        for places, units in older:
            cuts = [0, *(np.flatnonzero(np.diff(places) != 1) + 1).tolist(), len(places)]
            for first, last in pairwise(cuts):
                self._put(int(places[first]), units[first:last])
            self.kept_count += len(units)

    def _put(self, queue_offset: int, data: NDArray[Any]) -> None:
        """Write units behind the last ones, after blank ones in a plain queue."""
        at = self._byte if self._is_batch else queue_offset * UNIT_DTYPE.itemsize
        if self._is_batch or self.file_count:
            self._blank(self._byte, at)
        else:
            self._blank(at - at % self._file_size, at)
        self._write(at, data)

    def remove(self) -> None:
        """Remove the queue, and its topic's folder with the last one."""
        shutil.rmtree(self._directory)
        if not any(self._directory.parent.iterdir()):
            self._directory.parent.rmdir()

    def _clear(self) -> None:
        self._byte = self.kept_count = 0
        if self.file_count:
            shutil.rmtree(self._directory)
            self._directory.mkdir()
            self.file_count = 0

    def _blank(self, start: int, stop: int) -> None:
        blank = np.zeros(min((stop - start) // UNIT_DTYPE.itemsize, _BLANK_UNITS), UNIT_DTYPE)
        blank["size"] = BLANK_SIZE
        while start < stop:
            part = blank[: (stop - start) // UNIT_DTYPE.itemsize]
            self._write(start, part)
            start += part.nbytes

    def _write(self, at: int, data: NDArray[Any]) -> None:
        """Write units at a byte of the queue, into as many files as they need."""
        view = memoryview(data.tobytes())
        while view:
            place = at % self._file_size
            part = view[: self._file_size - place]
            path = self._directory / f"{at - place:0{FILE_NAME_DIGITS}d}"
            is_new = not path.exists()
            with WritableFile(path, os.O_RDWR | (os.O_CREAT if is_new else 0)) as file:
                if is_new:
                    file.resize(self._file_size)
                    self.file_count += 1
                file.write_at(part, place)
            view = view[len(part) :]
            at += len(part)
        self._byte = at


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
