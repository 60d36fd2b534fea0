"""The columns ``body`` and ``body_text`` of a CommitLog."""

from __future__ import annotations

import struct
import zlib

import pytest

from commitlog_encoder import Message
from recorded import MESSAGE_KINDS
from rmqindex import COMMITLOG_SCHEMA, CommitLog, RmqIndexError, inner_messages, sample_store
from rmqindex.commitlog import bodies as bodies_module

COMPRESSED, INNER = 0x001, 0x40 | 0x80
TEXT = "Übergröße " * 50
MEMBER = struct.pack(">iiiii", 30, 0, 0, 0, 1) + b"m" + struct.pack(">h", 7) + b"KEYS\x01k\x02"


def log_of(folder, *messages):
    """Write a log, and return it with the offsets of its messages."""
    at, records, offsets = 0, [], []
    for message in messages:
        offsets.append(at)
        records.append(message.encode(at))
        at += len(records[-1])
    (folder / f"{0:020d}").write_bytes(b"".join(records))
    return CommitLog(folder), offsets


def packed(body, **fields):
    """Return a message whose body is compressed."""
    return Message(body=zlib.compress(body), sys_flag=COMPRESSED, **fields)


def column(log, name, **options):
    """Return a column of all messages, by a scan and the same by their offsets."""
    offsets = [offset for batch in log.scan(columns=["phy_offset"]) for offset in batch[0]]
    scanned = [value for batch in log.scan(columns=[name], **options) for value in batch[0]]
    read = log.read_at([offset.as_py() for offset in offsets], [name], **options)
    assert read.schema.names == ["state", name]
    assert [value.as_py() for value in scanned] == read.column(name).to_pylist()
    return read.column(name).to_pylist()


def test_bodies_are_unpacked_unless_the_stored_bytes_are_asked_for(tmp_path):
    """Only a compressed body differs."""
    log, _ = log_of(tmp_path, packed(TEXT.encode()), Message(body=b"plain"))
    assert column(log, "body") == [TEXT.encode(), b"plain"]
    stored = [zlib.compress(TEXT.encode()), b"plain"]
    assert column(log, "body", decompress_body=False) == stored


def test_the_text_is_null_where_a_body_is_not_text(tmp_path):
    """Bytes that are not UTF-8, and inner batches, which hold messages; empty bodies are texts."""
    log, _ = log_of(
        tmp_path,
        packed(TEXT.encode()),
        Message(body=b"\xff\xfe"),
        Message(body=b""),
        Message(body=MEMBER, sys_flag=INNER),
    )
    assert column(log, "body_text") == [TEXT, None, "", None]
    assert column(log, "body_text", decompress_body=False) == [TEXT, None, "", None]


def test_the_columns_come_in_the_order_asked_for(tmp_path):
    """What bodies are made of is not among them."""
    log, _ = log_of(tmp_path, packed(b"a"))
    (batch,) = log.scan(columns=["body_text", "topic", "body"])
    assert batch.schema.names == ["body_text", "topic", "body"]
    (batch,) = log.scan()
    assert batch.schema.equals(COMMITLOG_SCHEMA)
    with pytest.raises(ValueError, match="expected each once"):
        log.scan(columns=["body_text", "body_text"])
    with pytest.raises(ValueError, match="max_body_size: expected at least 1, got 0"):
        log.scan(columns=["body"], max_body_size=0)


def test_a_body_that_does_not_unpack_is_an_error_that_names_it(tmp_path):
    """File, offset, codec and ways out; null in the mode DROPMALFORMED; as stored if asked."""
    bad = Message(body=b"not zlib", sys_flag=COMPRESSED)
    log, (_, offset) = log_of(tmp_path, packed(b"a"), bad)
    with pytest.raises(RmqIndexError) as scanned:
        column(log, "body")
    with pytest.raises(RmqIndexError) as read:
        log.read_at([0, offset], ["body_text"])
    for part in (
        f"{tmp_path}/{0:020d}: message at offset {offset}: body: expected zlib data",
        f"The record begins at byte {offset}",
        "mode='DROPMALFORMED'",
        "decompress_body=False",
        "max_body_size",
    ):
        assert part in str(scanned.value)
        assert part in str(read.value)
    assert column(log, "body", mode="DROPMALFORMED") == [b"a", None]
    assert column(log, "body_text", mode="DROPMALFORMED") == ["a", None]
    assert column(log, "body", decompress_body=False) == [zlib.compress(b"a"), b"not zlib"]
    with pytest.raises(ValueError, match="mode: expected one of FAILFAST, DROPMALFORMED"):
        log.read_at([0], ["body"], mode="PERMISSIVE")


