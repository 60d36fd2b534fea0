"""Decodes a store's files with ``struct`` alone, slowly and obviously: what answers are right.

Nothing of the package is used, so that it cannot be wrong in the same way.
"""

from __future__ import annotations

import datetime as dt
import struct
from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["Store", "decode", "java_hash", "keyed_rows"]

_EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
_MAGIC = {0xDAA320A7: 1, 0xDAA320AB: 2}
_BLANK = 0xCBD43194
_ADDRESSES = {False: 4, True: 16}
_UNIT, _BLANK_UNIT = 20, 0x7FFFFFFF

Row = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Store:
    """The rows of a store.

    Attributes:
        entries: Those of a scan of the index without the CommitLog.
        known: The same with the CommitLog: topic, key, exact time and match_state.
        messages: Those of the CommitLog.
        units: Those of the ConsumeQueues.
    """

    entries: list[Row]
    known: list[Row]
    messages: list[Row]
    units: list[Row]


def decode(root: Path, slots: int) -> Store:
    """Decode a store whose IndexFiles have a number of slots."""
    messages = list(_messages(root))
    entries = [row for path in _numbered(root / "index") for row in _entries(path, slots)]
    return Store(entries, _known(entries, messages, root), messages, list(_units(root)))


def java_hash(topic: str, key: str) -> int:
    """Return the hash of ``topic#key`` as the broker takes it: never negative."""
    value = 0
    units = f"{topic}#{key}".encode("utf-16-be")
    for (unit,) in struct.iter_unpack(">H", units):
        value = (value * 31 + unit) & 0xFFFFFFFF
    signed = value - (1 << 32) if value >> 31 else value
    return 0 if signed == -(1 << 31) else abs(signed)


def keyed_rows(rows: list[Row], pairs: set[tuple[str, str]], *, verified: bool) -> list[Row]:
    """Return what lookups of pairs find, each row with the pair that finds it.

    Args:
        rows: ``known`` of a store, or ``entries`` where nothing is compared with the CommitLog.
        pairs: Every pair that is looked up.
        verified: Which of the two.
    """
    by_hash = defaultdict(list)
    for topic, key in sorted(pairs):
        by_hash[java_hash(topic, key)].append((topic, key))
    found = []
    for row in rows:
        for topic, key in by_hash[row["key_hash"]]:
            own = verified and row["match_state"] == "verified"
            if not own or (topic, key) == (row["topic"], row["key"]):
                found.append({**row, "topic": topic, "key": key})
    return found


def _time(milliseconds: int) -> dt.datetime:
    return _EPOCH + dt.timedelta(milliseconds=milliseconds)


def _numbered(directory: Path) -> list[Path]:
    return sorted(path for path in directory.iterdir() if path.name.isdigit())


def _entries(path: Path, slots: int) -> list[Row]:
    data = path.read_bytes()
    begin, count = struct.unpack_from(">q28xi", data)
    rows = []
    for position in range(1, count):
        place = 40 + 4 * slots + 20 * position
        hash_, offset, diff, previous = struct.unpack_from(">iqii", data, place)
        rows.append(
            {
                "key_hash": hash_,
                "phy_offset": offset,
                "store_timestamp": _time(begin if position == 1 else begin + diff * 1000),
                "time_diff": diff,
                "slot": hash_ % slots,
                "position": position,
                "prev_position": previous,
                "file_path": str(path),
            }
        )
    return rows


