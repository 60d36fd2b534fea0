"""Properties of messages: ``name 0x01 value 0x02``, repeated.

RocketMQ: ``MessageDecoder.string2messageProperties``.
A pair ends at the next 0x02 or at the end of the text, its name at the first 0x01 in it; a pair
with an empty name or value, or without 0x01, is ignored; of pairs with one name the last counts.
Both separators are ASCII, so that bytes are split like the text that they encode.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pyarrow as pa

from rmqindex.layout.record import NAME_VALUE_SEPARATOR, PROPERTY_SEPARATOR
from rmqindex.record.text import cut, cut_where, java_text, java_texts

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

_NAME_END = bytes([NAME_VALUE_SEPARATOR])
_PAIR_END = bytes([PROPERTY_SEPARATOR])
# Names of these lengths are compared as one number, which is twice as fast.
_NUMBERS = {4: "u4", 8: "u8"}


def property_pairs(properties: bytes) -> list[tuple[str, str]]:
    """Return the pairs of one properties field in byte order, repeated names included.

    Args:
        properties: The field as stored.

    Returns:
        Names and values; what the broker ignores is left out.
    """
    pairs = []
    for part in properties.split(_PAIR_END):
        name, _, value = part.partition(_NAME_END)
        if name and value:
            pairs.append((java_text(name), java_text(value)))
    return pairs


def parse_properties(properties: bytes) -> dict[str, str]:
    """Return the properties of one message as the broker reads them: the last of a name counts.

    Args:
        properties: The field as stored.
    """
    return dict(property_pairs(properties))


class Values(NamedTuple):
    """Values of properties, as ranges of bytes.

    Attributes:
        rows: The message of each, int64, ascending.
        starts: Where each starts, int64, bytes.
        stops: Where each ends.
    """

    rows: NDArray[np.int64]
    starts: NDArray[np.int64]
    stops: NDArray[np.int64]

    def kept(self, mask: NDArray[np.bool_]) -> Values:
        """Return those that a mask keeps."""
        return self if mask.all() else Values(*(part[mask] for part in self))


@dataclass(frozen=True, slots=True)
class PropertyPairs:
    """The pairs of many messages, in byte order.

    Attributes:
        data: All properties fields, one behind the other.
        row_stops: Where each message's field ends in ``data``, int64.
        name_start: Where each pair's name starts, int64; likewise the others.
        name_stop: Where it ends.
        value_stop: Where the value ends, which starts one byte behind the name.
    """

    data: memoryview
    row_stops: NDArray[np.int64]
    name_start: NDArray[np.int64]
    name_stop: NDArray[np.int64]
    value_stop: NDArray[np.int64]

    @classmethod
    def split(cls, fields: pa.Array) -> PropertyPairs:
        """Split the properties fields of messages."""
        _, offsets_buffer, data_buffer = fields.buffers()
        offsets = np.frombuffer(offsets_buffer, np.int32, len(fields) + 1).astype(np.int64)
        data = memoryview(data_buffer if data_buffer is not None else b"")[: int(offsets[-1])]
        text = np.frombuffer(data, np.uint8)
        marks = np.flatnonzero(text <= PROPERTY_SEPARATOR)
        kinds = text[marks]
        if kinds.size and kinds.min() < NAME_VALUE_SEPARATOR:  # a NUL is a character like others
            marks = marks[kinds >= NAME_VALUE_SEPARATOR]
            kinds = text[marks]
        marks, kinds, after = _with_row_ends(marks, kinds, text, offsets[1:])

        # The name ends at the first 0x01 behind the end of the pair before.
        is_end = kinds == PROPERTY_SEPARATOR
        follows_end = np.empty(len(marks), bool)
        follows_end[:1] = True
        follows_end[1:] = is_end[:-1]
        names = np.flatnonzero(~is_end & follows_end)
        name_stop = marks[names]
        name_start = np.zeros(len(names), np.int64)
        later = names > 0
        name_start[later] = after[names[later] - 1]
        # Further 0x01 belong to the value: it ends at the next end.
        ends = np.flatnonzero(is_end)
        value_stop = marks[_next_ends(names, ends, len(marks))]
        kept = (name_stop > name_start) & (value_stop > name_stop + 1)
        if not kept.all():
            name_start, name_stop, value_stop = (
                name_start[kept],
                name_stop[kept],
                value_stop[kept],
            )
        return cls(data, offsets[1:], name_start, name_stop, value_stop)

    def last_values(self, name: bytes) -> Values:
        """Return where the last value of a name of each message lies, of those that have one."""
        pairs, rows = self._pairs_of(name)
        if rows.size:
            final = np.append(rows[1:] != rows[:-1], True)
            if not final.all():
                pairs, rows = pairs[final], rows[final]
        return Values(rows, self.name_stop[pairs] + 1, self.value_stop[pairs])

    def last(self, name: bytes) -> pa.Array:
        """Return the last value of a name of each message, as ``string``; null for none."""
        rows, starts, stops = self.last_values(name)
        return java_texts(cut_where(self.data, starts, stops, rows, len(self.row_stops)))

    def all(self, name: bytes, data_type: pa.ListType) -> pa.Array:
        """Return all values of a name of each message, in byte order."""
        pairs, rows = self._pairs_of(name)
        values = java_texts(cut(self.data, self.name_stop[pairs] + 1, self.value_stop[pairs]))
        return pa.ListArray.from_arrays(self._list_offsets(rows), values, type=data_type)

    def of_names(self, names: Sequence[bytes]) -> PropertyPairs:
        """Return the pairs of some names alone."""
        pairs = np.sort(np.concatenate([self._pairs_of(name)[0] for name in names]))
        return PropertyPairs(
            self.data,
            self.row_stops,
            self.name_start[pairs],
            self.name_stop[pairs],
            self.value_stop[pairs],
        )

    def maps(self, data_type: pa.MapType) -> pa.Array:
        """Return the properties of each message as a map, the last of a repeated name."""
        names = java_texts(cut(self.data, self.name_start, self.name_stop))
        values = java_texts(cut(self.data, self.name_stop + 1, self.value_stop))
        rows = self._rows(self.name_start)
        codes = names.dictionary_encode()
        code = codes.indices.to_numpy(zero_copy_only=False).astype(np.int64)
        identity = rows * max(1, len(codes.dictionary)) + code
        order = np.argsort(identity, kind="stable")
        final = np.ones(len(order), bool)
        final[:-1] = identity[order[1:]] != identity[order[:-1]]
        if not final.all():
            kept = np.sort(order[final])
            rows, places = rows[kept], pa.array(kept)
            names, values = names.take(places), values.take(places)
        return pa.MapArray.from_arrays(self._list_offsets(rows), names, values, type=data_type)

    def _pairs_of(self, name: bytes) -> tuple[NDArray[np.intp], NDArray[np.int64]]:
        """Return the pairs of a name, and the message of each."""
        pairs = np.flatnonzero(self.name_stop - self.name_start == len(name))
        if pairs.size:
            dtype = _NUMBERS.get(len(name), f"S{len(name)}")
            shape = (len(self.data) - len(name) + 1,)
            windows: NDArray[Any] = np.ndarray(shape, dtype, self.data, 0, (1,))
            wanted: NDArray[Any] = np.ndarray((), dtype, name)
            pairs = pairs[windows[self.name_start[pairs]] == wanted]
        return pairs, self._rows(self.name_start[pairs])

    def _rows(self, positions: NDArray[np.int64]) -> NDArray[np.int64]:
        return np.searchsorted(self.row_stops, positions, side="right").astype(np.int64)

    def _list_offsets(self, rows: NDArray[np.int64]) -> pa.Array:
        offsets = np.zeros(len(self.row_stops) + 1, np.int32)
        np.cumsum(np.bincount(rows, minlength=len(self.row_stops)), out=offsets[1:])
        return pa.array(offsets)


def _with_row_ends(
    marks: NDArray[np.intp],
    kinds: NDArray[np.uint8],
    text: NDArray[np.uint8],
    row_stops: NDArray[np.int64],
) -> tuple[NDArray[np.intp], NDArray[np.uint8], NDArray[np.intp]]:
    """End the last pair of messages whose properties do not end with a separator."""
    row_starts = np.append(np.zeros(1, np.int64), row_stops[:-1])
    filled = row_stops[row_stops > row_starts]
    open_stops = filled[text[filled - 1] != PROPERTY_SEPARATOR]
    if not open_stops.size:
        return marks, kinds, marks + 1
    places = np.searchsorted(marks, open_stops)
    after = np.insert(marks + 1, places, open_stops)
    return (
        np.insert(marks, places, open_stops),
        np.insert(kinds, places, np.uint8(PROPERTY_SEPARATOR)),
        after,
    )


def _next_ends(names: NDArray[np.intp], ends: NDArray[np.intp], count: int) -> NDArray[np.intp]:
    """Return the first end behind each name; there always is one."""
    if len(names) == len(ends) and count == len(names) + len(ends):
        return ends  # strictly one after the other
    return ends[np.searchsorted(ends, names)]
