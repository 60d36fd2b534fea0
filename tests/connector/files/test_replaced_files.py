"""Files that are replaced after planning: the planned rows or an error by name, never others.

Each read is planned as the driver does it, what it plans goes through pickle, and after each kind
of replacement it is read as a task does it; so does a second action of one kept DataFrame.
"""

from __future__ import annotations

import os
import pickle
import shutil
import subprocess
import uuid

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pyspark.sql.streaming.datasource import ReadAllAvailable
from spark_writes import write

from examples import examples
from pyspark_rmqindex import DefaultSource
from pyspark_rmqindex.files.listing import list_slices
from pyspark_rmqindex.join import KeyColumns, LookupTask
from pyspark_rmqindex.options import read_options, stream_options
from pyspark_rmqindex.schema import full_schema
from pyspark_rmqindex.sql import KeyFinder
from pyspark_rmqindex.stream import IndexStreamReader
from rmqindex import IndexFileWriter, Layout, RmqIndexError
from rmqindex.bulk import relayout_index
from rmqindex.messagestore import EVERYTHING
from s3_server import BUCKET

BEGIN = 1_700_000_000_000
# Files on S3 tell this geometry by themselves.
LAYOUT = Layout(16, 64)
KEYS = [f"k{number}" for number in range(0, 150, 7)]
COUNTS = (63, 63, 20)
OTHER = 1_000_000


def build(directory, counts=COUNTS, layout=LAYOUT, shift=0):
    """Write files of numbered keys; with a shift, the same names and sizes and other entries."""
    directory.mkdir(parents=True, exist_ok=True)
    number = 0
    for place, count in enumerate(counts):
        with IndexFileWriter(directory / f"2023111422132{place:04d}", layout) as writer:
            for _ in range(count):
                assert writer.put(f"T#k{number}", shift + number * 100, BEGIN + number * 1000)
                number += 1
    return directory


# Entry points: each plans, and returns what reads.


def batches_of(reader, partitions):
    """Return the rows that tasks find, without their order."""
    stored = pickle.dumps(partitions)
    return sorted(
        (str(sorted(row.items())) for each in pickle.loads(stored) for batch in reader.read(each)
         for row in batch.to_pylist()),
    )  # fmt: skip


def source_of(**options):
    """Return an entry point of the data source."""

    def plan(path):
        source = DefaultSource({"path": path, "logLevel": "WARNING", **options})
        reader = source.reader(source.schema())
        partitions = reader.partitions()
        return lambda: batches_of(reader, partitions)

    return plan


def lookup_join(path, strategy):
    """Plan ``lookup()``."""
    options = read_options({"path": path, "logLevel": "WARNING"})
    slices = tuple(list_slices(options).slices)
    schema = full_schema(keys=False)
    task = LookupTask(slices, options, KeyColumns(0, 1), schema, "inner", strategy)
    keys = pa.table({"topic": ["T"] * len(KEYS), "key": KEYS})

    def read():
        found = pickle.loads(pickle.dumps(task))(keys.to_batches())
        return sorted(str(row) for batch in found for row in batch.to_pylist())

    return read


def sql_lookup(path):
    """Plan ``rmq_lookup``."""
    options = read_options({"path": path, "logLevel": "WARNING"})
    stored = pickle.dumps(list_slices(options).slices)

    def read():
        finder = KeyFinder(options, full_schema(keys=True))
        slices = pickle.loads(stored)
        try:
            found = [row for key in KEYS for row in finder.rows(slices, "T", key, EVERYTHING)]
            return sorted(found, key=str)
        finally:
            finder.close()

    return read


def stream_of(path):
    """Return a stream of entries, as a process of Spark makes it."""
    checked = stream_options({"path": path, "logLevel": "WARNING"})
    return IndexStreamReader(checked, full_schema(keys=False))


def stream_batch(path):
    """Plan a batch of a stream."""
    reader = stream_of(path)
    partitions = reader.partitions({}, reader.latestOffset({}, ReadAllAvailable()))
    return lambda: batches_of(reader, partitions)


def stream_again(path):
    """Plan a batch of a stream that runs again after a restart."""
    end = stream_of(path).latestOffset({}, ReadAllAvailable())

    def read():
        reader = stream_of(path)
        return batches_of(reader, reader.partitions({}, end))

    return read


ENTRY_POINTS = {
    "load": source_of(),
    "load of what is sound": source_of(mode="DROPMALFORMED"),
    "load of keys": source_of(topic="T", keys=str(KEYS).replace("'", '"')),
    "lookup by probe": lambda path: lookup_join(path, "probe"),
    "lookup by scan": lambda path: lookup_join(path, "scan"),
    "rmq_lookup": sql_lookup,
    "audit": source_of(audit="true"),
    "stream": stream_batch,
    "stream after a restart": stream_again,
}


