"""Commits a batch of a stream to the index exactly once, however often Spark runs it.

The cost of a small batch does not depend on the size of the index: its rows arrive in the tasks'
commit messages, are appended to the last file in place, and the batch is recorded in the same step.
"""

from __future__ import annotations

import contextlib
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rmqindex import Layout, RmqIndexError
from rmqindex.bulk import (
    Committer,
    IndexState,
    RunSet,
    WriteJob,
    find_layout,
    plan_files,
    without_indexed,
)
from rmqindex.store import list_index_files
from rmqindex.transaction import LocalStaging

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from rmqindex.bulk import Commit, IndexedFile, Order, RunSlice, WriteOptions
    from rmqindex.transaction import FileEntry, Owner

_PREFIX = "stream-"


@dataclass(frozen=True, slots=True)
class StreamBatch:
    """Identifies a batch of a stream."""

    query: str
    number: int


def staging_of(options: WriteOptions, batch: StreamBatch) -> LocalStaging:
    """Return where tasks stage rows that are too many for a commit message; it may be missing."""
    return LocalStaging.at(options.directory, f"{_PREFIX}{batch.query}-{batch.number}")


def commit_batch(
    options: WriteOptions,
    batch: StreamBatch,
    runs: Sequence[RunSlice],
    order: Order,
    owner: Owner,
) -> bool:
    """Commit the rows of a batch, all or none; return False if the batch is already indexed.

    Raises:
        RmqIndexError: A batch of that number was committed before, with other rows; or the commit
            failed.
    """
    staging = staging_of(options, batch)
    committer = Committer(
        staging,
        options.directory,
        options.zone,
        allow_live_store=options.allow_live_store,
        checkpoint=options.checkpoint,
    )
    with committer.begin(create=True) as commit:
        ledger = _Ledger.of(staging.ledger(), staging.root)
        job, state, trusted = _current(options, staging, ledger)
        if ledger.streams:
            ledger.ensure_there(state, staging)
        rows = RunSet(staging.path, runs, order)
        if batch.number <= ledger.streams.get(batch.query, -1):
            _ensure_indexed(rows, state, batch, staging.directory)
            return False
        rows = without_indexed(job, state, rows)
        if not len(rows):
            return True
        last = state.last if state.precedes(rows.offset_range()[0]) else None
        for plan in plan_files(rows, job.layout, last, continues=True):
            if plan.continued is None:
                staging.make(owner)
            commit.build(plan, trusted=trusted)
        commit.finish(
            job.names_there() if commit.built else [],
            record=lambda names: ledger.after(batch, _tail(commit, names, job.layout, state)),
        )
    return True


def _ensure_indexed(rows: RunSet, state: IndexState, batch: StreamBatch, directory: Path) -> None:
    """Refuse other rows under the number of a batch that was committed before."""
    newest = rows.offset_range()[1] if len(rows) else -1
    if state.end is None or newest <= state.end:
        return
    raise RmqIndexError(
        f"{directory}: expected batch {batch.number}, which was committed before, to end by offset "
        f"{state.end}, as the index does, got messages up to offset {newest}: the checkpoint is "
        "older than the index, as one from a backup is. Start with a new checkpoint and "
        "onIndexed=skip, which adds what the index lacks"
    )


def discard_batches(options: WriteOptions, batch: StreamBatch) -> None:
    """Remove the files that the tasks of a batch, and of earlier ones, left staged.

    An unfinished commit of the batch is undone.
    """
    staging = staging_of(options, batch)
    prefix = f"{_PREFIX}{batch.query}-"
    with contextlib.suppress(FileNotFoundError):
        for path in list(staging.root.iterdir()):
            number = path.name.removeprefix(prefix)
            if path.name.startswith(prefix) and number.isdecimal() and int(number) < batch.number:
                LocalStaging.at(options.directory, path.name).discard()
    staging.discard()


@dataclass(frozen=True, slots=True)
class _Tail:
    """The newest file as this sink's last commit left it, with the end of the whole index.

    The inode tells the file from one that replaced it, such as one with another geometry.
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
        """Return whether the file is unchanged since."""
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
    """The record that is written with the commits of streams."""

    streams: dict[str, int] = field(default_factory=dict)
    tail: _Tail | None = None  # The newest file after the last of these commits; None if not known

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

    def ensure_there(self, state: IndexState, staging: LocalStaging) -> None:
        """Refuse an index without the last entries that streams put into it."""
        end = 0 if self.tail is None else self.tail.end_phy_offset
        if state.end is None or state.end < end:
            got = "no entries" if state.end is None else f"entries up to offset {state.end}"
            expected = f" up to offset {end}" if self.tail is not None else ""
            raise RmqIndexError(
                f"{staging.directory}: expected the entries{expected} that earlier batches of "
                f"streams put there, got {got}: restore the index; or delete it, {staging.root} "
                "and the checkpoints, to begin anew. Without its ledger.json alone, a stream goes "
                "on behind what is lost"
            )

    def after(self, batch: StreamBatch, tail: _Tail | None) -> dict[str, object]:
        """Return the record to write with a batch, as JSON values."""
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
    options: WriteOptions, staging: LocalStaging, ledger: _Ledger
) -> tuple[WriteJob, IndexState, bool]:
    """Return the state of the index, from the files at its end alone if nobody else wrote since."""
    directory = staging.directory
    entries = list_index_files(directory) if directory.exists() else []
    unchanged = _by_ledger(options, entries, ledger)
    if unchanged is not None:
        layout, state = unchanged
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
    state = IndexState.of_end(entries)
    return (layout, state) if tail.is_of(state.files[-1]) else None


def _tail(commit: Commit, names: Sequence[str], layout: Layout, state: IndexState) -> _Tail | None:
    """Return the newest file after a commit, if the index ends in it."""
    geometry = (layout.hash_slot_num, layout.index_num)
    if commit.built:
        file = commit.staging.path / commit.built[-1].name
        header = commit.built[-1].header
        name, ends = names[-1], (header.index_count, header.end_phy_offset, header.end_timestamp)
    elif commit.append is not None:
        record = commit.append.undo.record
        file = Path(commit.staging.directory) / record.name
        name, ends = record.name, (record.index_count, record.end_phy_offset, record.end_timestamp)
    else:
        return None
    tail = _Tail(name, file.stat().st_ino, *geometry, *ends)
    return tail if state.precedes(tail.end_phy_offset) else None
