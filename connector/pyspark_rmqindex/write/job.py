"""The options of a write, the index directory in its path, and what the files there decide."""

from __future__ import annotations

import re
import uuid
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pyspark import TaskContext
from pyspark.sql.datasource import DataSourceArrowWriter, WriterCommitMessage

from pyspark_rmqindex.files.stores import check_one_store
from pyspark_rmqindex.log_lines import log_warning
from pyspark_rmqindex.options import SinkOptions, parse_options
from pyspark_rmqindex.write.input_shapes import InputShape
from rmqindex import RmqIndexError
from rmqindex.bulk import (
    ARRIVAL,
    BY_POSITION,
    Committer,
    RowStager,
    StagedRows,
    TagChoice,
    WriteJob,
    WriteOptions,
    commit_staged,
    tags_of_index,
)
from rmqindex.layout import COMMITLOG_FOLDER, INDEX_FOLDER, QUEUE_FOLDER
from rmqindex.storage import S3_SCHEMES, Location
from rmqindex.store import Store, is_coverable, list_index_files, refuse_target
from rmqindex.transaction import Owner, entries_or_none, exists

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence
    from pathlib import Path

    import pyarrow as pa
    from pyspark.sql.types import StructType

    from rmqindex import Layout


# What messages of the codec advise to give, as Python has it and as Spark does.
_OPTIONS = {
    "allow_live_store=True": "allowLiveStore=true",
    "checkpoint=False": "checkpoint=false",
    "index_tags=True": "indexTags=true",
    "index_tags=False": "indexTags=false",
}
# A word of its own, which no part of a path is.
_ARGUMENTS = re.compile(rf"(?<= )(?:{'|'.join(_OPTIONS)})")

_NOT_TOLD = {
    False: "tags are not indexed, since nothing shows that the broker does; one from 5.4.0 on "
    "does: give the option indexTags=true for it, else false",
    True: "tags are indexed, since the store has the folder rocksdbstore, which brokers make from "
    "5.4.0 on; for an older broker give the option indexTags=false",
}
_MESSAGE_FOLDERS = (COMMITLOG_FOLDER, QUEUE_FOLDER)


@dataclass(frozen=True, slots=True)
class TaskResult(WriterCommitMessage):
    """What one task staged.

    Attributes:
        partition: The number of its partition, or of the file that it built.
        staged: Its runs and files.
        store: The store that its rows are of, where they tell.
        query: The id of the streaming query; empty for another write.
    """

    partition: int
    staged: StagedRows
    store: str | None = None
    query: str = ""

    @classmethod
    def in_order(cls, messages: Iterable[WriterCommitMessage | None]) -> list[TaskResult]:
        """Return the results of a write's tasks, in the order of their partitions."""
        results = (message for message in messages if isinstance(message, cls))
        return sorted(results, key=lambda result: result.partition)


def write_options(raw: Mapping[str, str]) -> WriteOptions:
    """Parse and check the options of a write."""
    options = parse_options(SinkOptions, raw, "write")
    assert options.path is not None, "checked by the options"
    directory = _index_directory(options.storage.at(options.path))
    refuse_target(directory)
    if directory.local is None and options.checkpoint:
        raise ValueError("option 'checkpoint': only for a local store")
    return WriteOptions(
        directory=directory.local or directory,
        layout=options.layout,
        zone=options.time_zone,
        on_indexed=options.on_indexed,
        broker_redispatch=options.broker_redispatch,
        allow_overlap=options.allow_overlap,
        allow_live_store=options.allow_live_store,
        index_members=options.index_members,
        index_tags=options.index_tags,
        checkpoint=_raises_checkpoint(options.checkpoint, directory),
    )


def _raises_checkpoint(asked: bool | None, directory: Location) -> bool:
    if asked is None:
        local = directory.local
        return local is not None and is_coverable(local)
    return asked


@contextmanager
def in_options() -> Iterator[None]:
    """Let errors of the codec name Spark's options instead of Python's arguments."""
    try:
        yield
    except RmqIndexError as error:
        text = _ARGUMENTS.sub(lambda match: _OPTIONS[match[0]], str(error))
        error.args = (text, *error.args[1:])
        raise


