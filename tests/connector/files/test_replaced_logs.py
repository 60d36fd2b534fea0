"""Logs and queues that are replaced between the planning of a query and its reading.

The answer is that of the plan, or an error that names a file; never rows of two stores.
"""

from __future__ import annotations

import json
import os
import re
import shutil

import pyarrow as pa
import pytest
from pyspark.sql.datasource import EqualTo, GreaterThanOrEqual, In

from commitlog_encoder import Message
from kinds import sampled
from live_broker import LiveLog
from pyspark_rmqcommitlog import DefaultSource as MessageSource
from pyspark_rmqconsumequeue import DefaultSource as QueueSource
from pyspark_rmqindex import DefaultSource as IndexSource
from pyspark_rmqindex.files import list_slices, with_logs
from pyspark_rmqindex.join import KeyColumns, LookupTask
from pyspark_rmqindex.options import read_options
from pyspark_rmqindex.schema import full_schema
from pyspark_rmqindex.sql import KeyFinder, plan_files_of
from replacements import (
    COUNT,
    FILE_SIZE,
    LAYOUT,
    REPLACEMENTS,
    TOPIC,
    make_store,
    rewritten,
    truncated_and_rewritten,
)
from rmqindex import RmqIndexError
from rmqindex.messagestore import EVERYTHING

GEOMETRY = {
    "maxHashSlotNum": str(LAYOUT.hash_slot_num),
    "maxIndexNum": str(LAYOUT.index_num),
}
KEYS = [f"a{number:03d}" for number in range(COUNT)]
REFUSED = r"{}.*: the file was .* since the query was planned; run the query again, on a fresh"


@pytest.fixture(scope="module")
def stores(tmp_path_factory):
    """Return two stores of the same shape that nobody changes."""
    root = tmp_path_factory.mktemp("stores")
    return {name: make_store(root / name, name[0]) for name in ("a", "b")}


@pytest.fixture
def store(stores, tmp_path):
    """Return a copy of the first one."""
    shutil.copytree(stores["a"], tmp_path / "store")
    return tmp_path / "store"


def planned(source, path, **options):
    """Plan a load, and return what reads it: its rows."""
    made = source({"path": str(path), **options})
    reader = made.reader(made.schema())
    partitions = reader.partitions()
    return lambda: [
        row for each in partitions for batch in reader.read(each) for row in batch.to_pylist()
    ]


def planned_table(path, **options):
    """Plan a query of ``table()``, and return what reads it."""
    asked = {"path": str(path), "commitLog": "auto", "pushdown": "true", "relation": "one"}
    made = IndexSource({**asked, **GEOMETRY, **options})
    reader = made.reader(made.schema())
    filters = [EqualTo(("topic",), TOPIC), In(("key",), tuple(KEYS))]
    reader.pushFilters([*filters, GreaterThanOrEqual(("position",), 1)])
    partitions = reader.partitions()
    return lambda: [
        row for each in partitions for batch in reader.read(each) for row in batch.to_pylist()
    ]


def planned_lookup(path, **options):
    """Plan ``lookup()``, and return what runs its task."""
    checked = read_options({"path": str(path), "commitLog": "auto", **GEOMETRY, **options})
    schema = full_schema(
        keys=False, log=checked.has_log, message=checked.message, store=checked.has_store
    )
    slices = tuple(with_logs(list_slices(checked).slices, checked.commit_log))
    task = LookupTask(slices, checked, KeyColumns(0, 1), schema, "inner")
    batch = pa.record_batch({"topic": [TOPIC] * COUNT, "key": KEYS})
    return lambda: [row for found in task([batch]) for row in found.to_pylist()]


def planned_calls(path, *, warm=False, **options):
    """Plan ``rmq_lookup``, and return what runs one call for each key.

    Args:
        path: The store.
        warm: Whether the files were opened before, by other calls of the task.
        options: Of the call.
    """
    checked = read_options({"path": str(path), "commitLog": "auto", **GEOMETRY, **options})
    schema = full_schema(
        keys=True, log=checked.has_log, message=checked.message, store=checked.has_store
    )
    slices = plan_files_of(checked)
    finder = KeyFinder(checked, schema)

    def call(keys):
        return [row for key in keys for row in finder.rows(slices, TOPIC, key, EVERYTHING)]

    def run():
        try:
            rows = call(KEYS)
            finder.ensure_same()
            return rows
        finally:
            finder.close()

    if warm:
        call(KEYS)
    return run


