"""A slow and obvious twin of the chapters on the CommitLog, the checkpoint and message ids.

Like ``oracle.py`` it is written from the numbered steps, shares no code with ``rmqindex``, and is
held against everything that RocketMQ was asked.
"""

from __future__ import annotations

import re
import struct
import zlib
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from oracle import Rejected, decode_utf8, read_number, wrap

V1, V2, BLANK = -626843481, -626843477, -875286124
MIN_RECORD, CRC_RESERVED = 91, 20
MOST_SHORT, MOST_LONG = 127, 32767
SCHEDULE_TOPIC = "SCHEDULE_TOPIC_XXXX"


def int_at(data: bytes, at: int, size: int) -> int:
    """Return the signed big-endian integer at a place."""
    return int.from_bytes(data[at : at + size], "big", signed=True)


@dataclass
class Record:
    """A record, by the names of the text; hosts are address and port."""

    values: dict[str, Any]
    body: bytes
    topic: bytes
    properties: bytes
    size: int = 0
    places: dict[str, int] = field(default_factory=dict)


def decode_record(data: bytes, at: int = 0) -> Record:
    """Decode the record at a place, whose parts must lie within the data."""
    values: dict[str, Any] = {}
    places: dict[str, int] = {}
    start = at

    def take(name: str, size: int) -> int:
        nonlocal at
        places[name] = at - start
        values[name] = int_at(data, at, size)
        at += size
        return values[name]

    def take_bytes(size: int) -> bytes:
        nonlocal at
        if size < 0 or at + size > len(data):
            raise IndexError
        at += size
        return data[at - size : at]

    for name, size in (
        ("total_size", 4), ("magic_code", 4), ("body_crc", 4), ("queue_id", 4), ("flag", 4),
        ("queue_offset", 8), ("physical_offset", 8), ("sys_flag", 4), ("born_timestamp", 8),
    ):  # fmt: skip
        take(name, size)
    for host, bit, then in (
        ("born_host", 16, "store_timestamp"),
        ("store_host", 32, None),
    ):
        places[host] = at - start
        address = take_bytes(16 if values["sys_flag"] & bit else 4)
        values[host] = f"{address.hex()}:{int_at(data, at, 4)}"
        at += 4
        if then:
            take(then, 8)
    take("reconsume_times", 4)
    take("prepared_transaction_offset", 8)
    body = take_bytes(max(take("body_length", 4), 0))
    topic = take_bytes(take("topic_length", 1 if values["magic_code"] == V1 else 2))
    properties = take_bytes(max(take("properties_length", 2), 0))
    if at > len(data):
        raise IndexError
    return Record(values, body, topic, properties, at - start, places)


def encode_record(
    message: dict[str, Any],
    phy_offset: int,
    queue_offset: int,
    store_timestamp: int,
    *,
    has_property_crc: bool = False,
) -> bytes:
    """Encode a message as the tables of the text say; hosts are address and port."""
    hosts = []
    for name in ("born_host", "store_host"):
        address, _, port = message[name].partition(":")
        hosts.append(bytes.fromhex(address) + struct.pack(">i", int(port)))
    flags = message.get("sys_flag", 0)
    flags |= (16 if len(hosts[0]) > 8 else 0) | (32 if len(hosts[1]) > 8 else 0)
    if flags & 12 in (4, 12):
        queue_offset = 0
    body = bytes.fromhex(message["body"] or "")
    topic = encode_text(message["topic"])
    text = message.get("properties_text")
    if text is None:
        pairs = sorted(message["properties"].items())
        text = "".join(f"{name}\x01{value}\x02" for name, value in pairs)
    is_long = len(message["topic"].encode("utf-16-be", "surrogatepass")) // 2 > 127
    properties = encode_text(text)
    if has_property_crc:
        properties += b"" if properties.endswith(b"\2") or not properties else b"\2"
        properties += bytes(CRC_RESERVED)
    if len(topic) > (MOST_LONG if is_long else MOST_SHORT):
        raise Rejected("topic")
    if len(properties) > MOST_LONG:
        raise Rejected("properties")
    parts = [
        struct.pack(
            ">iiiqqiq", crc32(body), message["queue_id"], message.get("flag", 0), queue_offset,
            phy_offset, flags, message["born_timestamp"],
        ),
        hosts[0],
        struct.pack(">q", store_timestamp),
        hosts[1],
        struct.pack(
            ">iqi", message.get("reconsume_times", 0),
            message.get("prepared_transaction_offset", 0), len(body),
        ),
        body,
        struct.pack(">h" if is_long else ">b", len(topic)),
        topic,
        struct.pack(">h", len(properties)),
        properties,
    ]  # fmt: skip
    data = b"".join(parts)
    data = struct.pack(">ii", len(data) + 8, V2 if is_long else V1) + data
    if has_property_crc:
        covered = data[:-CRC_RESERVED]
        data = covered + b"__CRC32#\1" + f"{crc32(covered):010}"[::-1].encode() + b"\2"
    return data