def choose_tags(
    shape: InputShape, options: WriteOptions, *, overwrite: bool = False, once: bool = False
) -> InputShape:
    """Return a shape with the choice of the tags to index; say it where the files do not tell."""
    if shape.kind != "message":
        return shape
    if options.index_tags is not None:
        return shape.with_tags(TagChoice(0 if options.index_tags else None, "argument"))
    choice = tags_of_index(options.directory, newest_only=not overwrite)
    if choice.basis == "store" and not shape.has_tags:
        choice = TagChoice(None, "store")
    if shape.has_tags and choice.basis != "files" and not (once and _has_files(options.directory)):
        log_warning(f"{options.directory}: {_NOT_TOLD[choice.start is not None]}")
    return shape.with_tags(choice)


def warn_of_geometry(options: WriteOptions, layout: Layout) -> None:
    """Say which geometry the first files of an index get, unless an option does."""
    if options.layout is None and not _has_files(options.directory):
        log_warning(
            f"{options.directory}: no files that tell the geometry, so the new ones have the "
            f"default, {layout.hash_slot_num:,} slots and {layout.index_num:,} entry places; for a "
            "broker with other settings give the options maxHashSlotNum and maxIndexNum"
        )


def _has_files(directory: Path | Location) -> bool:
    """Return whether an index directory has files."""
    return exists(directory) and bool(list_index_files(directory))


def _index_directory(path: Location) -> Location:
    if path.local is None and path.scheme not in S3_SCHEMES:
        raise ValueError(
            f"option 'path': expected a local directory or one on S3 to write to, got {str(path)!r}"
        )
    whole = Location.of(path)
    if not exists(whole):
        return whole
    folders = {entry.name for entry in entries_or_none(whole) if entry.is_directory}
    if INDEX_FOLDER not in folders and folders.intersection(_MESSAGE_FOLDERS):
        return whole.child(INDEX_FOLDER)
    store = Store.open(whole, to_write=True)
    if store.file is not None:
        raise RmqIndexError(
            f"{whole}: expected an index directory or a store to write to, got a file"
        )
    return store.index


def task_name() -> tuple[int, str]:
    """Return this task's partition, and a name unique to this attempt."""
    context = TaskContext.get()
    if context is None:  # not in a task: a test, or another engine
        return 0, uuid.uuid4().hex
    partition = context.partitionId()
    # Attempt ids are unique within an application, and so is a job.
    return partition, f"{partition}-{context.taskAttemptId()}"


# A task with more rows than this builds its files itself; rows of smaller tasks are merged.
_RUN_ROWS = 1_000_000
_JVM = "java"


class IndexWriter(DataSourceArrowWriter):
    """Writes the rows of a DataFrame as IndexFiles."""

    def __init__(self, schema: StructType, overwrite: bool, options: Mapping[str, str]) -> None:
        """Check everything before the first row is read; runs once, on the driver."""
        checked = write_options(options)
        shape = InputShape.of(schema, members=checked.index_members, tags=checked.index_tags)
        # Rows from load() keep the order of their entries; other rows keep their order of arrival.
        self._order = BY_POSITION if shape.by_position else ARRIVAL
        with in_options():
            self._shape = choose_tags(shape, checked, overwrite=overwrite)
            self._job = WriteJob.start(checked, overwrite=overwrite, owner=Owner.of_ancestor(_JVM))
            warn_of_geometry(checked, self._job.layout)

    def write(self, iterator: Iterator[pa.RecordBatch]) -> TaskResult:
        """Stage the rows of one task."""
        partition, name = task_name()
        stager = RowStager(self._job, name, self._order, _RUN_ROWS)
        stores = self._shape.store_check()
        with self._job.attempt(stager.remove):
            for batch in iterator:
                stores.see(batch)
                stager.add(self._shape.read(batch))
            staged = stager.stage_files()
        return TaskResult(partition, staged, stores.store)

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        """Commit what the tasks staged, all of it or nothing."""
        results = TaskResult.in_order(messages)
        with in_options(), Committer.of(self._job):
            check_one_store(result.store for result in results)
            commit_staged(
                self._job,
                [part for result in results for part in result.staged.runs],
                [file for result in results for file in result.staged.files],
                self._order,
            )

    def abort(self, messages: Sequence[WriterCommitMessage | None]) -> None:  # noqa: ARG002
        """Remove the staged files, and undo an unfinished commit."""
        self._job.staging.discard()
