"""Staging on S3, where nothing can be renamed: how several files enter an index at once.

An object is stored whole or not at all, but several cannot be changed in one step.
So a commit has a record, an object in the directory:

```text
<index>/2024..                   IndexFiles
<index>/.rmqindex-<job>/         the files of a job, which the store itself copies to their names
<index>/.rmqindex-<job>.claim    of a job that is about to commit
<index>/.rmqindex-<job>.commit   the record of a commit under way: its changes
<parent>/.index.rmqindex/last-name   the last name of an emptied index, never to be reused
```

Storing the record is the commit point.
From then on rmqindex's readers, who find the record in the same listing as the files, read the
staged files as those of the directory; until then, they ignore them.
The commit then copies each file to its name, deletes the removed ones, then what it staged, and the
record and the claim last.
If it dies, the next write finishes it: everything needed is there, or was copied before.

Claims keep two commits apart: one that finds another's claim beside its own gives up.
No clock decides that a claim or record is abandoned, and no host name: its process has ended on
this machine, since the boot, or somebody who knows that it runs no more has removed its
``owner.json``.
"""

from __future__ import annotations

import contextlib
import errno
import os
import shutil
import uuid
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import pyarrow as pa
import pyarrow.fs as pafs

from rmqindex.errors import RmqIndexError
from rmqindex.storage.filesystem import open_filesystem, unreadable
from rmqindex.storage.opening import UnsteadyError, read_steady
from rmqindex.storage.writable import WritableFile
from rmqindex.transaction.commit_record import (
    STAGING_PREFIX,
    CommitRecord,
    is_record,
    job_of,
    remove_object,
)
from rmqindex.transaction.journal import root_name
from rmqindex.transaction.owner import OWNER_RECORD, Owner
from rmqindex.transaction.used_names import LAST_NAME, greatest, last_used, read_remote_last_name

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from rmqindex.storage.location import Location
    from rmqindex.transaction.append_undo import UndoableAppend

_OWNER = "owner.json"
_COPY_BYTES = 1 << 23

T = TypeVar("T")


def committed_listing(directory: Location) -> list[tuple[pafs.FileInfo, str]]:
    """List a remote directory as its last commit left it: each name, and the path of its bytes."""
    filesystem, inner_path = open_filesystem(directory)
    finished: set[str] = set()
    return read_steady(directory, lambda: _list_once(filesystem, inner_path, directory, finished))


def _list_once(
    filesystem: pafs.FileSystem, inner_path: str, directory: Location, finished: set[str]
) -> list[tuple[pafs.FileInfo, str]]:
    """List a directory; the names of records without staged files are added to ``finished``."""
    there = filesystem.get_file_info(pafs.FileSelector(inner_path))
    found = {each.base_name: each for each in there}
    listing = {name: (each, name) for name, each in found.items()}
    for name in sorted(found):
        if not is_record(found[name]) or name in finished:
            continue
        try:
            record = CommitRecord.read(filesystem, inner_path, name, directory)
        except FileNotFoundError:
            raise UnsteadyError("a commit ended") from None
        if record.first_missing(filesystem, inner_path) is not None:
            finished.add(name)  # a listing from now on has what it copied
            raise UnsteadyError("a commit ended")
        record.show_in(listing)
    return [
        (each, place)
        for name, (each, place) in listing.items()
        if not name.startswith(STAGING_PREFIX)
    ]


