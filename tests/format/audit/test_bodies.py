"""The audit of bodies, which are read only if they are asked for."""

from __future__ import annotations

import shutil
import struct
import zlib

import pytest

import rmqindex
from commitlog_encoder import Log, Message, properties_text
from other_broker import running_broker
from recorded import MESSAGE_KINDS
from rmqindex import CommitLog, RmqIndexError, verify
from rmqindex.audit.plan import run_body_audit


@pytest.fixture
def damaged(tmp_path):
    """The sample store with a changed byte in the body of a message, and where that begins."""
    store = shutil.copytree(rmqindex.sample_store(), tmp_path / "store")
    with CommitLog(store) as log:
        (batch, *_) = log.scan(columns=["phy_offset"])
    offset = batch["phy_offset"][40].as_py()
    path = store / "commitlog" / f"{0:020d}"
    data = bytearray(path.read_bytes())
    data[offset + 88] ^= 1
    path.write_bytes(data)
    return store, offset


def test_a_damaged_body_is_an_error_if_bodies_are_read(damaged):
    """With its file, the byte of its CRC, and its message's offset."""
    store, offset = damaged
    quick = verify(store, "auto").to_pylist()
    assert not [row for row in quick if row["severity"] == "error"]
    (row,) = (
        row for row in verify(store, "auto", bodies=True).to_pylist() if row["severity"] == "error"
    )
    assert (row["rule"], row["byte"]) == ("body_crc", offset + 8)
    assert row["file"].endswith(f"{0:020d}")
    assert row["expected"].endswith(f"(message at {offset})")


def test_sound_bodies_have_no_findings():
    """Those that RocketMQ wrote; without a log there are none to read."""
    store = rmqindex.sample_store()
    assert verify(store, "auto", bodies=True).equals(verify(store, "auto"))
    assert verify(store, None, bodies=True).equals(verify(store, None))


def test_only_as_many_are_listed_as_are_asked_for(tmp_path):
    """And the number of the rest; files of older messages are left out."""
    log = Log(4096)
    for number in range(60):
        log.append(Message(body=b"body", body_crc=5, store_timestamp=10**12 + number * 10**9))
    log.write_to(tmp_path)
    with CommitLog(tmp_path) as opened:
        rows = run_body_audit(opened, 3).to_pylist()
        assert {row["rule"] for row in rows} == {"body_crc"}
        count = sum(int(row["got"].split()[0]) for row in rows if "findings" in row["got"])
        assert count == 60
        late = run_body_audit(opened, 100, since=10**12 + 59 * 10**9).to_pylist()
        assert {row["file"] for row in late} == {str(opened.files[-1].path)}


def test_a_message_that_is_being_written_is_not_judged(tmp_path):
    """Its body may come after its size; once nobody writes, its CRC is wrong."""
    log = Log(4096)
    log.append(Message(store_timestamp=1))
    log.append(Message(body=b"torn", body_crc=5, store_timestamp=2))
    folder = log.write_to(tmp_path / "commitlog")
    with running_broker(tmp_path), CommitLog(folder) as opened:
        assert not run_body_audit(opened, 9).num_rows
    with CommitLog(folder) as opened:
        assert run_body_audit(opened, 9).num_rows == 1


def test_the_command_reads_bodies_if_it_is_told_to(damaged, run):
    """And needs a log for it."""
    store, offset = damaged
    assert run("verify", store)[0] == 0
    code, out, _ = run("verify", store, "--bodies", "--csv")
    assert (code, f"(message at {offset})" in out) == (1, True)
    code, _, err = run("verify", store, "--bodies", "--commit-log", "none")
    assert (code, "--bodies" in err) == (2, True)


@pytest.mark.parametrize("kind", range(4), ids=["zlib", "LZ4", "Zstandard", "zlib, named"])
def test_a_body_that_does_not_unpack_is_told(tmp_path, kind):
    """Its producer may have sent it so, or a flag was damaged, which no CRC covers."""
    log = Log(4096)
    log.append(Message(body=zlib.compress(b"body"), sys_flag=1))
    log.append(Message(body=b"body", sys_flag=1 | kind << 8))
    log.append(Message(body=b"", sys_flag=1))
    log.write_to(tmp_path)
    with CommitLog(tmp_path) as opened:
        (row,) = run_body_audit(opened, 9).to_pylist()
        with pytest.raises(RmqIndexError, match="body: expected"):
            opened.read_at([log.offsets[1]])["body"]
    assert (row["rule"], row["severity"]) == ("body_packed", "info")
    assert row["byte"] == log.offsets[1] + 88
    assert row["expected"] == f"a body that unpacks (message at {log.offsets[1]})"


def member(body):
    """Return a message of an inner batch as it is in the batch's body."""
    return struct.pack(">iiiii", 22 + len(body), 0, 0, 0, len(body)) + body + bytes(2)


@pytest.mark.parametrize(
    ("number", "members", "got"),
    [
        ("2", 2, None),
        ("3", 2, "2, and INNER_NUM '3'"),
        ("x", 2, "2, and INNER_NUM 'x'"),
        (None, 1, "1, and INNER_NUM absent"),
        ("2", 0, "0, and INNER_NUM '2'"),
    ],
)
def test_an_inner_batch_has_as_many_messages_as_its_property_says(tmp_path, number, members, got):
    """Queues count them by the property; also in a compressed body."""
    text = properties_text([] if number is None else [("INNER_NUM", number), ("INNER_BASE", "0")])
    body = member(b"body") * members
    log = Log(4096)
    log.append(Message(body=b"other"))
    log.append(Message(body=body, sys_flag=0xC0, properties=text))
    log.append(Message(body=zlib.compress(body), sys_flag=0xC1, properties=text))
    log.write_to(tmp_path)
    with CommitLog(tmp_path) as opened:
        rows = run_body_audit(opened, 9).to_pylist()
    assert {row["rule"] for row in rows} <= {"inner_number"}
    assert [row["got"] for row in rows] == ([] if got is None else [got] * 2)
    for row, offset in zip(rows, log.offsets[1:], strict=False):
        assert row["expected"].endswith(f"(message at {offset})")


def test_an_inner_batch_whose_body_is_no_messages_is_an_error(tmp_path):
    """The broker would hand it out, and no client could read it."""
    log = Log(4096)
    text = properties_text([("INNER_NUM", "1"), ("INNER_BASE", "0")])
    log.append(Message(body=b"no message", sys_flag=0xC0, properties=text))
    log.write_to(tmp_path)
    with CommitLog(tmp_path) as opened:
        (row,) = run_body_audit(opened, 9).to_pylist()
    assert row["rule"] == "inner_number"
    assert "expected a head of 20 bytes" in row["got"]


def test_inner_batches_that_a_broker_wrote_have_no_findings():
    """Of every kind of messages."""
    with CommitLog(MESSAGE_KINDS / "store") as opened:
        assert not run_body_audit(opened, 9).num_rows
