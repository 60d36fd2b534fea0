"""``write_index``: builds, in many tasks, the files that a single broker would write.

1. Tasks hash the rows and stage them as sorted runs; the input is read once.
2. The driver splits the runs where a broker would have ended its files.
3. One task per file merges its part of the runs and builds the file.

Rows are never numbered, so a task that is retried cannot shift the rows of others.
"""

from __future__ import annotations

import json
import os
from functools import partial
from typing import TYPE_CHECKING, Literal

import pyarrow as pa
from pyspark.sql.types import StructType

from pyspark_rmqindex.files.stores import check_one_store
from pyspark_rmqindex.job_names import named_jobs
from pyspark_rmqindex.options import option_text
from pyspark_rmqindex.schema import STORE_COLUMN
from pyspark_rmqindex.worker_python import check_worker_python
from pyspark_rmqindex.write.input_shapes import InputShape
from pyspark_rmqindex.write.job import (
    TaskResult,
    choose_tags,
    in_options,
    task_name,
    warn_of_geometry,
    write_options,
)
from rmqindex.bulk import (
    BY_POSITION,
    CONTENT,
    Committer,
    FilePlan,
    Order,
    RowStager,
    RunSet,
    StagedRows,
    WriteJob,
    build_file,
    commit_files,
    plan_files,
    without_indexed,
)
from rmqindex.storage import RecordKind, from_json, to_json
from rmqindex.transaction import BrokerLock, Owner

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from pyspark.sql import DataFrame

    from rmqindex.bulk import IndexState

# The most rows that a task holds in memory.
_RUN_ROWS = 1 << 20
# The most rows that the commit itself appends to the last file.
_COMMIT_ROWS = 1_000_000
_FORMAT = "rmqcommitlog"
# The columns of a message that its entries are made from.
_NEEDED = ("topic", "uniq_key", "keys", "sys_flag", "phy_offset", "store_timestamp", STORE_COLUMN)
_ANSWER = "answer STRING"
# Bytes of the longest answer of a task.
_MAX_ANSWER = 1 << 30


def write_index(
    df: DataFrame,
    path: str | os.PathLike[str],
    *,
    mode: Literal["append", "overwrite"] = "append",
    **options: object,
) -> None:
    """Build the index of a DataFrame's messages, as one broker would have built it.

    The files do not depend on how the rows are ordered or partitioned.
    Entries are ordered by ``phy_offset``, then by the key's place in its message (the unique key
    first), or by ``file_path`` and ``position`` where the DataFrame has both, else by key hash.
    If the rows are messages (``topic``, ``uniq_key``, ``keys``, ``sys_flag``), the files equal the
    broker's byte for byte, except for their names: a last file that is not full is continued, and a
    new file inherits from the full one before it.

    Args:
        df: The rows, in one of the shapes that ``df.write.format("rmqindex")`` takes.
        path: An index directory (created if missing) or a store root that has ``index/``; a local
            path that the driver and all executors share, or an S3 URI.
        mode: ``append``, or ``overwrite`` to replace what is there.
        **options: The write options of the data source, such as ``maxHashSlotNum=97``.

    Raises:
        ValueError: An unknown option, a bad value, columns that cannot be indexed, rows that are
            already indexed, or rows of several stores (two values in the column ``store``).
        RmqIndexError: A broker holds the store, the geometry is unknown or differs, or the index
            changed meanwhile.
        RuntimeError: Spark's workers, on this host, run a Python that cannot import this package,
            or of another minor version.
        pyspark.errors.PythonException: A row cannot be indexed; the message ends with its values.

    Example:
        >>> write_index(messages, "/data/store", onIndexed="skip")  # doctest: +SKIP
    """
    if mode not in ("append", "overwrite"):
        raise ValueError(f"mode: expected 'append' or 'overwrite', got {mode!r}")
    texts = {name: option_text(name, value) for name, value in options.items() if value is not None}
    checked = write_options({**texts, "path": os.fspath(path)})
    members, tags = checked.index_members, checked.index_tags
    InputShape.of(df.schema, members=members, tags=tags)
    df = _without_unused(df, members=members, tags=tags)
    shape = InputShape.of(df.schema, members=members, tags=tags)
    check_worker_python(df.sparkSession, plans=False)
    with in_options():
        shape = choose_tags(shape, checked, overwrite=mode == "overwrite")
        job = WriteJob.start(checked, overwrite=mode == "overwrite", owner=Owner.current())
        warn_of_geometry(checked, job.layout)
        _write(df, job, shape)


