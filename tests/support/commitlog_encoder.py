"""An encoder of CommitLogs, independent of the package: plain, slow, and only for tests."""

from __future__ import annotations

import struct
import zlib
from dataclasses import dataclass, field

V1 = 0xDAA320A7
V2 = 0xDAA320AB
BLANK = 0xCBD43194


@dataclass
class Message:
    """What one record holds; ``properties`` are bytes as stored."""

    topic: str = "TopicTest"
    body: bytes = b"body"
    properties: bytes = b""
    queue_id: int = 0
    flag: int = 0
    queue_offset: int = 0
    sys_flag: int = 0
    born_timestamp: int = 1_700_000_000_000
    store_timestamp: int = 1_700_000_000_001
    born_ip: bytes = bytes([10, 0, 0, 5])
    born_port: int = 40_000
    store_ip: bytes = bytes([10, 0, 0, 1])
    store_port: int = 10_911
    reconsume_times: int = 0
    prepared_transaction_offset: int = 0
    version: int = 0  # 0: as the broker chooses
    property_crc: bool = False
    body_crc: int | None = None

    @property
    def stored_sys_flag(self) -> int:
        """The flags with those of IPv6 hosts."""
        return (
            self.sys_flag
            | (0x10 if len(self.born_ip) == 16 else 0)
            | (0x20 if len(self.store_ip) == 16 else 0)
        )

    @property
    def stored_version(self) -> int:
        """Version 2 for topics beyond 127 characters."""
        return self.version or (2 if len(self.topic) > 127 else 1)

    def encode(self, offset: int) -> bytes:
        """Return the record at an offset of the log."""
        topic = self.topic.encode()
        crc = zlib.crc32(self.body) & 0x7FFFFFFF if self.body_crc is None else self.body_crc
        properties = self.properties + (bytes(20) if self.property_crc else b"")
        record = b"".join(
            [
                struct.pack(">I", V2 if self.stored_version == 2 else V1),
                struct.pack(">iii", crc, self.queue_id, self.flag),
                struct.pack(">qqi", self.queue_offset, offset, self.stored_sys_flag),
                struct.pack(">q", self.born_timestamp) + self.born_ip,
                struct.pack(">i", self.born_port),
                struct.pack(">q", self.store_timestamp) + self.store_ip,
                struct.pack(">i", self.store_port),
                struct.pack(">iq", self.reconsume_times, self.prepared_transaction_offset),
                struct.pack(">i", len(self.body)) + self.body,
                struct.pack(">h" if self.stored_version == 2 else ">b", len(topic)) + topic,
                struct.pack(">h", len(properties)) + properties,
            ]
        )
        record = struct.pack(">i", len(record) + 4) + record
        if self.property_crc:
            covered = record[:-20]
            digits = f"{zlib.crc32(covered) & 0x7FFFFFFF:010d}"[::-1]
            record = covered + b"__CRC32#\x01" + digits.encode() + b"\x02"
        return record


@dataclass
class Log:
    """A log in files of one size."""

    file_size: int
    start: int = 0
    files: dict[int, bytearray] = field(default_factory=dict)
    offsets: list[int] = field(default_factory=list)

    def __post_init__(self) -> None:
        """Begin at the first offset."""
        self.end = self.start

    def append(self, message: Message) -> int:
        """Store a message as the broker does: a blank record ends a file without room."""
        record = message.encode(self.end)
        room = self.file_size - self.end % self.file_size
        if len(record) + 8 > room:
            self.blank()
            record = message.encode(self.end)
        offset = self.end
        self._write(record)
        self.offsets.append(offset)
        return offset

    def blank(self) -> None:
        """End the current file."""
        room = self.file_size - self.end % self.file_size
        self._write(struct.pack(">iI", room, BLANK))
        self.end += room - 8

    def _write(self, data: bytes) -> None:
        start = self.end - self.end % self.file_size
        file = self.files.setdefault(start, bytearray(self.file_size))
        file[self.end - start : self.end - start + len(data)] = data
        self.end += len(data)

    def write_to(self, directory):
        """Write the files, and return the directory."""
        directory.mkdir(parents=True, exist_ok=True)
        for start, data in self.files.items():
            (directory / f"{start:020d}").write_bytes(data)
        return directory


def properties_text(pairs) -> bytes:
    """Return names and values as a client writes them."""
    return "".join(f"{name}\x01{value}\x02" for name, value in pairs).encode()


def java_properties(text: str) -> dict[str, str]:
    """Split properties step by step as ``MessageDecoder.string2messageProperties`` does."""
    found = {}
    index = 0
    while index < len(text):
        stop = text.find("\x02", index)
        if stop < 0:
            stop = len(text)
        if stop - index >= 3:
            separator = text.find("\x01", index)
            if index < separator < stop - 1:
                found[text[index:separator]] = text[separator + 1 : stop]
        index = stop + 1
    return found


def expected_row(message: Message, offset: int) -> dict[str, object]:
    """Return the row that a sound record decodes to, properties apart."""
    host = message.store_ip + struct.pack(">i", message.store_port)
    return {
        "topic": message.topic,
        "phy_offset": offset,
        "size": len(message.encode(offset)),
        "queue_id": message.queue_id,
        "queue_offset": message.queue_offset,
        "sys_flag": message.stored_sys_flag,
        "flag": message.flag,
        "born_timestamp": message.born_timestamp,
        "store_timestamp": message.store_timestamp,
        "born_host": host_text(message.born_ip, message.born_port),
        "store_host": host_text(message.store_ip, message.store_port),
        "reconsume_times": message.reconsume_times,
        "prepared_transaction_offset": message.prepared_transaction_offset,
        "body": message.body,
        "msg_id": (host + struct.pack(">q", offset)).hex().upper(),
        "magic_code": (V2 if message.stored_version == 2 else V1) - 2**32,
    }


def host_text(address: bytes, port: int) -> str:
    """Return a host as Java writes it."""
    if len(address) == 4:
        return ".".join(str(octet) for octet in address) + f":{port}"
    groups = [f"{address[i] << 8 | address[i + 1]:x}" for i in range(0, 16, 2)]
    return f"[{':'.join(groups)}]:{port}"
