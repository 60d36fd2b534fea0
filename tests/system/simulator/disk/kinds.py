"""Every kind of write, what readers find of it, and what must hold after a power cut."""

from __future__ import annotations

import shutil
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any

from tests.system.faults import writes
from tests.system.faults.readers import QUICK, QUICK_OF_QUEUES, answer
from tests.system.faults.states import errors_in, seen, tree

import rmqindex
from rmqindex import IndexDirectory, IndexFile, IndexFileWriter, StoreCheckpoint
from rmqindex.consumequeue import QueueStaging

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

__all__ = ["KINDS", "Kind", "refused"]

#: What a reader finds that refuses.
refused = "refused"


@dataclass(frozen=True)
class Kind:
    """A kind of write.

    Attributes:
        name: What it is called.
        prepare: Makes what is there before, in an empty folder.
        run: The write, given the folder and, with stages, how far it goes; again it is harmless,
            and ends in the same state.
        stages: How far it goes at a time; what was written up to each must last once the call
            for it has returned.
        readers: What each reader finds in a folder: ``refused``, or anything that can be compared.
        in_place: Whether any beginning of the rows may be found.
        check: Raises where something is wrong that readers do not see, in a state and at the end.
        loose: The folders in which the names at the end depend on when they were given.
    """

    name: str
    prepare: Callable[[Path], None]
    run: Callable[..., None]
    stages: tuple[Any, ...] = ()
    readers: dict[str, Callable[[Path], Any]] = field(default_factory=dict)
    in_place: bool = False
    check: Callable[[Path], None] = lambda _: None
    loose: tuple[str, ...] = ("store/index",)


def _index_readers(index: str) -> dict[str, Callable[[Path], Any]]:
    readers: dict[str, Callable[[Path], Any]] = {"entries": partial(_entries, index)}
    for name, read in QUICK.items():
        readers[name] = partial(_answer, read, index)
    return readers


def _entries(index, folder):
    found = answer(seen, folder / index)
    return refused if found is None else found


def _answer(read, index, folder):
    found = answer(read, folder / index)
    return refused if found is None else found


def _covers(index, folder):
    """Ensure that the checkpoint claims no more than the index has: a broker believes it."""
    checkpoint = (folder / index).parent / "checkpoint"
    entries = _entries(index, folder)
    if not checkpoint.is_file() or entries == refused:
        return
    claimed = StoreCheckpoint.load(checkpoint).index_msg_timestamp
    last = max((row[2] for _, rows in entries for row in rows), default=0)
    # Entries know whole seconds.
    assert claimed < last + 1000, f"the checkpoint claims {claimed}, the last entry is of {last}"


def _sound(index, folder):
    _covers(index, folder)
    errors = errors_in(folder / index) if (folder / index).exists() else []
    assert not errors, f"the audit finds {errors[0]}"


def _queue_state(folder):
    with QueueStaging(folder / "store"):
        pass  # which first goes back to what was there
    return tree(folder / "store", "consumequeue", "batchconsumequeue")


def _of_index(write):
    return Kind(
        write.name,
        write.prepare,
        write.run,
        write.stages,
        _index_readers(write.index),
        in_place=write.in_place,
        check=partial(_sound, write.index),
    )


def _of_queues(write):
    readers = {name: partial(_answer, read, "store") for name, read in QUICK_OF_QUEUES.items()}
    return Kind(
        write.name,
        write.prepare,
        write.run,
        readers={**readers, "files": _queue_state},
        loose=(),
    )


def answer_or_refused(read: Callable[[Path], Any], folder: Path) -> Any:
    """Return what a reader finds, or ``refused``."""
    found = answer(lambda path: [read(path)], folder)
    return refused if found is None else found[0]


def _rebuilt_elsewhere(folder):
    writes.rebuild(folder, "--out", str(folder / "other/store/index"))


# Writers of the codec, whose promise is a flush at a time.

_FLUSHES = (60, 150, 197, 199)
_FILE = "20240102030405678"


def _write_file(folder, until=_FLUSHES[-1]):
    """Write one file in place, and flush it a few times."""
    with IndexFileWriter(folder / _FILE, writes.LAYOUT) as writer:
        for stop in _FLUSHES[: _FLUSHES.index(until) + 1]:
            done = max(writer.header.index_count - 1, 0)
            columns = writes.batch_of(range(done, max(done, stop)))
            writer.put_many(*columns.columns)
            writer.flush()


