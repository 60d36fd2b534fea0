"""What callers give as times, texts and keys, checked and in one form."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

import pyarrow as pa

from rmqindex.arguments import is_int
from rmqindex.commitlog.selection import Selection
from rmqindex.keys.utf8 import check_text
from rmqindex.times import (
    microseconds_of,
    moment_now,
    parse_micros,
    parse_since,
    to_milliseconds,
)

if TYPE_CHECKING:
    from datetime import tzinfo

#: A point in time: epoch milliseconds, a text as the command line takes it, a datetime, or how long
#: ago it is.
Time = int | str | datetime | timedelta


def time_range(begin: Time | None, end: Time | None, zone: tzinfo) -> tuple[int | None, int | None]:
    """Return two inclusive bounds as epoch milliseconds, relative ones as of one moment."""
    now = moment_now()
    low = _micros(begin, zone, "begin", now)
    high = _micros(end, zone, "end", now, is_end=True)
    first = None if low is None else to_milliseconds(low, up=True)
    last = None if high is None else to_milliseconds(high, up=False)
    if low is not None and high is not None and low > high:
        raise ValueError(f"begin: expected a time before end {end!s}, got {begin!s}")
    if first is not None and last is not None and first > last:
        raise ValueError(f"begin: there is no whole millisecond from {begin!s} to end {end!s}")
    return first, last


def since_millis(since: Time | None, zone: tzinfo) -> int | None:
    """Return a time, or how long ago it is, as epoch milliseconds, rounded up."""
    if isinstance(since, str):
        try:
            return to_milliseconds(parse_since(since, zone), up=True)
        except ValueError as error:
            raise ValueError(f"since: {error}") from error
    micros = _micros(since, zone, "since", moment_now())
    return None if micros is None else to_milliseconds(micros, up=True)


def _micros(
    time: Time | None, zone: tzinfo, name: str, now: int, *, is_end: bool = False
) -> int | None:
    if time is None:
        return None
    if isinstance(time, datetime):
        return microseconds_of(time.replace(tzinfo=zone) if time.tzinfo is None else time)
    if isinstance(time, timedelta):
        return now - time // timedelta(microseconds=1)
    try:
        if isinstance(time, str):
            return parse_micros(time, zone, now, is_end=is_end)
        if is_int(time):
            return parse_micros(str(int(time)), zone)
    except ValueError as error:
        raise ValueError(f"{name}: {error}") from error
    raise TypeError(
        f"{name}: expected a datetime, a timedelta, a text such as '2024-01-31 12:30' or epoch "
        f"milliseconds, got {type(time).__name__}"
    )


def texts_of(name: str, values: str | Iterable[str] | None) -> tuple[str, ...]:
    """Return one text, or several, as a tuple; nothing for None."""
    if values is None:
        return ()
    texts = (values,) if isinstance(values, str) else tuple(values)
    for value in texts:
        if not isinstance(value, str):
            raise TypeError(f"{name}: expected texts, got {type(value).__name__}")
        check_text(name, value)
    if not texts:
        raise ValueError(f"{name}: expected at least one, or None for all, got none")
    return texts


def selection_of(
    topic: str | Iterable[str] | None,
    queue_id: int | Iterable[int] | None,
    tags: str | Iterable[str] | None,
    times: tuple[int | None, int | None],
    start: int | None,
    stop: int | None,
) -> Selection:
    """Return which messages are asked for."""
    topics, queue_ids = texts_of("topic", topic), _queues_of(queue_id)
    return Selection(topics, queue_ids, texts_of("tags", tags), *times, start, stop)


def _queues_of(queue_id: int | Iterable[int] | None) -> tuple[int, ...]:
    """Return one number of a queue, or several, as a tuple; nothing for None."""
    if queue_id is None:
        return ()
    queues = tuple(queue_id) if isinstance(queue_id, Iterable) else (queue_id,)
    for value in queues:
        if not is_int(value):
            raise TypeError(f"queue_id: expected numbers, got {type(value).__name__}")
    if not queues:
        raise ValueError("queue_id: expected at least one, or None for all, got none")
    return tuple(int(value) for value in queues)


def key_array(keys: str | Iterable[str] | pa.Array | pa.ChunkedArray) -> pa.Array:
    """Return keys as a ``string`` array, each once, in their order."""
    if hasattr(keys, "__arrow_c_stream__"):  # a column of Polars, too
        keys = pa.chunked_array(keys)
    if isinstance(keys, (pa.Array, pa.ChunkedArray)):
        if keys.null_count:
            raise ValueError("keys: expected texts, got a null among them")
        kind = keys.type.value_type if pa.types.is_dictionary(keys.type) else keys.type
        if len(keys) and not _is_text(kind):
            raise TypeError(f"keys: expected texts, got {keys.type}")
        array = keys.cast(pa.string())
    else:
        if not isinstance(keys, Iterable):
            raise TypeError(f"keys: expected a text or several, got {type(keys).__name__}")
        texts = [keys] if isinstance(keys, str) else list(keys)
        for text in texts:
            if not isinstance(text, str):
                raise TypeError(f"keys: expected texts, got {type(text).__name__}")
            check_text("keys", text)
        array = pa.array(texts, pa.string())
    return array.unique()


def _is_text(kind: pa.DataType) -> bool:
    is_any = (pa.types.is_string, pa.types.is_large_string, pa.types.is_string_view)
    return any(is_text(kind) for is_text in is_any)
