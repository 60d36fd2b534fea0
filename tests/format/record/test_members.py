"""Which keys a message has, in the order of its entries."""

from __future__ import annotations

import json

import numpy as np
import pyarrow as pa
import pytest

from recorded import MESSAGE_KINDS
from rmqindex import CommitLog, RmqIndexError
from rmqindex.record.bodies import indexed_keys, member_keys

LISTS = pa.list_(pa.string())
INNER_BATCH = 0b1100_0000


def no_bodies(rows):
    """Fail where the bodies of messages that are no inner batches are read."""
    raise AssertionError(rows)


def keys_by_row(rows, keys, size):
    """Return the keys of each row, in their order."""
    return [
        [key for at, key in zip(rows.tolist(), keys, strict=True) if at == row]
        for row in range(size)
    ]


def test_the_unique_key_comes_first_then_the_parts_of_keys():
    """Empty parts are dropped, repeated ones kept; of several values the last counts."""
    uniq = pa.array([["u"], [], ["old", "new"], []], LISTS)
    keys = pa.array([["a  b a "], ["c"], ["x y", "z"], []], LISTS)
    rows, texts = indexed_keys(uniq, keys)
    assert keys_by_row(rows, texts.to_pylist(), 4) == [
        ["u", "a", "b", "a"],
        ["c"],
        ["new", "z"],
        [],
    ]


def test_no_messages_have_no_keys():
    """Nothing in, nothing out."""
    empty = pa.array([], LISTS)
    rows, texts = indexed_keys(empty, empty)
    assert (len(rows), texts.to_pylist()) == (0, [])
    rows, keys = member_keys(empty, empty, np.empty(0, np.int32), np.empty(0, np.int64), no_bodies)
    assert (len(rows), keys) == (0, [])


def test_slices_of_arrays_are_read_from_their_own_start():
    """Arrow arrays may begin inside their buffers."""
    uniq = pa.array([["x"], ["u"], []], LISTS).slice(1)
    keys = pa.array([["y"], [], ["k"]], LISTS).slice(1)
    rows, texts = indexed_keys(uniq, keys)
    assert keys_by_row(rows, texts.to_pylist(), 2) == [["u"], ["k"]]


def test_members_have_the_values_that_the_broker_does_not_take():
    """What it indexes is left out, and each key counts once."""
    uniq = pa.array([["u"], ["one", "two", "batch"], ["same", "same"]], LISTS)
    keys = pa.array([["a", "b c", "c"], [], []], LISTS)
    rows, found = member_keys(uniq, keys, np.zeros(3, np.int32), np.arange(3), no_bodies)
    assert keys_by_row(rows, found, 3) == [["a", "b"], ["one", "two"], []]


@pytest.mark.parametrize("strict", [True, False])
def test_an_inner_batch_that_does_not_unpack_is_an_error_or_has_no_members(strict):
    """A body of three bytes holds no message."""
    uniq = pa.array([["u"]], LISTS)
    keys = pa.array([[]], LISTS)
    flags = np.array([INNER_BATCH], np.int32)

    def found():
        bodies = pa.array([b"abc"])
        return member_keys(uniq, keys, flags, np.array([700]), lambda _: bodies, strict=strict)

    if strict:
        with pytest.raises(RmqIndexError, match="message at offset 700: inner batch"):
            found()
    else:
        assert found()[1] == []


def test_only_some_bodies_are_held_at_a_time():
    """Thousands of inner batches of megabytes each do not stand in memory together."""
    count = 1000
    uniq = pa.array([["u"]] * count, LISTS)
    keys = pa.array([[]] * count, LISTS)
    asked = []

    def bodies(offsets):
        asked.append(len(offsets))
        return pa.array([b""] * len(offsets))

    member_keys(uniq, keys, np.full(count, INNER_BATCH, np.int32), np.arange(count), bodies)
    assert sum(asked) == count
    assert max(asked) <= 64


def test_the_golden_messages_have_the_keys_that_rocketmq_indexed():
    """Every retained message of the second golden store, and the ids inside its batches."""
    told = json.loads((MESSAGE_KINDS / "store_messages.json").read_text())["messages"]
    columns = ["phy_offset", "sys_flag", "body", "all_uniq_keys", "all_keys"]
    with CommitLog(MESSAGE_KINDS / "store") as log:
        batches = log.scan(columns=columns, decompress_body=False)
        batch = pa.Table.from_batches(batches).combine_chunks().to_batches()[0]
    uniq, keys = batch.column("all_uniq_keys"), batch.column("all_keys")
    rows, texts = indexed_keys(uniq, keys)
    own = keys_by_row(rows, texts.to_pylist(), batch.num_rows)
    places = {offset: at for at, offset in enumerate(batch.column("phy_offset").to_pylist())}
    bodies = {offset: batch.column("body")[at].as_py() for offset, at in places.items()}
    rows, found = member_keys(
        uniq,
        keys,
        batch.column("sys_flag").to_numpy(),
        batch.column("phy_offset").to_numpy(),
        lambda at: pa.array([bodies[offset] for offset in at.tolist()]),
    )
    members = keys_by_row(rows, found, batch.num_rows)
    inner = 0
    for message in told:
        at = places.get(message["phy_offset"])
        if at is None or message["deleted"]:
            continue
        if message["indexed"]:
            assert own[at] == message["index_keys"]
        ids = [one["properties"]["UNIQ_KEY"] for one in message.get("inner_messages") or []]
        assert set(ids) <= {*members[at], *own[at]}
        inner += len(ids)
    assert inner
