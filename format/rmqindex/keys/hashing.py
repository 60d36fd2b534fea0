"""The hash of an index key (spec: key hash; RocketMQ: ``IndexFile.indexKeyHashMethod``).

The hash is ``Math.abs(String.hashCode())`` over UTF-16 code units, and the one value that stays
negative becomes 0.
Whole arrays are hashed without a Python loop per key: 31 is odd, so it has an inverse modulo
2**32, and the polynomial of every string of a batch falls out of one weighted running sum.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from rmqindex.arguments import text_of
from rmqindex.keys.utf8 import check_utf8, not_utf8

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

# IndexService.buildKey and MessageConst.KEY_SEPARATOR.
TOPIC_KEY_SEPARATOR = "#"
KEY_SEPARATOR = " "

_MULTIPLIER = 31
_INVERSE = pow(_MULTIPLIER, -1, 2**32)
_UINT32 = 2**32
# How many UTF-16 code units, or texts, are weighted at a time: bounds memory, and keeps the tables
# in cache.
_CHUNK_UNITS = 1 << 18
_CHUNK_TEXTS = 1 << 15
_ASCII_LIMIT = 0x80
_FIRST_ASTRAL = 0x10000
# Texts that lie anywhere are hashed a length at a time; of more lengths they are copied first.
_MAX_LENGTHS = 64
# Four characters in one word, and what their sums are weighted with.
_WORD = 4
_POWER_1, _POWER_2, _POWER_4 = np.uint16(31), np.uint32(31**2), np.uint32(31**4)


def index_key(topic: str, key: str) -> str:
    """Return the text the broker hashes: ``topic#key`` (``IndexService.buildKey``).

    Raises:
        TypeError: Not texts.
    """
    return f"{text_of('topic', topic)}{TOPIC_KEY_SEPARATOR}{text_of('key', key)}"


def key_hash(index_key: str) -> int:
    """Return the broker's hash of one index key, 0 to 2**31 - 1.

    Args:
        index_key: The whole ``topic#key``; lone surrogates are allowed.

    Returns:
        ``IndexFile.indexKeyHashMethod(index_key)``.

    Raises:
        TypeError: Not a text.
    """
    text = text_of("index_key", index_key)
    units = np.frombuffer(text.encode("utf-16-le", "surrogatepass"), dtype="<u2")
    code = 0
    for unit in units.tolist():
        code = (code * _MULTIPLIER + unit) % _UINT32
    return int(_index_hashes(np.array([code], dtype=np.uint32))[0])


def key_hashes(index_keys: pa.Array | pa.ChunkedArray | Sequence[str]) -> NDArray[np.int32]:
    """Return the broker's hash of every index key of an array.

    Args:
        index_keys: Whole ``topic#key`` texts: an Arrow string array (``string``, ``large_string``,
            ``string_view`` or a dictionary of them), or a sequence of Python strings, which may
            hold lone surrogates.

    Returns:
        int32, one hash a key, 0 to 2**31 - 1 (``IndexFile.indexKeyHashMethod``).

    Raises:
        ValueError: A null, or a string that is not UTF-8, with its place.
        TypeError: Not strings.
    """
    codes, _ = _hash_codes(index_keys, "index_keys")
    return _index_hashes(codes)


def index_key_hashes(
    topics: str | pa.Array | pa.ChunkedArray | Sequence[str],
    keys: pa.Array | pa.ChunkedArray | Sequence[str],
) -> NDArray[np.int32]:
    """Return the hash of ``topic#key`` for every pair, without joining any text.

    Args:
        topics: One topic for all keys, or as many topics as keys.
        keys: The keys, in the types that :func:`key_hashes` takes.

    Returns:
        int32, one hash a pair; equal to ``key_hash(index_key(topic, key))``.

    Raises:
        ValueError: A null, a string that is not UTF-8, or another number of topics than of keys.
        TypeError: Not strings.
    """
    key_codes, key_lengths = _hash_codes(keys, "keys")
    if isinstance(topics, str):
        topic_codes, _ = _hash_codes([topics], "topics")
    else:
        if isinstance(topics, pa.Array) and len(topics) > 1:
            # Topics repeat: each is hashed once.
            topics = _as_repeated_value(topics) or topics.dictionary_encode()
        topic_codes, _ = _hash_codes(topics, "topics")
        if len(topic_codes) != len(key_codes):
            raise ValueError(
                f"topics: expected {len(key_codes)}, as many as keys, got {len(topic_codes)}"
            )
    prefixes = appended_hash_codes(topic_codes, TOPIC_KEY_SEPARATOR)
    return joined_hashes(prefixes, key_codes, key_lengths)


def appended_hash_codes(codes: NDArray[np.uint32], text: str) -> NDArray[np.uint32]:
    """Return ``String.hashCode`` of texts with another one behind each."""
    for character in text:
        codes = codes * np.uint32(_MULTIPLIER) + np.uint32(ord(character))
    return codes


def joined_hashes(
    prefix_codes: NDArray[np.uint32], codes: NDArray[np.uint32], lengths: NDArray[np.int64]
) -> NDArray[np.int32]:
    """Return the broker's hash of index keys that are given in two parts."""
    return _index_hashes(prefix_codes * _powers(lengths) + codes)