@dataclass(frozen=True, slots=True)
class ObjectStaging:
    """The staged files of one job on S3; picklable, since tasks and the commit are other processes.

    Attributes:
        directory: The index directory.
        job: The job's name.
        owner: The process whose death makes the job void.
    """

    directory: Location
    job: str
    owner: Owner

    @classmethod
    def create(cls, directory: Location, owner: Owner) -> ObjectStaging:
        """Begin a job, and remove dead ones."""
        staging = cls(directory, uuid.uuid4().hex, owner)
        staging._run_on_store(staging._begin)
        return staging

    @property
    def path(self) -> Path:
        """The local directory in which this process builds files before it publishes them."""
        import tempfile  # noqa: PLC0415  (readers need none)

        path = Path(tempfile.gettempdir()) / f"rmqindex-{self.job}-{os.getpid()}"
        path.mkdir(mode=0o700, exist_ok=True)
        return path

    @property
    def continues_in_place(self) -> bool:
        """Whether a commit can append to a file in place: no, objects are replaced whole."""
        return False

    @property
    def can_move(self) -> bool:
        """Whether a staged file can be moved into the directory in one step: no, it is copied."""
        return False

    def publish(self, names: Sequence[str]) -> None:
        """Upload files that this process has built, and remove the local copies.

        A few MB of a file are in memory at a time; its holes are sent as zeros.
        """
        self._run_on_store(lambda: self._publish(names))

    def fetch(self, names: Sequence[str]) -> None:
        """Download files that other processes have published into :attr:`path`."""
        for name in names:
            path = self.path / name
            if not path.exists():
                _download(self._staged_location(name), path)

    def fetch_indexed(self, place: Location, name: str) -> None:
        """Copy an object of the index into :attr:`path`."""
        _download(place, self.path / name)

    def leave(self) -> None:
        """Remove the files that this process has built but not published."""
        shutil.rmtree(self.path, ignore_errors=True)

    @contextlib.contextmanager
    def exclusive(self, *, create: bool = False) -> Iterator[None]:  # noqa: ARG002
        """Keep other commits out, after finishing dead ones."""
        try:
            self._run_on_store(self._claim)
            yield
        finally:
            with contextlib.suppress(RmqIndexError):  # discard() tries again
                self._run_on_store(self._unclaim)

    def last_name(
        self, there: Sequence[str], *, replaced: bool, latest: str | None = None
    ) -> str | None:
        """Return the name that new names must come after; None for any."""
        kept = None if there else self._run_on_store(self._kept_name)
        return last_used(there, [] if kept is None else [kept], replaced=replaced, latest=latest)

    def commit(
        self,
        new: Sequence[tuple[Path, str]],
        removed: Sequence[str],
        *,
        append: UndoableAppend | None = None,
        ledger: Mapping[str, object] | None = None,
    ) -> None:
        """Add published files to the directory and remove others, in one step.

        Call it within :meth:`exclusive`.
        """
        assert append is None, "no object can be appended to"
        assert ledger is None, "a commit to an object store records nothing beside the files"
        try:
            self._run_on_store(lambda: self._store_record(new, removed))
        except RmqIndexError as error:
            # The store may have done what it did not acknowledge.
            if not self._is_committed(error):
                raise
        try:
            self._run_on_store(self._finish_own)
        except RmqIndexError as error:
            raise RmqIndexError(
                f"{error}. The write is committed: readers of rmqindex see the new files, and the "
                "next write to the directory finishes it; do not write the same rows again"
            ) from error

    def discard(self) -> None:
        """Remove the job's files, unless its commit counts and is unfinished."""
        self.leave()
        self._run_on_store(self._discard)

    def _begin(self) -> None:
        filesystem, inner = open_filesystem(self.directory)
        for info in filesystem.get_file_info(_within(inner)):
            if not info.base_name.startswith(STAGING_PREFIX) or job_of(info) is not None:
                continue
            with contextlib.suppress(FileNotFoundError):  # its owner removed it first
                if self._is_void(filesystem, info):
                    filesystem.delete_dir(info.path)
        data = OWNER_RECORD.encode(self._staged_location(_OWNER), self.owner.to_dict())
        _store(filesystem, f"{self._staged(inner)}/{_OWNER}", data)

    def _is_void(self, filesystem: pafs.FileSystem, info: pafs.FileInfo) -> bool:
        """Return whether a job is dead; one whose owner's record is damaged may be alive.

        The record of its owner is the first that a job stores: without it, the job was ended.
        """
        job = info.base_name.removeprefix(STAGING_PREFIX)
        for name in (CommitRecord(job, self.owner, committed=each).name for each in (False, True)):
            if _is_there(filesystem, f"{info.path.removesuffix(info.base_name)}{name}"):
                return False  # the next commit ends it
        inner = f"{info.path}/{_OWNER}"
        if not _is_there(filesystem, inner):
            return True
        try:
            uri = self.directory.child(f"{info.base_name}/{_OWNER}")
            return OWNER_RECORD.read_object(filesystem, inner, uri).has_ended
        except RmqIndexError:
            return False

    def _publish(self, names: Sequence[str]) -> None:
        filesystem, inner = open_filesystem(self.directory)
        for name in names:
            path = self.path / name
            with (
                path.open("rb") as source,
                filesystem.open_output_stream(f"{self._staged(inner)}/{name}") as stream,
            ):
                while block := source.read(_COPY_BYTES):
                    stream.write(block)
            path.unlink()

    def _claim(self) -> None:
        filesystem, inner = open_filesystem(self.directory)
        claim = CommitRecord(self.job, self.owner)
        self._store_own_record(filesystem, inner, claim)
        infos = {info.path: info for info in filesystem.get_file_info(_within(inner))}
        mine = f"{inner}/{claim.name}"
        if mine not in infos:
            raise _ended("the claim of the commit is not listed")
        dead = []
        for info in infos.values():
            if job_of(info) in (None, self.job):
                continue
            try:
                other = CommitRecord.read(filesystem, inner, info.base_name, self.directory)
            except FileNotFoundError:
                continue
            owner = f"{STAGING_PREFIX}{other.job}/{_OWNER}"
            if not other.owner.has_ended and _is_there(filesystem, f"{inner}/{owner}"):
                filesystem.delete_file(mine)
                raise RmqIndexError(
                    f"{self.directory}: another write is committing, by process {other.owner.pid} "
                    f"on {other.owner.host} since {info.mtime:%Y-%m-%d %H:%M:%S} UTC; nothing was "
                    "committed, write again. If you know that this process has ended, remove "
                    f"{self.directory.child(owner)} before"
                )
            dead.append(other)
        # While this claim is there no other commit begins, so nothing else changes what they do.
        # A record comes before its claim, which says nothing of what was staged.
        for other in sorted(dead, key=lambda record: not record.committed):
            other.finish(filesystem, inner)

    def _unclaim(self) -> bool:
        """Withdraw the claim unless the commit counts; return whether it does."""
        filesystem, inner = open_filesystem(self.directory)
        record = self._own_record(filesystem, inner)
        if record is None:
            remove_object(filesystem, f"{inner}/{CommitRecord(self.job, self.owner).name}")
        return record is not None

    def _is_committed(self, error: RmqIndexError) -> bool:
        try:
            return self._run_on_store(self._unclaim)
        except RmqIndexError as unknown:
            raise RmqIndexError(
                f"{error}. Whether the write is committed cannot be found out; once the store "
                "answers, the index shows it: all of the rows are there, or none"
            ) from unknown

    def _store_record(self, new: Sequence[tuple[Path, str]], removed: Sequence[str]) -> None:
        filesystem, inner = open_filesystem(self.directory)
        staged = self._staged(inner)
        infos = filesystem.get_file_info([f"{staged}/{path.name}" for path, _ in new])
        for info in infos:
            if info.type != pafs.FileType.File:
                raise _ended(f"{info.path} is not there")
        if not new:
            self._keep_name(filesystem, inner, removed)
        record = CommitRecord(
            self.job,
            self.owner,
            tuple(
                (path.name, name, int(info.size))
                for (path, name), info in zip(new, infos, strict=True)
            ),
            tuple(removed),
            committed=True,
        )
        self._store_own_record(filesystem, inner, record)
        gone = record.first_missing(filesystem, inner)  # it was removed while the record was stored
        if gone is not None:
            filesystem.delete_file(f"{inner}/{record.name}")
            raise _ended(f"{gone} is not there")

    def _keep_name(self, filesystem: pafs.FileSystem, inner: str, removed: Sequence[str]) -> None:
        """Keep the last name if the commit empties the directory."""
        name, path = greatest(removed), _last_name_path(inner)
        if name is not None and path is not None:
            _store(filesystem, path, name.encode())

    def _kept_name(self) -> str | None:
        filesystem, inner = open_filesystem(self.directory)
        path = _last_name_path(inner)
        return None if path is None else read_remote_last_name(filesystem, path)

    def _finish_own(self) -> None:
        filesystem, inner = open_filesystem(self.directory)
        record = self._own_record(filesystem, inner)
        if record is not None:
            record.finish(filesystem, inner)

    def _discard(self) -> None:
        if self._unclaim():
            return
        filesystem, inner = open_filesystem(self.directory)
        with contextlib.suppress(FileNotFoundError):
            filesystem.delete_dir(self._staged(inner))

    def _staged(self, inner: str) -> str:
        return f"{inner}/{STAGING_PREFIX}{self.job}"

    def _own_record(self, filesystem: pafs.FileSystem, inner: str) -> CommitRecord | None:
        name = CommitRecord(self.job, self.owner, committed=True).name
        try:
            return CommitRecord.read(filesystem, inner, name, self.directory)
        except FileNotFoundError:
            return None

    def _store_own_record(
        self, filesystem: pafs.FileSystem, inner: str, record: CommitRecord
    ) -> None:
        _store(filesystem, f"{inner}/{record.name}", record.encode(self.directory))

    def _staged_location(self, name: str) -> Location:
        return self.directory.child(f"{STAGING_PREFIX}{self.job}").child(name)

    def _run_on_store(self, work: Callable[[], T]) -> T:
        """Run a function on the store; its failures become a :class:`RmqIndexError`."""
        try:
            return work()
        except (OSError, pa.ArrowException) as error:
            raise unreadable(self.directory, error, what="written") from error


