"""Writes to an object store, each of whose requests is lost, unanswered, or arrives again later."""

from __future__ import annotations

import hashlib
import os
import random
import re
import shutil
import tempfile
import time
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from tests.system.faults import readers, writes

from pyspark_rmqindex import DefaultSource
from rmqindex import IndexDirectory, RmqIndexError
from rmqindex.transaction import Owner

from .kinds import refused
from .objects import Late, ObjectStore, RequestError, reached_by_s3
from .trial import Fault, Tally, run_trial, text_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from .objects import Request

__all__ = ["REQUESTS", "STORE_KINDS", "StoreKind", "StoreTrial", "run_one"]

#: The name of what is tried, beside the models of a disk.
REQUESTS = "requests"

_COLUMNS = ["phy_offset", "key_hash", "position"]
_JOB = re.compile(r"[0-9a-f]{32}")
_REMEDY = re.compile(r"remove s3://(\S+) before$")
#: How a request fails, and what comes after it.
_WAYS = ("lost", "unanswered", "lost, and all behind it", "unanswered, and all behind it")


class _Folder(str):
    """A folder of the store, joined as a path is."""

    __slots__ = ()

    def __truediv__(self, name: str) -> _Folder:
        return _Folder(f"{self}/{name}")


_ROOT = _Folder("s3://bucket")
_INDEX = _ROOT / "store" / "index"


@dataclass(frozen=True)
class StoreKind:
    """A kind of write to an object store.

    Attributes:
        name: What it is called.
        prepare: Makes what is there before.
        run: The write; again it is harmless, and ends in the same state.
    """

    name: str
    prepare: Callable[[_Folder], None]
    run: Callable[[_Folder], None]


def _nothing(_):
    pass


STORE_KINDS = (
    StoreKind("S3, df.write, append", writes.some_rows, writes.df_write),
    StoreKind(
        "S3, df.write, append, tasks that build files", writes.some_rows, writes.df_write_few
    ),
    StoreKind(
        "S3, df.write, overwrite", writes.some_rows, partial(writes.df_write, overwrite=True)
    ),
    StoreKind(
        "S3, df.write, overwrite by nothing",
        writes.some_rows,
        partial(writes.df_write, offsets=range(0), overwrite=True),
    ),
    StoreKind("S3, df.write, a new index", _nothing, writes.df_write),
    StoreKind("S3, write_index, append", writes.some_rows, writes.play_write_index),
)


def _directory(path):
    with IndexDirectory(path, writes.LAYOUT) as directory:
        return [
            tuple(row.values())
            for file in directory.files
            for batch in file.scan(columns=_COLUMNS)
            for row in batch.to_pylist()
        ]


def _spark(path):
    source = DefaultSource({"path": path, **writes.GEOMETRY})
    reader = source.reader(source.schema())
    batches = [batch for part in reader.partitions() for batch in reader.read(part)]
    return [tuple(row[name] for name in _COLUMNS) for b in batches for row in b.to_pylist()]


_READERS = {"IndexFile": readers.index_file, "IndexDirectory": _directory, "Spark reader": _spark}


