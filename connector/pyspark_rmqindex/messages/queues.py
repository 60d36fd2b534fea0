"""The reader of the format ``rmqconsumequeue``; packs files into partitions by size."""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import chain
from typing import TYPE_CHECKING

import pyarrow as pa
from pyspark.sql.datasource import InputPartition

from pyspark_rmqindex.files.slices import as_planned
from pyspark_rmqindex.files.stores import store_of_queue
from pyspark_rmqindex.log_lines import write_counts
from pyspark_rmqindex.schema import STORE_COLUMN, PrunedReader, arrow_schema, check_not_null
from rmqindex import ConsumeQueue, RmqIndexError
from rmqindex.consumequeue import is_queue_file, marked_queue_file, read_units
from rmqindex.storage import map_files, path_text
from rmqindex.store import expand, has_pattern
from rmqindex.transaction import exists

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from pyspark.sql.types import StructType

    from pyspark_rmqindex.options import QueueOptions
    from rmqindex.consumequeue import QueueFile
    from rmqindex.storage import Location

# Opening a file costs about as much as reading this many bytes.
_OPENING_BYTES = 64 * 1024


@dataclass(frozen=True, slots=True)
class _Part:
    """One file of a queue."""

    topic: str
    queue_id: int
    is_batch: bool
    file: QueueFile


@dataclass
class QueuePartition(InputPartition):
    """The work of one task: the files to read."""

    parts: tuple[_Part, ...]


class QueueReader(PrunedReader):
    """Reads the units of every queue in the given paths."""

    def __init__(self, options: QueueOptions, schema: StructType) -> None:
        """Store the request."""
        self._options = options
        self._schema = schema

    def partitions(self) -> Sequence[InputPartition]:
        """Find the files and divide the work; what a broker deletes meanwhile is left out."""
        while True:
            parts = self._listed()
            try:
                return list(_pack(_mark_all(parts), self._options.max_partition_bytes))
            except RmqIndexError:
                if all(exists(part.file.path) for part in parts):
                    raise

    def _listed(self) -> list[_Part]:
        parts: dict[str, _Part] = {}
        for path in chain.from_iterable(map(_expanded, self._options.paths)):
            for queue in ConsumeQueue.find(path):
                for file in queue.files:
                    part = _Part(queue.topic, queue.queue_id, queue.is_batch, file)
                    parts.setdefault(file.path, part)  # count a file once if several paths name it
        return list(parts.values())

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Read the units of one task."""
        if not isinstance(partition, QueuePartition):
            return  # Spark runs one task even if there is nothing to read
        schema = arrow_schema(self._schema)
        returned = 0
        for part in partition.parts:
            store = store_of_queue(part.file.path)
            batches = read_units(
                part.file, part.topic, part.queue_id, is_batch=part.is_batch, blanks=False
            )
            for batch in as_planned(batches):
                arrays = [
                    pa.repeat(path_text(store), batch.num_rows)
                    if field.name.lower() == STORE_COLUMN
                    else batch[field.name.lower()].cast(field.type)
                    for field in schema
                ]
                check_not_null(schema, arrays)
                returned += batch.num_rows
                yield pa.RecordBatch.from_arrays(arrays, schema=schema)
        size = sum(part.file.size for part in partition.parts)
        write_counts({"files": len(partition.parts), "bytes": size, "units": returned})


def _expanded(path: Location) -> list[Location]:
    """Return the path itself if it exists or is no pattern, else what fits it."""
    whole = path.absolute
    if not has_pattern(whole) or exists(whole):
        return [whole]
    hits = [
        hit.path
        for hit in expand(whole)
        if hit.entry is None or hit.entry.is_directory or is_queue_file(hit.entry.name)
    ]
    if not hits:
        raise RmqIndexError(f"{whole}: no store and no file of a queue fits the pattern")
    return hits


def _mark_all(parts: Sequence[_Part]) -> list[_Part]:
    """Add to each file what a task recognises it by; a remote file costs one request."""

    def mark(part: _Part) -> _Part:
        return replace(part, file=marked_queue_file(part.file, is_batch=part.is_batch))

    return map_files(mark, parts, (part.file.path for part in parts))


def _pack(parts: Sequence[_Part], max_bytes: int) -> Iterator[QueuePartition]:
    """Group files until a partition is full."""
    pack: list[_Part] = []
    size = 0
    for part in parts:
        cost = part.file.size + _OPENING_BYTES
        if pack and size + cost > max_bytes:
            yield QueuePartition(tuple(pack))
            pack, size = [], 0
        pack.append(part)
        size += cost
    if pack:
        yield QueuePartition(tuple(pack))
