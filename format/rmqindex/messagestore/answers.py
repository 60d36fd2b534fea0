"""What a store answers: tables of hits and usage, warnings as metadata, and a text of its files."""

from __future__ import annotations

import json
import warnings
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from rmqindex.answers.files import describe, total
from rmqindex.answers.plot import count_index, draw_counts
from rmqindex.answers.text import size_text
from rmqindex.bulk.tags import untagged
from rmqindex.commitlog.bodies import Unpacking
from rmqindex.commitlog.selection import Selection
from rmqindex.errors import IncompleteIndexWarning, IncompleteLogWarning, RmqIndexError, counted
from rmqindex.export.formats import DEFAULT_COLUMNS, as_table
from rmqindex.keys.messages import tag_key
from rmqindex.query.key_usage import KEY_ROWS, measure_keys
from rmqindex.query.many_keys import LOOKUP_SCHEMA
from rmqindex.query.verification import VERIFIED
from rmqindex.times import format_millis

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from contextlib import AbstractContextManager
    from datetime import tzinfo

    from rmqindex.answers.files import FileFacts
    from rmqindex.commitlog.log import CommitLog
    from rmqindex.commitlog.selection import MissingPart
    from rmqindex.indexfile.entries import Mode
    from rmqindex.indexfile.geometry import Layout
    from rmqindex.query.key_usage import KeyGroup
    from rmqindex.query.usage import Usage
    from rmqindex.store.snapshot import SnapshotFile

_USAGE_TYPES = {
    "topic": pa.string(),
    "queue_id": pa.int32(),
    "hour": pa.timestamp("ms", "UTC"),
    "message_count": pa.int64(),
    "size": pa.int64(),
    "entry_count": pa.int64(),
}
# The groups that need a column; the others are in every table.
_USAGE_GROUPS = {"topic": {"topic", "queue"}, "queue_id": {"queue"}, "hour": {"hour"}}

_KEY_USAGE_SCHEMA = pa.schema(
    {
        "topic": pa.string(),
        "key": pa.string(),
        "key_hash": pa.int32(),
        "slot": pa.int32(),
        "message_count": pa.int64(),
        "size": pa.int64(),
        "size_share": pa.float64(),
        "entry_count": pa.int64(),
        "unverified_count": pa.int64(),
        "entry_share": pa.float64(),
        "longest_chain": pa.int64(),
        "entries_read": pa.int64(),
        "bytes_read": pa.int64(),
        "pages_read": pa.int64(),
    }
)
_ADVICE = "MessageStore(.., mode='DROPMALFORMED') gives null for such a body"
# The most bytes of messages, as stored, that are read at a time.
_MAX_BYTES = 64 * 1024 * 1024


def unpacking(columns: Sequence[str], mode: Mode) -> Unpacking:
    """Return what makes bodies of a store: unpacked, and damaged ones an error or null."""
    return Unpacking(
        columns, decompress=True, strict=mode == "FAILFAST", advice=_ADVICE, crc_advice=_ADVICE
    )


def with_messages(hits: pa.Table, log: CommitLog, mode: Mode) -> pa.Table:
    """Add the columns of the messages, bodies unpacked; null unless an entry is verified."""
    columns = [name for name in DEFAULT_COLUMNS if name not in LOOKUP_SCHEMA.names]
    bodies = unpacking(columns, mode)
    offsets = hits.column("phy_offset").to_numpy()
    verified = np.asarray(pc.equal(hits.column("match_state"), VERIFIED))
    sizes = log.read_at(offsets, ["size"]).column("size").fill_null(0)
    filled = np.cumsum(sizes.to_numpy(zero_copy_only=False), dtype=np.int64)
    parts: list[pa.Table] = []
    start = 0
    while start < len(offsets) or not parts:
        before = int(filled[start - 1]) if start else 0
        stop = max(start + 1, int(np.searchsorted(filled, before + _MAX_BYTES, side="right")))
        read = log.read_at(offsets[start:stop], bodies.source.names, decompress_body=False)
        other = ~verified[start:stop]
        if other.any():
            read = read.take(pa.array(np.arange(read.num_rows), mask=other))
        parts.append(as_table(bodies.batch(read, log.files, [read.schema.field("state")])))
        start = stop
    messages = pa.concat_tables(parts).drop_columns(["state"])
    log.ensure_same()
    for field in messages.schema:
        hits = hits.append_column(field, messages.column(field.name))
    return hits


def untagged_keys(
    topic: str,
    keys: pa.Array | pa.ChunkedArray,
    files: Sequence[SnapshotFile],
    layout: Layout | None,
    log: CommitLog | None,
    times: tuple[int | None, int | None] = (None, None),
) -> list[str]:
    """Return what an answer may lack where keys are those of tags, which not all messages have."""
    prefix = tag_key("")
    asked = keys.filter(pc.starts_with(keys, prefix))
    if log is None or not log.files or not len(asked) or not files:
        return []
    tags = [key.removeprefix(prefix) for key in asked.unique().to_pylist()]
    text = untagged(topic, tags, [file.entry for file in files], layout, log, times)
    return [] if text is None else [text]


