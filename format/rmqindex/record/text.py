"""Byte ranges of a buffer as Arrow arrays, and the text and numbers that Java reads in them.

Ranges are cut out without a Python loop: an Arrow array is laid over the buffer whose every second
element is a wanted range, and Arrow copies those.

Java replaces malformed UTF-8 as Python does, but for one case: an encoded surrogate, ED A0..BF and
perhaps one more continuation byte, becomes one U+FFFD in Java and one a byte in Python.
"""

from __future__ import annotations

import codecs
import re
import unicodedata
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

if TYPE_CHECKING:
    from numpy.typing import NDArray

# Those of C0 but for tab, line feed and carriage return, DEL, and those of C1.
_CONTROLS = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f]")
_REPLACEMENT = "\ufffd"
_SURROGATE_LEAD = 0xED
_JAVA_ERRORS = "rmqindex.java"
_ASCII = re.compile(r"[+-]?[0-9]{1,18}")
# The largest 64-bit number has so many digits.
_MOST_DIGITS = 19
# Java looks at UTF-16 code units, each by itself.
_LAST_CODE_UNIT = 0xFFFF


def as_text(data: bytes) -> str | None:
    """Return bytes as text if they are UTF-8 without control characters, None otherwise."""
    try:
        text = data.decode()
    except UnicodeDecodeError:
        return None
    return None if _CONTROLS.search(text) else text


def _replace_as_java(error: UnicodeError) -> tuple[str, int]:
    assert isinstance(error, UnicodeDecodeError)  # registered for decoding only
    data, start = error.object, error.start
    if data[start] == _SURROGATE_LEAD and data[start + 1 : start + 2] >= b"\xa0":
        second = data[start + 1]
        if second <= 0xBF:
            third = data[start + 2 : start + 3]
            return _REPLACEMENT, start + (3 if b"\x80" <= third <= b"\xbf" else 2)
    return _REPLACEMENT, error.end


codecs.register_error(_JAVA_ERRORS, _replace_as_java)


def java_text(data: bytes) -> str:
    """Return bytes as ``new String(data, UTF_8)`` does in Java."""
    return data.decode("utf-8", _JAVA_ERRORS)


def java_texts(values: pa.Array) -> pa.Array:
    """Return a ``binary`` array as ``string``, decoded as Java does; nulls stay.

    Malformed UTF-8 costs a Python loop over the array.
    """
    try:
        return values.cast(pa.string())
    except pa.ArrowInvalid:  # malformed
        return pa.array(
            [None if value is None else java_text(value) for value in values.to_pylist()],
            pa.string(),
        )


def cut(data: memoryview, starts: NDArray[np.int64], stops: NDArray[np.int64]) -> pa.Array:
    """Copy ranges out of a buffer."""
    wanted = np.zeros(2 * len(starts), bool)
    wanted[::2] = True
    return _lay_over(data, starts, stops).filter(pa.array(wanted))


def cut_where(
    data: memoryview,
    starts: NDArray[np.int64],
    stops: NDArray[np.int64],
    rows: NDArray[np.int64],
    length: int,
) -> pa.Array:
    """Copy ranges out of a buffer into some rows of an array; the others are null."""
    if len(rows) == length:
        return cut(data, starts, stops)
    places = np.full(length, -1, np.int64)
    places[rows] = np.arange(0, 2 * len(starts), 2)
    return _lay_over(data, starts, stops).take(pa.array(places, mask=places < 0))


def _lay_over(data: memoryview, starts: NDArray[np.int64], stops: NDArray[np.int64]) -> pa.Array:
    """Lay an array over a buffer: range, gap, range, gap."""
    offsets = np.zeros(2 * len(starts) + 1, np.int32)
    offsets[0:-1:2] = starts
    offsets[1::2] = stops
    offsets[-1] = stops[-1] if len(stops) else 0
    return pa.Array.from_buffers(
        pa.binary(), 2 * len(starts), [None, pa.py_buffer(offsets), pa.py_buffer(data)]
    )


def java_integer(text: str, bits: int) -> int | None:
    """Return the number that Java reads in a text; None where it raises NumberFormatException.

    A text is a sign, if any, and at least one decimal digit of any script, and nothing else.
    """
    if _ASCII.fullmatch(text):
        number = int(text)
    else:
        negative = text.startswith("-")
        digits = [_digit(each) for each in text[text.startswith(("+", "-")) :]]
        if not digits or min(digits) < 0:
            return None
        significant = "".join(map(str, digits)).lstrip("0")
        if len(significant) > _MOST_DIGITS:
            return None
        number = int(significant or "0") * (-1 if negative else 1)
    limit = 1 << (bits - 1)
    return number if -limit <= number < limit else None


def java_split(text: str) -> list[str]:
    """Split at commas as Java does: trailing empty parts are no parts."""
    parts = text.split(",") if text.strip() else []
    while parts and not parts[-1]:
        parts.pop()
    return parts


def _digit(character: str) -> int:
    return unicodedata.decimal(character, -1) if ord(character) <= _LAST_CODE_UNIT else -1
