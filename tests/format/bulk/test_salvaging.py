"""What the entries of a file that is replaced are worth, by the offsets around them."""

from __future__ import annotations

import numpy as np
import pytest

from rmqindex import IndexFileWriter, Layout
from rmqindex.bulk.salvaging import entries_in_order
from rmqindex.storage import Location

LAYOUT = Layout(1000, 600_000)
HASHES = np.array([5, 7, 11], np.int32)
TIME = 1_700_000_000_000


def in_order(offsets):
    """Return which offsets are not below both neighbours, of those above 0, in plain Python."""
    before, low = [], 0
    for offset in offsets:
        before.append(low)
        low = offset or low
    behind, high = [], 0
    for offset in reversed(offsets):
        behind.append(high)
        high = offset or high
    around = zip(offsets, before, reversed(behind), strict=True)
    return [not (low and high and offset < low <= high) for offset, low, high in around]


@pytest.mark.parametrize("seed", range(2))
def test_entries_out_of_order_are_left_out_also_where_batches_meet(tmp_path, seed):
    """A third of them stray or lack an offset; and for as long as a batch no one has any."""
    draw = np.random.default_rng(seed)
    count = 550_000
    offsets = np.arange(1, count + 1, dtype=np.int64) * 100
    offsets[draw.random(count) < 0.2] -= 100 * draw.integers(1, count // 2)
    offsets[draw.random(count) < 0.2] = 0
    offsets[260_000 : 260_000 + seed * 270_000] = 0
    offsets = np.maximum(offsets, 0)
    hashes = draw.integers(0, 12, count, np.int32)
    path = tmp_path / "20231114221320000"
    with IndexFileWriter(path, LAYOUT) as writer:
        writer.put_many(hashes, offsets, np.full(count, TIME))
    wanted = np.array(in_order(offsets.tolist())) & np.isin(hashes, HASHES)
    found = entries_in_order(Location.of(path), LAYOUT, np.append(HASHES, 0).astype(np.int32))
    assert found["phy_offset"].to_pylist() == offsets[wanted].tolist()
    assert found["key_hash"].to_pylist() == hashes[wanted].tolist()