READS = {
    "messages": lambda path, **far: planned(MessageSource, path, **far),
    "small partitions": lambda path, **far: planned(
        MessageSource, path, maxPartitionBytes="600", **far
    ),
    "queues": lambda path, **far: planned(QueueSource, path, **far),
    "scan": lambda path, **far: planned(
        IndexSource, path, commitLog="auto", message="true", **GEOMETRY, **far
    ),
    "keys": lambda path, **far: planned(
        IndexSource, path, commitLog="auto", topic=TOPIC, keys=json.dumps(KEYS), **GEOMETRY, **far
    ),
    "table": planned_table,
    "lookup": planned_lookup,
    "rmq_lookup": planned_calls,
    "rmq_lookup, files open": lambda path, **far: planned_calls(path, warm=True, **far),
    "audit": lambda path, **far: planned(
        IndexSource, path, audit="true", commitLog="auto", **GEOMETRY, **far
    ),
}
VERIFIED = [name for name in READS if name not in ("messages", "small partitions", "queues")]


def ensure_planned_or_refused(before, read, place):
    """Read what was planned: the rows of before, or an error that names a file."""
    try:
        rows = read()
    except RmqIndexError as error:
        assert re.match(REFUSED.format(re.escape(str(place))), str(error)), error  # noqa: PT017
        return False
    assert rows == before
    return True


@pytest.mark.parametrize("taken", ["a", "b"], ids=["same store", "other store"])
@pytest.mark.parametrize(
    "replace", sampled(REPLACEMENTS, *REPLACEMENTS[::3]), ids=lambda each: each.__name__
)
@pytest.mark.parametrize("name", READS)
def test_a_store_that_was_replaced_since_the_plan_is_refused(stores, store, name, replace, taken):
    """Whichever way another copy, or another store, came to have its names."""
    before = READS[name](store)()
    assert before or name == "audit"
    read = READS[name](store)
    replace(stores[taken], store)
    ensure_planned_or_refused(before, read, store)


@pytest.mark.parametrize("replace", REPLACEMENTS, ids=lambda each: each.__name__)
@pytest.mark.parametrize("name", VERIFIED)
def test_entries_are_never_compared_with_another_log(stores, store, name, replace):
    """The index is the planned one, and entries do not vanish as if their hashes collided."""
    before = READS[name](store)()
    read = READS[name](store)
    replace(stores["b"] / "commitlog", store / "commitlog")
    ensure_planned_or_refused(before, read, store / "commitlog")


@pytest.mark.parametrize("replace", [truncated_and_rewritten, rewritten])
@pytest.mark.parametrize("name", READS)
def test_a_rewrite_in_place_is_always_refused(stores, store, name, replace):
    """Nothing of the plan is left to be read."""
    read = READS[name](store)
    replace(stores["b"], store)
    assert not ensure_planned_or_refused(None, read, store)


@pytest.mark.parametrize("source", [MessageSource, QueueSource])
def test_a_rewrite_while_a_file_is_read_is_noticed(stores, store, source):
    """The file is looked at again when its last row was handed out."""
    made = source({"path": str(store)})
    reader = made.reader(made.schema())
    (partition,) = reader.partitions()
    batches = reader.read(partition)
    next(batches)
    rewritten(stores["b"], store)
    with pytest.raises(RmqIndexError, match="since the query was planned"):
        list(batches)


@pytest.mark.parametrize("left", [0, 40, 600])
def test_a_cached_file_that_is_cut_is_refused(store, left):
    """Of the last page of a mapped file that is cut, the rest reads as zeros: no such key."""
    read = planned_calls(store, warm=True)
    path = min((store / "index").iterdir())
    os.truncate(path, left)
    with pytest.raises(RmqIndexError, match=re.escape(str(path))):
        read()


