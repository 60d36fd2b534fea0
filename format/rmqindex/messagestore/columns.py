"""The messages of entries that were looked up, beside them."""

from __future__ import annotations

import json
import warnings
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from rmqindex.commitlog.bodies import Unpacking
from rmqindex.errors import IncompleteIndexWarning, IncompleteLogWarning
from rmqindex.export.formats import DEFAULT_COLUMNS, as_table
from rmqindex.query.many_keys import LOOKUP_SCHEMA
from rmqindex.query.verification import VERIFIED

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rmqindex.audit.missing import MissingPart
    from rmqindex.commitlog.log import CommitLog
    from rmqindex.explanation.coverage import Uncovered
    from rmqindex.export.usage import Usage
    from rmqindex.indexfile.entries import Mode
    from rmqindex.store.snapshot import SnapshotFile

__all__ = ["incomplete_index", "incomplete_log", "usage_table", "with_messages"]

_USAGE_TYPES = {
    "topic": pa.string(),
    "queue_id": pa.int32(),
    "hour": pa.timestamp("ms", "UTC"),
    "message_count": pa.int64(),
    "size": pa.int64(),
}
# The groups that need a column; the others are in every table.
_USAGE_GROUPS = {"topic": {"topic", "queue"}, "queue_id": {"queue"}, "hour": {"hour"}}

_ADVICE = "MessageStore(.., mode='DROPMALFORMED') gives null for such a body"
# The most bytes of messages, as stored, that are read at a time.
_MAX_BYTES = 64 * 1024 * 1024


def unpacking(columns: Sequence[str], mode: Mode) -> Unpacking:
    """Return what makes bodies of a store: unpacked, and damaged ones an error or null."""
    return Unpacking(
        columns, decompress=True, strict=mode == "FAILFAST", advice=_ADVICE, crc_advice=_ADVICE
    )


def with_messages(found: pa.Table, log: CommitLog, mode: Mode) -> pa.Table:
    """Add the columns of the messages, bodies unpacked; null unless an entry is verified.

    Args:
        found: A table of ``LOOKUP_SCHEMA``.
        log: The CommitLog.
        mode: What to do with a body that is damaged: raise, or give null for it.

    Raises:
        RmqIndexError: The storage failed, or a body is damaged; only ``FAILFAST``.
    """
    columns = [name for name in DEFAULT_COLUMNS if name not in LOOKUP_SCHEMA.names]
    bodies = unpacking(columns, mode)
    offsets = found.column("phy_offset").to_numpy()
    verified = np.asarray(pc.equal(found.column("match_state"), VERIFIED))
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
        found = found.append_column(field, messages.column(field.name))
    return found


def incomplete_index(
    files: Sequence[SnapshotFile], lacking: Sequence[Uncovered]
) -> dict[str, str] | None:
    """Warn the caller's caller of what an index lacks; return it as the metadata of the answer."""
    texts = [planned.lacking for planned in files if planned.lacking is not None]
    texts += [part.text() for part in lacking]
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