def _read_file(folder):
    if not (folder / _FILE).exists():
        return refused
    with IndexFile(folder / _FILE, writes.LAYOUT) as file:
        rows = [tuple(row.values()) for batch in file.scan() for row in batch.to_pylist()]
        hashes = sorted({row[0] for row in rows})
        assert file.lookup(hashes).num_rows == len(rows), "broken chains"
    return rows


_MESSAGES = (150, 420, 640)


def _build_index(folder, until=_MESSAGES[-1]):
    """Index messages one by one, over several files, as a broker does."""
    root = folder / "store"
    for path in sorted((root / "index").glob("*")):
        with IndexFileWriter(path, writes.LAYOUT):
            pass  # which repairs slots; IndexDirectory goes on with them as the broker does
    with IndexDirectory(root, writes.LAYOUT, writable=True, time_zone="UTC") as directory:
        done = sum(max(file.header.index_count - 1, 0) for file in directory.files)
        for stop in _MESSAGES[: _MESSAGES.index(until) + 1]:
            for number in range(done, stop):
                time = writes.BEGIN + 700 * number
                directory.build_index("T", f"key{number % 50}", "", 0, number * 100, time)
            done = max(done, stop)
            directory.flush()


def _indexable(folder):
    (folder / "store").mkdir()
    StoreCheckpoint().save(folder / "store" / "checkpoint")


def _directory_rows(folder):
    with IndexDirectory(folder / "store", writes.LAYOUT) as directory:
        return [
            tuple(row.values())
            for file in directory.files
            for batch in file.scan(columns=["phy_offset", "key_hash", "store_timestamp"])
            for row in batch.to_pylist()
        ]


def _save_checkpoint(folder):
    path = folder / "store" / "checkpoint"
    replace(StoreCheckpoint.load(path), index_msg_timestamp=7).save(path)


def _whole_store(folder):
    shutil.copytree(rmqindex.sample_store(), folder / "store")


def _export(folder, *arguments):
    writes.command(folder, "export", str(folder / "deep/er"), "--format", "jsonl", *arguments)


def _export_small(folder):
    _export(folder, "--max-file-size", "20KiB")


def _exported(folder):
    parts = sorted((folder / "deep/er").glob("[!._]*.jsonl"))
    return [line for part in parts for line in part.read_text().splitlines()]


def _deep_index(folder):
    """Prepare nothing: not even the folder of the store is there."""


_OWN = (
    Kind(
        "IndexFileWriter",
        _deep_index,
        _write_file,
        stages=_FLUSHES,
        readers={"IndexFile": partial(answer_or_refused, _read_file)},
        in_place=True,
        loose=(),
    ),
    Kind(
        "IndexDirectory",
        _indexable,
        _build_index,
        stages=_MESSAGES,
        readers={"IndexDirectory": partial(answer_or_refused, _directory_rows)},
        in_place=True,
    ),
    Kind(
        "StoreCheckpoint",
        _indexable,
        _save_checkpoint,
        readers={
            "StoreCheckpoint": lambda folder: StoreCheckpoint.load(folder / "store" / "checkpoint")
        },
        loose=(),
    ),
    Kind(
        "rmqindex export",
        _whole_store,
        _export,
        readers={"lines": _exported},
        in_place=True,
        loose=(),
    ),
    Kind(
        "rmqindex export, small files",
        _whole_store,
        _export_small,
        readers={"lines": _exported},
        in_place=True,
        loose=(),
    ),
)


# Index writes that the trials of kills lack.

_MORE = (
    writes.Write("df.write, a new store", writes.df_write, _deep_index),
    writes.Write(
        "df.write, overwrite by nothing",
        partial(writes.df_write, offsets=range(0), overwrite=True),
        writes.some_rows,
    ),
    writes.Write("write_index, a new store", writes.play_write_index, _deep_index),
    writes.Write("writeStream, a new store", writes.stream, _deep_index, stages=writes.STAGES),
    writes.Write(
        "rmqindex rebuild, a new store",
        _rebuilt_elsewhere,
        writes.logged,
        index="other/store/index",
        in_place=True,
    ),
)


KINDS = (
    *(
        _of_queues(write) if write.queues else _of_index(write)
        for write in (*writes.WRITES, *writes.RECOVERIES, *_MORE)
    ),
    *_OWN,
)