def _download(location: Location, path: Path) -> None:
    """Download an object into a local file, which gets its name once it is whole."""
    filesystem, inner = open_filesystem(location)
    part = path.with_name(f"{path.name}.part")
    part.unlink(missing_ok=True)
    with WritableFile(part) as target:
        try:
            source = filesystem.open_input_file(inner)
            size = source.size()
        except (OSError, pa.ArrowException) as error:
            raise unreadable(location, error, expected="the file's size") from error
        for start in range(0, size, _COPY_BYTES):
            try:
                block = source.read_at(min(_COPY_BYTES, size - start), start)
            except (OSError, pa.ArrowException) as error:
                raise unreadable(location, error, expected=f"bytes from {start} on") from error
            if len(block) != min(_COPY_BYTES, size - start):
                raise RmqIndexError(
                    f"{location}: expected {size} bytes, got {start + len(block)}: it was "
                    "changed while it was read"
                )
            if block.count(0) != len(block):
                target.write_at(block, start)
        target.resize(size)
    part.replace(path)


def _last_name_path(inner: str) -> str | None:
    """Return where the last name of an emptied index is kept; None for a whole bucket."""
    parent, _, name = inner.rpartition("/")
    return f"{parent}/{root_name(name)}/{LAST_NAME}" if parent else None


def _store(filesystem: pafs.FileSystem, path: str, data: bytes) -> None:
    with filesystem.open_output_stream(path) as stream:
        stream.write(data)


def _is_there(filesystem: pafs.FileSystem, path: str) -> bool:
    return bool(filesystem.get_file_info(path).type == pafs.FileType.File)


def _within(inner_path: str) -> pafs.FileSelector:
    return pafs.FileSelector(inner_path, allow_not_found=True)


def _ended(why: str) -> FileNotFoundError:
    """Return the error of a write whose files another has removed."""
    return FileNotFoundError(errno.ENOENT, f"{why}: the write was ended")
