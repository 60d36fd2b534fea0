"""The commit of one batch of a stream: it is in the index once, however often Spark runs it.

What a small batch costs does not depend on how much is indexed: its rows come with the tasks'
messages, they are appended to the last file where it stands, and which batch they are of is
recorded in the same step.
"""

from __future__ import annotations

import contextlib
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pyspark_rmqindex.write.commit import held_store, new_names, without_indexed
from pyspark_rmqindex.write.file_plans import (
    BuiltFile,
    FilePlan,
    build_file,
    plan_append,
    plan_files,
)
from pyspark_rmqindex.write.job import IndexState, WriteJob, find_layout
from pyspark_rmqindex.write.sorted_runs import RunSet
from rmqindex import Layout, RmqIndexError
from rmqindex.store import list_index_files, raise_checkpoint
from rmqindex.transaction import Staging

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from pyspark_rmqindex.options import WriteOptions
    from pyspark_rmqindex.write.job import IndexedFile
    from pyspark_rmqindex.write.sorted_runs import Order, RunSlice
    from rmqindex.indexfile import InPlaceAppend
    from rmqindex.transaction import FileEntry, Owner

__all__ = ["StreamBatch", "commit_batch", "discard_batches", "staging_of"]

_PREFIX = "stream-"


@dataclass(frozen=True, slots=True)
class StreamBatch:
    """Which batch of which stream.

    Attributes:
        query: The id of the query, which its checkpoint keeps for life.
        number: The batch's number in the query, from 0.
    """

    query: str
    number: int


def staging_of(options: WriteOptions, batch: StreamBatch) -> Staging:
    """Return where the tasks of a batch stage what is too much for a message; it may be missing."""
    return Staging.at(options.directory, f"{_PREFIX}{batch.query}-{batch.number}")


def commit_batch(
    options: WriteOptions,
    batch: StreamBatch,
    runs: Sequence[RunSlice],
    order: Order,
    owner: Owner,
) -> bool:
    """Bring the rows of a batch into the index, all of them or nothing.

    Args:
        options: The options of the stream.
        batch: The batch.
        runs: What its tasks staged.
        order: How the rows of the runs are ordered.
        owner: The process whose death makes staged files void.

    Returns:
        False, and nothing done, where the batch is in the index already.

    Raises:
        ValueError: Rows that are indexed already, where that is an error.
        RmqIndexError: A broker holds the store, the geometry is unknown or another one, or the
            ledger is none.
    """
    staging = staging_of(options, batch)
    with held_store(staging.directory, options), staging.exclusive(create=True):
        ledger = _Ledger.of(staging.ledger(), staging.root)
        if batch.number <= ledger.streams.get(batch.query, -1):
            return False
        job, state, trusted = _current(options, staging, ledger)
        rows = without_indexed(job, state, RunSet(staging.path, runs, order))
        if len(rows):
            _commit(_Commit(job, state, trusted=trusted), rows, ledger, batch, owner)
    return True


def discard_batches(options: WriteOptions, batch: StreamBatch) -> None:
    """Remove what the tasks of a batch, and of those before it, staged and left.

    A commit of the batch that did not finish is undone.
    """
    staging = staging_of(options, batch)
    prefix = f"{_PREFIX}{batch.query}-"
    with contextlib.suppress(FileNotFoundError):
        for path in list(staging.root.iterdir()):
            number = path.name.removeprefix(prefix)
            if path.name.startswith(prefix) and number.isdecimal() and int(number) < batch.number:
                Staging.at(options.directory, path.name).discard()
    staging.discard()


@dataclass(frozen=True, slots=True)
class _Tail:
    """How a commit of ours left the newest file, in which the whole index ends.

    The inode tells it from a file that replaced it, such as one of another geometry.
    """

    name: str
    inode: int
    hash_slot_num: int
    index_num: int
    index_count: int
    end_phy_offset: int
    end_timestamp: int

    @property
    def layout(self) -> Layout:
        return Layout(self.hash_slot_num, self.index_num)

    def is_of(self, file: IndexedFile) -> bool:
        """Tell whether nobody has written to the file since."""
        header = file.header
        return (
            self.name == file.name
            and self.inode == Path(file.path).stat().st_ino
            and self.index_count == header.index_count
            and self.end_phy_offset == header.end_phy_offset
            and self.end_timestamp == header.end_timestamp
        )