def encode_text(text: str) -> bytes:
    """Return the UTF-8 of a text, a question mark for each unpaired surrogate, LOG-PRP-7."""
    whole = text.encode("utf-16-be", "surrogatepass").decode("utf-16-be", "surrogatepass")
    return whole.encode("utf-8", "replace")


def write_log(
    messages: list[dict[str, Any]], file_size: int, *, has_property_crc: bool
) -> dict[str, bytes]:
    """Write messages, batches among them, into the files of a new log."""
    files, at = [bytearray(file_size)], 0
    for message in messages:
        place = (len(files) - 1) * file_size + at
        records = encode_records(message, place, has_property_crc=has_property_crc)
        count = len(files)
        after = append(files, file_size, records, at)
        if len(files) > count:
            place = count * file_size
            records = encode_records(message, place, has_property_crc=has_property_crc)
            append(files[-1:], file_size, records, 0)
        at = after
    return {f"{number * file_size:020}": bytes(file) for number, file in enumerate(files)}


def encode_records(message: dict[str, Any], place: int, *, has_property_crc: bool) -> bytes:
    """Encode a message, or the messages of a batch, LOG-BAT-1 and LOG-BAT-2."""
    pairs = "".join(f"{name}\x01{value}\x02" for name, value in message["properties"])
    data = b""
    for number, part in enumerate(message.get("batch") or [{}]):
        own = part.get("properties_text", "")
        text = own + ("\x02" if own and pairs and own[-1] != "\x02" else "") + pairs
        data += encode_record(
            {**message, **part, "properties_text": text},
            place + len(data),
            message["queue_offset"] + number,
            message["store_timestamp"],
            has_property_crc=has_property_crc,
        )
    return data


def append(files: list[bytearray], file_size: int, record: bytes, at: int) -> int:
    """Blank records, steps 1 to 4, LOG-LIM-1; returns the byte behind the record in its file."""
    left = file_size - at
    if len(record) + 8 > file_size:
        raise Rejected("file_size")
    if len(record) + 8 > left:
        files[-1][at : at + 8] = struct.pack(">ii", left, BLANK)
        files.append(bytearray(file_size))
        at = 0
    files[-1][at : at + len(record)] = record
    return at + len(record)


def crc32(data: bytes) -> int:
    """CRC-32 without its highest bit."""
    return zlib.crc32(data) & 0x7FFFFFFF


def property_crc(record: Record) -> int | None:
    """Return the number in the property ``__CRC32#``; None without one."""
    text = dict(property_pairs(record.properties)).get("__CRC32#")
    if text is None:
        return None
    value = 0
    for unit in reversed(text):
        value = wrap(value * 10 + ord(unit) - ord("0"), 32)
    return value


def check(  # noqa: C901, PLR0911  (the numbered steps)
    data: bytes, at: int, *, check_crc: bool, property_crc_alone: bool = False
) -> tuple[int, bool]:
    """Check, steps 1 to 12: the size and whether the broker goes on."""
    left = len(data) - at
    if left <= 4:
        return -1, False
    total = int_at(data, at, 4)
    if left - 4 < total - 4 or left < 8:
        return -1, False
    magic = int_at(data, at + 4, 4)
    if magic == BLANK:
        return 0, True
    if magic not in (V1, V2) or total < 0:
        return -1, False
    try:
        record = decode_record(data, at)
    except IndexError:
        return -1, False
    # Each of these parts is read into a buffer of the total size.
    hosts = (
        20 if record.values["sys_flag"] & 16 else 8,
        20 if record.values["sys_flag"] & 32 else 8,
    )
    parts = (*hosts, len(record.body), len(record.topic), len(record.properties))
    if max(parts) > total:
        return -1, False
    if check_crc and property_crc_alone:
        stored = property_crc(record)
        if stored is None or stored < 0 or stored != crc32(data[at : at + total - 20]):
            return -1, False
    elif check_crc and record.body and crc32(record.body) != record.values["body_crc"]:
        return -1, False
    properties = dict(property_pairs(record.properties))
    delay = properties.get("DELAY") if text_of(record.topic) == SCHEDULE_TOPIC else None
    if delay is not None and read_number(delay, 32) is None:
        return -1, False
    if record.size != total:
        return total, False
    if is_batch_unreadable(properties):
        return -1, False
    return total, True