def _without_unused(df: DataFrame, *, members: bool, tags: bool | None) -> DataFrame:
    """Return messages without the columns that are not indexed, such as their bodies.

    Only a DataFrame that is the load of a CommitLog and nothing more can be read anew; any other is
    returned as it is, and so is one of Spark Connect, whose plan is on the server.
    """
    java_frame = getattr(df, "_jdf", None)
    if java_frame is None or df.storageLevel.useMemory or df.storageLevel.useDisk:
        return df
    plan = java_frame.queryExecution().analyzed()
    if plan.getClass().getSimpleName() != "DataSourceV2Relation":
        return df
    if str(plan.table().name()) != _FORMAT:
        return df
    needed = {*_NEEDED, *(["member_keys"] if members else []), *([] if tags is False else ["tags"])}
    fields = [field for field in df.schema.fields if field.name.lower() in needed]
    if any(field.metadata for field in fields):  # of a catalog table, which keeps options there
        return df
    options = dict(plan.options().asCaseSensitiveMap())
    reader = df.sparkSession.read.format(_FORMAT).options(**options)
    return reader.schema(StructType(fields)).load()


def _write(df: DataFrame, job: WriteJob, shape: InputShape) -> None:
    hold = BrokerLock.around(job.options.directory).hold(
        allow_live_store=job.options.allow_live_store
    )
    with hold, Committer.of(job):
        order = BY_POSITION if shape.by_position else CONTENT
        name = f"rmqindex write_index to {job.options.directory}"
        with named_jobs(df.sparkSession, f"{name}: stage sorted rows"):
            results = _run(df, partial(_stage, job, shape, order))
        check_one_store([result.store for result in results])
        slices = [run for result in results for run in result.staged.runs]
        state = job.state()
        job.staging.fetch([part.name for part in slices])
        rows = without_indexed(job, state, RunSet(job.staging.path, slices, order))
        plans = _plans(job, state, rows, continues=not hold.is_live)
        in_place = bool(plans) and job.staging.continues_in_place and _is_small_append(plans[0])
        continued = plans.pop(0) if in_place else None
        results = []
        if plans:
            tasks = df.sparkSession.range(0, len(plans), 1, len(plans))
            count = f"{len(plans)} file{'' if len(plans) == 1 else 's'}"
            with named_jobs(df.sparkSession, f"{name}: build {count}"):
                results = _run(tasks, partial(_build, job, plans))
        files = [file for result in TaskResult.in_order(results) for file in result.staged.files]
        assert len(files) == len(plans)
        commit_files(job, state, files, continued)


def _plans(job: WriteJob, state: IndexState, rows: RunSet, *, continues: bool) -> list[FilePlan]:
    """Split the rows where a broker would have ended its files."""
    if not len(rows):
        return []
    last = state.last if state.precedes(rows.offset_range()[0]) else None
    return list(plan_files(rows, job.layout, last, continues=continues))


def _is_small_append(plan: FilePlan) -> bool:
    """Return whether the commit itself appends to a file, rather than a task copying it."""
    return plan.continued is not None and plan.rows <= _COMMIT_ROWS


def _run(
    df: DataFrame, task: Callable[[Iterator[pa.RecordBatch]], Iterator[TaskResult]]
) -> list[TaskResult]:
    """Run a task on each partition, and return the results of the successful attempts."""
    answers = df.mapInArrow(partial(_answer, task), _ANSWER).collect()
    record = RecordKind(
        "the answer of a task",
        lambda fields: from_json(TaskResult, fields.values),
        "write again",
        limit=_MAX_ANSWER,
    )
    return [record.parse("write_index", row[0].encode()) for row in answers]


def _answer(
    task: Callable[[Iterator[pa.RecordBatch]], Iterator[TaskResult]],
    batches: Iterator[pa.RecordBatch],
) -> Iterator[pa.RecordBatch]:
    texts = [json.dumps(to_json(result)) for result in task(batches)]
    yield pa.record_batch([pa.array(texts, pa.string())], names=["answer"])


def _stage(
    job: WriteJob, shape: InputShape, order: Order, batches: Iterator[pa.RecordBatch]
) -> Iterator[TaskResult]:
    partition, name = task_name()
    stager = RowStager(job, name, order, _RUN_ROWS)
    stores = shape.store_check()
    with job.attempt(stager.remove):
        for batch in batches:
            stores.see(batch)
            stager.add(shape.read(batch))
        runs = stager.stage_runs()
    if runs:
        yield TaskResult(partition, StagedRows(tuple(runs)), stores.store)


def _build(
    job: WriteJob, plans: list[FilePlan], batches: Iterator[pa.RecordBatch]
) -> Iterator[TaskResult]:
    """Build the planned files whose numbers are in the batches."""
    _, name = task_name()
    for batch in batches:
        for number in batch.column(0).to_pylist():
            path = job.staging.path / f"file-{name}-{number}"
            with job.attempt(partial(path.unlink, missing_ok=True)):
                job.staging.fetch([part.name for part in plans[number].slices])
                built = build_file(job.staging, path.name, plans[number])
                job.staging.publish([path.name])
            yield TaskResult(number, StagedRows(files=(built,)))