def test_a_body_beyond_the_limit_is_malformed(tmp_path):
    """The limit is of what it unpacks to, and itself allowed."""
    log, _ = log_of(tmp_path, packed(bytes(1000)))
    assert column(log, "body", max_body_size=1000) == [bytes(1000)]
    with pytest.raises(RmqIndexError, match="expected at most 999 bytes after unpacking zlib data"):
        column(log, "body", max_body_size=999)
    assert column(log, "body", max_body_size=999, mode="DROPMALFORMED") == [None]


def test_large_bodies_come_in_smaller_batches(tmp_path, monkeypatch):
    """In their order; a scan holds a bounded number of unpacked bytes at a time."""
    monkeypatch.setattr(bodies_module, "_MAX_UNPACKED", 2500)
    sizes = [1000, 10, 4000, 1000, 1000, 1000]
    log, _ = log_of(tmp_path, *(packed(bytes(size)) for size in sizes))
    batches = [[len(body.as_py()) for body in batch[0]] for batch in log.scan(columns=["body"])]
    assert [size for batch in batches for size in batch] == sizes
    assert all(len(batch) == 1 or sum(batch) <= 2500 for batch in batches)


def test_no_body_is_unpacked_that_is_not_asked_for(monkeypatch):
    """Rebuilds, audits and listings read other columns, and need no body to be sound."""

    def refuse(*_args, **_options):
        raise AssertionError("a body was unpacked")

    monkeypatch.setattr(bodies_module, "decompress_bodies", refuse)
    with CommitLog(sample_store()) as log:
        others = [name for name in COMMITLOG_SCHEMA.names if name != "body"]
        assert sum(batch.num_rows for batch in log.scan(columns=others)) == 430
        assert log.read_at([0], others).num_rows == 1
        with pytest.raises(AssertionError, match="a body was unpacked"):
            list(log.scan(columns=["body"]))


def test_members_are_taken_out_of_a_body_that_was_unpacked(tmp_path):
    """Its flags still say that it is stored compressed."""
    log, _ = log_of(tmp_path, Message(body=zlib.compress(MEMBER), sys_flag=COMPRESSED | INNER))
    (row,) = next(log.scan(columns=["body", "sys_flag"])).to_pylist()
    (member,) = inner_messages(row["body"], row["sys_flag"], decompress=False)
    assert (member.body, member.property("KEYS")) == (b"m", "k")


@pytest.mark.parametrize("compressed", [False, True])
def test_a_body_whose_crc_is_wrong_is_an_error_that_names_it(tmp_path, compressed):
    """File, offset and ways out; null in the mode DROPMALFORMED; as stored if asked."""
    body = zlib.compress(b"text") if compressed else b"text"
    flags = COMPRESSED if compressed else 0
    bad = Message(body=body, body_crc=5, sys_flag=flags)
    log, (_, offset, _) = log_of(tmp_path, Message(body=b"a"), bad, Message(body=b"", body_crc=5))
    for name in ("body", "body_text"):
        with pytest.raises(RmqIndexError) as scanned:
            column(log, name)
        with pytest.raises(RmqIndexError) as read:
            log.read_at([0, offset], [name])
        for part in (
            f"{tmp_path}/{0:020d}: message at offset {offset}: body: expected the CRC-32 5 of its",
            "mode='DROPMALFORMED'",
            "decompress_body=False",
        ):
            assert part in str(scanned.value)
            assert part in str(read.value)
    assert column(log, "body", mode="DROPMALFORMED") == [b"a", None, b""]
    assert column(log, "body_text", mode="DROPMALFORMED") == ["a", None, ""]
    assert column(log, "body", decompress_body=False) == [b"a", body, b""]
    assert column(log, "topic") == ["TopicTest"] * 3
    states = log.read_at([0, offset], ["body"], check_crc=True)["state"].to_pylist()
    assert states == ["record", "bad_crc"]


def test_sound_bodies_have_the_crcs_of_their_records():
    """Those of every kind of message that RocketMQ wrote."""
    for store in (sample_store(), MESSAGE_KINDS / "store"):
        with CommitLog(store) as log:
            for batch in log.scan(columns=["body"]):
                assert batch.column("body").null_count == 0