def wrong_answers(reads, planned, path):
    """Read what was planned; return the entry points whose answer is neither right nor refused."""
    wrong, right = {}, set()
    for name, read in reads.items():
        try:
            found = read()
        except RmqIndexError as error:
            if path not in str(error):
                wrong[name] = str(error)
            continue
        if name == "audit" and all(row in planned[name] for row in found):
            # One that meets a writer is silent about what writing may explain.
            right |= {name} if found == planned[name] else set()
        elif found != planned[name]:
            wrong[name] = f"{len(found)} rows, and not the {len(planned[name])} planned"
        else:
            right.add(name)
    return wrong, right


def planned_on(path):
    """Plan every entry point on an index, and read it once: the first action of a DataFrame."""
    reads = {name: plan(path) for name, plan in ENTRY_POINTS.items()}
    planned = {name: read() for name, read in reads.items()}
    assert all(rows for name, rows in planned.items() if name != "audit")
    return reads, planned


# Replacements of a local directory. Those that keep the content may be answered.


def nothing(index):
    """Leave it."""


def append(index):
    """Add an entry, as a broker does."""
    with IndexFileWriter(max(index.iterdir()), LAYOUT) as writer:
        writer.put("T#k7", 1 << 40, BEGIN + 999_000)


def relayout(*geometry):
    """Lay the index out anew."""

    def change(index):
        relayout_index(index, Layout(*geometry), old_layout=LAYOUT, time_zone="UTC")

    return change


def relayout_under_the_old_names(*geometry):
    """Do the same, with the names that were there, as other programs might."""

    def change(index):
        aside = index.with_name("aside")
        shutil.copytree(index, aside)
        names = sorted(path.name for path in index.iterdir())
        relayout_index(aside, Layout(*geometry), old_layout=LAYOUT, time_zone="UTC")
        for path in index.iterdir():
            path.unlink()
        for name, path in zip(names, sorted(aside.iterdir()), strict=False):
            path.rename(index / name)

    return change


def overwrite(times, start=0):
    """Overwrite it by our own writer."""

    def change(index):
        for _ in range(times):
            write(index, (start, start + sum(COUNTS)), overwrite=True, maxHashSlotNum="16")

    return change


def rename_over(index):
    """Move other files over those that are there."""
    for path in build(index.with_name("other"), shift=OTHER).iterdir():
        path.replace(index / path.name)


def rewrite_in_place(index):
    """Truncate each file and fill it with as many other bytes; the inode stays."""
    for path in build(index.with_name("other"), shift=OTHER).iterdir():
        with (index / path.name).open("ab") as file:
            file.truncate(0)
            file.write(path.read_bytes())


def rewrite_one_entry(index):
    """Change a single entry where it is, near the front."""
    with min(index.iterdir()).open("r+b") as file:
        file.seek(LAYOUT.entry_offset(9) + 4)
        file.write((OTHER + 1).to_bytes(8, "big"))


def restore(*, shift, over):
    """Copy files back with ``cp -a``, which keeps times, over those there or after a deletion."""

    def change(index):
        backup = build(index.with_name("backup"), shift=shift)
        for path in index.iterdir():
            status = path.stat()
            if (backup / path.name).exists():
                os.utime(backup / path.name, ns=(status.st_atime_ns, status.st_mtime_ns))
            if not over:
                path.unlink()
        subprocess.run(["cp", "-a", f"{backup}/.", str(index)], check=True)

    return change


def rename_directories(index):
    """Move the directory away and another one in."""
    other = build(index.with_name("other"), shift=OTHER)
    index.rename(index.with_name("gone"))
    other.rename(index)


def remake(shift):
    """Delete everything and make it anew; inode numbers may be given out again."""

    def change(index):
        shutil.rmtree(index)
        build(index, shift=shift)

    return change


