"""Options that choose messages and columns give the rows of WHERE and SELECT on a full load."""

from __future__ import annotations

import json
import random
import shutil

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from pyspark_rmqindex.messages.reader import MessagePlan, MessageReader
from pyspark_rmqindex.options import message_options
from pyspark_rmqindex.read import log_plan
from pyspark_rmqindex.schema import (
    MESSAGE_COLUMNS,
    check_selected,
    message_schema,
    select_columns,
)
from recorded import MESSAGE_KINDS
from rmqindex import CorruptCommitLogError, sample_store

STORES = {"sample": sample_store(), "kinds": MESSAGE_KINDS / "store"}
FULL = message_schema(store=True, text=True)


def read(store, columns=None, **options):
    """Read messages as the tasks of Spark do; return them with the plan."""
    parsed = message_options({"path": str(store), "maxPartitionBytes": "30k", **options})
    schema = select_columns(columns, message_schema(store=False), FULL)
    plans = []
    reader = MessageReader(parsed, schema, plans.append)
    batches = [batch for part in reader.partitions() for batch in reader.read(part)]
    return pa.Table.from_batches(batches) if batches else None, plans[0]


@pytest.mark.parametrize("name", STORES)
def test_options_choose_what_where_would(name):
    """Topics, queues, tags, times and offsets, together, with few columns and with many."""
    store = STORES[name]
    every, _ = read(store)
    rng = random.Random(name)
    values = {
        option: [each for each in every[column].unique().to_pylist() if each is not None]
        for option, column in (("topic", "topic"), ("queueId", "queue_id"), ("tags", "tags"))
    }
    times = sorted(pc.cast(every["store_timestamp"], pa.int64()).to_pylist())
    for _ in range(12):
        options, expected = {}, every
        for option, column in (("topic", "topic"), ("queueId", "queue_id"), ("tags", "tags")):
            if rng.random() < 0.5:
                chosen = rng.sample(values[option], min(2, len(values[option])))
                options[option] = json.dumps(chosen)
                expected = expected.filter(pc.field(column).isin(chosen))
        if rng.random() < 0.5:
            first = rng.choice(times)
            options["beginTimestamp"] = str(first // 1000)
            expected = expected.filter(
                pc.field("store_timestamp") >= pa.scalar(first, every["store_timestamp"].type)
            )
        if rng.random() < 0.5:
            behind = rng.choice(every["phy_offset"].to_pylist())
            options["endOffset"] = str(behind)
            expected = expected.filter(pc.field("phy_offset") < behind)
        columns = rng.sample([each for each in MESSAGE_COLUMNS if each != "body_text"], 4)
        found, _ = read(store, columns, **options)
        expected = expected.select(columns)
        assert expected.num_rows == 0 if found is None else found.equals(expected)


def test_the_plan_says_what_is_read():
    """Columns, files, bytes, and what the options choose."""
    _, plan = read(STORES["sample"], ["topic", "tags"], topic="TopicTest", beginOffset="202")
    assert plan.columns == ("topic", "tags")
    assert plan.filters == ("topic IN ['TopicTest']", "phy_offset >= 202")
    assert 1 <= plan.files_kept <= plan.files_total
    shown = MessagePlan(("topic",), ("queue_id IN [1]",), 1, 3, 4096, 2)
    assert str(shown) == (
        "reading topic of the messages in 1 of 3 log files (4096 bytes), 2 partitions where "
        "queue_id IN [1]"
    )
    assert repr(shown) == str(shown)


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        (["topik"], "column 'topik': unknown; did you mean 'topic'"),
        (["topic", "TOPIC"], "column 'topic': named twice"),
    ],
)
def test_a_wrong_name_among_the_columns_is_said(columns, message):
    """With the known ones, as for a schema."""
    with pytest.raises(ValueError, match=message):
        select_columns(columns, FULL, FULL)


def test_a_schema_and_other_columns_are_refused_together():
    """One of the two would be ignored."""
    with pytest.raises(ValueError, match="the schema has another column, 'topic'"):
        check_selected(FULL, ("tags",))
    check_selected(select_columns(["tags"], FULL, FULL), ("TAGS", "topic"))


def test_a_plan_says_which_files_of_a_log_are_lost(tmp_path, caplog):
    """It is refused, or a warning; not where the options ask for nothing of them."""
    store = tmp_path / "store"
    shutil.copytree(sample_store(), store)
    max((store / "commitlog").iterdir()).unlink()
    with pytest.raises(CorruptCommitLogError, match="got the end of the log, at offset 65504"):
        read(store)
    _, plan = read(store, mode="DROPMALFORMED")
    (told,) = plan.lacking
    assert "got the end of the log, at offset 65504" in told
    log_plan(plan, None)
    assert [each.getMessage() for each in caplog.records if each.levelname == "WARNING"] == [told]
    _, plan = read(store, endOffset="65504")
    assert plan.lacking == ()
    _, plan = read(store / "commitlog" / f"{0:020}")
    assert plan.lacking == ()


def test_the_plan_of_a_whole_log_lacks_nothing():
    """Of the sample."""
    _, plan = read(sample_store())
    assert plan.lacking == ()