def ascii_hash_codes(
    data: memoryview, starts: NDArray[np.int64], stops: NDArray[np.int64]
) -> NDArray[np.uint32] | None:
    """Return hash codes of ASCII texts in a buffer; None for other texts, or many lengths."""
    lengths = stops - starts
    if not len(lengths):
        return np.empty(0, np.uint32)
    if (lengths == lengths[0]).all():
        return _ascii_codes_of_one_length(data, starts, int(lengths[0]))
    codes = np.empty(len(starts), np.uint32)
    distinct, groups = np.unique(lengths, return_inverse=True)
    if len(distinct) > _MAX_LENGTHS:
        return None
    order = np.argsort(groups, kind="stable")
    ends = np.cumsum(np.bincount(groups, minlength=len(distinct)))
    for length, rows in zip(distinct.tolist(), np.split(order, ends[:-1]), strict=True):
        found = _ascii_codes_of_one_length(data, starts[rows], length)
        if found is None:
            return None
        codes[rows] = found
    return codes


def _ascii_codes_of_one_length(
    data: memoryview, starts: NDArray[np.int64], length: int
) -> NDArray[np.uint32] | None:
    if not length:
        return np.zeros(len(starts), np.uint32)
    # Every byte starts a window; indexing copies only the windows asked for.
    windows: NDArray[Any] = np.ndarray((len(data) - length + 1,), f"V{length}", data, 0, (1,))
    rows = windows[starts].view(np.uint8)
    if rows.max() >= _ASCII_LIMIT:
        return None
    return _polynomials(rows, np.arange(0, len(rows) + 1, length))


def string_hash_codes(values: pa.Array) -> NDArray[np.int32]:
    """Return Java's ``String.hashCode`` of every string of an array."""
    codes, _ = _hash_codes(values, "values")
    return codes.view(np.int32)


def _index_hashes(codes: NDArray[np.uint32]) -> NDArray[np.int32]:
    """Apply ``Math.abs`` and its one exception: ``Integer.MIN_VALUE`` becomes 0."""
    hashes = np.abs(codes.view(np.int32))
    hashes[hashes < 0] = 0
    return hashes


def _powers(exponents: NDArray[np.int64]) -> NDArray[np.uint32]:
    """Return ``31 ** exponent`` modulo 2**32."""
    if len(exponents) and exponents.max() < len(_POWERS):
        return _POWERS[exponents]
    distinct, places = np.unique(exponents, return_inverse=True)
    powers = np.array([pow(_MULTIPLIER, int(e), _UINT32) for e in distinct], dtype=np.uint32)
    return powers[places] if len(distinct) else powers