@pytest.mark.parametrize("name", VERIFIED)
def test_a_log_file_that_is_gone_from_the_middle_is_refused(store, name):
    """A broker deletes the oldest ones alone."""
    read = READS[name](store)
    path = store / "commitlog" / f"{FILE_SIZE:020d}"
    path.unlink()
    if name == "audit":
        assert "log_unreadable" in {row["rule"] for row in read()}
        return
    if name == "rmq_lookup, files open":
        assert len(read()) == COUNT
        return
    with pytest.raises(RmqIndexError, match=re.escape(str(path))):
        read()


@pytest.mark.parametrize("name", [name for name in VERIFIED if name != "audit"])
def test_expired_and_new_log_files_are_no_replacement(store, name):
    """A broker deletes the oldest file and begins another; entries of the former are kept."""
    before = READS[name](store)()
    read = READS[name](store)
    (store / "commitlog" / f"{0:020d}").unlink()
    newest = max((store / "commitlog").iterdir())
    (newest.with_name(f"{int(newest.name) + FILE_SIZE:020d}")).write_bytes(bytes(FILE_SIZE))
    assert len(read()) == len(before)


def test_what_a_broker_appends_after_the_plan_is_no_replacement(tmp_path):
    """Not even the rest of a record that it was copying when the query was planned."""
    log = LiveLog(tmp_path / "store" / "commitlog", FILE_SIZE)
    offsets = [log.append(Message(store_timestamp=1_700_000_000_000 + n)) for n in range(50)]
    record = Message(body=b"x" * 300).encode(log.end)
    at = log.end % FILE_SIZE
    assert at + len(record) < FILE_SIZE
    half = record.replace(b"x" * 300, bytes(300))
    log.map[at : at + len(record)] = half
    read = planned(MessageSource, tmp_path / "store")
    log.map[at : at + len(record)] = record
    offsets.append(log.end)
    log.end += len(record)
    for number in range(50):
        log.append(Message(store_timestamp=1_700_000_001_000 + number))
    assert [row["phy_offset"] for row in read()] == offsets


def test_units_that_are_appended_after_the_plan_are_no_replacement(store):
    """A queue's file has its full size from the beginning."""
    path = max((store / "consumequeue" / TOPIC / "0").iterdir())
    data = bytearray(path.read_bytes())
    written = len(bytes(data).rstrip(b"\0")) // 20 + 1
    path.write_bytes(bytes(data[: 20 * (written - 2)]).ljust(len(data), b"\0"))
    read = planned(QueueSource, store)
    with path.open("r+b") as file:
        file.write(data)
    assert len(read()) == COUNT


@pytest.fixture
def far(stores, s3_environment, tmp_path):
    """Return the URI of the first store on S3, and what puts another there."""
    prefix = tmp_path.name

    def put(name):
        return s3_environment.put(stores[name], prefix)

    return put("a"), put


@pytest.mark.system
@pytest.mark.parametrize("name", READS)
def test_objects_that_were_replaced_since_the_plan_are_refused(far, name):
    """By their ETags; the same content has the same one."""
    uri, put = far
    before = READS[name](uri)()
    read, again = READS[name](uri), READS[name](uri)
    put("a")
    assert ensure_planned_or_refused(before, again, uri)
    put("b")
    assert not ensure_planned_or_refused(None, read, uri)


@pytest.mark.system
@pytest.mark.parametrize("name", VERIFIED)
def test_a_log_of_objects_that_was_replaced_is_refused(far, stores, s3_environment, name):
    """The index being the planned one."""
    uri, _ = far
    read = READS[name](uri)
    s3_environment.put(stores["b"] / "commitlog", f"{uri.rpartition('/')[2]}/commitlog")
    assert not ensure_planned_or_refused(None, read, f"{uri}/commitlog")


@pytest.mark.parametrize("source", [MessageSource, QueueSource])
def test_objects_cost_two_requests_more_to_recognise(far, s3_environment, source):
    """One for each file behind its last row, and one for each in the plan where none was."""
    uri, _ = far
    read = planned(source, uri)
    with s3_environment.counted() as requests:
        assert len(read()) == COUNT
    heads = [request.key for request in requests if request.method == "HEAD"]
    files = {key for key in heads if key.rpartition("/")[2].isdigit()}
    assert all(heads.count(key) <= 4 for key in files)
    with s3_environment.counted() as requests:
        planned(source, uri)
    kept = [request for request in requests if source is QueueSource and request.span]
    assert not kept
