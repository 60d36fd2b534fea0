"""What the vectors of the store's other files say of this package, beyond what the kit asks."""

from __future__ import annotations

import shutil
from datetime import UTC
from typing import TYPE_CHECKING, Any

import pytest

import spectext
from rmqindex import (
    CommitLog,
    GrpcMessageId,
    RemotingMessageId,
    decode_uniq_key,
    key_hashes,
)
from rmqindex.commitlog.files import OpenFiles, find_files
from rmqindex.commitlog.framing import frames_of
from rmqindex.commitlog.walk import end_at, record_crc_fault, walk

if TYPE_CHECKING:
    from pathlib import Path

MOST_RECORDS = 1024
#: Fields of a record that a column has under another name.
RENAMED = {"total_size": "size", "physical_offset": "phy_offset"}


def of_kind(kind: str) -> list[str]:
    """Return the names of the vectors of a kind."""
    return [name for name, vector in spectext.vectors().items() if vector["kind"] == kind]


def stored(name: str, folder: Path) -> Path:
    """Write the file of a log's vector into a folder of its own."""
    folder.mkdir(parents=True)
    file_name = spectext.vectors()[name].get("file_name", f"{0:020}")
    shutil.copy(spectext.VECTORS / f"{name}.bin", folder / file_name)
    return folder


@pytest.mark.parametrize("name", of_kind("commitlog"))
def test_the_walk_over_a_log_goes_and_ends_as_the_steps_do(name: str, tmp_path: Path) -> None:
    """The sound records, the end with its fault, and the records with a wrong CRC."""
    expected = spectext.vectors()[name]["outcomes"]["strict_reader"]
    (file,) = find_files(stored(name, tmp_path / "commitlog"), None)
    positions, crc_faults = [], []
    with OpenFiles((file,)).open_file(file) as source:
        frames = frames_of(file)
        for records in walk(source, file, frames, 0, file.size, MOST_RECORDS):
            for place, start in enumerate((records.phy_offset - file.start).tolist()):
                positions.append(start)
                fault = record_crc_fault(records, place)
                if fault is not None:
                    crc_faults.append({"position": start, "field": fault.field})
        end = end_at(source, file, frames, frames.at)
    told: dict[str, Any] = {"kind": end.kind.value, "position": end.position}
    if end.fault is not None:
        told["fault"] = {"field": end.fault.field, "byte": end.position + end.fault.byte}
    assert positions == expected["walk"]
    assert told == expected["end"]
    assert crc_faults == expected["crc_faults"]


@pytest.mark.parametrize("name", of_kind("commitlog"))
def test_a_lenient_reader_gives_the_sound_records_of_a_log(name: str, tmp_path: Path) -> None:
    """Each with its fields, whatever else the file holds."""
    records = spectext.vectors()[name]["records"]
    with CommitLog(stored(name, tmp_path / "commitlog")) as log:
        batches = list(log.scan(mode="DROPMALFORMED", decompress_body=False))
    rows = [row for batch in batches for row in batch.to_pylist()]
    # Behind the end of the walk it may find more.
    assert len(rows) >= len(records)
    for record, row in zip(records, rows, strict=False):
        for field, expected in record.items():
            if field in ("position", "all_properties", "store_host", "born_host"):
                continue
            found = row[RENAMED.get(field, field)]
            found = found.hex() if field == "body" else found
            assert (dict(found) if field == "properties" else found) == expected, field


def test_the_time_of_a_unique_key_lies_in_that_of_its_making() -> None:
    """Of the remoting client's keys, with a time near by that tells the month."""
    for case in spectext.vectors()["accept/unique_keys"]["unique_keys"]:
        near = case["created_after"]
        found = decode_uniq_key(case["id"], near=near, zone=UTC)
        assert isinstance(found, RemotingMessageId)
        assert found.timestamp is not None
        assert near <= found.timestamp <= case["created_before"]


def test_the_time_of_a_grpc_id_is_that_of_its_making() -> None:
    """Of the gRPC client's ids, to the second."""
    for case in spectext.vectors()["accept/grpc_ids"]["grpc_ids"]:
        found = decode_uniq_key(case["id"])
        assert isinstance(found, GrpcMessageId)
        assert -2000 < found.timestamp - case["created_after"] <= 1000


def test_the_records_of_dledgers_entries_are_found(tmp_path: Path) -> None:
    """Each entry's body is a record, behind a head of 48 bytes."""
    entries = spectext.vectors()["accept/dledger_entries"]["entries"]
    with CommitLog(stored("accept/dledger_entries", tmp_path / "dledger-n0" / "data")) as log:
        found = [offset for batch in log.scan() for offset in batch["phy_offset"].to_pylist()]
    assert found == [entry["pos"] + 48 for entry in entries if entry["magic"] == 1]


@pytest.mark.requirement("IDX-HSH-2", "IDX-HSH-3", "IDX-HSH-5")
def test_texts_that_are_hashed_at_once_are_hashed_alike() -> None:
    """The hashes of a column are those of its texts."""
    for name in of_kind("hashes"):
        cases = spectext.vectors()[name]["hashes"]
        found = key_hashes([case["key"] for case in cases]).tolist()
        assert found == [case["key_hash"] for case in cases]
