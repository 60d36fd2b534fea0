"""The task of ``lookup()``, called on batches: no Spark session is needed."""

from __future__ import annotations

import itertools
import random
import tempfile
from collections import Counter
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from pyspark.sql.types import StringType, StructField, StructType, TimestampType

from kinds import sampled
from pyspark_rmqindex.files import list_slices
from pyspark_rmqindex.join.key_chunk import KeyChunk, KeyColumns, Limits
from pyspark_rmqindex.join.task import HOWS, LookupTask
from pyspark_rmqindex.options import read_options
from pyspark_rmqindex.schema import full_schema
from rmqindex import (
    CorruptIndexError,
    IndexFile,
    IndexFileWriter,
    Layout,
    RmqIndexError,
)
from rmqindex.messagestore import EVERYTHING, Range
from twin import java_hash

BEGIN = 1_700_000_000_000
# Keys of one hash, an empty one, one beyond ASCII, and two that are nowhere.
KEYS = ["Aa", "BB", "a", "", "订单", "AaBB", "BBAa", "absent", "nowhere"]
STORED = KEYS[:-2]
TOPICS = ["T", "U"]
TIMES = pa.timestamp("us", tz="UTC")
SMALL = Limits(rows=23, memory=200, size=10**6, batch_rows=7, batch_bytes=10**6)


@pytest.fixture(scope="module")
def index(tmp_path_factory):
    """A directory of three files with crowded slots, and every entry of it."""
    rng = random.Random(5)
    directory = tmp_path_factory.mktemp("lookup")
    entries = []
    for number in range(3):
        path = directory / f"2023111400000000{number}"
        with IndexFileWriter(path, Layout(3, 60)) as writer:
            for position in range(1, 51):
                whole = f"{rng.choice(TOPICS)}#{rng.choice(STORED)}"
                time = BEGIN + number * 60_000 + position * 1000
                assert writer.put(whole, len(entries), time)
                entries.append((java_hash(whole), len(entries), time, position, str(path)))
    return directory, entries


