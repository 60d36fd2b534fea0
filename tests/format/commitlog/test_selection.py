"""Messages chosen by topic, queue, tag, time and offset: those that a filter of all would give."""

from __future__ import annotations

import random
from functools import partial
from itertools import pairwise

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from commitlog_encoder import Log, Message, properties_text
from recorded import BROKER_VERSIONS, MESSAGE_KINDS
from rmqindex import COMMITLOG_SCHEMA, CommitLog, CorruptCommitLogError, sample_store
from rmqindex.commitlog import Selection, newest_messages, select_messages
from rmqindex.commitlog import selection as selection_module

STORES = {
    "sample": sample_store(),
    "kinds": MESSAGE_KINDS / "store",
    "broker": BROKER_VERSIONS / "5.5.0" / "store",
}
NAMES = COMMITLOG_SCHEMA.names


@pytest.fixture(scope="module", params=STORES)
def every(request):
    """Return a store that RocketMQ wrote, and all of its messages as they are stored."""
    with CommitLog(STORES[request.param]) as log:
        return STORES[request.param], pa.Table.from_batches(log.scan(decompress_body=False))


def filtered(messages, selection):
    """Filter messages by an expression for each part of a selection."""
    conditions = [pc.field("size") > 0]
    if selection.topics:
        conditions.append(pc.field("topic").isin(selection.topics))
    if selection.queue_ids:
        conditions.append(pc.field("queue_id").isin(selection.queue_ids))
    if selection.tags:
        conditions.append(pc.field("tags").isin(selection.tags))
    if selection.begin is not None:
        conditions.append(pc.field("store_timestamp") >= selection.begin)
    if selection.end is not None:
        conditions.append(pc.field("store_timestamp") <= selection.end)
    if selection.start is not None:
        conditions.append(pc.field("phy_offset") >= selection.start)
    if selection.stop is not None:
        conditions.append(pc.field("phy_offset") < selection.stop)
    for condition in conditions:
        messages = messages.filter(condition)
    return messages


def chosen(log, selection, columns, **arguments):
    """Return what is selected as a table."""
    blocks = select_messages(log, selection, columns, **arguments)
    batches = [block.batch for block in blocks if block.batch is not None]
    schema = pa.schema([COMMITLOG_SCHEMA.field(name) for name in columns])
    return pa.Table.from_batches(batches, schema)


def random_selection(rng, messages):
    """Return a selection by some values of the messages, and by some that none has."""

    def values(name, absent):
        known = [value for value in messages[name].unique().to_pylist() if value is not None]
        few = rng.sample(known, rng.randint(1, min(3, len(known)))) if known else [absent]
        return rng.choice([(), (), tuple(few), (*few, absent), (absent,)])

    def bound(name):
        value = rng.choice(messages[name].to_pylist()) + rng.choice([-1, 0, 0, 1])
        return rng.choice([None, None, max(0, value)])

    return Selection(
        topics=values("topic", "nowhere"),
        queue_ids=values("queue_id", 99),
        tags=values("tags", "none"),
        begin=bound("store_timestamp"),
        end=bound("store_timestamp"),
        start=bound("phy_offset"),
        stop=bound("phy_offset"),
    )


@pytest.mark.parametrize("seed", range(2))
def test_a_selection_is_a_filter_of_all_messages(every, seed):
    """Of any columns, in the whole log and in the parts of a task, few at a time and many."""
    store, messages = every
    rng = random.Random(seed)
    with CommitLog(store) as log:
        size = (log.max_offset - log.min_offset) // 5
        starts = [start for file in log.files for start in log.record_boundaries(file, size)]
        parts = list(
            pairwise([*(start for start in starts if start < log.max_offset), log.max_offset])
        )
        for _ in range(8):
            selection = random_selection(rng, messages)
            columns = rng.sample(NAMES, rng.randint(1, len(NAMES)))
            expected = filtered(messages, selection).select(columns)
            most = rng.choice([7, 64, 8192])
            found = chosen(log, selection, columns, max_records=most, check_crc=rng.random() < 0.5)
            assert found.equals(expected)
            divided = [
                chosen(log, selection, columns, within=part, max_records=most) for part in parts
            ]
            assert pa.concat_tables(divided).equals(expected)


