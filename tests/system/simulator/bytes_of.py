"""What the bytes of IndexFiles and ConsumeQueues say, read plainly, without the package."""

from __future__ import annotations

import struct
from pathlib import Path

__all__ = [
    "broker_answer",
    "ends_out_of_order",
    "entries_of",
    "has_crossed_chains",
    "java_hash",
    "units_of",
]

_HEADER = 40
_MOST_STEPS = 10_000


def java_hash(text: str) -> int:
    """Return the hash of ``topic#key``."""
    units = text.encode("utf-16-be", "surrogatepass")
    code = 0
    for place in range(0, len(units), 2):
        code = (31 * code + units[place] * 256 + units[place + 1]) & 0xFFFFFFFF
    code = code - (1 << 32) if code >> 31 else code
    return 0 if code == -(1 << 31) else abs(code)


def index_names(index: Path) -> list[str]:
    """Return the names that a broker loads, in its order."""
    if not index.is_dir():
        return []
    return sorted(path.name for path in index.iterdir() if path.name.isdigit() and path.is_file())


def entries_of(root: str, slots: int) -> list[tuple[str, int, int, int, int]]:
    """Return file, position, hash, offset and time of all entries that the headers count."""
    rows = []
    index = Path(root) / "index"
    for name in index_names(index):
        data = (index / name).read_bytes()
        if len(data) < _HEADER:
            continue
        begin, _, _, _, _, count = struct.unpack_from(">qqqqii", data)
        for position in range(1, count):
            at = _HEADER + 4 * slots + 20 * position
            if at + 20 > len(data):
                break
            code, offset, seconds, _ = struct.unpack_from(">iqii", data, at)
            time = begin if position == 1 else begin + 1000 * seconds
            rows.append((name, position, code, offset, time))
    return rows


def ends_out_of_order(root: str) -> bool:
    """Tell whether the checkpoint has a file's end, and only files before it end later.

    A clock stepped back between them, and the broker notes the end of the file that it flushed
    last. If it is killed after its next start, it deletes those that end later.
    """
    paths = [Path(root) / "index" / name for name in index_names(Path(root) / "index")]
    ends = [path.read_bytes()[8:16] for path in paths]  # times after 1970 compare as bytes
    checkpoint = Path(root) / "checkpoint"
    noted = checkpoint.read_bytes()[16:24] if checkpoint.is_file() else b""
    flushed = [place for place, end in enumerate(ends) if end == noted]
    late = [place for place, end in enumerate(ends[:-1]) if end > noted]
    return bool(flushed and late) and max(late) < max(flushed)


def put_entry_of(root: str, slots: int) -> list[tuple[int, int]]:
    """Return hash and offset of the entry that the newest file holds, and counts next.

    Its slot leads to it, so that a broker finds it. None where no entry is left uncounted.
    """
    index = Path(root) / "index"
    for name in index_names(index)[-1:]:
        data = (index / name).read_bytes()
        at = _HEADER + 4 * slots
        if len(data) < at:
            break
        place = max(struct.unpack_from(">i", data, 36)[0], 1)
        entry = data[at + 20 * place : at + 20 * place + 20]
        if len(entry) == 20 and any(entry):
            code, offset = struct.unpack_from(">iq", entry)
            if code >= 0 and struct.unpack_from(">i", data, _HEADER + 4 * (code % slots)) == (
                place,
            ):
                return [(code, offset)]
    return []


def has_crossed_chains(root: str, slots: int) -> bool:
    """Tell whether a slot, or an entry of it, leads to an entry of another slot.

    A broker that was killed between the slot and the count leaves that: the next one puts another
    slot's entry where the slot leads to.
    """
    index = Path(root) / "index"
    codes = {(name, position): code for name, position, code, _, _ in entries_of(root, slots)}
    for name in {name for name, _ in codes}:
        data = (index / name).read_bytes()
        count = len([each for each, _ in codes if each == name])
        links = list(enumerate(struct.unpack_from(f">{slots}i", data, _HEADER)))
        for position in range(1, count + 1):
            (led_to,) = struct.unpack_from(">i", data, _HEADER + 4 * slots + 20 * position + 16)
            links.append((codes[name, position] % slots, led_to))
        if any(codes.get((name, led_to), slot) % slots != slot for slot, led_to in links):
            return True
    return False


def broker_answer(
    root: str, slots: int, places: int, text: str, most: int, begin: int, end: int
) -> list[int] | None:
    """Return what ``IndexService.queryOffset`` answers; None where the broker hangs.

    Args:
        root: The store.
        slots: The broker's ``maxHashSlotNum``.
        places: The broker's ``maxIndexNum``.
        text: ``topic#key``.
        most: The most offsets.
        begin: The earliest time, epoch ms.
        end: The latest time, epoch ms.
    """
    index = Path(root) / "index"
    code = java_hash(text)
    found: list[int] = []
    size = _HEADER + 4 * slots + 20 * places
    for name in reversed(index_names(index)):
        data = (index / name).read_bytes()[:size].ljust(size, b"\0")
        first, last, _, _, _, count = struct.unpack_from(">qqqqii", data)
        count = max(count, 1)
        is_in_time = begin < first and end > last
        is_in_time |= first <= begin <= last or first <= end <= last
        if is_in_time:
            (position,) = struct.unpack_from(">i", data, _HEADER + 4 * (code % slots))
            steps = 0
            while 0 < position <= count and count > 1 and len(found) < most:
                at = _HEADER + 4 * slots + 20 * position
                if at + 20 > len(data):
                    break
                hashed, offset, seconds, previous = struct.unpack_from(">iqii", data, at)
                if seconds < 0:
                    break
                time = first + 1000 * seconds
                if hashed == code and begin <= time <= end:
                    found.append(offset)
                if previous <= 0 or previous > count or previous == position or time < begin:
                    break
                position = previous
                steps += 1
                if steps > _MOST_STEPS:
                    return None
        if first < begin or len(found) >= most:
            break
    return found


def units_of(root: str) -> list[tuple[str, int, int, int, int, int]]:
    """Return topic, queue, queue offset, offset, size and tags code of the ordinary queues."""
    rows = []
    base = Path(root) / "consumequeue"
    topics = sorted(base.iterdir()) if base.is_dir() else []
    for topic in topics:
        queues = sorted(topic.iterdir()) if topic.is_dir() else []
        for queue in queues:
            if not queue.name.isdigit():
                continue
            for path in sorted(queue.iterdir()):
                data = path.read_bytes()
                start = int(path.name)
                for at in range(0, len(data) - 19, 20):
                    offset, size, code = struct.unpack_from(">qiq", data, at)
                    if size > 0 and not (offset == 0 and size == 0x7FFFFFFF):
                        number = (start + at) // 20
                        rows.append((topic.name, int(queue.name), number, offset, size, code))
    return rows
