"""Small IndexFiles: how a target's input stands for one, sound ones, and changes of their fields.

An input is the slots of the geometry, its entries, flags, and then the bytes of the file.
"""

from __future__ import annotations

import struct
from typing import NamedTuple

from rmqindex import Layout
from twin import BrokerFile

MAX_LENGTH = 3 + 40 + 8 * 4 + 16 * 20
PATH = "index/20231114221320000"
_PREFIX = 3
_EXACT = 1
_HEADER = 40
_INTERESTING = (0, 1, -1, 2, 3, 7, 8, 15, 16, 17, 100, 2**31 - 1, -(2**31), 2**30)
_LONGS = (0, -1, 1, 1000, 2**31, 2**63 - 1, -(2**63), 2**63 - 2**31 * 1000, 1_700_000_000_000)


class Input(NamedTuple):
    """What the bytes of an input stand for.

    Attributes:
        layout: The geometry.
        flags: Bits for the target to choose by.
        data: The file's bytes.
    """

    layout: Layout
    flags: int
    data: bytes


def taken_apart(data: bytes) -> Input:
    """Return the geometry and the file; by a flag the file has the size of the geometry."""
    slots, entries, flags = data[:_PREFIX].ljust(_PREFIX, b"\0")
    layout = Layout(1 + slots % 8, 1 + entries % 16)
    file = data[_PREFIX:]
    if flags & _EXACT:
        file = file[: layout.file_size].ljust(layout.file_size, b"\0")
    return Input(layout, flags, file)


def sound(slots: int, entries: int, flags: int, hashes: list[int], begin: int = 10**12) -> bytes:
    """Return the input of a file that a broker wrote."""
    file = BrokerFile(slots, entries)
    file.flush()
    for place, key_hash in enumerate(hashes):
        assert file.put(key_hash, 100 * place + 7, begin + 1500 * place)
    return bytes([slots - 1, entries - 1, flags]) + bytes(file.data)


def seeds() -> list[bytes]:
    """Return sound files: empty, a few chains, one crowded slot, a full file, a short one."""
    files = [
        sound(3, 6, 1, []),
        sound(3, 8, 1, [0, 3, 6, 1, 0]),
        sound(1, 16, 1, [5, 9, 5, 5, 1, 5, 5, 2, 5, 5]),
        sound(7, 12, 3, [7 * place + place % 3 for place in range(11)]),
        sound(8, 16, 5, list(range(15))),
        sound(2, 4, 1, [2**31 - 1, 0, 2**31 - 2], begin=2**63 - 10_000),
    ]
    return [*files, files[2][:-50], files[1][:20]]


def mutate(data: bytes, random) -> bytes:
    """Change fields: one, or a few, to what is near the truth, extreme, or another's value."""
    bytes_ = bytearray(data.ljust(_PREFIX, b"\0"))
    for _ in range(random.choice((1, 1, 2, 4))):
        _change(bytes_, random)
    return bytes(bytes_)


def _change(data: bytearray, random) -> None:
    slots, entries = 1 + data[0] % 8, 1 + (data[1] if len(data) > 1 else 0) % 16
    kind = random.randrange(16)
    if kind == 0:
        data[random.randrange(min(_PREFIX, len(data)))] = random.randrange(256)
        return
    if kind == 1:
        del data[random.randrange(1, len(data) + 1) :]
        return
    if kind <= 4:  # a long of the header
        _put(data, _PREFIX + 8 * random.randrange(4), ">q", random.choice(_LONGS), random)
        return
    if kind <= 6:  # a count
        value = random.choice((*_INTERESTING, entries, entries - 1, entries + 1))
        _put(data, _PREFIX + 32 + 4 * random.randrange(2), ">i", value, random)
        return
    first_entry = _PREFIX + _HEADER + 4 * slots
    if kind <= 9:
        value = random.choice((*_INTERESTING, *range(entries)))
        _put(data, _PREFIX + _HEADER + 4 * random.randrange(slots), ">i", value, random)
        return
    entry = first_entry + 20 * random.randrange(entries)
    if kind == 10:  # two entries change places, or one is there twice
        other = first_entry + 20 * random.randrange(entries)
        data[entry : entry + 20] = data[other : other + 20]
    elif kind == 11:
        data[entry : entry + 20] = bytes(20)
    elif kind == 12:
        _put(data, entry + 4, ">q", random.choice(_LONGS), random)
    else:
        value = random.choice((*_INTERESTING, *range(entries)))
        _put(data, entry + random.choice((0, 12, 16)), ">i", value, random)


def _put(data: bytearray, offset: int, kind: str, value: int, random) -> None:
    """Write a number, or one near what stands there."""
    size = struct.calcsize(kind)
    if offset + size > len(data):
        data.extend(bytes(offset + size - len(data)))
    if random.random() < 0.3:
        (there,) = struct.unpack_from(kind, data, offset)
        value = max(
            -(2 ** (8 * size - 1)), min(2 ** (8 * size - 1) - 1, there + random.choice((-1, 1)))
        )
    struct.pack_into(kind, data, offset, value)
