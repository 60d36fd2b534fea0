"""Files that vanish or are cut between the planning of a query and its reading: an error, no rows.

See :mod:`test_load` for files that grow or are replaced.
"""

from __future__ import annotations

import os
import re
import shutil
from pathlib import Path

import pytest

from pyspark_rmqcommitlog import DefaultSource as MessageSource
from pyspark_rmqconsumequeue import DefaultSource as QueueSource
from pyspark_rmqindex import DefaultSource as IndexSource
from rmqindex import RmqIndexError, rebuild_consume_queues, sample_store

LOOKUP = {"topic": "TopicTest", "keys": '["order-49", "BB", "ORDER:68"]'}
READS = {
    "a scan": (IndexSource, {}, "index"),
    "a lookup": (IndexSource, LOOKUP, "index"),
    "messages": (MessageSource, {}, "commitlog"),
    "queues": (QueueSource, {}, "consumequeue/TopicTest/0"),
}


HALF = -1


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """Return a store with queues that nobody changes."""
    store = tmp_path_factory.mktemp("whole") / "store"
    shutil.copytree(sample_store(), store)
    shutil.rmtree(store / "consumequeue", ignore_errors=True)
    rebuild_consume_queues(store, store, file_size=2000)
    return store


@pytest.mark.parametrize("left", [None, 0, 20, HALF], ids=["gone", "empty", "a start", "half"])
@pytest.mark.parametrize("name", READS)
def test_a_file_that_vanishes_or_is_cut_after_planning_is_an_error_that_names_it(
    whole, tmp_path, name, left
):
    """In the mode that is the default."""
    source, options, folder = READS[name]
    store = tmp_path / "store"
    shutil.copytree(whole, store)
    made = source({"path": str(store), **options})
    reader = made.reader(made.schema())
    partitions = reader.partitions()
    assert rows(reader, partitions) > 0
    path = max(Path(store, folder).iterdir())
    if left is None:
        path.unlink()
    else:
        os.truncate(path, path.stat().st_size // 2 if left == HALF else left)
    with pytest.raises(RmqIndexError, match=re.escape(str(path))):
        rows(reader, partitions)


def rows(reader, partitions):
    """Read what was planned; return how many rows there are."""
    return sum(batch.num_rows for each in partitions for batch in reader.read(each))
