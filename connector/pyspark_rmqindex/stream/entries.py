"""The stream of entries: ``spark.readStream.format("rmqindex")``.

Spark runs everything except :meth:`IndexStreamReader.read` in one Python process per stream.
It calls ``latestOffset``, writes the result to the checkpoint, and only then calls ``partitions``;
after a restart, it calls ``partitions`` with the same two offsets again.
So the offsets alone must determine a batch; the object itself holds only caches, and the end offset
of ``Trigger.AvailableNow``.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadMaxFiles,
    ReadMaxRows,
    SupportsTriggerAvailableNow,
)

from pyspark_rmqindex.read.planning import plan_files, wanted_by
from pyspark_rmqindex.read.reader import IndexReader
from pyspark_rmqindex.stream.checkpoint import (
    CheckpointedReader,
    offsets_from_json,
    offsets_to_json,
)
from pyspark_rmqindex.stream.listing import Directories
from pyspark_rmqindex.stream.offsets import (
    continues,
    cut,
    offset_after,
    only_until,
    share,
    slices_between,
    state_of,
)
from pyspark_rmqindex.stream.store_offset import StoreOffset
from rmqindex import RmqIndexError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    import pyarrow as pa
    from pyspark.sql.datasource import InputPartition
    from pyspark.sql.streaming.datasource import ReadLimit
    from pyspark.sql.types import StructType

    from pyspark_rmqindex.files.slices import FileSlice
    from pyspark_rmqindex.options import StreamOptions
    from pyspark_rmqindex.stream.listing import LiveFile
    from pyspark_rmqindex.stream.offsets import Piece, State
    from pyspark_rmqindex.stream.store_offset import PositionMark, SeenFile


class IndexStreamReader(CheckpointedReader, SupportsTriggerAvailableNow):
    """Follows index directories that brokers write to."""

    def __init__(self, options: StreamOptions, schema: StructType) -> None:
        """Store the request; nothing is read yet."""
        super().__init__(options)
        self._options = options
        # A file that disappears after planning is data loss, which the options allow or not.
        reader_options = replace(options, ignore_missing=not options.fail_on_data_loss)
        self._reader = IndexReader(reader_options, schema, {})
        self._directories = Directories(options)
        self._target: dict[str, dict[str, int]] | None = None
        self._reported: dict[str, Any] | None = None

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802  (Spark's name)
        """Return where a new stream begins."""
        if self._options.starting_position == "earliest":
            return {}
        return offsets_to_json(self._advance({}, None, None))

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802  (Spark's name)
        """Return the limit in the options; depending on the trigger, Spark passes it or none."""
        options = self._options
        if options.max_entries is not None:
            return ReadMaxRows(options.max_entries)
        if options.max_files is not None:
            return ReadMaxFiles(options.max_files)
        return ReadAllAvailable()

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802  (Spark's name)
        """Remember the current end, where the stream will stop."""
        self._target = {
            directory: {name: file.seen.stop for name, file in files.items()}
            for directory, files in self._look({}).items()
        }

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:  # noqa: N802
        """Return where the next batch ends."""
        bounded = not isinstance(limit, ReadAllAvailable)
        offsets = self._advance(
            offsets_from_json(StoreOffset, start),
            self._options.max_entries if bounded else None,
            self._options.max_files if bounded else None,
        )
        return offsets_to_json(offsets)

    def reportLatestOffset(self) -> dict[str, Any] | None:  # noqa: N802  (Spark's name)
        """Return the end found by the last listing, for the stream's status."""
        return self._reported

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        """Divide a batch among tasks."""
        begins = offsets_from_json(StoreOffset, start)
        ends = offsets_from_json(StoreOffset, end)
        if begins == ends:
            return []
        listing = self._look(begins)
        slices: list[FileSlice] = []
        for directory, until in ends.items():
            since = begins.get(directory)
            if since == until:
                continue
            files = listing.get(directory, {})
            state = slices_between(directory, since, until, _seen(files), self._mark_at(files))
            self._report(state)
            slices += [
                files[piece.file.name].slice_of(piece.start, piece.stop) for piece in state.pieces
            ]
        options = self._options
        remote = any(file_slice.path.local is None for file_slice in slices)
        return plan_files(options, wanted_by(options), slices, remote=remote).partitions

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Read the entries of one task."""
        yield from self._reader.read(partition)

    def _advance(
        self,
        offsets: Mapping[str, StoreOffset],
        max_entries: int | None,
        max_files: int | None,
    ) -> dict[str, StoreOffset]:
        listing = self._look(offsets)
        self._ensure_not_moved(offsets, listing)
        todo: dict[str, list[Piece]] = {}
        seen: dict[str, list[SeenFile]] = {}
        readers = {}
        for directory in sorted({*listing, *offsets}):
            files = self._until_target(directory, listing.get(directory, {}))
            readers[directory] = self._mark_at(files)
            seen[directory] = _seen(files)
            state = state_of(directory, offsets.get(directory), seen[directory], readers[directory])
            self._report(state)
            todo[directory] = state.pieces
        self._reported = offsets_to_json(_behind(offsets, todo, seen, readers))
        counts = share([len(pieces) for pieces in todo.values()], max_files)
        chosen = {
            directory: pieces[:count]
            for (directory, pieces), count in zip(todo.items(), counts, strict=True)
        }
        sizes = [sum(piece.size for piece in pieces) for pieces in chosen.values()]
        cuts = {
            directory: cut(pieces, size)
            for (directory, pieces), size in zip(
                chosen.items(), share(sizes, max_entries), strict=True
            )
        }
        return _behind(offsets, cuts, seen, readers)

    def _ensure_not_moved(
        self, offsets: Mapping[str, StoreOffset], listing: Mapping[str, Mapping[str, LiveFile]]
    ) -> None:
        """Refuse a directory that was read before under another path: all would come again."""
        for former in sorted(offsets.keys() - listing.keys()):
            for directory in sorted(listing.keys() - offsets.keys()):
                files = listing[directory]
                if continues(offsets[former], _seen(files), self._mark_at(files)):
                    raise RmqIndexError(
                        f"{directory}: expected this index at {former}, where the checkpoint has "
                        f"{offsets[former].entries} of its entries as read, got the same files at "
                        "another path; give the former path, by a link for instance, or start with "
                        "a new checkpoint, which returns all entries again"
                    )

    def _until_target(self, directory: str, files: Mapping[str, LiveFile]) -> dict[str, LiveFile]:
        """Drop what was added after the end for ``Trigger.AvailableNow``."""
        if self._target is None:
            return dict(files)
        earlier = only_until(_seen(files), self._target.get(directory, {}))
        return {seen.name: replace(files[seen.name], seen=seen) for seen in earlier}

    def _mark_at(self, files: Mapping[str, LiveFile]) -> Callable[[SeenFile, int], PositionMark]:
        return lambda seen, position: self._directories.mark_at(files[seen.name], position)

    def _report(self, state: State) -> None:
        if state.loss:
            self._report_loss(state.loss)
        if state.note:
            self._warn(state.note)

    def _look(self, offsets: Mapping[str, StoreOffset]) -> dict[str, dict[str, LiveFile]]:
        """List the files, and log once what cannot be read of those that are damaged."""
        files = self._directories.look(offsets)
        for text in self._directories.lacking:
            self._warn(text)
        return files


def _seen(files: Mapping[str, LiveFile]) -> list[SeenFile]:
    return [file.seen for file in files.values()]


def _behind(
    offsets: Mapping[str, StoreOffset],
    pieces: Mapping[str, Sequence[Piece]],
    files: Mapping[str, Sequence[SeenFile]],
    readers: Mapping[str, Callable[[SeenFile, int], PositionMark]],
) -> dict[str, StoreOffset]:
    """Return the offsets after some pieces; directories without entries have none."""
    ends = {
        directory: offset_after(
            offsets.get(directory), pieces[directory], files[directory], readers[directory]
        )
        for directory in pieces
    }
    return {directory: end for directory, end in ends.items() if end is not None}