def _known(entries: list[Row], messages: list[Row], root: Path) -> list[Row]:
    """Return the entries with the keys of their messages.

    Of several keys of one hash in one message, the n-th is that of the message's n-th entry.
    """
    by_offset = {row["phy_offset"]: row for row in messages}
    first = int(_numbered(root / "commitlog")[0].name)
    seen: dict[tuple[int, int], int] = defaultdict(int)
    rows = []
    for entry in entries:
        message = by_offset.get(entry["phy_offset"])
        row = {"topic": None, "key": None, **entry}
        if message is None:
            row["match_state"] = "unverified" if entry["phy_offset"] < first else "missing"
        else:
            keys = [message["uniq_key"] or "", *(message["keys"] or "").split(" ")]
            own = [
                key for key in keys if key and java_hash(message["topic"], key) == entry["key_hash"]
            ]
            turn = seen[entry["phy_offset"], entry["key_hash"]]
            seen[entry["phy_offset"], entry["key_hash"]] += 1
            row["match_state"] = "verified" if own else "mismatch"
            if own:
                row["topic"], row["key"] = message["topic"], own[turn % len(own)]
                row["store_timestamp"] = message["store_timestamp"]
        rows.append(row)
    return rows


def _messages(root: Path) -> list[Row]:
    rows: list[Row] = []
    for path in _numbered(root / "commitlog"):
        data, place = path.read_bytes(), 0
        while place + 8 <= len(data):
            size, magic = struct.unpack_from(">iI", data, place)
            if magic == _BLANK or magic not in _MAGIC:
                break
            rows.append(_message(data[place : place + size], _MAGIC[magic]))
            place += size
    return rows


def _message(record: bytes, version: int) -> Row:
    (size, magic, crc, queue_id, flag, queue_offset, offset, sys_flag, born) = struct.unpack_from(
        ">iiiiiqqiq", record
    )
    place = 48
    born_host, place = _host(record, place, six=bool(sys_flag & 0x10))
    (stored,) = struct.unpack_from(">q", record, place)
    store_host, place = _host(record, place + 8, six=bool(sys_flag & 0x20))
    reconsumed, prepared, body_size = struct.unpack_from(">iqi", record, place)
    place += 16
    body = record[place : place + body_size]
    place += body_size
    topic_size = int.from_bytes(record[place : place + version], "big")
    place += version
    topic = record[place : place + topic_size].decode()
    place += topic_size
    (properties_size,) = struct.unpack_from(">h", record, place)
    text = record[place + 2 : place + 2 + properties_size].decode()
    properties = _properties(text)
    return {
        "topic": topic,
        "uniq_key": properties.get("UNIQ_KEY"),
        "keys": properties.get("KEYS"),
        "tags": properties.get("TAGS"),
        "phy_offset": offset,
        "size": size,
        "queue_id": queue_id,
        "queue_offset": queue_offset,
        "sys_flag": sys_flag,
        "flag": flag,
        "born_timestamp": _time(born),
        "store_timestamp": _time(stored),
        "born_host": born_host,
        "store_host": store_host,
        "reconsume_times": reconsumed,
        "prepared_transaction_offset": prepared,
        "body": body,
        "body_crc": crc,
        "magic_code": magic,
    }


def _host(record: bytes, place: int, *, six: bool) -> tuple[str, int]:
    size = _ADDRESSES[six]
    address, (port,) = record[place : place + size], struct.unpack_from(">i", record, place + size)
    if six:
        groups = ":".join(f"{each:x}" for (each,) in struct.iter_unpack(">H", address))
        return f"[{groups}]:{port}", place + size + 4
    return f"{'.'.join(map(str, address))}:{port}", place + size + 4


def _properties(text: str) -> dict[str, str]:
    pairs = (pair.split("\x01", 1) for pair in text.split("\x02"))
    return {pair[0]: pair[1] for pair in pairs if len(pair) == 2 and pair[0] and pair[1]}


def _units(root: Path) -> list[Row]:
    rows = []
    for queue in sorted((root / "consumequeue").glob("*/*")):
        for path in _numbered(queue):
            data = path.read_bytes()
            first = int(path.name) // _UNIT
            for number, unit in enumerate(struct.iter_unpack(">qiq", data)):
                offset, size, code = unit
                if size in {0, _BLANK_UNIT}:
                    continue
                rows.append(
                    {
                        "topic": queue.parent.name,
                        "queue_id": int(queue.name),
                        "queue_offset": first + number,
                        "phy_offset": offset,
                        "size": size,
                        "tags_code": code,
                        "file_path": str(path),
                    }
                )
    return rows