def keys_batch(rows):
    """Return rows of topic, key, number, begin and end as a batch."""
    columns = list(zip(*rows, strict=True)) or [[]] * 5
    types = [pa.string(), pa.large_string(), pa.int64(), TIMES, TIMES]
    arrays = [pa.array(column, type_) for column, type_ in zip(columns, types, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, names=["topic", "key", "number", "begin", "end"])


def random_rows(rng, count):
    """Return rows of keys; some have NULLs, and many are there several times."""

    def bound():
        return rng.choice(
            [None, None, (BEGIN + rng.randrange(200_000)) * 1000 + rng.choice([0, 1])]
        )

    return [
        (
            rng.choice([*TOPICS, *TOPICS, None]),
            rng.choice([*KEYS, *KEYS, None]),
            number,
            bound(),
            bound(),
        )
        for number in range(count)
    ]


def task_of(path, how, strategy="auto", *, bounded=True, **options):
    """Return the task that looks keys up in a directory."""
    limits, times = options.pop("limits", Limits()), options.pop("times", EVERYTHING)
    checked = read_options({"path": str(path), "logLevel": "WARNING", **options})
    return LookupTask(
        tuple(list_slices(checked).slices),
        checked,
        KeyColumns(0, 1, 3, 4) if bounded else KeyColumns(0, 1),
        full_schema(keys=False),
        how,
        strategy,
        times,
        limits,
    )


def answer(task, batches):
    """Return numbers of rows with offset, time, position and path, or NULL."""
    rows = []
    for batch in task(batches):
        columns = batch.to_pydict()
        if task.how in {"semi", "anti"}:
            rows += [(number,) for number in columns["number"]]
            continue
        micros = batch.column("store_timestamp").cast(pa.int64()).to_pylist()
        rows += zip(
            columns["number"],
            columns["key_hash"],
            columns["phy_offset"],
            [None if each is None else each // 1000 for each in micros],
            columns["position"],
            columns["file_path"],
            strict=True,
        )
    return Counter(rows)


def expected(rows, entries, how, times=EVERYTHING, *, bounded=True):
    """Join row by row and entry by entry."""
    found = []
    for topic, key, number, begin, end in rows:
        mine = [
            (number, *entry)
            for entry in entries
            if topic is not None
            and key is not None
            and java_hash(f"{topic}#{key}") == entry[0]
            and (times.low is None or times.low <= entry[2])
            and (times.high is None or entry[2] <= times.high)
            and (not bounded or begin is None or begin <= entry[2] * 1000)
            and (not bounded or end is None or entry[2] * 1000 <= end)
        ]
        if how == "anti":
            found += [] if mine else [(number,)]
        elif how == "semi":
            found += [(number,)] if mine else []
        elif mine or how == "inner":
            found += mine
        else:
            found.append((number, None, None, None, None, None))
    return Counter(found)


@pytest.mark.parametrize("how", HOWS)
@pytest.mark.parametrize("strategy", sampled(["probe", "scan", "auto"], "auto"))
def test_every_row_is_answered_as_by_a_plain_join(index, how, strategy):
    """Duplicate keys, collisions, absent keys, NULLs and time ranges; in one chunk and in many."""
    directory, entries = index
    rng = random.Random(f"{how} {strategy}")
    for count, limits in ((0, Limits()), (5, SMALL), (60, Limits()), (60, SMALL)):
        rows = random_rows(rng, count)
        batches = [keys_batch(rows[start : start + 9]) for start in range(0, count, 9)]
        for bounded in (True, False):
            for mode in ("FAILFAST", "DROPMALFORMED"):
                task = task_of(directory, how, strategy, bounded=bounded, limits=limits, mode=mode)
                assert answer(task, batches) == expected(rows, entries, how, bounded=bounded)


@pytest.mark.parametrize("how", HOWS)
def test_the_times_of_the_options_hold_for_every_row(index, how):
    """Entries outside are no matches."""
    directory, entries = index
    times = Range(BEGIN + 20_000, BEGIN + 90_000)
    rows = random_rows(random.Random(how), 50)
    task = task_of(directory, how, times=times)
    assert answer(task, [keys_batch(rows)]) == expected(rows, entries, how, times)


@pytest.mark.parametrize("how", HOWS)
def test_one_topic_can_be_that_of_all_rows(index, how):
    """The rows need no column for it, and those that are returned have none."""
    directory, entries = index
    rows = [("T", key, number, None, None) for number, key in enumerate([*KEYS, "a", None])]
    batch = keys_batch(rows).select(["number", "key"])
    task = replace(task_of(directory, how, bounded=False), columns=KeyColumns("T", 1), limits=SMALL)
    assert answer(task, [batch]) == expected(rows, entries, how)
    assert all("topic" not in found.schema.names for found in task([batch]))


def test_batches_are_bounded_where_a_hot_key_meets_a_hot_key(tmp_path):
    """A thousand rows of one key with a thousand entries are a million pairs, bit by bit."""
    path = tmp_path / "20231114221320000"
    with IndexFileWriter(path, Layout(3, 1001)) as writer:
        hashes = np.full(1000, java_hash("T#hot"), np.int32)
        assert writer.put_many(hashes, np.arange(1000), np.full(1000, BEGIN)) == 1000
    keys = keys_batch([("T", "hot", number, None, None) for number in range(1000)])
    task = task_of(tmp_path, "inner", bounded=False)
    sizes = [batch.num_rows for batch in task([keys])]
    assert sum(sizes) == 1_000_000
    assert max(sizes) <= 65_536


def test_wide_rows_are_taken_a_few_at_a_time():
    """Rows of a megabyte are not multiplied by the tens of thousands."""
    batch = pa.record_batch(
        [pa.array(["T"] * 40), pa.array(["k"] * 40), pa.array(["x" * 2**20] * 40)],
        names=["topic", "key", "wide"],
    )
    with KeyChunk(KeyColumns(0, 1)) as chunk:
        chunk.add(batch)
        assert chunk.window <= 32


def test_rows_beyond_the_bound_go_into_a_file_that_nobody_sees(monkeypatch, tmp_path):
    """They come back as they were, and nothing is left in the directory at any time."""
    monkeypatch.setenv("SPARK_LOCAL_DIRS", str(tmp_path))
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "elsewhere"))
    nested = pa.array([[{"a": number, "b": None}] for number in range(50)])
    batch = pa.record_batch([pa.array(["T"] * 50), nested, pa.array(["k"] * 50)], list("tnk"))
    with KeyChunk(KeyColumns(0, 2), SMALL) as chunk:
        for start in range(0, 50, 10):
            chunk.add(batch.slice(start, 10))
        rows = np.array([0, 3, 9, 10, 11, 39, 49])
        assert chunk.take(rows).equals(batch.take(pa.array(rows)))
        assert list(tmp_path.iterdir()) == []


