"""Index keys of messages (spec: keys of a message; RocketMQ: ``IndexService.buildIndex``)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from rmqindex.arguments import int_or_none, text_of
from rmqindex.keys.hashing import (
    KEY_SEPARATOR,
    TOPIC_KEY_SEPARATOR,
    index_key,
    index_key_hashes,
)
from rmqindex.layout.record import TRANSACTION_MASK, TRANSACTION_ROLLBACK

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

#: The columns of a message that make its keys, without tags, as :func:`expand_messages` takes them.
KEY_COLUMNS = ("topic", "uniq_key", "keys", "sys_flag")
#: By how many bits :func:`pack_pairs` shifts rows.
HASH_BITS = np.int64(32)

# MessageConst.INDEX_TAG_TYPE, from RocketMQ 5.4.0 on.
TAG_INDEX_TYPE = "T"


def tag_key(tags: str) -> str:
    """Return the key under which brokers from 5.4.0 on index a message's tags: ``T#tags``.

    The whole index key is ``topic#T#tags``, so a message with the key ``T#tags`` shares it.
    """
    return f"{TAG_INDEX_TYPE}{TOPIC_KEY_SEPARATOR}{tags}"


def message_keys(
    topic: str,
    uniq_key: str | None,
    keys: str | Sequence[str | None] | None,
    sys_flag: int | None = 0,
    tags: str | None = None,
) -> list[str]:
    """Return the index keys of one message, in the order in which the broker indexes them.

    The unique key comes first, also an empty one, then the parts of ``keys``, then the tags.
    Nothing is de-duplicated.
    A rolled back message has none.

    Args:
        topic: The message's topic.
        uniq_key: Its property ``UNIQ_KEY``; ``None`` for none.
        keys: Its property ``KEYS``: one text, split at single spaces as Java does it, or the parts
            themselves.
            Empty parts and ``None`` are dropped.
        sys_flag: Its ``SYSFLAG``; ``None`` counts as 0.
        tags: Its property ``TAGS``, if its broker indexes them, which those from 5.4.0 on do;
            ``None`` or an empty text for none.

    Returns:
        Whole ``topic#key`` texts.

    Raises:
        ValueError: One of several parts has a space in it, which would be two keys.
        TypeError: A text that is none, or a ``sys_flag`` that is not an int.
    """
    text_of("topic", topic)
    if (int_or_none("sys_flag", sys_flag) or 0) & TRANSACTION_MASK == TRANSACTION_ROLLBACK:
        return []
    parts = [] if uniq_key is None else [text_of("uniq_key", uniq_key)]
    if isinstance(keys, str):
        parts += [part for part in keys.split(KEY_SEPARATOR) if part]
    elif keys is not None:
        if isinstance(keys, bytes) or not isinstance(keys, Iterable):
            raise TypeError(f"keys: expected a text or several, got {type(keys).__name__}")
        for part in keys:
            if part is not None and KEY_SEPARATOR in text_of("keys", part):
                raise _space_error(part)
            if part:
                parts.append(part)
    if tags is not None and text_of("tags", tags):
        parts.append(tag_key(tags))
    return [index_key(topic, part) for part in parts]


def expand_messages(
    topics: pa.Array | pa.ChunkedArray | Sequence[str],
    uniq_keys: pa.Array | pa.ChunkedArray | Sequence[str | None] | None,
    keys: pa.Array | pa.ChunkedArray | Sequence[str | Sequence[str | None] | None] | None,
    sys_flags: pa.Array | pa.ChunkedArray | Sequence[int | None] | None = None,
    tags: pa.Array | pa.ChunkedArray | Sequence[str | None] | None = None,
) -> tuple[NDArray[np.int64], NDArray[np.int32], NDArray[np.int32]]:
    """Return the index keys of many messages, hashed, without a Python loop per message.

    Row ``i`` of the columns is one message, and gives what :func:`message_keys` gives for it.

    Args:
        topics: Strings without nulls, in the types that :func:`rmqindex.key_hashes` takes.
        uniq_keys: As many strings or nulls; ``None`` for no such column.
        keys: As many strings or nulls, or as many lists of strings; ``None`` for no such column.
        sys_flags: As many integers or nulls; ``None`` for no such column.
        tags: As many strings or nulls, of messages whose broker indexes their tags, which those
            from 5.4.0 on do; ``None`` for no such column.

    Returns:
        Three arrays with one element an index key, ordered by message and by place in it.
        They are the message's row from 0 (int64), the key's place in the message from 0 (int32),
        and the hash of ``topic#key`` (int32, 0 to 2**31 - 1).

    Raises:
        ValueError: Columns of other lengths, a null topic of a message that has keys, or a list
            element with a space in it.
        TypeError: A column of another type.
    """
    topic_column = _column("topics", topics)
    size = len(topic_column)
    uniq_column = _text("uniq_keys", _column("uniq_keys", uniq_keys, size))
    indexed = ~is_rolled_back(_column("sys_flags", sys_flags, size))

    has_uniq = indexed & uniq_column.is_valid().to_numpy(zero_copy_only=False)
    part_rows, parts = _parts(_column("keys", keys, size))
    kept = indexed[part_rows]
    if not kept.all():
        part_rows, parts = part_rows[kept], parts.filter(pa.array(kept))

    uniq_rows = np.flatnonzero(has_uniq)
    part_counts = np.bincount(part_rows, minlength=size)
    tag_rows, tag_keys = _tag_keys(_column("tags", tags, size), indexed)
    counts = part_counts + has_uniq
    counts[tag_rows] += 1
    starts = np.cumsum(counts) - counts
    part_starts = np.cumsum(part_counts) - part_counts
    part_ordinals = np.arange(len(part_rows)) - part_starts[part_rows] + has_uniq[part_rows]
    part_places = starts[part_rows] + part_ordinals
    uniq_places = starts[uniq_rows]
    tag_ordinals = counts[tag_rows] - 1
    tag_places = starts[tag_rows] + tag_ordinals

    total = int(counts.sum())
    rows = np.repeat(np.arange(size, dtype=np.int64), counts)
    ordinals = np.zeros(total, np.int32)
    ordinals[part_places] = part_ordinals
    ordinals[tag_places] = tag_ordinals
    hashes = np.empty(total, np.int32)
    topic_column = _encoded_topics(topic_column, counts > 0)
    uniq_column = uniq_column.filter(pa.array(has_uniq))
    hashes[uniq_places] = index_key_hashes(topic_column.take(pa.array(uniq_rows)), uniq_column)
    hashes[part_places] = index_key_hashes(topic_column.take(pa.array(part_rows)), parts)
    if len(tag_rows):
        hashes[tag_places] = index_key_hashes(topic_column.take(pa.array(tag_rows)), tag_keys)
    return rows, ordinals, hashes


def _column(
    name: str,
    values: pa.Array | pa.ChunkedArray | Sequence[object] | None,
    size: int | None = None,
) -> pa.Array:
    """Return a column as one Arrow array; a column that is not there holds nulls."""
    if values is None:
        return pa.nulls(size or 0)
    if isinstance(values, pa.ChunkedArray):
        column = values.combine_chunks()
    elif isinstance(values, pa.Array):
        column = values
    else:
        try:
            column = pa.array(values)
        except (pa.ArrowTypeError, pa.ArrowInvalid) as error:
            raise TypeError(f"{name}: expected a column of one type, got {error}") from error
    if size is not None and len(column) != size:
        raise ValueError(f"{name}: expected {size}, as many as topics, got {len(column)}")
    return column


def _text(name: str, column: pa.Array) -> pa.Array:
    """Return strings as ``string`` or ``large_string``, for the functions that take no other."""
    if pa.types.is_string(column.type) or pa.types.is_large_string(column.type):
        return column
    value_type = column.type.value_type if pa.types.is_dictionary(column.type) else column.type
    if any(
        check(value_type)
        for check in (
            pa.types.is_null,
            pa.types.is_string,
            pa.types.is_large_string,
            pa.types.is_string_view,
        )
    ):
        return column.cast(pa.large_string())
    raise TypeError(f"{name}: expected strings, got {column.type}")


def is_rolled_back(sys_flags: pa.Array) -> NDArray[np.bool_]:
    """Return which messages were rolled back, of which a broker indexes none."""
    if pa.types.is_null(sys_flags.type):
        return np.zeros(len(sys_flags), dtype=bool)
    if not pa.types.is_integer(sys_flags.type):
        raise TypeError(f"sys_flags: expected integers, got {sys_flags.type}")
    flags: NDArray[np.integer] = sys_flags.fill_null(0).to_numpy(zero_copy_only=False)
    rollback: NDArray[np.bool_] = (flags & TRANSACTION_MASK) == TRANSACTION_ROLLBACK
    return rollback


def _parts(keys: pa.Array) -> tuple[NDArray[np.int64], pa.Array]:
    """Return the non-empty parts of ``keys``, and the row of each."""
    import pyarrow.compute as pc  # noqa: PLC0415  (a command may not need it)

    is_list = pa.types.is_list(keys.type) or pa.types.is_large_list(keys.type)
    lists = keys if is_list else pc.split_pattern(_text("keys", keys), KEY_SEPARATOR)
    parts = _text("keys", lists.flatten())
    rows = pc.list_parent_indices(lists).to_numpy(zero_copy_only=False)
    filled = pc.greater(pc.binary_length(parts), 0).fill_null(False)
    parts, rows = parts.filter(filled), rows[filled.to_numpy(zero_copy_only=False)]
    if is_list:
        spaced = pc.match_substring(parts, KEY_SEPARATOR).to_numpy(zero_copy_only=False)
        if spaced.any():
            place = int(np.flatnonzero(spaced)[0])
            raise _space_error(parts[place].as_py(), f" at {int(rows[place])}")
    return rows.astype(np.int64, copy=False), parts


def indexed_tags(tags: pa.Array) -> tuple[NDArray[np.int64], pa.Array]:
    """Return row and key, ``T#`` and the tags, by which brokers from 5.4.0 on index tags."""
    import pyarrow.compute as pc  # noqa: PLC0415  (a command may not need it)

    filled = pc.greater(pc.binary_length(tags), 0).fill_null(False)
    rows = np.flatnonzero(filled.to_numpy(zero_copy_only=False))
    kept = tags.take(pa.array(rows))
    prefix, between = (pa.scalar(text, kept.type) for text in (tag_key(""), ""))
    return rows, pc.binary_join_element_wise(prefix, kept, between)