class StoreTrial:
    """One kind of write, done undisturbed first."""

    def __init__(self, kind: StoreKind) -> None:
        """Prepare, and write."""
        self.kind = kind
        self._known: dict[bytes, dict[str, object]] = {}
        self._before = self._of(kind.prepare).objects
        store = self._of(kind.run, self._before)
        self.changes, self.reads = len(store.changes), len(store.reads)
        self._new = store.objects
        self._looks = [self.look(self._before), self.look(self._new)]
        more = self._of(_more, self._new)
        self._more, self._more_changes = self.look(more.objects), len(more.changes)
        self._last_count = len(more.objects)

    @staticmethod
    def _of(write: Callable[[_Folder], None], objects: dict[str, bytes] | None = None):
        store = ObjectStore(dict(objects or {}))
        with reached_by_s3(store), writes.silent():
            write(_ROOT)
        return store

    def look(self, objects: dict[str, bytes]) -> dict[str, object]:
        """Return what each reader finds; they are asked once where all but jobs' names is alike."""
        mark = _mark_of(objects)
        if mark not in self._known:
            with reached_by_s3(ObjectStore(dict(objects))), writes.silent():
                self._known[mark] = {name: _answer(read) for name, read in _READERS.items()}
        return self._known[mark]

    def run(self, seed: int, *, states: int | None = None) -> Tally:
        """Try all, or so many, of the ways in which requests can fail or come late.

        Args:
            seed: What is drawn by.
            states: How many are tried; None for all.
        """
        chance = random.Random(f"{seed} {self.kind.name}")
        tally = Tally(self.kind.name, REQUESTS, self.changes + self.reads)
        tries = [*self._tries()]
        for act in tries if states is None else chance.sample(tries, min(states, len(tries))):
            tally.states += 1
            try:
                tally.found[act()] += 1
            except Exception as error:  # noqa: BLE001  (whatever is run into is a finding)
                tally.faults.append(Fault(_told(act), text_of(error)))
        tally.cut = min(tally.states, self.changes + self.reads)
        tally.finished = tally.states
        return tally

    def _tries(self) -> Iterator[Callable[[], str]]:
        for number in range(1, self.changes + 1):
            for way in _WAYS:
                for dies in (False, True):
                    yield partial(self.fail, "changes", number, way, dies=dies)
            last = self.changes + self._more_changes
            for before in range(number + 1, last + 2):
                yield partial(self.repeat, number, before)
        for number in range(1, self.reads + 1):
            yield partial(self.fail, "reads", number, "lost", dies=False)
            yield partial(self.fail, "reads", number, "lost, and all behind it", dies=True)

    def fail(self, among: str, number: int, way: str, *, dies: bool) -> str:
        """Let a request fail; say what readers then find.

        Args:
            among: ``changes`` or ``reads``.
            number: Which of them.
            way: One of ``_WAYS``.
            dies: Whether the process that wrote ends, so that another can know it.
        """
        store = ObjectStore(dict(self._before))
        state = {"has failed": False}

        def matches(request: Request) -> bool:
            return request.number == number and request in getattr(store, among)[-1:]

        def before(request: Request) -> None:
            if state["has failed"] and way.endswith("all behind it"):
                raise RequestError(request)
            if way.startswith("lost") and matches(request):
                state["has failed"] = True
                raise RequestError(request)

        def after(request: Request) -> None:
            if way.startswith("unanswered") and not state["has failed"] and matches(request):
                state["has failed"] = True
                raise RequestError(request)

        store.before, store.after = before, after
        is_done = self._write(store)
        if dies:
            _forget_owners(store.objects)
        told = self._judge(store.objects, is_done=is_done)
        self._finish(ObjectStore(store.objects), clean=dies)
        return told

    def repeat(self, number: int, before: int) -> str:
        """Let a request that was done arrive again before another one; say what readers find."""
        store = ObjectStore(dict(self._before), late=Late(number, before))
        is_done = self._write(store)
        assert is_done or before <= self.changes, "it failed although nothing has come yet"
        if before == self.changes + 1:
            store.arrive_late()
        told = self._judge(store.objects, is_done=is_done)
        _forget_owners(store.objects)
        self._finish(store, clean=True)
        return told

    def _write(self, store: ObjectStore) -> bool:
        """Run the write; return whether it ended without an error."""
        with reached_by_s3(store), writes.silent():
            refusal = _refusal_of(self.kind.run)
        assert refusal is None or "s3://bucket/store/index" in refusal, f"no object: {refusal}"
        return refusal is None

    def _judge(self, objects: dict[str, bytes], *, is_done: bool) -> str:
        looks = self.look(objects)
        for place, told in ((1, "new"), (0, "old")):
            if looks == self._looks[place]:
                assert told == "new" or not is_done, "what was written is gone"
                return told
        raise AssertionError(f"neither old nor new: {str(looks)[:300]}")

    def _finish(self, store: ObjectStore, *, clean: bool) -> None:
        """Write again, and more; all of it must be there, and nothing beside it."""
        with reached_by_s3(store), writes.silent():
            for write in (self.kind.run, _more):
                # Once to be told who holds it, once to finish what that one has committed.
                for _ in range(2):
                    refusal = _refusal_of(write)
                    if refusal is None:
                        break
                    if not refusal.endswith("write again"):
                        assert not clean, f"refused, although the writer has ended: {refusal}"
                        remedy = _REMEDY.search(refusal)
                        assert remedy is not None, f"refused without a remedy: {refusal}"
                        store.objects.pop(remedy[1])
                else:
                    write(_ROOT)
        looks = self.look(store.objects)
        assert looks == self._more, f"after the next write: {str(looks)[:300]}"
        if clean:
            store.arrive_late()
            assert self.look(store.objects) == self._more, "after a late request"
            _forget_owners(store.objects)
            with reached_by_s3(store), writes.silent():
                writes.df_write(_ROOT, range(1030, 1031))
            left = [name for name in store.objects if "/.rmqindex-" in name]
            assert not left, f"left behind: {left}"
            assert len(store.objects) == self._last_count, f"other objects: {sorted(store.objects)}"


def _refusal_of(write: Callable[[_Folder], None]) -> str | None:
    try:
        write(_ROOT)
    except RmqIndexError as error:
        return str(error)
    finally:
        for path in Path(tempfile.gettempdir()).glob(f"rmqindex-*-{os.getpid()}"):
            shutil.rmtree(path)
    return None


def run_one(
    name: str, models: Sequence[str], seed: int, most: int, states: int | None
) -> list[Tally]:
    """Try one kind of write, to a disk or an object store, in a process of its own."""
    kind = next((kind for kind in STORE_KINDS if kind.name == name), None)
    if kind is None:
        return run_trial(name, models, seed, most, states)
    start = time.monotonic()
    tally = StoreTrial(kind).run(seed, states=states)
    tally.seconds = time.monotonic() - start
    return [tally]


def _more(folder):
    """Append rows behind all others."""
    writes.df_write(folder, range(1000, 1030))


def _mark_of(objects: dict[str, bytes]) -> bytes:
    """Return a digest of what readers may ask for; jobs and processes have no names in it."""
    mark = hashlib.blake2b(digest_size=16)
    named = {_JOB.sub("job", name): name for name in objects}
    for name, full in sorted(named.items()):
        data = objects[full]
        if full.endswith((".claim", ".commit", "owner.json")):
            data = _JOB.sub("job", re.sub(r'"owner": \{[^}]*\}', "", data.decode())).encode()
        mark.update(f"{name}\0{len(data)}\0".encode())
        mark.update(data)
    return mark.digest()


def _answer(read):
    """Return what a reader finds; an index that is not there has a folder while a job stages."""
    try:
        return tuple(read(str(_INDEX))) or refused
    except RmqIndexError as error:
        if "s3://bucket/store/index" not in str(error):
            raise
        return refused


def _forget_owners(objects: dict[str, bytes]) -> None:
    """Have the records of this process name one that has ended."""
    start = f'"start_time": {Owner.current().start_time}'.encode()
    for name, data in objects.items():
        if name.endswith((".claim", ".commit", "owner.json")):
            objects[name] = data.replace(start, b'"start_time": 1')


def _told(act):
    return f"{act.func.__name__} {act.args} {act.keywords}"
