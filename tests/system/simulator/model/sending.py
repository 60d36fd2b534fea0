"""What a broker makes of what a client sends: a record, and the message that consumers see."""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import Any

from . import records
from .truth import Inner, Message

Sent = dict[str, Any]
Pairs = list[tuple[str, str]]


@dataclass(frozen=True)
class Draft:
    """A record that has no place yet."""

    record: records.Record
    body: bytes
    kind: str
    pairs: tuple[tuple[str, str], ...]
    inner: tuple[Inner, ...]
    #: How many queue offsets it takes, by topic and queue.
    taken: dict[tuple[str, int], int]
    #: Whether the body is not what its flags say.
    is_corrupt: bool = False

    def message(self, offset: int, data: bytes) -> Message:
        """Return the message once the record stands at an offset with these bytes."""
        read = records.properties_of(self.record.properties)
        return Message(
            offset=offset,
            size=len(data),
            store_time=self.record.store_time,
            topic=self.record.topic,
            queue_id=self.record.queue_id,
            queue_offset=self.record.queue_offset,
            keys=records.keys_of(read),
            tags=read.get("TAGS"),
            body=self.body,
            kind=self.kind,
            born_time=self.record.born_time,
            sys_flag=struct.unpack_from(">i", data, 36)[0],
            properties=self.pairs,
            inner=self.inner,
            is_corrupt=self.is_corrupt,
        )


def draft(
    sent: Sent, offsets: dict[tuple[str, int], int], now: int, *, light: bool, in_batch: bool
) -> Draft:
    """Make a record.

    Args:
        sent: What a client sends: ``topic``, ``queue``, ``properties`` (pairs), ``body`` (hex),
            ``codec`` (``broken_zlib``: flagged, but as it is), ``flags``, ``flag``, ``kind``,
            ``age`` (ms since the client made it),
            ``born_v6``, ``store_v6``, ``property_crc``, ``reconsumed``, ``prepared``; of a batch
            ``batch`` (the properties of all its parts); ``light`` (names of light queues);
            ``inner`` and ``parts`` (the members of an inner batch).
        offsets: The next queue offset by topic and queue.
        now: The broker's clock, epoch ms.
        light: Whether light queues are on.
        in_batch: Whether this is a part of a batch, each of which is a record of its own.
    """
    queue = (sent["topic"], sent.get("queue", 0))
    flags = sent.get("flags", 0)
    body = bytes.fromhex(sent.get("body", ""))
    pairs: Pairs = [(name, value) for name, value in sent.get("properties", [])]
    has_unit = flags & records.ROLLBACK in {0, records.COMMIT}
    place = offsets.get(queue, 0) if has_unit else 0
    taken = {queue: 1} if has_unit else {}
    inner: list[Inner] = []
    if sent.get("inner"):
        inner, body = _inner(sent["parts"])
        flags |= records.INNER_BATCH | records.NEED_UNWRAP
        taken = {queue: len(inner)}
        pairs += [("INNER_NUM", str(len(inner))), ("INNER_BASE", str(place))]
    names = sent.get("light", []) if light and has_unit else []
    if names:
        places = ",".join(str(offsets.get((name, 0), 0)) for name in names)
        pairs += [("INNER_MULTI_DISPATCH", ",".join(names)), ("INNER_MULTI_QUEUE_OFFSET", places)]
        taken |= {(name, 0): 1 for name in names}
    properties = records.properties_bytes(pairs)
    if in_batch:
        batch = [(name, value) for name, value in sent.get("batch", [])]
        properties += b"\x02" + records.properties_bytes(batch)
        pairs += batch
    codec = sent.get("codec", "none") if body else "none"
    is_broken = codec.startswith("broken_")
    codec = codec.removeprefix("broken_")
    record = records.Record(
        topic=sent["topic"],
        body=body if is_broken else records.compress(body, codec),
        properties=properties,
        queue_id=queue[1],
        flag=sent.get("flag", 0),
        queue_offset=place,
        sys_flag=flags | records.CODECS[codec],
        born_time=now - sent.get("age", 3),
        store_time=now,
        born_ip=bytes(range(16)) if sent.get("born_v6") else bytes([10, 0, 0, 5]),
        store_ip=bytes(range(16, 32)) if sent.get("store_v6") else bytes([10, 0, 0, 1]),
        reconsume_times=sent.get("reconsumed", 0),
        prepared_offset=sent.get("prepared", 0),
        has_property_crc=sent.get("property_crc", False),
    )
    kind = sent.get("kind", "plain")
    return Draft(record, body, kind, tuple(pairs), tuple(inner), taken, is_corrupt=is_broken)


def _inner(parts: list[Sent]) -> tuple[list[Inner], bytes]:
    members, body = [], b""
    for part in parts:
        pairs = tuple((name, value) for name, value in part.get("properties", []))
        properties = records.properties_bytes(list(pairs))
        read = records.properties_of(properties)
        data = bytes.fromhex(part.get("body", ""))
        members.append(Inner(data, records.keys_of(read), read.get("TAGS"), pairs))
        body += records.inner_message(data, properties)
    return members, body
