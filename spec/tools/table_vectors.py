"""Vectors that are tables: hashes, names, keys and properties of messages, the checkpoint."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING

import oracle
from golden import ROCKETMQ, ROOT, load, message_of

if TYPE_CHECKING:
    from vectorlib import Vectors

# Beside those of the golden data.
HASHED = [
    "TopicTest#order-1", "AaTopic#BB", "BBTopic#Aa", "AaTopic#Aa", "T#a#b", "polygenelubricants",
    "\u4e2d\u6587", "\ud83d\ude00", "\ud83d", "\u00e9", "e\u0301",
]  # fmt: skip
MOST_GOLDEN_HASHES = 200
LONGEST_KEY = 60

ACCEPTED_NAMES = [
    "20231114221320000", "0", "10", "9", "+5", "-7", "-0", "00000000000000000000001",
    "9223372036854775807", "-9223372036854775808", "\u0661\u0662", "\uff11", "+\u0967",
    "1\u0662\uff13", "007", *(f"{chr(zero)}{chr(zero + 9)}" for zero in oracle.ZEROS),
]  # fmt: skip
REFUSED_NAMES = [
    "", "+", "-", " 12", "12 ", "1_0", "1.0", "0x10", "1e3", "x.tmp", ".DS_Store",
    "20231114221322222.bak", "99999999999999999999", "9223372036854775808",
    "-9223372036854775809", "--1", "\u00b2", "\u4e00", "1,000", "12\n", "\ud835\udfce",
    "\U0001d7d9", "\U00011066", "\u221212", "+\uff0d1", "\u0669\u066a", "\u2160", "\u2460",
    "\u0bf0",
]  # fmt: skip

MOST_GOLDEN_MESSAGES = 60
# Beside those of the golden data: unique key, keys, SYSFLAG.
MESSAGES = [("", None, 0), (None, "a,b", 4), (None, "a\tb  c ", 8), ("u", "u u", 3), ("u", "k", 12)]

ODD_PROPERTIES = (
    "EMPTY\x01\x02junk\x02KEYS\x01first\x02a\x01b\x01c\x02x\x01\x02"
    "UNIQ_KEY\x01B171EA409686C576733AC29C0000025D\x02\x01noname\x02"
    "KEYS\x01second third\x02TAGS\x01T"
)
# Texts of properties that RocketMQ was given in messages, and what it read back.
PROPERTIES = [
    ("UNIQ_KEY\x01\x02KEYS\x01\x02TAGS\x01\x02", {}),
    (
        ODD_PROPERTIES,
        {
            "KEYS": "second third",
            "TAGS": "T",
            "UNIQ_KEY": "B171EA409686C576733AC29C0000025D",
            "a": "b\x01c",
        },
    ),
]

CHECKPOINT_FIELDS = (
    "physic_msg_timestamp",
    "logics_msg_timestamp",
    "index_msg_timestamp",
    "master_flushed_offset",
    "confirm_phy_offset",
)


def _write_hashes(out: Vectors) -> None:
    golden = [case for case in load("hashes.json") if len(case["key"]) <= LONGEST_KEY]
    keys = [case["key"] for case in golden[:MOST_GOLDEN_HASHES]]
    keys += [key for key in HASHED if key not in keys]
    description = {
        "kind": "hashes",
        "note": "hash code and key hash of texts, some with unpaired surrogates",
        "source": f"texts given to {ROCKETMQ}; a few by the spec's steps",
        "requirements": ["IDX-HSH-1", "IDX-HSH-2", "IDX-HSH-3", "IDX-HSH-5"],
        "errata": ["ERR-2"],
        "hashes": [
            {"key": key, "hash_code": oracle.hash_code(key), "key_hash": oracle.key_hash(key)}
            for key in keys
        ],
    }
    out.write("accept", "key_hashes", description)


def _write_names(out: Vectors) -> None:
    assert all(map(oracle.is_index_name, ACCEPTED_NAMES))
    assert not any(map(oracle.is_index_name, REFUSED_NAMES))
    description = {
        "kind": "names",
        "note": "names that Java's Long.parseLong accepts and refuses",
        "source": "java.lang.Long.parseLong; some of them also in the load vectors",
        "requirements": ["IDX-NAM-3"],
        "errata": ["ERR-27"],
        "accepted": ACCEPTED_NAMES,
        "refused": REFUSED_NAMES,
    }
    out.write("accept", "index_names", description)


def _write_message_keys(out: Vectors) -> None:
    fields = ("topic", "unique_key", "keys", "sys_flag")
    messages = [
        {name: message_of(message)[name] for name in fields}
        for case in load("service_vectors.json")
        for message in case["messages"]
    ][:MOST_GOLDEN_MESSAGES]
    messages += [dict(zip(fields, ("T", *message), strict=True)) for message in MESSAGES]
    messages.append(dict(zip(fields, ("a#b", None, "c#d", 0), strict=True)))
    description = {
        "kind": "messages",
        "note": "the index keys of messages, in the order of the puts",
        "source": f"messages given to {ROCKETMQ}; a few by the spec's steps",
        "requirements": ["IDX-BLD-3", "IDX-BLD-4", "IDX-BLD-5", "IDX-HSH-1"],
        "errata": ["ERR-23", "ERR-24"],
        "messages": [each | {"index_keys": oracle.message_keys(**each)} for each in messages],
    }
    out.write("accept", "message_keys", description)


def _write_properties(out: Vectors) -> None:
    assert all(oracle.message_properties(text) == decoded for text, decoded in PROPERTIES)
    description = {
        "kind": "properties",
        "note": "empty values, pieces without a name or a separator, repeated names, no final one",
        "source": ROCKETMQ,
        "requirements": ["IDX-BLD-7"],
        "errata": ["ERR-30"],
        "properties": [{"text": text, "decoded": decoded} for text, decoded in PROPERTIES],
    }
    out.write("accept", "message_properties", description)


def _write_checkpoint(out: Vectors) -> None:
    data = (ROOT / "format" / "rmqindex" / "sample" / "store" / "checkpoint").read_bytes()
    fields = dict(zip(CHECKPOINT_FIELDS, struct.unpack_from(">5q", data), strict=True))
    flushed = min(fields["physic_msg_timestamp"], fields["logics_msg_timestamp"])
    least = max(0, flushed - 3000)
    description = {
        "kind": "checkpoint",
        "note": "the checkpoint of a store after a clean shutdown",
        "source": ROCKETMQ,
        "requirements": ["IDX-CKP-1", "IDX-CKP-3"],
        "errata": ["ERR-26"],
        "fields": fields,
        "min_timestamp": least,
        "min_timestamp_index": min(least, fields["index_msg_timestamp"]),
    }
    out.write("accept", "checkpoint", description, data)


def write_tables(out: Vectors) -> None:
    """Write all of them."""
    _write_hashes(out)
    _write_names(out)
    _write_message_keys(out)
    _write_properties(out)
    _write_checkpoint(out)