def _hash_codes(
    values: pa.Array | pa.ChunkedArray | Sequence[str], name: str
) -> tuple[NDArray[np.uint32], NDArray[np.int64]]:
    """Return ``String.hashCode`` as uint32 and the length in UTF-16 code units of every string."""
    if isinstance(values, pa.ChunkedArray):
        parts = [_hash_codes(chunk, name) for chunk in values.chunks]
        if not parts:
            return np.empty(0, np.uint32), np.empty(0, np.int64)
        return np.concatenate([p[0] for p in parts]), np.concatenate([p[1] for p in parts])
    if isinstance(values, pa.Array):
        return _hash_codes_of_arrow(values, name)
    if isinstance(values, (str, bytes)):
        raise TypeError(f"{name}: expected a sequence of strings, got one {type(values).__name__}")
    strings = list(values)
    try:
        return _hash_codes_of_arrow(pa.array(strings, type=pa.large_string()), name)
    except UnicodeEncodeError:  # lone surrogates, which UTF-8 cannot hold
        return _hash_codes_of_code_points(strings)
    except (pa.ArrowTypeError, pa.ArrowInvalid) as error:
        raise TypeError(f"{name}: expected strings, got {error}") from error


def _hash_codes_of_arrow(
    array: pa.Array, name: str
) -> tuple[NDArray[np.uint32], NDArray[np.int64]]:
    if array.null_count:
        place = int(np.flatnonzero(array.is_null().to_numpy(zero_copy_only=False))[0])
        raise ValueError(f"{name}: expected a string at {place}, got null")
    if pa.types.is_dictionary(array.type):
        codes, lengths = _hash_codes_of_arrow(_used_dictionary(array, name), name)
        indices = array.indices.to_numpy(zero_copy_only=False)
        return codes[indices], lengths[indices]
    if pa.types.is_null(array.type) and len(array) == 0:
        return np.empty(0, np.uint32), np.empty(0, np.int64)
    if pa.types.is_string_view(array.type):
        array = array.cast(pa.large_string())
    if pa.types.is_string(array.type):
        offset_type: Any = np.int32
    elif pa.types.is_large_string(array.type):
        offset_type = np.int64
    else:
        raise TypeError(f"{name}: expected strings, got {array.type}")
    if len(array) == 0:
        return np.empty(0, np.uint32), np.empty(0, np.int64)
    _, offsets_buffer, data_buffer = array.buffers()
    offsets = np.frombuffer(offsets_buffer, offset_type)[array.offset :][: len(array) + 1]
    data = (
        np.frombuffer(data_buffer, np.uint8) if data_buffer is not None else np.empty(0, np.uint8)
    )
    found = _hash_codes_of_ascii(data, offsets)
    if found is None:
        check_utf8(name, array)
        text = data[offsets[0] : offsets[-1]]
        found = _hash_codes_of_utf8(text, offsets.astype(np.int64) - int(offsets[0]))
    return found


def _hash_codes_of_ascii(
    data: NDArray[np.uint8], offsets: NDArray[np.integer]
) -> tuple[NDArray[np.uint32], NDArray[np.int64]] | None:
    """Hash texts if all are ASCII, some at a time so that working arrays stay in the cache."""
    lengths = np.empty(len(offsets) - 1, np.int64)
    codes = np.empty(len(lengths), np.uint32)
    for start in range(0, len(lengths), _CHUNK_TEXTS):
        ends = offsets[start : start + _CHUNK_TEXTS + 1].astype(np.int64)
        text = data[ends[0] : ends[-1]]
        if text.size and text.max() >= _ASCII_LIMIT:
            return None
        lengths[start : start + _CHUNK_TEXTS] = np.diff(ends)
        codes[start : start + _CHUNK_TEXTS] = _polynomials(text, ends - ends[0])
    return codes, lengths


def _used_dictionary(array: pa.DictionaryArray, name: str) -> pa.Array:
    """Return the dictionary, refusing entries that are null or not UTF-8 where they are used."""
    import pyarrow.compute as pc  # noqa: PLC0415  (a command may not need it)

    check_utf8(name, array)
    unused = not_utf8(array.dictionary)
    if unused is not None:
        array = pa.DictionaryArray.from_arrays(
            array.indices, pc.if_else(pa.array(unused), "", array.dictionary)
        )
    if array.dictionary.null_count:
        used = array.dictionary.is_null().to_numpy(zero_copy_only=False)[
            array.indices.to_numpy(zero_copy_only=False)
        ]
        if used.any():
            place = int(np.flatnonzero(used)[0])
            raise ValueError(f"{name}: expected a string at {place}, got null")
        return array.dictionary.fill_null("")
    return array.dictionary