@settings(max_examples=15, deadline=None)
@given(
    damaged=st.sets(st.integers(1, 38), max_size=4),
    is_dense=st.booleans(),
    columns=st.sampled_from([["phy_offset"], ["topic", "body"], NAMES]),
)
def test_the_sound_part_of_a_damaged_log_is_selected_in_full(
    tmp_path_factory, damaged, is_dense, columns
):
    """Damage between two messages that are asked for costs neither of them."""
    log = Log(1 << 16)
    for number in range(40):
        topic = "A" if is_dense or number % 13 == 0 else "B"
        log.append(Message(topic=topic, body=b"x%d" % number, properties=properties_text([])))
    folder = tmp_path_factory.mktemp("damaged")
    log.write_to(folder)
    (path,) = folder.iterdir()
    with CommitLog(folder) as opened:
        places = [
            each for batch in opened.scan(columns=["phy_offset"]) for each in batch[0].to_pylist()
        ]
    data = bytearray(path.read_bytes())
    for number in damaged:
        data[places[number] + 4 : places[number] + 8] = b"\x00\x01\x02\x03"
    path.write_bytes(data)
    selection = Selection(topics=("A",))
    with CommitLog(folder) as opened:
        every = pa.Table.from_batches(opened.scan(decompress_body=False, mode="DROPMALFORMED"))
        found = chosen(opened, selection, columns, mode="DROPMALFORMED")
        assert found.equals(filtered(every, selection).select(columns))
        if damaged:
            with pytest.raises(CorruptCommitLogError):
                chosen(opened, selection, columns)


@pytest.fixture(scope="module")
def holed(tmp_path_factory):
    """Return a log of 40 messages of which number 20 is a hole, and where they are."""
    log = Log(1 << 16)
    for number in range(40):
        log.append(Message(topic="A", body=b"x%d" % number, properties=properties_text([])))
    folder = tmp_path_factory.mktemp("holed")
    log.write_to(folder)
    with CommitLog(folder) as opened:
        (batch,) = opened.scan(columns=["phy_offset"])
        starts = [start for file in opened.files for start in opened.record_boundaries(file, 900)]
    places = tuple(batch["phy_offset"].to_pylist())
    (path,) = folder.iterdir()
    data = bytearray(path.read_bytes())
    data[places[20] : places[21]] = bytes(places[21] - places[20])
    path.write_bytes(data)
    return folder, places, starts


def fails(read):
    """Return whether reading fails at damage."""
    try:
        read()
    except CorruptCommitLogError:
        return True
    return False


_EDGES = [None, *((number, by) for number in (18, 20, 21, 22) for by in (-1, 0, 1))]


@pytest.mark.parametrize("way", ["forward", "backward", "parts"])
@pytest.mark.parametrize("begin", _EDGES)
def test_damage_outside_of_what_is_asked_for_is_none_of_it(holed, monkeypatch, way, begin):
    """Whether it is read forward, backward or in parts; at the edges, too."""
    monkeypatch.setattr(selection_module, "_BACKWARD_CHUNK", 900)
    folder, places, starts = holed
    hole, sound = places[20:22], [*places[:20], *places[21:]]
    start, *stops = (
        None if edge is None else places[edge[0]] + edge[1] for edge in (begin, *_EDGES)
    )
    parts = [*pairwise(starts), (starts[-1], None)]

    def ask(log, selection, **how):
        columns = ["phy_offset"]
        if way == "backward":
            return newest_messages(log, selection, columns, 99, **how)
        if way == "forward":
            return chosen(log, selection, columns, **how)
        planned = [part for part in parts if selection.stop is None or part[0] < selection.stop]
        return pa.concat_tables(
            chosen(log, selection, columns, within=part, **how) for part in planned
        )

    with CommitLog(folder) as log:
        for stop in stops:
            low, high = start or 0, places[-1] + 1 if stop is None else stop
            if low >= high:
                continue
            selection = Selection(start=start, stop=stop)
            is_damaged = low < hole[1] and high > hole[0]
            assert fails(partial(ask, log, selection)) == is_damaged, stop
            found = ask(log, selection, mode="DROPMALFORMED")["phy_offset"].to_pylist()
            assert sorted(found) == [place for place in sound if low <= place < high], stop
