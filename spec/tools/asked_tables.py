"""What RocketMQ is asked about checkpoints, message ids, properties and inner batches."""

from __future__ import annotations

import json
import struct
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ask_rocketmq import RocketMQ

ROOT = Path(__file__).resolve().parents[2]

CHECKPOINT_SIZE = 4096
_TIMES = (1_700_000_207_931, 1_700_022_861_666, 1_700_022_675_923)


def _checkpoint(*values: int, size: int = CHECKPOINT_SIZE) -> bytes:
    return struct.pack(f">{len(values)}q", *values)[:size].ljust(size, b"\0")


#: The bytes of a file, None for none, and what is set before it is flushed.
CHECKPOINTS: dict[str, tuple[bytes | None, dict[str, int]]] = {
    "checkpoint_fields": (_checkpoint(*_TIMES, 4_000_000, 3_999_000), {}),
    "checkpoint_sixth_field": (_checkpoint(*_TIMES, 0, 0, 123_456_789), {}),
    "checkpoint_new": (None, {"PhysicMsgTimestamp": 5000, "LogicsMsgTimestamp": 9000}),
    "checkpoint_below_margin": (_checkpoint(2999, 9000, 50), {}),
    "checkpoint_negative": (_checkpoint(-1, -(2**63), 7, -9), {}),
    "checkpoint_wraps": (_checkpoint(-(2**63), 0, 7), {}),
    "checkpoint_index_least": (_checkpoint(10_000, 20_000, 6_999), {}),
    "checkpoint_zero_bytes": (b"", {"IndexMsgTimestamp": 77}),
    "checkpoint_short": (_checkpoint(*_TIMES, size=12), {}),
    "checkpoint_bytes_beyond": (
        _checkpoint(*_TIMES, 1, 2, 3) + b"x" * 10,
        {"MasterFlushedOffset": 2**62},
    ),
}
_HEAD = 64

OFFSET_IDS: list[tuple[str, int, int]] = [
    ("0a000001", 10911, 202),
    ("c0a80107", 65535, 0),
    ("ffffffff", 0, 2**63 - 1),
    ("00000000", 10911, -1),
    ("20010db8000000000000000000000005", 10911, 164_162),
    ("fd000000000000000000000000000007", 1, 2**40),
]
DECODED = [
    "0A00000100002A9F00000000000000CA",
    "0a00000100002a9f00000000000000ca",
    "20010DB800000000000000000000000500002A9F0000000000028142",
    "0A00000100012A9F00000000000000CA",
    "AC1003091F9018B4AAC2052660050007",
    "20010DB80000000000000000000000051F9018B4AAC2052660050007",
    "AC1003091F9018B4AAC2000000000000",
    "AC1003090000000018B4AAC2052660050007",
    "0A000001",
    "not an id at all, but 32 letters",
    "",
]

PROPERTIES = [
    b"",
    b"KEYS\x01k\x02",
    b"KEYS\x01k",
    b"KEYS\x01\x02",
    b"\x01v\x02",
    b"novalue\x02",
    b"A\x01a\x01b\x02",
    b"A\x011\x02A\x012\x02",
    b"A\x01\x01\x02",
    b"A\x01\x02B\x01b\x02",
    b"\x02\x02A\x01a\x02",
    b"A\x01a\x02\x02",
    b"A B\x01 c \x02",
    b"\x00\x01\x00\x02",
    b"a\x01\xed\xa0\x80\x02",
    b"a\x01\xc3\x02",
    b"a\x01\xf0\x9f\x98\x80\x02",
    b"\xe4\xb8\xad\x01\xff\xfe\x02",
]


def message(body: bytes, properties: bytes, flag: int = 0) -> bytes:
    """Return a message as it stands inside a batch."""
    size = 4 * 5 + len(body) + 2 + len(properties)
    head = struct.pack(">iiiii", size, 0, 0, flag, len(body))
    return head + body + struct.pack(">h", len(properties)) + properties