def is_batch_unreadable(properties: dict[str, str]) -> bool:
    """Whether both numbers of an inner batch are there, and one cannot be read."""
    base, count = properties.get("INNER_BASE"), properties.get("INNER_NUM")
    if base is None or count is None:
        return False
    return read_number(base, 64) is None or read_number(count, 16) is None


def check_all(data: bytes, **how: bool) -> list[tuple[int, int, bool]]:
    """Return the position, size and success of each check, up to the first without a record."""
    told, at = [], 0
    while True:
        size, success = check(data, at, **how)
        told.append((at, size, success))
        if not success or size <= 0:
            return told
        at += size


def sound(data: bytes, at: int, phy_offset: int) -> Record:
    """Sound record, steps 1 to 6; raises Rejected with the field and its byte."""
    left = len(data) - at
    if left < MIN_RECORD:
        raise Rejected("total_size", at)
    total, magic = int_at(data, at, 4), int_at(data, at + 4, 4)
    if magic not in (V1, V2):
        raise Rejected("magic_code", at + 4)
    if not MIN_RECORD <= total <= left:
        raise Rejected("total_size", at)
    if int_at(data, at + 28, 8) != phy_offset:
        raise Rejected("physical_offset", at + 28)
    sys_flag = int_at(data, at + 36, 4)
    place = 84 + (12 if sys_flag & 16 else 0) + (12 if sys_flag & 32 else 0)
    for name, width in (
        ("body_length", 4),
        ("topic_length", 1 if magic == V1 else 2),
        ("properties_length", 2),
    ):
        room = total - place - width
        if room < 0:
            raise Rejected("total_size", at)
        length = int_at(data, at + place, width)
        if length > room or (length < 0 and name == "topic_length"):
            raise Rejected(name, at + place)
        place += width + max(length, 0)
    if place != total:
        raise Rejected("total_size", at)
    return decode_record(data[at : at + total])


def crc_fault(record: Record, data: bytes) -> str | None:
    """Return the CRC of a sound record that does not agree, by its name; None if all do."""
    if record.body and crc32(record.body) != record.values["body_crc"]:
        return "body_crc"
    tail = record.properties[-20:]
    has_crc = len(tail) == 20 and tail[:9] == b"__CRC32#\x01" and tail[19] == 2
    if (
        has_crc
        and tail[9:19].isdigit()
        and int(tail[9:19][::-1]) != crc32(data[: record.size - 20])
    ):
        return "property_crc"
    return None


@dataclass
class Walk:
    """What a walk found: records with their places, how it ended, where, and why."""

    records: list[tuple[int, Record]]
    kind: str
    position: int
    fault: Rejected | None = None


def walk(data: bytes, start: int, at: int = 0) -> Walk:
    """Walk, steps 1 to 6, from byte 0 or from another that is known to begin a record."""
    records: list[tuple[int, Record]] = []
    while True:
        left = len(data) - at
        if left <= 0:
            return Walk(records, "full", at)
        if not any(data[at : at + 8]):
            return Walk(records, "zero", at)
        if left >= 8 and int_at(data, at + 4, 4) == BLANK:
            if int_at(data, at, 4) > left:
                return Walk(records, "fault", at, Rejected("total_size", at))
            return Walk(records, "blank", at)
        try:
            record = sound(data, at, start + at)
        except Rejected as reason:
            return Walk(records, "fault", at, reason)
        records.append((at, record))
        at += record.size


