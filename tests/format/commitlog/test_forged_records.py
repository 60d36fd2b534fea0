"""Records that a client puts into the body of a message are not taken for the log's."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from commitlog_encoder import Message
from rmqindex import CommitLog, CorruptCommitLogError

if TYPE_CHECKING:
    from pathlib import Path

FILE_SIZE = 4096
MIB = 1024 * 1024
BODY_OFFSET = 88
TIME = 1_700_000_000_000


def message(body: bytes = b"one", topic: str = "Orders", later: int = 0) -> Message:
    """A message, stored so many milliseconds later than the first."""
    return Message(topic=topic, body=body, store_timestamp=TIME + later)


def forged(at: int) -> tuple[bytes, int]:
    """A message for a place of the log, and where the record in its body starts."""
    inner_at = at + BODY_OFFSET + 10
    inner = message(b"pay me", "Salary", 5).encode(inner_at)
    return message(b"x" * 10 + inner + b"y" * 10, later=1).encode(at), inner_at


def written(folder: Path, *, goes_on: bool = True) -> tuple[Path, list[int], int]:
    """Write a log with such a message: its file, its offsets, and that of the record in the body.

    With ``goes_on`` a record stands behind the message, and another file behind that.
    """
    folder.mkdir()
    first = message().encode(0)
    outer, inner_at = forged(len(first))
    offsets, data = [0, len(first)], first + outer
    if goes_on:
        offsets += [len(data), FILE_SIZE]
        data += message(b"three", later=2).encode(len(data))
        data += (FILE_SIZE - len(data)).to_bytes(4, "big") + b"\xcb\xd4\x31\x94"
        second = message(later=9).encode(FILE_SIZE)
        (folder / f"{FILE_SIZE:020}").write_bytes(second.ljust(FILE_SIZE, b"\0"))
    path = folder / f"{0:020}"
    path.write_bytes(data.ljust(FILE_SIZE, b"\0"))
    return path, offsets, inner_at


def change(path: Path, at: int, data: bytes) -> None:
    """Change bytes of a file."""
    whole = path.read_bytes()
    path.write_bytes(whole[:at] + data + whole[at + len(data) :])


def read(folder: Path) -> tuple[list[int], list[CorruptCommitLogError]]:
    """Return the offsets that a lenient scan gives, and what it tells."""
    told: list[CorruptCommitLogError] = []
    with CommitLog(folder) as log:
        batches = log.scan(columns=["phy_offset"], mode="DROPMALFORMED", on_malformed=told.append)
        return [at for batch in batches for at in batch["phy_offset"].to_pylist()], told


@pytest.mark.requirement("LOG-WLK-5", "LOG-SEC-1")
@pytest.mark.parametrize("goes_on", [True, False])
@pytest.mark.parametrize(
    ("field", "place", "data"),
    [
        ("magic_code", 4, bytes(4)),
        ("physical_offset", 28, b"\1" * 8),
        ("total_size", 0, (77_777).to_bytes(4, "big")),
        ("body_length", 84, (77_777).to_bytes(4, "big")),
    ],
)
def test_a_record_in_the_body_of_a_broken_one_is_not_given(
    tmp_path: Path, field: str, place: int, data: bytes, *, goes_on: bool
) -> None:
    """Its fields, or the record behind it, tell where the broken one ends."""
    path, offsets, inner_at = written(tmp_path / "commitlog", goes_on=goes_on)
    change(path, offsets[1] + place, data)
    if not goes_on and field in ("total_size", "body_length"):
        # Nothing tells where it ends: what is in it is given, and doubted.
        found, told = read(path.parent)
        assert found == [0, inner_at]
        assert f"the record at byte {inner_at}, with which reading goes on" in str(told[0])
        return
    found, told = read(path.parent)
    assert found == [offsets[0], *offsets[2:]]
    assert [error.field for error in told] == ([field] if goes_on else [])
    assert "with which reading goes on" not in "".join(map(str, told))


@pytest.mark.requirement("LOG-WLK-6")
def test_the_record_with_which_reading_goes_on_behind_a_hole_is_doubted(tmp_path: Path) -> None:
    """The head of the message is gone, and with it what it said of its end."""
    path, offsets, inner_at = written(tmp_path / "commitlog")
    change(path, offsets[1], bytes(BODY_OFFSET))
    found, told = read(path.parent)
    assert inner_at in found
    assert f"the record at byte {inner_at}, with which reading goes on" in str(told[0])
    with CommitLog(path.parent) as log, pytest.raises(CorruptCommitLogError) as refused:
        list(log.scan())
    assert "goes on" not in str(refused.value)


@pytest.mark.parametrize("chunk_size", [100, 150, 205, 230])
def test_no_boundary_lies_in_a_body(tmp_path: Path, chunk_size: int) -> None:
    """A sound log is read in parts, whatever is in its bodies."""
    path, offsets, _ = written(tmp_path / "commitlog")
    with CommitLog(path.parent) as log:
        boundaries = log.record_boundaries(log.files[0], chunk_size)
        assert set(boundaries) <= set(offsets)
        ends = [*boundaries[1:], log.files[0].stop]
        found = [
            at
            for start, stop in zip(boundaries, ends, strict=True)
            for batch in log.scan(start, stop, columns=["phy_offset"], at_boundaries=True)
            for at in batch["phy_offset"].to_pylist()
        ]
    assert found == offsets[:-1]


def test_a_boundary_far_from_the_last_one_is_believed_only_behind_records(tmp_path: Path) -> None:
    """Records lead to it over more bytes than a body has, which may be full of records."""
    size, body = 32 * MIB, 3 * MIB
    data, offsets = b"", []
    while len(data) + body + 1024 < size:
        offsets.append(len(data))
        at = len(data) + BODY_OFFSET
        copies: list[bytes] = []
        while sum(map(len, copies)) < body - 70_000:
            copies.append(message(b"z" * 65_536).encode(at + sum(map(len, copies))))
        data += message(b"".join(copies)).encode(len(data))
    data += (size - len(data)).to_bytes(4, "big") + b"\xcb\xd4\x31\x94"
    folder = tmp_path / "commitlog"
    folder.mkdir()
    (folder / f"{0:020}").write_bytes(data.ljust(size, b"\0"))
    (folder / f"{size:020}").write_bytes(message().encode(size).ljust(size, b"\0"))
    with CommitLog(folder) as log:
        boundaries = log.record_boundaries(log.files[0], 12 * MIB)
    assert len(boundaries) == 3
    assert set(boundaries) <= set(offsets)