INNER: dict[str, bytes] = {
    "three messages": b"".join(
        (message(b"one", b"KEYS\x01a\x02"), message(b"", b"", 7), message(b"three", b"A\x01b", -1))
    ),
    "no messages": b"",
    "marks that are not 0": struct.pack(">iiiii", 22, 5, 6, 7, 0) + b"\0\0",
    "cut in the head": message(b"one", b"")[:19],
    "cut in the body": message(b"one", b"")[:22],
    "cut in the properties": message(b"one", b"KEYS\x01a\x02")[:-1],
    "negative body length": struct.pack(">iiiii", 22, 0, 0, 0, -1) + b"\0\0",
    "negative properties length": struct.pack(">iiiii", 22, 0, 0, 0, 0) + b"\xff\xff",
    "total size too small": b"".join((struct.pack(">i", 5), message(b"one", b"")[4:])),
    "total size too large": b"".join((struct.pack(">i", 500), message(b"one", b"")[4:])),
}


def _ask_checkpoint(
    judge: RocketMQ, newest: RocketMQ, name: str, data: bytes | None, to_set: dict[str, int]
) -> dict[str, Any]:
    told: dict[str, Any] = {
        "name": name,
        "hex": None if data is None else data[:_HEAD].hex(),
        "size": None if data is None else len(data),
        "set": to_set,
    }
    for version, classes in (("5.3.3", judge), ("5.5.1", newest)):
        path = classes.folder() / "checkpoint"
        if data is not None:
            path.write_bytes(data)
        fields = classes.ask("checkpoint", path=str(path), set=to_set, flush=True)
        after = path.read_bytes()
        told[version] = {
            "fields": fields,
            "hex_after": after[:_HEAD].hex(),
            "size_after": len(after),
        }
    return told


def _ask_inner(judge: RocketMQ, name: str, body: bytes) -> dict[str, Any]:
    try:
        answer = judge.ask("inner", hex=body.hex())
    except RuntimeError:
        answer = None
    return {"name": name, "hex": body.hex(), "messages": answer}


def _ask_bodies(judge: RocketMQ) -> list[dict[str, Any]]:
    """Ask for the bodies of records that a store holds, and of the same with other flags."""
    store = ROOT / "tests" / "data" / "message_kinds"
    told = json.loads((store / "store_messages.json").read_text(encoding="utf-8"))
    files = {int(p.name): p.read_bytes() for p in (store / "store" / "commitlog").iterdir()}
    smallest: dict[int, bytes] = {}
    for one in told["messages"]:
        offset, flags = one["phy_offset"], one["decoded"]["sys_flag"]
        start = offset - offset % 65536
        if one["kind"] != "compressed" or start not in files:
            continue
        record = files[start][offset - start : offset - start + one["decoded"]["store_size"]]
        if flags not in smallest or len(record) < len(smallest[flags]):
            smallest[flags] = record
    cases = []
    for flags, record in sorted(smallest.items()):
        for other in sorted({flags, flags & ~1, *(kind << 8 | 1 for kind in range(8))}):
            changed = record[:36] + struct.pack(">i", other) + record[40:]
            answer = judge.ask("decode", hex=changed.hex())
            stored = judge.ask("decode", hex=record.hex())["stored_body"]
            body = answer["body"] if answer and answer["decompresses"] else None
            cases.append({"sys_flag": other, "stored": stored, "body": body})
    return cases


def ask_about_tables(judge: RocketMQ, newest: RocketMQ) -> dict[str, list[dict[str, Any]]]:
    """Return the golden cases of what are single values or tables."""
    return {
        "checkpoints": [
            _ask_checkpoint(judge, newest, name, *case) for name, case in CHECKPOINTS.items()
        ],
        "message_ids": [
            {
                "offset_ids": OFFSET_IDS,
                **judge.ask("ids", offset_ids=OFFSET_IDS, decode=DECODED, create=3),
            }
        ],
        "properties": [
            {"hex": text.hex(), "decoded": decoded}
            for text, decoded in zip(
                PROPERTIES,
                judge.ask("properties", texts=[text.hex() for text in PROPERTIES]),
                strict=True,
            )
        ],
        "bodies": _ask_bodies(judge),
        "inner_batches": [_ask_inner(judge, name, body) for name, body in INNER.items()],
    }
