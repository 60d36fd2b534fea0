"""Bodies that unpack to more than a task may hold: one at a time, or refused."""

from __future__ import annotations

import struct
import zlib

import numpy as np
import pyarrow as pa
import pytest

from commitlog_encoder import Message
from pyspark_rmqindex.messages import columns as columns_module
from pyspark_rmqindex.messages.columns import MessageColumns, ensure_fits, log_columns
from pyspark_rmqindex.options import message_options, read_options
from rmqindex import CommitLog, RmqIndexError
from rmqindex.commitlog import in_halves
from rmqindex.record import UnpackedSizeError

KEYS = pa.list_(pa.string())
COMPRESSED, INNER = 0x001, 0x40 | 0x80
KIB = 1024


def log_of(folder, *messages):
    """Write a log, and return it with the offsets of its messages."""
    at, records, offsets = 0, [], []
    for message in messages:
        offsets.append(at)
        records.append(message.encode(at))
        at += len(records[-1])
    (folder / f"{0:020d}").write_bytes(b"".join(records))
    return CommitLog(folder), offsets


def bomb(size):
    """Return a message whose body is so many zeros, packed."""
    return Message(body=zlib.compress(bytes(size)), sys_flag=COMPRESSED)


def bodies_of(log, **options):
    """Return the bodies of all messages, by batches."""
    (batch,) = log.scan(columns=log_columns(["body"]), decompress_body=False)

    def build(part):
        messages = MessageColumns(log, part, **({"mode": "FAILFAST", "decompress": True} | options))
        return pa.record_batch([messages.column("body", pa.binary())], names=["body"])

    return [part["body"].to_pylist() for part in in_halves(batch, build)]


def test_large_bodies_come_in_smaller_batches(tmp_path, monkeypatch):
    """In their order, and each once; what a batch holds is bounded."""
    monkeypatch.setattr(columns_module, "_MAX_UNPACKED", 250 * KIB)
    sizes = [n * KIB for n in (100, 1, 400, 1, 100, 100, 100)]
    log, _ = log_of(tmp_path, *map(bomb, sizes))
    with log:
        batches = bodies_of(log)
    assert [len(body) for bodies in batches for body in bodies] == sizes
    for bodies in batches:
        assert len(bodies) == 1 or sum(map(len, bodies)) <= 250 * KIB
    assert len(batches) > 2


def test_a_bomb_is_an_error_with_file_byte_and_ways_out(tmp_path):
    """Or null, in the mode DROPMALFORMED."""
    log, (_, offset, _) = log_of(tmp_path, bomb(10), bomb(2000), bomb(20))
    with log:
        with pytest.raises(RmqIndexError) as error:
            bodies_of(log, max_body_size=1999)
        dropped = bodies_of(log, max_body_size=1999, mode="DROPMALFORMED")
    for part in (
        f"{tmp_path}/{0:020d}: message at offset {offset}: body: expected at most 1999 bytes",
        f"The record begins at byte {offset}",
        "mode=DROPMALFORMED",
        "decompressBody=false",
        "maxBodySize",
    ):
        assert part in str(error.value)
    assert dropped == [[bytes(10), None, bytes(20)]]


def test_a_bad_inner_batch_is_an_error_with_file_byte_and_ways_out(tmp_path):
    """Or has no members, in the mode DROPMALFORMED: one batch need not fail a whole query."""
    sound = struct.pack(">iiiii", 29, 0, 0, 0, 0) + struct.pack(">h", 7) + b"KEYS\x01k\x02"
    log, (_, offset) = log_of(
        tmp_path, Message(body=sound, sys_flag=INNER), Message(body=b"x", sys_flag=INNER)
    )
    columns = log_columns(["member_keys"])
    with log:
        (batch,) = log.scan(columns=columns)
        with pytest.raises(RmqIndexError) as error:
            _ = MessageColumns(log, batch, mode="FAILFAST").column("member_keys", KEYS)
        keys = MessageColumns(log, batch, mode="DROPMALFORMED").column("member_keys", KEYS)
    for part in (
        f"{tmp_path}/{0:020d}: message at offset {offset}: inner batch: message at byte 0",
        f"The record begins at byte {offset}",
        "mode=DROPMALFORMED",
    ):
        assert part in str(error.value)
    assert keys.to_pylist() == [["k"], []]


def test_the_limit_holds_for_inner_batches(tmp_path):
    """They are unpacked to find the keys of their messages."""
    inner = struct.pack(">iiiii", 22 + 5000, 0, 0, 0, 5000) + bytes(5000) + struct.pack(">h", 0)
    message = Message(body=zlib.compress(inner), sys_flag=INNER | COMPRESSED)
    log, _ = log_of(tmp_path, message)
    with log:
        (batch,) = log.scan(columns=log_columns(["member_keys"]))
        with pytest.raises(RmqIndexError, match="body: expected at most 1000 bytes"):
            _ = MessageColumns(log, batch, mode="FAILFAST", max_body_size=1000).column(
                "member_keys", KEYS
            )
        keys = MessageColumns(log, batch, mode="FAILFAST").column("member_keys", KEYS)
        assert keys.to_pylist() == [[]]


def test_a_body_is_not_repeated_without_end(monkeypatch):
    """Many entries can be of one message, as of one that a crafted index names a thousand times."""
    monkeypatch.setattr(columns_module, "_MAX_UNPACKED", 3000)
    bodies = pa.array([bytes(1000), None], pa.binary())
    ensure_fits(bodies, np.array([0, 0, 0, -1, 1]))
    ensure_fits(pa.array([bytes(9000)], pa.binary()), np.array([0]))
    with pytest.raises(UnpackedSizeError):
        ensure_fits(bodies, np.array([0, 0, 0, 0]))


@pytest.mark.parametrize(
    ("text", "size"), [(None, 64 << 20), ("128m", 128 << 20), ("2147483647", 2**31 - 1)]
)
def test_the_option_names_the_largest_body(text, size):
    """For entries with their messages and for messages alone."""
    raw = {"path": "x"} | ({"maxBodySize": text} if text else {})
    assert message_options(raw).max_body_size == size
    assert read_options(raw).max_body_size == size


@pytest.mark.parametrize("text", ["0", "2g", "2147483648", "-1", "many"])
def test_other_sizes_are_refused(text):
    """An Arrow array holds less than 2 GiB."""
    with pytest.raises(ValueError, match="option 'maxBodySize': expected a number of bytes"):
        message_options({"path": "x", "maxBodySize": text})