def _tag_keys(tags: pa.Array, indexed: NDArray[np.bool_]) -> tuple[NDArray[np.int64], pa.Array]:
    """Return the keys of non-empty tags of messages that are indexed, and the row of each."""
    rows, keys = indexed_tags(_text("tags", tags).cast(pa.large_string()))
    kept = indexed[rows]
    return rows[kept], keys.filter(pa.array(kept))


def _encoded_topics(topics: pa.Array, used: NDArray[np.bool_]) -> pa.Array:
    """Return topics as a dictionary, so that each is hashed once."""
    missing = np.flatnonzero(used & topics.is_null().to_numpy(zero_copy_only=False))
    if missing.size:
        raise ValueError(f"topics: expected a string at {int(missing[0])}, got null")
    return topics if pa.types.is_dictionary(topics.type) else topics.dictionary_encode()


def _space_error(part: str, place: str = "") -> ValueError:
    return ValueError(
        f"keys{place}: expected parts without a space, which separates keys, got {part!r}"
    )


def pack_pairs(rows: NDArray[np.int64], hashes: NDArray[np.int32]) -> NDArray[np.int64]:
    """Combine each row and hash into one number, which sorts by row, then by hash."""
    return (rows.astype(np.int64, copy=False) << HASH_BITS) | hashes.astype(np.int64)
