"""The truth about a directory from its bytes: each record is compared with what was written."""

from __future__ import annotations

import dataclasses
import re
import struct
from typing import TYPE_CHECKING

from .index import entries_of
from .queues import Queue
from .records import check, keys_of, properties_of
from .truth import Truth, Unit

if TYPE_CHECKING:
    from collections.abc import Iterator

    from .broker import Config
    from .disk import Disk
    from .records import Record
    from .truth import Message

#: The bytes and the message of every record that was ever written, by its offset.
Known = dict[int, list[tuple[bytes, "Message"]]]
#: Those of a plain log and of DLedger's; a store that was plain before has both.
LOG_FOLDERS = ("commitlog", "dledger-n0/data")
#: The size of the head that DLedger writes before each record, bytes.
DLEDGER_HEAD = 48
#: The heads that DLedger ever wrote before a record, by its offset.
Heads = dict[int, set[bytes]]
#: What was ever hashed into the index, by hash and offset.
Texts = dict[tuple[int, int], list[str]]
#: What an entry was hashed from, by file, position, hash and offset.
Made = dict[tuple[str, int, int, int], str]


def read_truth(
    disk: Disk,
    config: Config,
    known: Known,
    heads: Heads,
    texts: Texts,
    made: Made,
    alive: dict[int, Message],
    ends: dict[tuple[str, int], int],
) -> Truth:
    """Read a store.

    Args:
        disk: The store.
        config: Its broker's settings.
        known: Every record that was ever written.
        heads: Those that DLedger ever wrote before them.
        texts: Everything that was ever hashed.
        made: What the broker made entries of; of those of others the order tells.
        alive: The messages of the log by the broker's account; others are left from before.
        ends: Where queues end in a running broker's memory, bytes; units behind are left over.
    """
    truth = Truth(
        log_file_size=config.log_file_size,
        queue_file_size=20 * config.queue_units,
        hash_slot_num=config.slots,
        index_num=config.places,
        dledger=config.dledger,
        tags=config.version >= (5, 4),
        abort=(disk.root / "abort").exists(),
    )
    _read_log(truth, disk, config, known, heads, alive)
    truth.agreed = _agreed(disk) if config.dledger else None
    taken: dict[tuple[int, int], int] = {}
    for name in disk.names("index"):
        data = disk.read(f"index/{name}")
        for entry in entries_of(data, name, config.slots, texts, made, alive, taken):
            if (entry.key_hash, entry.offset) in texts:
                truth.entries.append(entry)
            else:
                truth.maybe.add(entry)  # never written: damaged bytes
    for queue in queues_of(disk, config):
        end = ends.get((queue.topic, queue.queue_id), 2**63)
        for byte, unit in queue.units():
            if _is_held(unit, known, alive) and byte < end:
                truth.units.append(unit)
            else:
                truth.maybe.add(unit)
    return truth


def _read_log(
    truth: Truth,
    disk: Disk,
    config: Config,
    known: Known,
    heads: Heads,
    alive: dict[int, Message],
) -> None:
    files = {
        int(name): disk.read(f"{folder}/{name}")
        for folder in LOG_FOLDERS
        for name in disk.names(folder)
        if name.isdecimal()
    }
    for offset in sorted(known):
        start = offset - offset % config.log_file_size
        bytes_ = files.get(start, b"")[offset - start :]
        is_known = any(bytes_.startswith(data) for data, _ in known[offset])
        for data, message in known[offset]:
            if not bytes_.startswith(data):
                record = _altered(bytes_, data)
                if record and alive.get(offset) == message:
                    truth.altered.append(message)
                elif record and not is_known:
                    truth.maybe.add(as_it_stands(message, record))  # left behind the end
            elif alive.get(offset) == message:
                is_read = _has_head(
                    files.get(start, b""), offset - start, len(data), heads.get(offset)
                )
                (truth.messages if is_read else truth.altered).append(message)
            else:
                truth.maybe.add(message)
    last = truth.messages[-1] if truth.messages else None
    truth.log_start = min(files, default=0)
    truth.log_end = last.offset + last.size if last else truth.log_start
    truth.has_remains = has_remains(disk, config.log_file_size, truth.log_end)


