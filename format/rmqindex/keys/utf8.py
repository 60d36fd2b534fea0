"""Checks Arrow strings for UTF-8: Spark's STRING holds any bytes, and Arrow does not check.

No broker stores such a key: Java replaces what is not UTF-8 when it reads a message.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from rmqindex.arguments import text_of

if TYPE_CHECKING:
    from numpy.typing import NDArray


class NotUtf8Error(ValueError):
    """A string is not UTF-8."""


def is_utf8(text: str) -> bool:
    """Return whether UTF-8 can encode a text: it has no lone surrogates."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def check_text(name: str, text: str) -> None:
    """Refuse a topic, key or tag that no message can have."""
    if not is_utf8(text_of(name, text)):
        raise NotUtf8Error(f"{name}: expected a text that UTF-8 can hold, got {text!r}")


def check_topic(topic: str) -> None:
    """Refuse a topic that no message can have."""
    check_text("topic", topic)
    if not topic:
        raise ValueError("topic: expected the name of a topic, got ''")


def not_utf8(values: pa.Array) -> NDArray[np.bool_] | None:
    """Return which strings are not UTF-8; None where all are, nulls too.

    Args:
        values: Strings, in the types that :func:`rmqindex.key_hashes` takes.
    """
    if pa.types.is_dictionary(values.type):
        found = not_utf8(values.dictionary)
        if found is None:
            return None
        taken: NDArray[np.bool_] = found[values.indices.fill_null(0).to_numpy(zero_copy_only=False)]
        known: NDArray[np.bool_] = values.is_valid().to_numpy(zero_copy_only=False)
        return taken & known
    if not _is_text(values.type):
        return None
    try:
        values.validate(full=True)
    except pa.ArrowInvalid:
        texts = values.cast(pa.large_string()).cast(pa.large_binary()).to_pylist()
        return np.array([text is not None and not _decodes(text) for text in texts], np.bool_)
    return None


def check_utf8(name: str, values: pa.Array) -> None:
    """Refuse strings that are not UTF-8."""
    found = not_utf8(values)
    if found is not None and found.any():
        place = int(np.flatnonzero(found)[0])
        raise NotUtf8Error(f"{name}: expected UTF-8 at {place}, got {bytes_at(values, place)!r}")


def bytes_at(values: pa.Array, place: int) -> bytes:
    """Return the bytes of one string, whatever they are."""
    if pa.types.is_dictionary(values.type):
        return bytes_at(values.dictionary, values.indices[place].as_py())
    one = values.slice(place, 1)
    text: bytes = one.cast(pa.large_string()).cast(pa.large_binary())[0].as_py()
    return text


def _is_text(type_: pa.DataType) -> bool:
    return bool(
        pa.types.is_string(type_)
        or pa.types.is_large_string(type_)
        or pa.types.is_string_view(type_)
    )


def _decodes(text: bytes) -> bool:
    try:
        text.decode()
    except UnicodeDecodeError:
        return False
    return True