def read_log(files: dict[str, bytes]) -> int:
    """Return where a strict reader ends a log; raises Rejected (LOG-WLK-2, LOG-WLK-3)."""
    with_data = [name for name in sorted(files) if any(files[name])]
    end = int(min(files)) if files else 0
    for name in with_data and sorted(files)[: sorted(files).index(with_data[-1]) + 1]:
        data, start = files[name], int(name)
        found = walk(data, start)
        end = start + found.position
        later = [int(other) for other in sorted(files) if int(other) > start and files[other]]
        if found.kind in ("blank", "full") and later:
            end = later[0]
        if name != with_data[-1]:
            if found.kind not in ("blank", "full"):
                raise found.fault or Rejected("total_size", found.position)
        elif found.fault and _next_record(data, start, found) is not None:
            raise found.fault
        elif found.kind == "zero" and any(data[found.position :]):
            goes_on = _next_record(data, start, found) is not None
            if goes_on or _next_record(data, start, Walk([], "zero", found.position)) is None:
                raise Rejected("total_size", found.position)
    return end


def claimed_stop(data: bytes, start: int, at: int) -> int | None:
    """Where a faulty record ends, steps 1 to 4; None if that cannot be known."""
    left = len(data) - at
    if left < MIN_RECORD:
        return None
    total, sys_flag = int_at(data, at, 4), int_at(data, at + 36, 4)
    sums = []
    for width in (1, 2):
        place = at + 84 + (12 if sys_flag & 16 else 0) + (12 if sys_flag & 32 else 0)
        for size in (4, width, 2):
            place += size + max(int_at(data, place, size), 0)
        sums.append(place - at)
    claims = sorted(each for each in {total, *sums} if MIN_RECORD <= each <= left)
    if total in claims and total in sums:
        return at + total
    for claim in claims:
        found = walk(data, start, at + claim)
        if found.kind == "blank" and found.position == at + claim:
            return at + claim
        if found.records:
            record = found.records[0][1]
            if not crc_fault(record, data[at + claim : at + claim + record.size]):
                return at + claim
    return None


def _next_record(data: bytes, start: int, found: Walk) -> int | None:
    """The place behind a fault of the last file where its records go on (LOG-WLK-3, LOG-WLK-4)."""
    first = claimed_stop(data, start, found.position) if found.kind == "fault" else None
    newest = found.records[-1][1].values["store_timestamp"] if found.records else None

    def is_newer(at: int, record: Record) -> bool:
        is_late = newest is None or record.values["store_timestamp"] >= newest
        return is_late and not crc_fault(record, data[at : at + record.size])

    for at in range(found.position + 1 if first is None else first, len(data)):
        try:
            record = sound(data, at, start + at)
        except Rejected:
            continue
        if crc_fault(record, data[at : at + record.size]):
            continue
        if any(is_newer(*each) for each in walk(data, start, at).records):
            return at
    return None


def read_leniently(data: bytes, start: int) -> list[tuple[int, Record]]:
    """Return the records that a lenient reader gives of the only file of a log (LOG-WLK-4)."""
    records: list[tuple[int, Record]] = []
    at: int | None = 0
    while at is not None:
        found = walk(data, start, at)
        found.records[:0] = records
        records = found.records
        if found.kind == "zero" and any(data[found.position :]):
            found.fault = Rejected("total_size", found.position)
        at = _next_record(data, start, found) if found.fault else None
    return records


def text_of(data: bytes) -> str:
    """Topic or properties, LOG-PRP-6."""
    return decode_utf8(data)


def property_pairs(data: bytes) -> list[tuple[str, str]]:
    """Properties, steps 1 to 4, with every value of a name."""
    pairs = []
    for piece in text_of(data).split("\x02"):
        name, separator, value = piece.partition("\x01")
        if name and separator and value:
            pairs.append((name, value))
    return pairs


def min_timestamp(physic: int, logics: int) -> int:
    """Least timestamp without the index."""
    least = wrap(min(physic, logics) - 3000, 64)
    return max(least, 0)


def recover_log(
    files: dict[str, bytes],
    *,
    last_exit_ok: bool,
    check_crc: bool,
    min_time: int = 0,
    queue_max: int = 0,
) -> int:
    """Recover, steps 1 to 7: the offset at which the log then ends."""
    names = sorted(files)
    if not names:
        return 0
    number = len(names) - 1
    if last_exit_ok:
        while number > 0 and int(names[number]) > queue_max:
            number -= 1
    else:
        while number > 0 and not _is_before(files[names[number]], min_time):
            number -= 1
    while True:
        data = files[names[number]]
        at = 0
        while True:
            size, success = check(data, at, check_crc=check_crc)
            if not success or size == 0:
                break
            at += size
        if success and number + 1 < len(names):
            number += 1
            continue
        return int(names[number]) + at