def incomplete_index(
    files: Sequence[SnapshotFile], lacking: Sequence[str]
) -> dict[str, str] | None:
    """Warn the caller's caller of what an index lacks; return it as the metadata of the answer."""
    texts = [planned.lacking for planned in files if planned.lacking is not None]
    texts += lacking
    for text in texts:
        warnings.warn(text, IncompleteIndexWarning, stacklevel=3)
    return {"uncovered": json.dumps(texts)} if texts else None


def incomplete_log(missing: Sequence[MissingPart]) -> dict[str, str] | None:
    """Warn the caller's caller of what a log lacks; return it as the metadata of the answer."""
    texts = [part.text() for part in missing]
    for text in texts:
        warnings.warn(text, IncompleteLogWarning, stacklevel=3)
    return {"missing": json.dumps(texts)} if texts else None


def usage_table(usage: Usage, groups: Sequence[str], metadata: dict[str, str] | None) -> pa.Table:
    """Return the rows of a usage with the columns of the groups that were asked for."""
    columns = {
        name: pa.array([getattr(row, name) for row in usage.rows], kind)
        for name, kind in _USAGE_TYPES.items()
        if not _USAGE_GROUPS.get(name, set(groups)).isdisjoint(groups)
    }
    return pa.table(columns).replace_schema_metadata(metadata)


def index_figure(path: object, files: Sequence[SnapshotFile], zone: tzinfo, zone_name: str) -> Any:  # noqa: ANN401  (matplotlib's Figure)
    """Draw what files hold, below their path and how many entries they have."""
    counts = count_index(files)
    entries = counted(sum(counts.entry_counts), "entry", "entries")
    title = f"{path}: {entries} in {counted(len(counts.names), 'file')}"
    return draw_counts(counts, title, zone, zone_name)


def key_usage_table(
    files: Sequence[SnapshotFile] | None,
    log: CommitLog | None,
    by: str,
    times: tuple[int | None, int | None],
    limit: int | None,
    mode: Mode,
) -> pa.Table:
    """Return the rows of the hottest keys or tags."""
    chosen = Selection(begin=times[0], end=times[1])
    group: KeyGroup = "tag" if by == "tag" else "key"
    usage = measure_keys(files, log, group, chosen, limit=limit or KEY_ROWS, mode=mode)
    columns = [[getattr(row, name) for row in usage.rows] for name in _KEY_USAGE_SCHEMA.names]
    return pa.table(columns, schema=_KEY_USAGE_SCHEMA)


#: The names of the cells of a row of :func:`described`.
FILE_COLUMNS = (
    "file",
    "entries",
    "slots used",
    "first stored",
    "last stored",
    "first offset",
    "last offset",
    "size",
)


def described(
    files: Callable[[], Iterable[SnapshotFile]],
    opened_log: Callable[[], AbstractContextManager[CommitLog | None]],
    zone: tzinfo,
    zone_name: str,
) -> tuple[str, list[tuple[object, ...]]]:
    """Return one line, and a row for each file, whatever state the store is in."""
    parts: list[str] = []
    facts: list[FileFacts] = []
    try:
        facts = [describe(planned) for planned in files()]
        parts.append(_files_text(facts, zone, zone_name))
    except (RmqIndexError, OSError) as error:
        parts.append(str(error))
    try:
        with opened_log() as log:
            parts.append(_log_text(log))
    except (RmqIndexError, OSError) as error:
        parts += [str(error)] if str(error) not in parts else []
    return ", ".join(parts), [_file_row(file, zone) for file in facts]


def _files_text(facts: Sequence[FileFacts], zone: tzinfo, zone_name: str) -> str:
    """Return how many entries the files have, and of which times."""
    together = total(facts)
    text = (
        f"{counted(together.entry_count, 'entry', 'entries')} in "
        f"{counted(together.file_count, 'IndexFile')}"
    )
    begin, end = together.begin_timestamp, together.end_timestamp
    if begin is None or end is None:
        return text
    return (
        f"{text}, stored {format_millis(begin, zone)} to {format_millis(end, zone)} ({zone_name})"
    )


def _log_text(log: CommitLog | None) -> str:
    """Return where a log begins, and how many files it has."""
    if log is None or not log.files:
        return "no CommitLog"
    return f"CommitLog from offset {log.min_offset} in {counted(len(log.files), 'file')}"


def _file_row(file: FileFacts, zone: tzinfo) -> tuple[object, ...]:
    """Return the cells of an IndexFile; the error of one that cannot be used."""
    size = size_text(file.size)
    if file.error is not None:
        return (file.name, file.error, *([None] * 5), size)
    share = None
    if file.hash_slot_num:
        share = f"{100 * (file.hash_slot_count or 0) / file.hash_slot_num:.0f} %"
    if not file.entry_count or file.begin_timestamp is None or file.end_timestamp is None:
        return (file.name, 0, share, *([None] * 4), size)
    return (
        file.name,
        file.entry_count,
        share,
        format_millis(file.begin_timestamp, zone),
        format_millis(file.end_timestamp, zone),
        file.begin_phy_offset,
        file.end_phy_offset,
        size,
    )
