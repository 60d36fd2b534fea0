"""Records that a client puts into the body of a message are not taken for the log's."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from commitlog_encoder import Message
from rmqindex import CommitLog, CorruptCommitLogError
from rmqindex.commitlog.tailing import follow

if TYPE_CHECKING:
    from pathlib import Path

FILE_SIZE = 4096
MIB = 1024 * 1024
BODY_OFFSET = 88
TIME = 1_700_000_000_000


def message(body: bytes = b"one", topic: str = "Orders", later: int = 0) -> Message:
    """A message, stored so many milliseconds later than the first."""
    return Message(topic=topic, body=body, store_timestamp=TIME + later)


def blank(size: int) -> bytes:
    """The blank record of the last bytes of a file."""
    return size.to_bytes(4, "big") + b"\xcb\xd4\x31\x94"


def forged(at: int, before: int = 10, behind: bytes = b"y" * 10) -> tuple[bytes, int]:
    """A message for a place of the log, and where the record in its body starts."""
    inner_at = at + BODY_OFFSET + before
    inner = message(b"pay me", "Salary", 5).encode(inner_at)
    return message(b"x" * before + inner + behind, later=1).encode(at), inner_at


def claiming(at: int, stop: int) -> bytes:
    """What a client makes look like the head of a broken record that ends at a place.

    Its last four bytes are there: a topic of one character, and no properties.
    """
    head = message().encode(at)[: BODY_OFFSET - 4]
    sizes = (stop - at).to_bytes(4, "big") + bytes(4)
    return sizes + head[8:] + (stop - at - BODY_OFFSET - 4).to_bytes(4, "big")


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
        data += blank(FILE_SIZE - len(data))
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


def written_anew(folder: Path, size: int, *files: bytes) -> Path:
    """Write the files of a log."""
    folder.mkdir()
    for number, data in enumerate(files):
        (folder / f"{number * size:020}").write_bytes(data.ljust(size, b"\0"))
    return folder


@pytest.mark.parametrize("start", ["in_body", "before_it"])
def test_a_range_that_begins_in_a_body_has_no_record_of_it(tmp_path: Path, start: str) -> None:
    """In a sound log, nothing is damaged either."""
    path, offsets, inner_at = written(tmp_path / "commitlog")
    at = inner_at - (start == "before_it")
    with CommitLog(path.parent) as log:
        (table,) = (batch for batch in log.scan(at, offsets[3], columns=["phy_offset"]))
        assert table["phy_offset"].to_pylist() == [offsets[2]]


def test_a_file_is_full_where_its_last_body_ends_with_a_record(tmp_path: Path) -> None:
    """So the next file is the log's, and the hole at its beginning is damage."""
    record_size = len(forged(0, before=150)[0])
    first = message(b"f" * (FILE_SIZE - 8 - record_size - len(message(b"").encode(0)))).encode(0)
    last, _ = forged(len(first), before=150)
    hole = bytes(BODY_OFFSET) + message(b"next", later=9).encode(FILE_SIZE)[BODY_OFFSET:]
    folder = written_anew(tmp_path / "commitlog", FILE_SIZE, first + last + blank(8), hole)
    with CommitLog(folder) as log, pytest.raises(CorruptCommitLogError, match=f"{FILE_SIZE:020}"):
        list(log.scan())


def test_a_file_is_not_full_where_a_body_holds_a_record_and_a_blank_one(tmp_path: Path) -> None:
    """So what is in a file that was made ahead is no part of the log."""
    first = message(b"f" * 3_591).encode(0)
    _, inner_at = forged(len(first), before=150)
    inner_stop = inner_at + len(message(b"pay me", "Salary").encode(0))
    last, _ = forged(len(first), 150, blank(FILE_SIZE - inner_stop) + b"y" * 10)
    folder = written_anew(tmp_path / "commitlog", FILE_SIZE, first + last, b"of another file")
    assert read(folder) == ([0, len(first)], [])
    with CommitLog(folder) as log:
        assert log.max_offset == len(first) + len(last)


