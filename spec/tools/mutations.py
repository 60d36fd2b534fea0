"""Vectors that are one of RocketMQ's files with something changed.

Changes that stay legal give accept vectors, the others reject vectors.
Positions of bytes are those of the worked example: 5 slots from byte 40, 5 entry places from 60.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import Any

import oracle
from vectorlib import ALWAYS, Query, Vectors, broker_queries, file_vector

BEGIN_TIMESTAMP, END_TIMESTAMP, BEGIN_PHY_OFFSET, END_PHY_OFFSET = 0, 8, 16, 24
HASH_SLOT_COUNT, INDEX_COUNT = 32, 36
SLOT = [40, 44, 48, 52, 56]
ENTRY = [60, 80, 100, 120, 140]
KEY_HASH, PHY_OFFSET, TIME_DIFF, PREV_POSITION = 0, 4, 12, 16
I32, I64 = ">i", ">q"
INT32_MAX = 2**31 - 1

EXAMPLE_KEYS = ["TopicTest#MVRKz66K", "TopicTest#qW", "TopicTest#irSLt1", "TopicTest#%q6cR"]
OURS, *_, OTHER = EXAMPLE_KEYS
# Not in the file, but of the same slot as these two.
ABSENT = next(
    key for key in (f"TopicTest#absent-{i}" for i in range(100)) if oracle.key_hash(key) % 5 == 4
)


def ask(*keys: str) -> list[Query]:
    """Ask for every entry of some keys."""
    return [(key, 64, *ALWAYS) for key in keys]


# A crash after entry and slot of put 4, before its header.
_UNFINISHED_PUT = [
    (INDEX_COUNT, I32, 4),
    (END_TIMESTAMP, I64, 1700000433446),
    (END_PHY_OFFSET, I64, 235218248958),
]
_LOST_ENTRY = [(ENTRY[4] + field, I32, 0) for field in range(0, 20, 4)]
_SHORT_CHAIN = ["IDX-LKP-1", "IDX-LKP-3", "IDX-LKP-5", "IDX-OPS-8"]
_LOOP = [(ENTRY[1] + PREV_POSITION, I32, 4)]


@dataclass(frozen=True)
class Mutation:
    """One changed file.

    Attributes:
        name: The vector's name.
        note: What is changed, and what to notice.
        changes: Byte, format and new value of each change.
        requirements: What it shows.
        errata: Likewise.
        queries: What a broker-faithful reader is asked.
        base: The accept vector that is changed.
        geometry: Slots and places to read it with.
        cut: The size to cut the file to.
        appended: Bytes to append.
    """

    name: str
    note: str
    changes: list[tuple[int, str, int]]
    requirements: list[str]
    errata: list[str]
    queries: list[Query] | None = None
    base: str = "worked_example"
    geometry: tuple[int, int] = (5, 5)
    cut: int | None = None
    appended: bytes = b""

    def apply(self, data: bytes) -> bytes:
        """Return the changed bytes."""
        changed = bytearray(data)
        for at, form, value in self.changes:
            struct.pack_into(form, changed, at, value)
        return bytes(changed[: self.cut]) + self.appended


LEGAL = [
    Mutation(
        "hash_slot_count_before_4_7_1",
        "counts entries, as RocketMQ did before 4.7.1",
        [(HASH_SLOT_COUNT, I32, 4)],
        ["IDX-HDR-5"],
        ["ERR-4"],
    ),
    Mutation(
        "hash_slot_count_absurd",
        "no reader may use this field",
        [(HASH_SLOT_COUNT, I32, -7)],
        ["IDX-HDR-5"],
        ["ERR-4"],
    ),
    Mutation(
        "index_count_negative",
        "taken for 1: a file without entries",
        [(INDEX_COUNT, I32, -3)],
        ["IDX-HDR-7", "IDX-SEL-1"],
        ["ERR-9", "ERR-11"],
    ),
    Mutation(
        "surplus_bytes",
        "50 bytes beyond the geometry, not zero",
        [],
        ["IDX-LAY-4"],
        ["ERR-28"],
        appended=b"\xa5" * 50,
    ),
    Mutation(
        "entry_place_0_not_zero",
        "the place that is never used holds something",
        [(ENTRY[0] + KEY_HASH, I32, -1), (ENTRY[0] + PHY_OFFSET, I64, -1)],
        ["IDX-ENT-2"],
        ["ERR-1"],
    ),
    Mutation(
        "torn_first_put",
        "entry and slot of the first put are written, the header is not",
        [
            *((field, I64, 0) for field in range(0, 40, 8)),
            *((slot, I32, 0) for slot in SLOT[:4]),
            (SLOT[4], I32, 1),
        ],
        ["IDX-SEL-1", "IDX-ENT-8", "IDX-SLT-4", "IDX-SLT-6"],
        ["ERR-11"],
    ),
    Mutation(
        "torn_put",
        "entry 4 and its slot are written, the header still counts three",
        _UNFINISHED_PUT,
        ["IDX-SLT-4", "IDX-SLT-6", "IDX-ENT-8", "IDX-SEL-2", "IDX-PUT-5"],
        ["ERR-12"],
    ),
    Mutation(
        "torn_put_entry_lost",
        "the slot names entry 4, which never reached the disk; entry 1 is found by a scan",
        [*_UNFINISHED_PUT, *_LOST_ENTRY],
        ["IDX-SLT-4", "IDX-SLT-6", "IDX-LKP-3", "IDX-LKP-5"],
        ["ERR-12"],
    ),
    Mutation(
        "torn_put_of_a_repeated_key",
        "the slot names entry 7, which never reached the disk; a scan finds six, the newest first",
        [
            (INDEX_COUNT, I32, 7),
            (END_TIMESTAMP, I64, 1700000005005),
            (END_PHY_OFFSET, I64, 5500),
            *((40 + 4 * 8 + 20 * 7 + field, I32, 0) for field in range(0, 20, 4)),
        ],
        ["IDX-SLT-4", "IDX-SLT-6", "IDX-LKP-1", "IDX-LKP-3", "IDX-LKP-5"],
        ["ERR-12"],
        ask("TopicTest#CcAM69wo7M9HgV"),
        base="identical_keys",
        geometry=(8, 20),
    ),
    Mutation(
        "phantom_entry",
        "slot 0 names entry 2, which was never written and reads as hash 0, offset 0",
        [(SLOT[0], I32, 2)],
        ["IDX-SEL-2", "IDX-SLT-4", "IDX-SLT-6", "IDX-ENT-8"],
        ["ERR-12"],
        ask("", "polygenelubricants", "TopicTest#order-1"),
        base="one_put",
        geometry=(8, 20),
    ),
]

BROKEN = [
    Mutation("truncated_header", "39 bytes", [], ["IDX-LAY-5", "IDX-LAY-7"], ["ERR-28"], cut=39),
    Mutation(
        "truncated_entries",
        "cut in the middle of entry 4: it keeps its hash",
        [],
        ["IDX-LAY-5", "IDX-LAY-7"],
        ["ERR-28"],
        cut=144,
    ),
    Mutation(
        "index_count_beyond_geometry",
        "one more than the places there are",
        [(INDEX_COUNT, I32, 6)],
        ["IDX-HDR-8", "IDX-LIM-3"],
        ["ERR-16"],
    ),
    Mutation(
        "index_count_huge",
        "2147483647: nothing may be allocated for it",
        [(INDEX_COUNT, I32, INT32_MAX)],
        ["IDX-HDR-8", "IDX-LIM-3", "IDX-SEC-1"],
        ["ERR-16"],
    ),
    Mutation(
        "position_wraps",
        "214748365 * 20 is 4 in 32 bits",
        [(INDEX_COUNT, I32, INT32_MAX), (SLOT[0], I32, 214748365)],
        ["IDX-SEL-6", "IDX-HDR-8"],
        ["ERR-16"],
        ask(OURS, OTHER, ""),
    ),
    Mutation(
        "slot_negative",
        "the broker takes the slot for empty",
        [(SLOT[4], I32, -1)],
        ["IDX-SLT-3", "IDX-SLT-5", "IDX-PUT-2", "IDX-LKP-3"],
        ["ERR-3"],
    ),
    Mutation(
        "slot_beyond_index_count",
        "the broker takes the slot for empty",
        [(SLOT[4], I32, INT32_MAX)],
        ["IDX-SLT-3", "IDX-SLT-5", "IDX-LKP-3"],
        ["ERR-3"],
    ),
    Mutation(
        "slot_at_end",
        "slot 4 names place 5, as many as there are: no put leaves that in a full file",
        [(SLOT[4], I32, 5)],
        ["IDX-SLT-3", "IDX-SLT-4", "IDX-SEL-6"],
        ["ERR-16"],
    ),
    Mutation(
        "slot_emptied",
        "slot 4 is 0, though entries 1 and 4 are of it: only a scan finds them",
        [(SLOT[4], I32, 0)],
        ["IDX-SLT-2", *_SHORT_CHAIN],
        ["ERR-3"],
    ),
    Mutation(
        "chain_cut_short",
        "entry 4 links to nothing, though entry 1 is of its slot: only a scan finds entry 1",
        [(ENTRY[4] + PREV_POSITION, I32, 0)],
        _SHORT_CHAIN,
        ["ERR-3"],
    ),
    Mutation(
        "chain_passes_over",
        "entry 4 links to entry 1 and passes over entries 2 and 3: only a scan finds these",
        [(40 + 4 * 8 + 20 * 4 + PREV_POSITION, I32, 1)],
        _SHORT_CHAIN,
        ["ERR-3"],
        ask("TopicTest#CcAM69wo7M9HgV"),
        base="identical_keys",
        geometry=(8, 20),
    ),
    Mutation(
        "entry_of_other_slot",
        "slot 4 names entry 3, which belongs to slot 1",
        [(SLOT[4], I32, 3)],
        ["IDX-ENT-7", "IDX-LKP-3"],
        [],
    ),
    Mutation(
        "key_hash_negative",
        "entry 4",
        [(ENTRY[4] + KEY_HASH, I32, -5)],
        ["IDX-ENT-10", "IDX-ENT-11"],
        ["ERR-14"],
    ),
    Mutation(
        "time_diff_negative",
        "entry 4: the broker stops before testing it",
        [(ENTRY[4] + TIME_DIFF, I32, -1)],
        ["IDX-ENT-10", "IDX-ENT-11", "IDX-SEL-4"],
        ["ERR-14"],
    ),
    Mutation(
        "prev_position_negative",
        "entry 4",
        [(ENTRY[4] + PREV_POSITION, I32, -1)],
        ["IDX-ENT-10", "IDX-ENT-11", "IDX-SEL-4"],
        ["ERR-14"],
    ),
    Mutation(
        "prev_position_self",
        "entry 4 names itself",
        [(ENTRY[4] + PREV_POSITION, I32, 4)],
        ["IDX-ENT-12", "IDX-SEL-4"],
        ["ERR-14"],
    ),
    Mutation(
        "prev_position_newer",
        "entry 1 names entry 3",
        [(ENTRY[1] + PREV_POSITION, I32, 3)],
        ["IDX-ENT-10", "IDX-ENT-11"],
        ["ERR-14"],
    ),
    Mutation(
        "prev_position_beyond_index_count",
        "entry 4 names entry 1000",
        [(ENTRY[4] + PREV_POSITION, I32, 1000)],
        ["IDX-ENT-10", "IDX-ENT-11", "IDX-SEL-4"],
        ["ERR-14"],
    ),
    Mutation(
        "cycle_with_match",
        "entries 4 and 1 name each other",
        _LOOP,
        ["IDX-SEL-7", "IDX-ENT-10", "IDX-ENT-11", "IDX-LIM-4"],
        ["ERR-15"],
        [*ask(OURS, OTHER), (OTHER, 1, *ALWAYS)],
    ),
    Mutation(
        "cycle_without_match",
        "entries 4 and 1 name each other, and the key asked for is neither",
        _LOOP,
        ["IDX-SEL-7", "IDX-CON-3", "IDX-LIM-4", "IDX-SEC-1"],
        ["ERR-15"],
        ask(ABSENT),
    ),
    Mutation(
        "same_size_other_geometry",
        "the bytes of slots_16_num_32 in another geometry of the same size: a scan is content",
        [],
        ["IDX-GEO-1", "IDX-LOD-4", "IDX-ENT-7"],
        ["ERR-10"],
        ask("TopicTest#id0", "TopicTest#id1", "TopicTest#id30"),
        base="slots_16_num_32",
        geometry=(11, 33),
    ),
    Mutation(
        "time_beyond_i64",
        "begin_timestamp is so late that entries 2 to 4 overflow",
        [(BEGIN_TIMESTAMP, I64, 2**63 - 1000)],
        ["IDX-TIM-3", "IDX-TIM-4"],
        [],
        [(OURS, 64, *ALWAYS), (OTHER, 64, -(2**63), 2**63 - 1)],
    ),
]


def describe(mutation: Mutation, data: bytes, requirements: list[str]) -> dict[str, Any]:
    """Return the description of a changed file."""
    slots, places = mutation.geometry
    whole = 40 + 4 * slots + 20 * places
    file = oracle.File(slots, places, bytearray(data.ljust(whole, b"\0")))
    # A broker maps the size of the geometry and no more.
    mapped = oracle.File(slots, places, file.data[:whole])
    queries = mutation.queries or ask(*EXAMPLE_KEYS)
    return file_vector(
        file,
        note=mutation.note,
        source=f"mutation of accept/{mutation.base}; answers by the spec's steps",
        requirements=requirements,
        errata=mutation.errata,
        keys=[query[0] for query in queries],
        broker={"queries": broker_queries(mapped, queries)},
        size=len(data),
    )


def write_mutations(out: Vectors) -> None:
    """Write all of them; their bases are there already."""
    groups = (("accept", LEGAL, []), ("reject", BROKEN, ["IDX-CON-1", "IDX-CON-2"]))
    for group, mutations, always in groups:
        for mutation in mutations:
            base = (out.root / "accept" / f"{mutation.base}.bin").read_bytes()
            data = mutation.apply(base)
            requirements = [*mutation.requirements, *always]
            out.write(group, mutation.name, describe(mutation, data, requirements), data)