def _is_before(data: bytes, min_time: int) -> bool:
    if int_at(data, 4, 4) not in (V1, V2):
        return False
    at = 68 if int_at(data, 36, 4) & 16 else 56
    return 0 != int_at(data, at, 8) <= min_time


def inner_messages(body: bytes, *, is_broker: bool = False) -> list[tuple[int, bytes, bytes]]:
    """Inner messages, steps 1 to 5, or without step 4; raises Rejected with the place."""
    told, at = [], 0
    while at < len(body):
        start = at
        if len(body) - at < 20:
            raise Rejected("total_size", start)
        total, flag = int_at(body, at, 4), int_at(body, at + 12, 4)
        length = int_at(body, at + 16, 4)
        stop = at + 20 + length
        if length < 0 or stop + 2 > len(body):
            raise Rejected("body_length", start + 16)
        more = int_at(body, stop, 2)
        if more < 0 or stop + 2 + more > len(body):
            raise Rejected("properties_length", stop)
        at = stop + 2 + more
        if at - start != total and not is_broker:
            raise Rejected("total_size", start)
        told.append((flag, body[start + 20 : stop], body[stop + 2 : at]))
    return told


CODECS = {0: "zlib", 1: "lz4", 2: "zstd", 3: "zlib"}


def decompress(body: bytes, sys_flag: int) -> bytes:
    """Bodies: as sent."""
    if not sys_flag & 1:
        return body
    codec = CODECS.get(sys_flag >> 8 & 7)
    try:
        if codec == "zlib":
            return zlib.decompress(body)
        if codec is not None:
            import pyarrow as pa  # noqa: PLC0415  (vectors and kit are built without it)

            return bytes(pa.CompressedInputStream(pa.BufferReader(body), codec).read())
    except (zlib.error, OSError) as error:
        raise Rejected("body") from error
    raise Rejected("body")


def decode_offset_id(text: str) -> tuple[bytes, int, int]:
    """Read an offset id as a broker does; raises Rejected for another text."""
    if not re.fullmatch(r"[0-9A-Fa-f]{32}|[0-9A-Fa-f]{56}", text):
        raise Rejected("message_id")
    data = bytes.fromhex(text)
    port, offset = struct.unpack(">iq", data[-12:])
    if not 0 <= port <= 65535:
        raise Rejected("port")
    return data[:-12], port, offset


def decode_unique_key(text: str, near: int | None = None) -> dict[str, Any]:
    """Read a unique key; with a time near its making, in UTC, also the time."""
    if re.fullmatch(r"01[0-9A-Fa-f]{32}", text):
        data = bytes.fromhex(text)
        _, mac, pid, _, sequence = struct.unpack(">B6sHII", data)
        return {"version": 1, "mac": mac.hex(), "pid": pid, "sequence": sequence}
    if not re.fullmatch(r"[0-9A-Fa-f]{32}|[0-9A-Fa-f]{56}", text):
        raise Rejected("unique_key")
    data = bytes.fromhex(text)
    pid, loader, milliseconds, counter = struct.unpack(">HiIH", data[-12:])
    return {
        "address": data[:-12].hex(),
        "pid": pid,
        "class_loader_hash": loader,
        "month_milliseconds": milliseconds,
        "counter": counter,
        "timestamp": None if near is None else nearest_time(milliseconds, near),
    }


def nearest_time(month_milliseconds: int, near: int) -> int:
    """The time in the month that brings it nearest to another; months begin in UTC."""
    day = datetime.fromtimestamp(near / 1000, UTC)
    months = [12 * day.year + day.month - 1 + step for step in (-2, -1, 0, 1)]
    starts = [datetime(each // 12, each % 12 + 1, 1, tzinfo=UTC) for each in months]
    times = [round(start.timestamp() * 1000) + month_milliseconds for start in starts]
    return min(times, key=lambda time: abs(time - near))


def offset_id(address: bytes, port: int, phy_offset: int) -> str:
    """Write an offset id."""
    return (address + struct.pack(">iq", port, phy_offset)).hex().upper()