def _hash_codes_of_utf8(
    text: NDArray[np.uint8], offsets: NDArray[np.int64]
) -> tuple[NDArray[np.uint32], NDArray[np.int64]]:
    """Hash valid UTF-8 by way of its code points."""
    leads = np.flatnonzero((text & 0xC0) != 0x80)
    lead = text[leads].astype(np.uint32)
    # How many continuation bytes follow: a lead byte of 0xC0 has one, 0xE0 two, 0xF0 three.
    following = (lead >= 0xC0).astype(np.int64) + (lead >= 0xE0).astype(np.int64) + (lead >= 0xF0)
    points = lead & np.array([0x7F, 0x1F, 0x0F, 0x07], np.uint32)[following]
    for nth in (1, 2, 3):
        longer = np.flatnonzero(following >= nth)
        points[longer] = (points[longer] << np.uint32(6)) | (text[leads[longer] + nth] & 0x3F)
    starts = np.searchsorted(leads, offsets)  # string ends, in code points
    return _hash_codes_of_points(points, starts)


def _hash_codes_of_code_points(
    strings: list[str],
) -> tuple[NDArray[np.uint32], NDArray[np.int64]]:
    lengths = np.fromiter(map(len, strings), np.int64, len(strings))
    joined = "".join(strings).encode("utf-32-le", "surrogatepass")
    offsets = np.concatenate([np.zeros(1, np.int64), np.cumsum(lengths)])
    return _hash_codes_of_points(np.frombuffer(joined, "<u4").astype(np.uint32), offsets)


def _hash_codes_of_points(
    points: NDArray[np.uint32], offsets: NDArray[np.int64]
) -> tuple[NDArray[np.uint32], NDArray[np.int64]]:
    """Hash code points: those beyond 0xFFFF are two UTF-16 code units each."""
    astral = points >= _FIRST_ASTRAL
    if not astral.any():
        return _polynomials(points, offsets), np.diff(offsets)
    ends = np.concatenate([np.zeros(1, np.int64), np.cumsum(1 + astral)])
    units = np.empty(int(ends[-1]), np.uint32)
    first = ends[:-1]
    rest = points - _FIRST_ASTRAL
    units[first] = np.where(astral, 0xD800 + (rest >> np.uint32(10)), points)
    units[first[astral] + 1] = 0xDC00 + (rest[astral] & 0x3FF)
    unit_offsets = ends[offsets]
    return _polynomials(units, unit_offsets), np.diff(unit_offsets)


def _tables() -> tuple[NDArray[np.uint32], NDArray[np.uint32]]:
    """Return ``31 ** -j`` and ``31 ** j`` modulo 2**32 for j from 0."""
    inverse = np.full(_CHUNK_UNITS + 1, _INVERSE, np.uint32)
    power = np.full(_CHUNK_UNITS + 1, _MULTIPLIER, np.uint32)
    inverse[0] = power[0] = 1
    return (
        np.multiply.accumulate(inverse, dtype=np.uint32),
        np.multiply.accumulate(power, dtype=np.uint32),
    )


_INVERSE_POWERS, _POWERS = _tables()