def test_a_damaged_file_is_an_error_or_its_sound_part(index, tmp_path):
    """By the mode, however the file is searched."""
    directory, entries = index
    name = "20231114000000000"
    data = bytearray((Path(directory) / name).read_bytes())
    at = 40 + 4 * 3 + 20 * 7
    data[at + 16 : at + 20] = (40).to_bytes(4, "big")  # an older entry that is newer
    (tmp_path / name).write_bytes(data)
    rows = [("T", key, number, None, None) for number, key in enumerate(KEYS)]
    for strategy in ("probe", "scan"):
        strict = task_of(tmp_path, "inner", strategy, maxHashSlotNum="3", maxIndexNum="60")
        with pytest.raises(CorruptIndexError, match=r"prev_position at byte 208.*expected 0 to 7"):
            answer(strict, [keys_batch(rows * 3)])
        options = {"mode": "DROPMALFORMED", "maxHashSlotNum": "3", "maxIndexNum": "60"}
        sound = [
            (*entry[:4], str(tmp_path / name))
            for entry in entries
            if entry[4].endswith(name) and entry[3] != 7
        ]
        lenient = task_of(tmp_path, "inner", strategy, **options)
        assert answer(lenient, [keys_batch(rows)]) == expected(rows, sound, "inner")


def test_a_file_that_was_replaced_is_an_error_and_one_that_grew_is_read_as_it_was(tmp_path):
    """The files are those of the listing."""
    path = tmp_path / "20231114221320000"
    with IndexFileWriter(path, Layout(3, 60)) as writer:
        writer.put("T#a", 0, BEGIN)
    task = task_of(tmp_path, "inner", maxHashSlotNum="3", maxIndexNum="60")
    keys = [keys_batch([("T", "a", 1, None, None)])]
    with IndexFileWriter(path, Layout(3, 60)) as writer:
        writer.put("T#a", 100, BEGIN + 1000)
    with IndexFile(path, Layout(3, 60)) as file:
        assert file.entry_count == 2
    assert sum(answer(task, keys).values()) == 1
    path.unlink()
    with IndexFileWriter(path, Layout(3, 60)) as writer:
        writer.put("T#a", 0, BEGIN + 5)
    with pytest.raises(RmqIndexError, match="was replaced since the query was planned"):
        answer(task, keys)


def test_a_task_says_what_it_is_in_a_plan():
    """Spark shows the name of a function."""
    fields = StructType([StructField("a", StringType()), StructField("b", TimestampType())])
    task = LookupTask((), read_options({"path": "/x"}), KeyColumns(0, 1), fields, "left", name="n")
    assert task.__name__ == "n"


@pytest.mark.parametrize("how", ["inner", "left", "anti"])
def test_bounds_at_the_ends_of_timestamp_are_no_bounds(index, how):
    """The least TIMESTAMP as ``begin`` takes everything, and as ``end`` nothing."""
    directory, entries = index
    least, most = -(2**63), 2**63 - 1
    bounds = [(least, most), (least, None), (None, most), (most, None), (None, least), (None, None)]
    rows = [("T", "a", number, *each) for number, each in enumerate(bounds)]
    found = Counter()
    for batch in task_of(directory, how)([keys_batch(rows)]):
        is_entry = [True] * batch.num_rows
        if how != "anti":
            is_entry = batch.column("position").is_valid().to_pylist()
        found.update(itertools.compress(batch.column("number").to_pylist(), is_entry))
    matches = sum(entry[0] == java_hash("T#a") for entry in entries)
    answers = [0, 0, 0, 1, 1, 0] if how == "anti" else [matches] * 3 + [0, 0, matches]
    assert [found[number] for number in range(len(bounds))] == answers


@pytest.mark.parametrize("how", ["inner", "left", "anti"])
@pytest.mark.parametrize("strategy", ["probe", "scan"])
def test_a_key_that_is_not_utf_8_matches_nothing(index, how, strategy):
    """No broker stores one; the row comes back as it is where rows without a match do."""
    directory, entries = index
    strange = [b"\xff", b"\xc3", b"\xed\xa0\x80", b"a\xff", b"\xf0\x9f"]
    rows = [("T", "订单", 0, None, None), *(("T", "x", n + 1, None, None) for n in range(5))]
    batch = keys_batch(rows)
    keys = pa.array(["订单".encode(), *strange], pa.large_binary()).view(pa.large_string())
    batch = batch.set_column(1, "key", keys)
    expected_rows = expected([rows[0], *((None, None, *row[2:]) for row in rows[1:])], entries, how)
    results = list(task_of(directory, how, strategy)([batch]))
    numbers = Counter(number for each in results for number in each.column("number").to_pylist())
    assert numbers == Counter(row[0] for row in expected_rows.elements())
    if how != "inner":
        returned = {
            each.column("number")[place].as_py(): each.column("key")[place].as_buffer().to_pybytes()
            for each in results
            for place in range(each.num_rows)
        }
        assert [returned[n + 1] for n in range(5)] == strange
