"""The keys of messages, in the order of their entries, and those that only members of a batch have.

RocketMQ: ``IndexService.buildIndex`` takes the last of several properties of one name, which in a
batch is the batch's own; ids and keys of its members stand before it, or inside the body.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from rmqindex.errors import RmqIndexError
from rmqindex.keys.hashing import KEY_SEPARATOR
from rmqindex.layout.record import PROPERTY_KEYS, PROPERTY_UNIQ_KEY
from rmqindex.record.bodies import MAX_BODY_SIZE, is_inner_batch, iterate_inner_messages

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from numpy.typing import NDArray

_UNIQ_KEY = PROPERTY_UNIQ_KEY.decode()
_KEYS = PROPERTY_KEYS.decode()
# So many bodies are held at a time; the largest messages have 4 MiB.
_MAX_BODIES = 64


class BadInnerBatchError(RmqIndexError):
    """An inner batch that cannot be unpacked.

    Attributes:
        phy_offset: Where its message starts in the log, bytes.
    """

    def __init__(self, phy_offset: int, error: RmqIndexError) -> None:
        """Take the message's offset, and what is wrong with its body."""
        super().__init__(f"message at offset {phy_offset}: {error}")
        self.phy_offset = phy_offset


def indexed_keys(all_uniq_keys: pa.Array, all_keys: pa.Array) -> tuple[NDArray[np.int64], pa.Array]:
    """Return the row of each key that a broker indexes, and the keys, without topics."""
    import pyarrow.compute as pc  # noqa: PLC0415  (a command may not need it)

    uniq_rows, uniq_keys = _last_of(all_uniq_keys)
    rows, texts = _last_of(all_keys)
    parts = pc.split_pattern(texts, KEY_SEPARATOR)
    part_rows = rows[pc.list_parent_indices(parts).to_numpy(zero_copy_only=False)]
    keys = parts.flatten()
    filled = pc.greater(pc.binary_length(keys), 0)
    if not pc.all(filled).as_py():
        part_rows = part_rows[filled.to_numpy(zero_copy_only=False)]
        keys = keys.filter(filled)
    return np.concatenate([uniq_rows, part_rows]), pa.concat_arrays([uniq_keys, keys])


def member_keys(
    all_uniq_keys: pa.Array,
    all_keys: pa.Array,
    sys_flags: NDArray[np.int32],
    phy_offsets: NDArray[np.int64],
    bodies: Callable[[NDArray[np.int64]], pa.Array] | None,
    *,
    strict: bool = True,
    max_body_size: int = MAX_BODY_SIZE,
    on_bad: Callable[[BadInnerBatchError], None] | None = None,
) -> tuple[NDArray[np.int64], list[str]]:
    """Return the keys of members of batches by which a broker's index does not lead to them.

    These are, in this order: earlier values of ``UNIQ_KEY``; the parts of earlier values of
    ``KEYS``; of each message of an inner batch its ``UNIQ_KEY`` and the parts of its ``KEYS``.
    What the broker indexes is left out, and each key counts once a message.

    Args:
        all_uniq_keys: Of each message every ``UNIQ_KEY``; lists of strings without nulls.
        all_keys: Of each message every ``KEYS``.
        sys_flags: Of each message its ``SYSFLAG``.
        phy_offsets: Of each message its offset in the log, bytes.
        bodies: Returns the bodies, as stored, of the messages at given offsets; None to leave out
            the messages of inner batches.
        strict: Whether an inner batch that cannot be unpacked is an error; else it has no members.
        max_body_size: The most bytes that a body may unpack to.
        on_bad: Called with the error of each inner batch that has no members for it.

    Returns:
        The row of each key (int64, ascending), and the keys.

    Raises:
        BadInnerBatchError: An inner batch cannot be unpacked.
    """
    inner = np.array([is_inner_batch(flag) for flag in np.unique(sys_flags).tolist()], bool)
    is_inner = inner[np.unique(sys_flags, return_inverse=True)[1]]
    several = (_lengths(all_uniq_keys) > 1) | (_lengths(all_keys) > 1)
    if bodies is None:
        is_inner[:] = False
    inner_bodies = _in_portions(phy_offsets[is_inner], bodies)
    rows: list[int] = []
    keys: list[str] = []
    for row in np.flatnonzero(several | is_inner).tolist():
        uniq_texts, key_texts = all_uniq_keys[row].as_py(), all_keys[row].as_py()
        indexed = {*uniq_texts[-1:], *_parts(key_texts[-1:])}
        found = [*uniq_texts[:-1], *_parts(key_texts[:-1])]
        if is_inner[row]:
            body = next(inner_bodies)
            try:
                found += _inner_keys(body, int(sys_flags[row]), max_body_size)
            except RmqIndexError as error:
                bad = BadInnerBatchError(int(phy_offsets[row]), error)
                if strict:
                    raise bad from error
                if on_bad is not None:
                    on_bad(bad)
        fresh = [key for key in dict.fromkeys(found) if key not in indexed]
        rows += [row] * len(fresh)
        keys += fresh
    return np.array(rows, np.int64), keys


def _in_portions(
    offsets: NDArray[np.int64], bodies: Callable[[NDArray[np.int64]], pa.Array] | None
) -> Iterator[bytes]:
    if bodies is None:
        return
    for first in range(0, len(offsets), _MAX_BODIES):
        yield from bodies(offsets[first : first + _MAX_BODIES]).to_pylist()


def _inner_keys(body: bytes, sys_flag: int, max_size: int) -> list[str]:
    found = []
    for message in iterate_inner_messages(body, sys_flag, max_size=max_size):
        uniq_key, keys = message.property(_UNIQ_KEY), message.property(_KEYS)
        found += [uniq_key] if uniq_key is not None else []
        found += _parts([keys] if keys is not None else [])
    return found


def _parts(texts: list[str]) -> list[str]:
    return [part for text in texts for part in text.split(KEY_SEPARATOR) if part]


def _lengths(lists: pa.Array) -> NDArray[np.int32]:
    lengths: NDArray[np.int32] = np.diff(_offsets(lists))
    return lengths


def _offsets(lists: pa.Array) -> NDArray[Any]:
    offsets: NDArray[Any] = lists.offsets.to_numpy()
    return offsets


def _last_of(lists: pa.Array) -> tuple[NDArray[np.int64], pa.Array]:
    """Return the rows that have a value, and the last value of each."""
    offsets = _offsets(lists)
    values = lists.values
    rows = np.flatnonzero(np.diff(offsets)).astype(np.int64)
    last = offsets[1:][rows] - 1
    if len(last) == len(values) and (not len(last) or last[0] == 0):
        return rows, values  # one each
    return rows, values.take(pa.array(last))