def crowded(folder: Path) -> tuple[Path, list[int], int]:
    """Write a sound log of long messages: its folder, its offsets, and one in the last body.

    Records are all over the bodies; behind each, what looks like a broken one leads to that.
    """
    size, step = 16 * MIB, 256 * 1024
    led_to = 13 * MIB + step // 2
    offsets: list[int] = []
    data = bytearray()
    while len(data) < 15 * MIB:
        at = len(data)
        offsets.append(at)
        body = bytearray(3 * MIB)
        for inner in range(BODY_OFFSET, len(body), step):
            whole = message(b"pay me", "Salary", 5).encode(at + inner)
            behind = at + inner + len(whole)
            whole += claiming(behind, led_to) if behind < led_to else b""
            body[inner - BODY_OFFSET : inner - BODY_OFFSET + len(whole)] = whole
        place = led_to - at - BODY_OFFSET
        if place < len(body):
            whole = b"\1T\0\0" + message(b"pay me", "Salary", 5).encode(led_to)
            body[place - 4 : place - 4 + len(whole)] = whole
        data += message(bytes(body), later=len(offsets)).encode(at)
    data += blank(size - len(data))
    behind = message(b"next", later=9).encode(size)
    return written_anew(folder, size, bytes(data), behind), offsets, led_to


def test_no_boundary_is_where_a_body_leads(tmp_path: Path) -> None:
    """What seems to be a broken record, behind one that a search found, tells no end."""
    folder, offsets, _ = crowded(tmp_path / "commitlog")
    with CommitLog(folder) as log:
        assert log.record_boundaries(log.files[0], 12 * MIB) == [0, offsets[-1]]


def test_the_last_record_that_was_taken_is_none_of_a_body(tmp_path: Path) -> None:
    """Whoever follows the log goes on behind that of the file before, which it need not read."""
    folder, offsets, _ = crowded(tmp_path / "commitlog")
    with CommitLog(folder) as log:
        progress = follow(log, 0, stop=16 * MIB)
        assert progress.end == 16 * MIB
        assert progress.last is not None
        assert progress.last.phy_offset == offsets[-1]
        assert progress.last.is_of(log, progress.end)


def test_a_broken_file_of_one_record_has_no_last_one(tmp_path: Path) -> None:
    """What is in its body is none."""
    broken, _ = forged(0)
    broken = broken[:4] + bytes(4) + broken[8:]
    data = broken + blank(FILE_SIZE - len(broken))
    behind = message(b"next", later=9).encode(FILE_SIZE)
    folder = written_anew(tmp_path / "commitlog", FILE_SIZE, data, behind)
    with CommitLog(folder) as log:
        assert follow(log, 0, stop=FILE_SIZE).last is None


def test_a_record_that_is_doubted_leads_over_no_other(tmp_path: Path) -> None:
    """What seems to be a broken record behind it would hide those of the log up to its end."""
    first = message().encode(0)
    inner_size = len(message(b"pay me", "Salary").encode(0))
    size = len(forged(0, behind=bytes(BODY_OFFSET))[0])
    offsets = [0, len(first), len(first) + size]
    third = message(b"three", later=6).encode(offsets[2])
    offsets.append(offsets[2] + len(third))
    _, inner_at = forged(offsets[1])
    led_to = offsets[3] + BODY_OFFSET + 4
    second, _ = forged(offsets[1], behind=claiming(inner_at + inner_size, led_to))
    fourth = message(b"\1T\0\0four", later=7).encode(offsets[3])
    offsets.append(offsets[3] + len(fourth))
    data = first + bytes(BODY_OFFSET) + second[BODY_OFFSET:] + third + fourth
    data += message(b"five", later=8).encode(offsets[4])
    found, told = read(written_anew(tmp_path / "commitlog", FILE_SIZE, data))
    assert found == [0, inner_at, *offsets[2:]]
    assert all("may be one that a client put into the body" in error.hint for error in told)
