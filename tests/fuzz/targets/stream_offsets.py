"""The offsets of streams, as Spark keeps them between runs."""

from __future__ import annotations

import json

from pyspark_rmqindex.stream.checkpoint import offsets_from_json, offsets_to_json
from pyspark_rmqindex.stream.messages import LogOffset
from pyspark_rmqindex.stream.offsets import offset_after, slices_between, state_of
from pyspark_rmqindex.stream.store_offset import PositionMark, SeenFile, StoreOffset

from ..json_bytes import mutate_json, text_of
from ..outcome import outcome

MAX_LENGTH = 1000
SHORT = 10_000
_FILES = [
    SeenFile("20231114221320000", 1_700_000_000_000, 0, 4),
    SeenFile("20231114221330000", 1_700_000_010_000, 500, 6),
    SeenFile("20231114221310000", 1_700_000_020_000, 900, 2),
]
_ENTRY = {
    "file": "20231114221330000",
    "position": 3,
    "entries": 5,
    "phy_offset": 600,
    "begin_timestamp": 1_700_000_010_000,
    "begin_phy_offset": 500,
}
# What was read of each file, and of one that is gone.
_PLACES = [
    {"file": file.name, "position": position, "entries": 5, "phy_offset": 100 * (position - 1)}
    | {"begin_timestamp": file.begin_timestamp, "begin_phy_offset": file.begin_phy_offset}
    for file in [*_FILES, SeenFile("20231114221300000", 1, 2, 3)]
    for position in (2, 4, 9)
]
_MESSAGE = {"offset": 900, "last_offset": 700, "last_store_timestamp": 1_700_000_000_000}


def seeds():
    """Return offsets of entries and of messages."""
    further = {"last_name": "3", "furthest_phy_offset": 900, "furthest_name": "20231114221310000"}
    return [
        text_of({"/a": _ENTRY}),
        text_of({"/a": {**_ENTRY, **further}, "/b": _ENTRY}),
        text_of({"/a": _MESSAGE}),
        text_of({"/a": {**_MESSAGE, "last_checksum": 77}}),
        text_of({"/a": {"offset": 0}}),
        b"{}",
        *(text_of({"/a": place}) for place in _PLACES),
        *(text_of({"/a": {**place, "last_name": "1", "entries": 1}}) for place in _PLACES),
    ]


def mutate(data, random):
    """Change the text."""
    return mutate_json(data, random)


def check(data):
    """Read offsets, and go on from them."""
    try:
        fields = json.loads(data)
    except (ValueError, RecursionError):
        return  # Spark reads the text
    found = _read(StoreOffset, fields)
    if found.is_value:
        for offset in found.value.values():
            _go_on(offset)
    messages = _read(LogOffset, fields)
    if messages.is_value:
        for offset in messages.value.values():
            assert type(offset.offset) is int
            last = offset.last
            assert last is None or {
                type(each) for each in (last.phy_offset, last.store_timestamp)
            } == {int}


def _read(kind, fields):
    """Read offsets of one kind; what is read and written again is the same."""
    found = outcome(offsets_from_json, kind, fields, refuses=True)
    if found.is_value:
        again = json.loads(json.dumps(offsets_to_json(found.value)))
        assert offsets_from_json(kind, again) == found.value
    return found


def _go_on(offset):
    state = state_of("/a", offset, _FILES, _mark_at)
    behind = offset_after(offset, state.pieces, _FILES, _mark_at)
    slices_between("/a", offset, behind, _FILES, _mark_at)
    slices_between("/a", None, offset, _FILES, _mark_at)
    offset.has_begun(_FILES[0])


def _mark_at(_, position):
    return PositionMark(None if position % 2 else 100 * position, position % 3)