SAME_CONTENT = {
    "nothing": nothing,
    "append": append,
    "restored copy": restore(shift=0, over=False),
    "restored copy over the files": restore(shift=0, over=True),
    "remade alike": remake(0),
}
OTHER_CONTENT = {
    "relayout, smaller": relayout(11, 40),
    "relayout, larger": relayout(997, 4000),
    "relayout, same size": relayout(11, 65),
    "relayout under the old names, same size": relayout_under_the_old_names(11, 65),
    "relayout under the old names, more slots": relayout_under_the_old_names(997, 64),
    "relayout under the old names, smaller": relayout_under_the_old_names(11, 40),
    "overwritten": overwrite(1),
    "overwritten twice": overwrite(2),
    "overwritten twice, other rows": overwrite(2, start=500),
    "renamed over": rename_over,
    "rewritten in place": rewrite_in_place,
    "one entry rewritten in place": rewrite_one_entry,
    "restored copy of other content": restore(shift=OTHER, over=False),
    "restored copy of other content over the files": restore(shift=OTHER, over=True),
    "directory renamed": rename_directories,
    "remade": remake(OTHER),
    "deleted": shutil.rmtree,
}
# What reads everything can answer nothing then; what an audit finds may be the same.
READ_ALL = {"load", "load of what is sound", "stream", "stream after a restart"}


@pytest.mark.parametrize("change", [*SAME_CONTENT, *OTHER_CONTENT])
def test_a_local_index_that_is_replaced_after_planning(tmp_path, change):
    """The second action answers as the first did, or names a file."""
    index = build(tmp_path / "index")
    reads, planned = planned_on(str(index))
    {**SAME_CONTENT, **OTHER_CONTENT}[change](index)
    wrong, right = wrong_answers(reads, planned, str(index))
    assert wrong == {}
    if change in {"nothing", "append"}:
        # An audit of a file that grew leaves out what a writer's work may explain.
        assert right >= ENTRY_POINTS.keys() - {"audit"}
    if change in OTHER_CONTENT:
        assert not right & READ_ALL


def put_objects(s3, index, folder):
    """Store the files of a folder as objects."""
    s3.put(folder, f"{index.removeprefix(f's3://{BUCKET}/')}")


def delete_objects(s3, index):
    """Delete all objects of an index."""
    s3.fs.delete_dir_contents(index.removeprefix("s3://"), missing_dir_ok=True)


REMOTE = {
    "nothing": lambda s3, index, folder: None,  # noqa: ARG005
    "the same put again": lambda s3, index, folder: put_objects(s3, index, build(folder)),
    "others put": lambda s3, index, folder: put_objects(s3, index, build(folder, shift=OTHER)),
    "another size put": lambda s3, index, folder: put_objects(
        s3, index, build(folder, layout=Layout(197, 64))
    ),
    "overwritten": lambda s3, index, folder: overwrite(1)(index),  # noqa: ARG005
    "overwritten twice": lambda s3, index, folder: overwrite(2)(index),  # noqa: ARG005
    "deleted": lambda s3, index, folder: delete_objects(s3, index),  # noqa: ARG005
    "deleted and others put": lambda s3, index, folder: (
        delete_objects(s3, index),
        put_objects(s3, index, build(folder, shift=OTHER)),
    ),
}


@pytest.mark.system
@pytest.mark.parametrize("change", REMOTE)
def test_an_index_on_s3_that_is_replaced_after_planning(s3_environment, tmp_path, change):
    """The same, where an ETag tells an object from another one."""
    index = s3_environment.put(build(tmp_path / "index"), f"replaced-{uuid.uuid4().hex}/index")
    reads, planned = planned_on(index)
    REMOTE[change](s3_environment, index, tmp_path / "other")
    wrong, right = wrong_answers(reads, planned, index)
    assert wrong == {}
    if change in {"nothing", "the same put again"}:
        assert right == ENTRY_POINTS.keys()
    else:
        assert not right & READ_ALL


@settings(
    max_examples=examples(40),
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(
    counts=st.lists(st.integers(1, 63), min_size=1, max_size=3),
    changes=st.lists(
        st.sampled_from(sorted({**SAME_CONTENT, **OTHER_CONTENT}.keys() - {"deleted"})),
        min_size=1,
        max_size=2,
    ),
    name=st.sampled_from(sorted(ENTRY_POINTS)),
)
def test_no_replacement_of_any_index_gives_other_rows(tmp_path, counts, changes, name):
    """Files of any number of entries, replaced once or twice, read by any entry point."""
    index = build(tmp_path / uuid.uuid4().hex / "index", counts)
    read = ENTRY_POINTS[name](str(index))
    planned = read()
    for change in changes:
        for left in index.parent.iterdir():
            if left != index and not left.name.startswith("."):
                shutil.rmtree(left)
        try:
            {**SAME_CONTENT, **OTHER_CONTENT}[change](index)
        except RmqIndexError:  # what the first replacement left has another geometry
            break
    wrong, _ = wrong_answers({name: read}, {name: planned}, str(index))
    assert wrong == {}
