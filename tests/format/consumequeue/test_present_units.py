"""Units of queues that are replaced, or compared while a broker appends to them."""

from __future__ import annotations

import struct

import numpy as np
import pytest

from rmqindex import ConsumeQueue
from rmqindex.consumequeue.deviations import UnitFiles


@pytest.mark.parametrize("first", [0, 1, 2, 3])
def test_a_lone_file_tells_where_those_behind_it_begin(tmp_path, first):
    """A broker may have made one since a queue was listed."""
    folder = tmp_path / "consumequeue/TopicTest/0"
    folder.mkdir(parents=True)
    count = 100 * (first + 2)
    data = b"".join(struct.pack(">qiq", 150 * place, 150, place) for place in range(count))
    path = folder / f"{2000 * first:020d}"
    path.write_bytes(data[2000 * first : 2000 * first + 2000])
    (queue,) = ConsumeQueue.find(tmp_path)
    path.with_name(f"{2000 * first + 2000:020d}").write_bytes(data[2000 * first + 2000 :])
    places = np.arange(100 * first + 50, count)
    found = UnitFiles().units(queue, places)
    assert found["tags_code"].tolist() == places.tolist()