def _polynomials(
    units: NDArray[np.uint8] | NDArray[np.uint32], offsets: NDArray[np.int64]
) -> NDArray[np.uint32]:
    """Return ``sum(unit[i] * 31 ** (n - 1 - i))`` modulo 2**32 of every string.

    Strings are taken in groups of about ``_CHUNK_UNITS`` units; within a group, unit j is weighted
    with ``31 ** -j``, summed a string at a time, and scaled back with the power of its last unit.
    A string longer than a group is folded piece by piece.
    ASCII strings of one length, such as a client's own ids, go four characters at a time.
    """
    count = len(offsets) - 1
    if units.dtype == np.uint8 and count:
        length = int(offsets[1] - offsets[0])
        is_even = length * count == offsets[-1] - offsets[0] and np.all(np.diff(offsets) == length)
        if is_even and _WORD <= length <= _CHUNK_UNITS:
            text = np.asarray(units[offsets[0] : offsets[-1]], np.uint8)  # as it is
            return _even_polynomials(text.reshape(count, length))
    codes = np.zeros(count, np.uint32)
    start = 0
    while start < count:
        limit = offsets[start] + _CHUNK_UNITS
        stop = int(np.searchsorted(offsets, limit, side="right")) - 1
        if stop <= start:
            codes[start] = _long_polynomial(units[offsets[start] : offsets[start + 1]])
            start += 1
            continue
        base = int(offsets[start])
        local = offsets[start : stop + 1] - base
        ends = local[1:]
        filled = ends > local[:-1]
        if filled.any():
            weighted = units[base : base + int(local[-1])] * _INVERSE_POWERS[: int(local[-1])]
            sums = np.add.reduceat(weighted, local[:-1][filled], dtype=np.uint32)
            codes[start:stop][filled] = sums * _POWERS[ends[filled] - 1]
        start = stop
    return codes


def _even_polynomials(rows: NDArray[np.uint8]) -> NDArray[np.uint32]:
    """Return the polynomial of every row, by Horner's rule over words of four characters."""
    count, length = rows.shape
    whole = length // _WORD * _WORD
    step = max(_CHUNK_UNITS // length, 1)
    codes = np.empty(count, np.uint32)
    for start in range(0, count, step):
        part = rows[start : start + step]
        words = _words(np.require(part[:, :whole], requirements=["C", "A"]))
        code = codes[start : start + step]
        code[:] = words[:, 0]
        for place in range(1, words.shape[1]):
            code *= _POWER_4
            code += words[:, place]
        for place in range(whole, length):
            code *= np.uint32(_MULTIPLIER)
            code += part[:, place]
    return codes


def _words(characters: NDArray[np.uint8]) -> NDArray[np.uint32]:
    """Return the polynomial of every four characters of a row.

    Neighbours are added two by two in 16 bits, then four by four in 32, with no sum too large:
    255 * 32 < 2**16.
    """
    twos = characters.view("<u2")
    pairs = twos & np.uint16(0xFF)
    pairs *= _POWER_1
    pairs += twos >> np.uint16(8)
    fours = pairs.astype("<u2", copy=False).view("<u4")
    words: NDArray[np.uint32] = fours & np.uint32(0xFFFF)
    words *= _POWER_2
    words += fours >> np.uint32(16)
    return words


def _as_repeated_value(array: pa.Array) -> pa.Array | None:
    """Return one value as a dictionary array where all values are this one, else None."""
    if not pa.types.is_string(array.type) or array.null_count:
        return None
    _, offsets_buffer, data_buffer = array.buffers()
    offsets = np.frombuffer(offsets_buffer, np.int32)[array.offset : array.offset + len(array) + 1]
    length = int(offsets[1]) - int(offsets[0])
    if not length or not np.all(np.diff(offsets) == length):
        return None
    text = np.frombuffer(data_buffer, np.uint8)[offsets[0] : offsets[-1]]
    if not np.array_equal(text[length:], text[:-length]):  # each the same as the next
        return None
    return pa.DictionaryArray.from_arrays(np.zeros(len(array), np.int8), array.slice(0, 1))


def _long_polynomial(units: NDArray[np.uint8] | NDArray[np.uint32]) -> np.uint32:
    code = 0
    for start in range(0, len(units), _CHUNK_UNITS):
        piece = units[start : start + _CHUNK_UNITS]
        value = int(np.sum(piece * _POWERS[: len(piece)][::-1], dtype=np.uint32))
        code = (code * pow(_MULTIPLIER, len(piece), _UINT32) + value) % _UINT32
    return np.uint32(code)