def _altered(now: bytes, data: bytes) -> Record | None:
    """Return what bytes hold in the place of a record, if they are one of its size and offset."""
    checked = check(now[: len(data)], 0, with_crc=False)
    return checked.record if checked.size == len(data) and now[28:36] == data[28:36] else None


def mixed(now: bytes, known: list[tuple[bytes, Message]]) -> Iterator[Message]:
    """Yield what a reader may take for a message where a part of one is written over another."""
    whole = [message for data, message in known if now.startswith(data)]
    yield from whole  # the part says what stood there before
    if not whole:
        for data, message in known:
            if record := _altered(now, data):
                yield as_it_stands(message, record)


def _has_head(data: bytes, at: int, size: int, heads: set[bytes] | None) -> bool:
    """Tell whether the head before a record is one that DLedger wrote for one of this size.

    Its channel and its two CRCs are read by nobody.
    """
    head = data[max(at - DLEDGER_HEAD, 0) : at]
    own = {(one[:32], one[44:]) for one in heads or () if one[44:] == size.to_bytes(4, "big")}
    return heads is None or (head[:32], head[44:]) in own


def as_it_stands(message: Message, record: Record) -> Message:
    """Return a message with what its bytes say now, half written or damaged."""
    read = properties_of(record.properties)
    return dataclasses.replace(
        message,
        store_time=record.store_time,
        topic=record.topic,
        queue_id=record.queue_id,
        queue_offset=record.queue_offset,
        keys=keys_of(read),
        tags=read.get("TAGS"),
        born_time=record.born_time,
        sys_flag=record.sys_flag,
        properties=tuple(read.items()),
    )


def has_remains(disk: Disk, file_size: int, end: int) -> bool:
    """Tell whether a log has bytes behind its end: half a record, or records from before a cut."""
    return any(
        any(disk.read(f"{folder}/{name}")[max(end - int(name), 0) :])
        for folder in LOG_FOLDERS
        for name in disk.names(folder)
        if name.isdecimal() and int(name) + file_size > end
    )


def queues_of(disk: Disk, config: Config) -> list[Queue]:
    """Return the queues that have folders."""
    found = []
    for folder, is_batch in (("consumequeue", False), ("batchconsumequeue", True)):
        units = config.batch_units if is_batch else config.queue_units
        for topic in disk.names(folder):
            found.extend(
                Queue(disk, topic, int(number), units, batch=is_batch)
                for number in disk.names(f"{folder}/{topic}")
            )
    return found


def _agreed(disk: Disk) -> int | None:
    """Return where the last entry of DLedger ends that the broker noted as agreed on."""
    found = re.search(rb"committedIndex=(-?[0-9]+)", disk.read("dledger-n0/checkpoint"))
    if not found:
        return None
    end = None
    for name in disk.names(LOG_FOLDERS[1]):
        data, at = disk.read(f"{LOG_FOLDERS[1]}/{name}"), 0
        while at + 48 <= len(data):
            magic, size, number, _, place = struct.unpack_from(">iiqqq", data, at)
            is_sound = magic in {1, 2} and size >= 48 and place == int(name) + at
            if not is_sound or number > int(found[1]):
                break
            at += size
            end = place + size
    return end or 0


def _is_held(unit: Unit, known: Known, alive: dict[int, Message]) -> bool:
    """Tell whether a unit is of a message that the log has or had, and that no other replaced."""
    now = alive.get(unit.offset)
    messages = [now] if now else [message for _, message in known.get(unit.offset, [])]
    return any(_is_of(unit, message) for message in messages)


def _is_of(unit: Unit, message: Message) -> bool:
    if unit.size != message.size:
        return False
    if (unit.topic, unit.queue_id) == (message.topic, message.queue_id):
        return True
    return unit.topic in dict(message.properties).get("INNER_MULTI_DISPATCH", "").split(",")


def assign(truth: Truth, other: Truth) -> None:
    """Give a truth what another has; what it had and is gone was there once."""
    before = truth.present() | truth.once
    for field in dataclasses.fields(other):
        if field.name not in {"once", "running", "waiting", "log_end", "has_remains"}:
            setattr(truth, field.name, getattr(other, field.name))
    truth.once |= before - other.present()
