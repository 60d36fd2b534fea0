"""Which units a message gives to which ConsumeQueues.

RocketMQ: ``CommitLog.checkMessageAndReturnSize``, ``MultiDispatchUtils``,
``ConsumeQueue.multiDispatchLmqQueue``.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from rmqindex.keys.hashing import string_hash_codes
from rmqindex.queue_layout import LMQ_PREFIX, RETRY_PREFIX, SCHEDULE_TOPIC, SYSTEM_PREFIX
from rmqindex.record.batches import build_batch, schema_of
from rmqindex.record_layout import INNER_BATCH_FLAG

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from rmqindex.record.records import Records

__all__ = ["Dispatcher", "QueueUnits", "parse_delay_levels"]

_SCHEMA = schema_of(
    (
        "topic",
        "tags",
        "queue_id",
        "queue_offset",
        "phy_offset",
        "size",
        "sys_flag",
        "store_timestamp",
        "properties",
    )
)

# MessageSysFlag: prepared and rolled back messages have bit 2 set.
_NO_UNIT_FLAG = 0x1 << 2
_DELAY = "DELAY"
_DISPATCH_QUEUES = "INNER_MULTI_DISPATCH"
_DISPATCH_OFFSETS = "INNER_MULTI_QUEUE_OFFSET"
_INNER_NUM = "INNER_NUM"
_INNER_BASE = "INNER_BASE"
_SEPARATOR = ","
_NAMES = (_DELAY, _DISPATCH_QUEUES, _DISPATCH_OFFSETS, _INNER_NUM, _INNER_BASE)
_DELAY_LEVEL = re.compile(r"([0-9]+)([smhd])")
_UNIT_MILLIS = {"s": 1000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}
# DefaultMessageStore.computeDeliverTimestamp: the delay of a level that is not configured.
_UNKNOWN_LEVEL_MILLIS = 1000
# DispatchRequest: the value of a message that is not a batch.
_NO_BATCH = (-1, 1)


@dataclass(frozen=True, slots=True)
class QueueUnits:
    """Units for one queue, in the order of their messages.

    Attributes:
        topic: The topic, or the name of a light queue.
        queue_id: The number of the queue.
        is_batch: Whether it is a batch queue.
        queue_offset: int64; of a batch queue, that of each batch's first message.
        phy_offset: int64, bytes.
        size: int32, bytes.
        tags_code: int64.
        store_timestamp: int64, epoch milliseconds.
        batch_size: int64, how many messages a batch has; 1 in a queue without batches.
    """

    topic: str
    queue_id: int
    is_batch: bool
    queue_offset: NDArray[np.int64]
    phy_offset: NDArray[np.int64]
    size: NDArray[np.int32]
    tags_code: NDArray[np.int64]
    store_timestamp: NDArray[np.int64]
    batch_size: NDArray[np.int64]


def parse_delay_levels(text: str) -> tuple[int, ...]:
    """Read RocketMQ's ``messageDelayLevel``.

    Args:
        text: Such as ``1s 5s 10s 30s 1m``.

    Returns:
        The delay of each level from 1 on, milliseconds.

    Raises:
        ValueError: Something else.
    """
    delays = []
    for part in text.split():
        match = _DELAY_LEVEL.fullmatch(part)
        if match is None:
            raise ValueError(f"delay_levels: expected such as 1s 5s 1m 2h, got {part!r}")
        delays.append(int(match[1]) * _UNIT_MILLIS[match[2]])
    return tuple(delays)


class Dispatcher:
    """Turns messages into units."""

    def __init__(
        self, delay_levels: Sequence[int], batch_topics: Sequence[str], *, multi_dispatch: bool
    ) -> None:
        """Set the broker's configuration.

        Args:
            delay_levels: The delay of each level from 1 on, milliseconds.
            batch_topics: Topics whose queues are batch queues.
            multi_dispatch: Whether messages also go into the light queues that they name.
        """
        self._delays = delay_levels
        self._batch_topics = frozenset(batch_topics)
        self._multi_dispatch = multi_dispatch

    def dispatch(self, records: Records) -> list[QueueUnits]:
        """Return the units of messages, those of one queue together.

        Args:
            records: Messages in the order of their offsets.
        """
        batch = build_batch(records, _SCHEMA, [name.encode() for name in _NAMES])
        has_unit = (records.sys_flag & _NO_UNIT_FLAG) == 0
        if not has_unit.all():
            batch = batch.filter(pa.array(has_unit))
        if not batch.num_rows:
            return []
        columns = {
            name: batch[name].to_numpy()
            for name in ("queue_id", "queue_offset", "phy_offset", "size", "store_timestamp")
        }
        properties = _properties(batch["properties"])
        topics = batch["topic"].dictionary_encode()
        columns["tags_code"] = _tags_codes(batch["tags"])
        self._set_delivery_times(topics, properties[_DELAY], columns)
        codes = topics.indices.to_numpy()
        groups = _groups(codes, columns["queue_id"])
        names = topics.dictionary.to_pylist()
        inner = (batch["sys_flag"].to_numpy() & INNER_BATCH_FLAG) != 0
        units = []
        for rows in groups:
            topic = names[codes[rows[0]]]
            is_batch = topic in self._batch_topics or bool(inner[rows].any())
            units.append(_units(topic, rows, columns, properties, is_batch=is_batch))
        if self._multi_dispatch:
            units += self._light_units(codes, names, properties, columns)
        return units

    def _set_delivery_times(
        self,
        topics: pa.DictionaryArray,
        levels: dict[int, str],
        columns: dict[str, NDArray[Any]],
    ) -> None:
        """Delayed messages have the time at which they are due in the place of their tags."""
        names = topics.dictionary.to_pylist()
        if not levels or SCHEDULE_TOPIC not in names:
            return
        schedule = topics.indices.to_numpy() == names.index(SCHEDULE_TOPIC)
        for row, text in levels.items():
            if not schedule[row]:
                continue
            level = min(int(text), len(self._delays)) if text.lstrip("+-").isdecimal() else 0
            if level > 0:
                delay = self._delays[level - 1] if self._delays else _UNKNOWN_LEVEL_MILLIS
                columns["tags_code"][row] = int(columns["store_timestamp"][row]) + delay

    def _light_units(
        self,
        codes: NDArray[np.int32],
        names: list[str],
        properties: dict[str, dict[int, str]],
        columns: dict[str, NDArray[Any]],
    ) -> list[QueueUnits]:
        """Return the units in queues that messages name themselves."""
        chosen: dict[tuple[str, int], list[tuple[int, int]]] = {}
        offsets = properties[_DISPATCH_OFFSETS]
        for row, text in properties[_DISPATCH_QUEUES].items():
            topic = names[codes[row]]
            if topic.startswith((RETRY_PREFIX, SYSTEM_PREFIX)) or topic == SCHEDULE_TOPIC:
                continue
            queues, places = _split(text), _split(offsets.get(row, ""))
            if len(queues) != len(places) or not queues:
                continue  # as the broker, which logs it
            for queue, place in zip(queues, places, strict=True):
                if "/" in queue:
                    continue
                queue_id = 0 if queue.startswith(LMQ_PREFIX) else int(columns["queue_id"][row])
                chosen.setdefault((queue, queue_id), []).append((row, int(place)))
        units = []
        for (queue, queue_id), members in chosen.items():
            rows = np.array([row for row, _ in members])
            places_ = np.array([place for _, place in members], np.int64)
            picked = {name: values[rows] for name, values in columns.items()}
            picked |= {"queue_offset": places_, "queue_id": np.full(len(rows), queue_id)}
            everything = np.arange(len(rows))
            none: dict[str, dict[int, str]] = {name: {} for name in _NAMES}
            units.append(_units(queue, everything, picked, none, is_batch=False))
        return units


def _units(
    topic: str,
    rows: NDArray[np.int64],
    columns: dict[str, NDArray[Any]],
    properties: dict[str, dict[int, str]],
    *,
    is_batch: bool,
) -> QueueUnits:
    offsets = columns["queue_offset"][rows]
    sizes = np.ones(len(rows), np.int64)
    if is_batch:
        bases = [_batch_of(int(row), properties) for row in rows]
        offsets = np.array([base for base, _ in bases], np.int64)
        sizes = np.array([size for _, size in bases], np.int64)
    return QueueUnits(
        topic,
        int(columns["queue_id"][rows[0]]),
        is_batch,
        offsets,
        columns["phy_offset"][rows],
        columns["size"][rows],
        columns["tags_code"][rows],
        columns["store_timestamp"][rows],
        sizes,
    )


def _batch_of(row: int, properties: dict[str, dict[int, str]]) -> tuple[int, int]:
    """Return the first message's queue offset of a batch, and how many messages it has."""
    base, number = properties[_INNER_BASE].get(row), properties[_INNER_NUM].get(row)
    return _NO_BATCH if base is None or number is None else (int(base), int(number))


def _split(text: str) -> list[str]:
    """Split as Java does: trailing empty parts are no parts."""
    parts = text.split(_SEPARATOR) if text.strip() else []
    while parts and not parts[-1]:
        parts.pop()
    return parts


def _tags_codes(tags: pa.Array) -> NDArray[np.int64]:
    # The hash code of an empty text is 0, as of none.
    return string_hash_codes(tags.fill_null("").dictionary_encode()).astype(np.int64)


def _groups(codes: NDArray[np.int32], queue_ids: NDArray[np.int32]) -> list[NDArray[np.int64]]:
    """Return the rows of each topic and queue, in their order."""
    order = np.lexsort((queue_ids, codes))  # stable
    changes = (np.diff(codes[order]) != 0) | (np.diff(queue_ids[order]) != 0)
    return np.split(order, np.flatnonzero(changes) + 1)


def _properties(column: pa.MapArray) -> dict[str, dict[int, str]]:
    """Return the properties that matter here, by name and row."""
    found: dict[str, dict[int, str]] = {name: {} for name in _NAMES}
    for row in np.flatnonzero(np.diff(column.offsets.to_numpy())).tolist():
        for name, value in column[row].as_py():
            found[name][row] = value
    return found