@dataclass(frozen=True, slots=True)
class _Ledger:
    """What is recorded with the commits of streams.

    Attributes:
        streams: The last batch of each query that is in the index.
        tail: How the last of these commits left the index; None where that is not known.
    """

    streams: dict[str, int] = field(default_factory=dict)
    tail: _Tail | None = None

    @classmethod
    def of(cls, fields: Mapping[str, Any], root: Path) -> _Ledger:
        streams, tail = fields.get("streams", {}), fields.get("tail")
        if (
            not isinstance(streams, dict)
            or not _are_integers(streams.values())
            or not isinstance(tail, dict | None)
            or (tail is not None and not _is_tail(tail))
        ):
            raise RmqIndexError(
                f"{root}/ledger.json: expected what batches of streams recorded, got other fields; "
                "a ledger that is removed forgets which batches are in the index"
            )
        return cls(streams, None if tail is None else _Tail(**tail))

    def after(self, batch: StreamBatch, tail: _Tail | None) -> dict[str, object]:
        """Return what is recorded with a batch, as JSON can hold it."""
        fields: dict[str, object] = {"streams": {**self.streams, batch.query: batch.number}}
        if tail is not None:
            fields["tail"] = {name: getattr(tail, name) for name in _Tail.__slots__}
        return fields


def _is_tail(fields: Mapping[str, Any]) -> bool:
    numbers = {name: value for name, value in fields.items() if name != "name"}
    return (
        fields.keys() == set(_Tail.__slots__)
        and isinstance(fields["name"], str)
        and _are_integers(numbers.values())
    )


def _are_integers(values: Iterable[object]) -> bool:
    return all(type(value) is int for value in values)


def _current(
    options: WriteOptions, staging: Staging, ledger: _Ledger
) -> tuple[WriteJob, IndexState, bool]:
    """Find out what is indexed, by the newest file alone where nobody else wrote since.

    Returns:
        The write, what the directory holds, and whether its last file is known to be sound.
    """
    directory = staging.directory
    entries = list_index_files(directory) if directory.exists() else []
    known = _by_ledger(options, entries, ledger)
    if known is not None:
        layout, state = known
        return WriteJob(options, False, layout, state.end, staging), state, True
    layout = find_layout(entries, options.layout, check=True)
    state = IndexState.read(directory, layout)
    return WriteJob(options, False, layout, state.end, staging), state, False


def _by_ledger(
    options: WriteOptions, entries: Sequence[FileEntry], ledger: _Ledger
) -> tuple[Layout, IndexState] | None:
    tail = ledger.tail
    if tail is None or not entries or entries[-1].name != tail.name:
        return None
    layout = tail.layout
    if options.layout not in (None, layout):
        return None
    if any(entry.size != layout.file_size for entry in entries):
        return None
    state = IndexState.of_last(entries[-1])
    return (layout, state) if tail.is_of(state.files[-1]) else None


class _Commit:
    """One commit on its way: what is appended in place, and what becomes a new file."""

    def __init__(self, job: WriteJob, state: IndexState, *, trusted: bool) -> None:
        assert isinstance(job.staging, Staging), "streams write to local directories"
        self.job = job
        self.staging = job.staging
        self.state = state
        self.trusted = trusted
        self.append: InPlaceAppend | None = None
        self.built: list[BuiltFile] = []

    def add(self, plan: FilePlan, owner: Owner) -> None:
        staging = self.staging
        if plan.continued is not None:
            self.append = plan_append(staging.path, plan, trusted=self.trusted)
            return
        staging.make(owner)
        self.built.append(build_file(staging.path, f"built-{len(self.built)}", plan))

    def tail(self, names: Sequence[str]) -> _Tail | None:
        """Return how the commit leaves the index, if the index then ends in its newest file."""
        layout = self.job.layout
        geometry = (layout.hash_slot_num, layout.index_num)
        if self.built:
            header = self.built[-1].header
            count, end, timestamp = header.index_count, header.end_phy_offset, header.end_timestamp
            inode = (self.staging.path / self.built[-1].name).stat().st_ino
            tail = _Tail(names[-1], inode, *geometry, count, end, timestamp)
        elif self.append is not None:
            record = self.append.undo.record
            end, timestamp = record.end_phy_offset, record.end_timestamp
            inode = (self.staging.directory / record.name).stat().st_ino
            tail = _Tail(record.name, inode, *geometry, record.index_count, end, timestamp)
        else:
            return None
        return tail if self.state.precedes(tail.end_phy_offset) else None


def _commit(
    commit: _Commit, rows: RunSet, ledger: _Ledger, batch: StreamBatch, owner: Owner
) -> None:
    """Append rows to the last file, and bring in the files that it has no room for."""
    job, state = commit.job, commit.state
    last = state.last if state.precedes(rows.offset_range()[0]) else None
    try:
        for plan in plan_files(rows, job.layout, last, continues=True):
            commit.add(plan, owner)
        begins = [file.header.begin_timestamp for file in commit.built]
        names = new_names(job, begins, job.names_there()) if begins else []
        new = [
            (commit.staging.path / file.name, name)
            for file, name in zip(commit.built, names, strict=True)
        ]
        commit.staging.commit(
            new, [], append=commit.append, ledger=ledger.after(batch, commit.tail(names))
        )
    finally:
        if commit.append is not None:
            commit.append.close()
    if job.options.checkpoint:
        raise_checkpoint(commit.staging.directory)
