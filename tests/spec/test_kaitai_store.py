"""Parsers generated from the definitions of the other chapters agree with what RocketMQ read.

They need Node.js with npm; without them these tests fail.
"""

from __future__ import annotations

import io
from typing import TYPE_CHECKING, Any

import pytest
from kaitaistruct import KaitaiStream

import spectext
from recorded import BROKER_VERSIONS, MESSAGE_KINDS
from rmqindex import CommitLog, ConsumeQueue, StoreCheckpoint

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path
    from types import ModuleType

pytestmark = pytest.mark.system

VECTORS = spectext.vectors()
LOGS = [
    name
    for name, vector in VECTORS.items()
    if name.startswith("accept/") and vector["kind"] in {"commitlog", "dispatch"}
]
QUEUES = [name for name, vector in VECTORS.items() if vector["kind"] == "consumequeue"]
CHECKPOINTS = [name for name, vector in VECTORS.items() if vector["kind"] == "checkpoint_file"]
STORES = [MESSAGE_KINDS / "store", *sorted(BROKER_VERSIONS.glob("*/store"))]
STORE_NAMES = [store.parent.name for store in STORES]
NUMBERS = (
    "body_crc",
    "queue_id",
    "flag",
    "queue_offset",
    "physical_offset",
    "sys_flag",
    "born_timestamp",
    "store_timestamp",
    "reconsume_times",
    "prepared_transaction_offset",
)


@pytest.fixture(scope="session")
def commitlog(compiled: Callable[[str], ModuleType]) -> ModuleType:
    """The parser of CommitLog files."""
    return compiled("commitlog")


@pytest.fixture(scope="session")
def consumequeue(compiled: Callable[[str], ModuleType]) -> ModuleType:
    """The parser of ConsumeQueue files."""
    return compiled("consumequeue")


@pytest.fixture(scope="session")
def checkpoint(compiled: Callable[[str], ModuleType]) -> ModuleType:
    """The parser of checkpoints."""
    return compiled("checkpoint")


def messages(commitlog: ModuleType, data: bytes) -> list[Any]:
    """Return the records of a file up to the first place without one."""
    parsed = commitlog.Commitlog(KaitaiStream(io.BytesIO(data)))
    return [record for record in parsed.records if record.is_message]


def host(parsed: Any) -> str:
    """Return a host as the vectors write it."""
    return f"{parsed.address.hex()}:{parsed.port}"


@pytest.mark.parametrize("name", LOGS)
@pytest.mark.requirement("LOG-REC-1", "LOG-REC-2", "LOG-REC-3", "LOG-REC-4")
def test_the_generated_parser_reads_the_records_of_every_vector(
    commitlog: ModuleType, name: str
) -> None:
    """Every field of every record is that of the vector."""
    vector = VECTORS[name]
    found = messages(commitlog, (spectext.VECTORS / f"{name}.bin").read_bytes())
    if vector["kind"] == "dispatch":
        assert [one.message.store_timestamp for one in found] == [
            one["store_timestamp"] for one in vector["messages"]
        ]
        return
    assert len(found) == len(vector["records"])
    for one, record in zip(found, vector["records"], strict=True):
        assert one.total_size == record["total_size"]
        assert {name: getattr(one.message, name) for name in NUMBERS} == {
            name: record[name] for name in NUMBERS
        }
        assert host(one.message.born_host) == record["born_host"]
        assert host(one.message.store_host) == record["store_host"]
        assert one.message.body.hex() == record["body"]
        assert one.message.topic == record["topic"]


@pytest.mark.parametrize("store", STORES, ids=STORE_NAMES)
def test_the_generated_parser_agrees_on_every_message_of_a_store(
    commitlog: ModuleType, store: Path
) -> None:
    """Both read the same offsets, sizes, topics and times of each file."""
    with CommitLog(store) as log:
        columns = ["phy_offset", "size", "topic", "store_timestamp", "queue_offset"]
        rows = [row for batch in log.scan(columns=columns) for row in batch.to_pylist()]
    theirs = [
        one
        for path in sorted((store / "commitlog").iterdir())
        for one in messages(commitlog, path.read_bytes())
    ]
    assert rows == [
        {
            "phy_offset": one.message.physical_offset,
            "size": one.total_size,
            "topic": one.message.topic,
            "store_timestamp": one.message.store_timestamp,
            "queue_offset": one.message.queue_offset,
        }
        for one in theirs
    ]


@pytest.mark.parametrize("name", QUEUES)
@pytest.mark.requirement("CQ-UNT-1", "CQ-UNT-2", "CQ-UNT-3", "CQ-BAT-1", "CQ-BAT-2")
def test_the_generated_parser_reads_the_units_of_every_vector(
    consumequeue: ModuleType, name: str
) -> None:
    """Up to the first place without one, each is that of the vector."""
    vector = VECTORS[name]
    found = []
    for file in sorted(vector["reader"]["files"], key=lambda each: each["name"]):
        stream = KaitaiStream(io.BytesIO(bytes.fromhex(file["hex"])))
        parsed = consumequeue.Consumequeue(vector["is_batch"], stream)
        for unit in parsed.units:
            if not unit.is_written or (vector["is_batch"] and not unit.batch.is_written):
                break
            found.append(unit)
    assert sum(unit.is_blank for unit in found) == vector["reader"]["blank_units"]
    real = [unit for unit in found if not unit.is_blank]
    for unit, expected in zip(real, vector["reader"]["units"], strict=True):
        for field, value in expected.items():
            if field != "queue_offset":
                part = unit if hasattr(unit, field) else unit.batch
                assert getattr(part, field) == value


@pytest.mark.parametrize("store", STORES, ids=STORE_NAMES)
def test_the_generated_parser_agrees_on_every_queue_of_a_store(
    consumequeue: ModuleType, store: Path
) -> None:
    """Both read the same offsets, sizes and codes of each queue."""
    for queue in ConsumeQueue.find(store):
        theirs = []
        for file in queue.files:
            data = (store.joinpath(str(file.path))).read_bytes()
            parsed = consumequeue.Consumequeue(queue.is_batch, KaitaiStream(io.BytesIO(data)))
            theirs += [unit for unit in parsed.units if unit.is_written and not unit.is_blank]
        rows = [row for batch in queue.scan() for row in batch.to_pylist()]
        assert [(row["phy_offset"], row["size"], row["tags_code"]) for row in rows] == [
            (unit.phy_offset, unit.size, unit.tags_code) for unit in theirs
        ]


@pytest.mark.parametrize("name", CHECKPOINTS)
@pytest.mark.requirement("CHK-FLD-1")
def test_the_generated_parser_reads_the_fields_of_every_checkpoint(
    checkpoint: ModuleType, name: str
) -> None:
    """They are those that RocketMQ 5.5.1 read and wrote."""
    data = (spectext.VECTORS / f"{name}.bin").read_bytes()
    parsed = checkpoint.Checkpoint(KaitaiStream(io.BytesIO(data)))
    fields = dict(VECTORS[name]["editions"]["5.5"]["fields"])
    del fields["min_timestamp"], fields["min_timestamp_index"]
    assert {field: getattr(parsed, field) for field in fields} == fields
    assert StoreCheckpoint.from_bytes(data).physic_msg_timestamp == parsed.physic_msg_timestamp
