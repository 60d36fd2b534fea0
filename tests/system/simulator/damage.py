"""Damages of a store: pages of zeros or of other bytes; a file lost, cut or swapped.

Each says what it made unreadable: what the truth had before and has no longer.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from .draw import Draw
from .model.truth import Damage

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from .model.broker import ModelBroker
    from .model.truth import Entry

#: What is damaged, and the folders that it is in.
PARTS = {
    "log": ("commitlog", "dledger-n0/data"),
    "index": ("index",),
    "queues": ("consumequeue", "batchconsumequeue"),
    "checkpoint": ("checkpoint",),
}


def plant(
    broker: ModelBroker, part: str, kind: str, *, number: int, at: int, size: int, seed: int = 0
) -> Damage | None:
    """Damage a file of a store whose broker does not run.

    Args:
        broker: The store.
        part: One of :data:`PARTS`.
        kind: zeros, noise (other bytes), flip (one bit), number (0, 1, -1, or half of that
            which was there), lost, cut, empty, swapped (with the file before), longer.
        number: Which of the part's files, counted from the last one.
        at: Where, in thousandths of the file up to its last byte that is not 0; below 0, the byte
            -1 - ``at``.
        size: How many bytes.
        seed: Of other bytes.

    Returns:
        What was done; None where there is nothing to damage, or nothing changed.
    """
    files = files_of(broker.root, part)
    if broker.truth.running or not files:
        return None
    path = files[-1 - number % len(files)]
    data = path.read_bytes()
    used = len(data.rstrip(b"\0")) or len(data)
    start = min(used * at // 1000 if at >= 0 else -1 - at, max(len(data) - 1, 0))
    stop = min(start + size, len(data))
    before = broker.truth
    was = {kind: list(getattr(before, kind)) for kind in ("messages", "entries", "units")}
    answered = frozenset(before.surely("messages"))
    other = files[-1 - (number + 1) % len(files)]
    if kind == "swapped":
        if other == path or other.read_bytes() == data:
            return None
        path.write_bytes(other.read_bytes())
        other.write_bytes(data)
        start, stop = 0, len(data)
    elif kind == "lost":
        path.unlink()
        start, stop = 0, len(data)
    else:
        changed = _changed(data, kind, start, stop, seed)
        if changed == data:
            return None
        path.write_bytes(changed)
        stop = len(data) if kind in {"cut", "empty"} else stop
        start = 0 if kind == "empty" else start
    broker.refresh()
    now = {kind: set(getattr(broker.truth, kind)) for kind in was}
    gone = {kind: frozenset(one for one in was[kind] if one not in now[kind]) for kind in was}
    name = path.relative_to(broker.root).as_posix()
    return Damage(
        name,
        start,
        stop,
        kind,
        **gone,
        answered=gone["messages"] & answered,
        is_harmless=(not any(gone.values()) and _is_unread(broker, part, data, path, kind))
        or (kind == "lost" and part == "index" and _stand_twice(broker, gone["entries"])),
    )


def files_of(root: Path, part: str) -> list[Path]:
    """Return the files of a part of a store in order."""
    found = []
    for name in PARTS[part]:
        path = root / name
        found += [path] if path.is_file() else sorted(p for p in path.rglob("*") if p.is_file())
    return found


def _changed(data: bytes, kind: str, start: int, stop: int, seed: int) -> bytes:
    if kind == "cut":
        return data[:start]
    if kind == "empty":
        return b""
    if kind == "longer":
        return data + Draw(seed).data(stop - start)
    if not data:
        return data
    if kind == "flip":
        return data[:start] + bytes([data[start] ^ (1 << seed % 8)]) + data[start + 1 :]
    if kind == "number":
        new = _number(data[start:stop], Draw(seed))
    else:
        new = bytes(stop - start) if kind == "zeros" else Draw(seed).data(stop - start)
    return data[:start] + new + data[stop:]


def _number(was: bytes, draw: Draw) -> bytes:
    """Return another number of the same size, as a header's field might have had it once."""
    old = int.from_bytes(was, "big", signed=True)
    new = draw.one([0, 1, -1, old // 2])
    return (new % 256 ** len(was)).to_bytes(len(was), "big")


def _stand_twice(broker: ModelBroker, entries: Iterable[Entry]) -> bool:
    """Tell whether other files have all of these entries, too."""
    others = Counter((one.key_hash, one.offset) for one in broker.truth.entries)
    return not Counter((one.key_hash, one.offset) for one in entries) - others


def _is_unread(broker: ModelBroker, part: str, was: bytes, path: Path, kind: str) -> bool:
    """Tell whether what changed is read by nobody: the space behind the last record or entry."""
    if kind in {"lost", "cut", "empty", "swapped", "longer"}:
        return False
    now = path.read_bytes()
    changed = [place for place in range(len(was)) if was[place] != now[place]]
    if part == "index":
        count = max(int.from_bytes(was[36:40], "big", signed=True), 1)
        used = 40 + 4 * broker.config.slots + 20 * count
        return all(place >= used for place in changed)
    if part == "log":
        start = int(path.name)
        end = max(
            (
                one.offset + one.size + 8
                for one in broker.truth.messages
                if start <= one.offset < start + broker.config.log_file_size
            ),
            default=start + 8,
        )
        return bool(broker.truth.messages) and end <= start + min(changed)
    return False
