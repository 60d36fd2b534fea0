"""The readers of streams, called as Spark calls them, beside what writes like a broker."""

from __future__ import annotations

import json
import shutil
from functools import partial
from pathlib import Path

import pytest
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxFiles, ReadMaxRows
from pyspark.sql.types import StructType

from clock import hurry
from live_broker import LiveIndex, follow, started
from pyspark_rmqcommitlog import DefaultSource as MessageSource
from pyspark_rmqindex import DefaultSource
from pyspark_rmqindex.files import list_files
from pyspark_rmqindex.options import read_options, schema_options, stream_options
from pyspark_rmqindex.read import IndexReader
from pyspark_rmqindex.schema import full_schema
from pyspark_rmqindex.stream import listing as listing_module
from pyspark_rmqindex.stream.entries import IndexStreamReader
from pyspark_rmqindex.stream.listing import Directories
from rmqindex import CorruptIndexError, IndexFileWriter, Layout, RmqIndexError
from rows import rows_read

SLOTS, PLACES = 5, 12
TIME = 1_700_000_000_000


def open_stream(path, **options):
    """Return the reader of a stream, as a process of Spark makes it."""
    checked = stream_options({"path": str(path), **options})
    schema = full_schema(keys=checked.has_keys, log=checked.has_log, store=checked.has_store)
    return IndexStreamReader(checked, schema)


def entries_between(reader, start, end):
    """Return the rows of a batch: file name, position and offset."""
    return [
        (Path(row["file_path"]).name, row["position"], row["phy_offset"])
        for row in rows_read(reader, reader.partitions(start, end))
    ]


def through_json(offset):
    """Return an offset as it comes back from a checkpoint."""
    return json.loads(json.dumps(offset))


def next_batch(reader, start):
    """Return the end of the next batch, and its rows."""
    end = through_json(reader.latestOffset(start, reader.getDefaultReadLimit()))
    return end, entries_between(reader, start, end)


def everything(directory, slots=SLOTS):
    """Return every entry of an index directory, read without the package."""
    found = []
    for path in sorted(Path(directory).iterdir()):
        data = path.read_bytes()
        for position in range(1, int.from_bytes(data[36:40], "big")):
            at = 40 + 4 * slots + 20 * position + 4
            found.append((path.name, position, int.from_bytes(data[at : at + 8], "big")))
    return found


@pytest.fixture
def index(tmp_path):
    """Return an index that grows in front of the reader."""
    return LiveIndex(tmp_path / "index", SLOTS, PLACES)


def put(index, count):
    """Append entries."""
    for _ in range(count):
        number = index.end[0] // 100 + 1
        index.put(number * 7919 % 1_000_003, number * 100, TIME + number * 10)


def test_new_entries_are_handed_out_once_over_the_ends_of_files_and_restarts(index):
    """Whoever continues from an offset finds what came since, and nothing else."""
    offset, rows = {}, []
    for count in (3, 0, 5, 1, 30, 2, 11, 11, 1):
        put(index, count)
        offset, more = next_batch(open_stream(index.directory), offset)
        assert len(more) == count
        rows += more
    assert rows == everything(index.directory)
    assert offset[str(index.directory)]["entries"] == 64


def test_an_offset_that_has_no_news_is_returned_as_it_is(index):
    """So that Spark runs no batch."""
    put(index, 5)
    reader = open_stream(index.directory)
    offset, _ = next_batch(reader, {})
    assert json.dumps(reader.latestOffset(offset, ReadAllAvailable())) == json.dumps(offset)
    assert reader.partitions(offset, offset) == []


def test_a_store_that_moved_is_not_read_again_without_a_word(index, tmp_path):
    """Its entries would all be rows once more; a link at the former path goes on."""
    put(index, 30)
    offset, _ = next_batch(open_stream(index.directory), {})
    put(index, 5)
    moved = tmp_path / "moved"
    Path(index.directory).rename(moved)
    with pytest.raises(RmqIndexError, match="got the same files at another path"):
        next_batch(open_stream(moved), offset)
    Path(index.directory).symlink_to(moved)
    assert len(next_batch(open_stream(index.directory), offset)[1]) == 5
    with pytest.raises(RmqIndexError, match=r"expected this index at .*, where the checkpoint has"):
        next_batch(open_stream(moved), offset)


def test_another_store_at_another_path_is_read_from_its_beginning(index, tmp_path):
    """As where a broker is added; the former one may be gone."""
    put(index, 30)
    offset, _ = next_batch(open_stream(index.directory), {})
    other = LiveIndex(tmp_path / "other", SLOTS, PLACES)
    other.put(1, 100, TIME)
    assert len(next_batch(open_stream(other.directory), offset)[1]) == 1


def test_an_entry_that_the_header_does_not_count_waits(index):
    """A broker writes entry, slot and count, in this order; the count decides."""
    put(index, 4)
    header = index.map[:40]
    put(index, 1)
    index.map[:40] = header
    _, rows = next_batch(open_stream(index.directory), {})
    assert len(rows) == 4


def test_files_without_size_or_entries_wait(index):
    """A broker makes a file, then gives it its size, then the end of the last one."""
    put(index, PLACES - 1)
    offset, _ = next_batch(open_stream(index.directory), {})
    empty = index.directory / "99990101000000000"
    empty.touch()
    assert next_batch(open_stream(index.directory), offset) == (offset, [])
    empty.unlink()
    index.roll()
    assert next_batch(open_stream(index.directory), offset) == (offset, [])
    put(index, 1)
    assert len(next_batch(open_stream(index.directory), offset)[1]) == 1


def test_a_young_file_has_the_geometry_of_those_before(tmp_path):
    """Its few entries would fit several."""
    index = LiveIndex(tmp_path / "index", 13, 60)
    put(index, 59)
    reader = open_stream(index.directory)
    offset, _ = next_batch(reader, {})
    put(index, 1)
    offset, rows = next_batch(reader, offset)
    assert rows[0][1:] == (1, 6_000)
    put(index, 1)
    assert next_batch(open_stream(index.directory), offset)[1][0][1:] == (2, 6_100)


def test_limits_bound_a_batch(index):
    """Entries, or files, or both; and not where Spark asks for everything."""
    put(index, 40)
    by_entries = open_stream(index.directory, maxEntriesPerTrigger="7")
    assert by_entries.getDefaultReadLimit() == ReadMaxRows(7)
    offset, rows = next_batch(by_entries, {})
    assert len(rows) == 7
    assert len(next_batch(by_entries, offset)[1]) == 7
    by_files = open_stream(index.directory, maxFilesPerTrigger="2")
    assert by_files.getDefaultReadLimit() == ReadMaxFiles(2)
    assert len(next_batch(by_files, {})[1]) == 2 * (PLACES - 1)
    both = open_stream(index.directory, maxFilesPerTrigger="1", maxEntriesPerTrigger="30")
    assert len(next_batch(both, {})[1]) == PLACES - 1
    assert open_stream(index.directory).getDefaultReadLimit() == ReadAllAvailable()
    end = by_entries.latestOffset({}, ReadAllAvailable())
    assert len(entries_between(by_entries, {}, end)) == 40


def test_available_now_ends_where_it_began(index):
    """What comes after the start is left for the next run."""
    put(index, 20)
    reader = open_stream(index.directory, maxEntriesPerTrigger="8")
    reader.prepareForTriggerAvailableNow()
    offset, rows = {}, []
    while True:
        put(index, 9)
        end, more = next_batch(reader, offset)
        if end == offset:
            break
        rows += more
        offset = end
    assert len(rows) == 20
    assert reader.reportLatestOffset() == offset


def test_a_stream_may_begin_behind_the_newest_entry(index):
    """Only what comes later is handed out, in the files after it, too."""
    put(index, 30)
    reader = open_stream(index.directory, startingPosition="latest")
    offset = through_json(reader.initialOffset())
    assert next_batch(reader, offset) == (offset, [])
    put(index, 20)
    assert next_batch(reader, offset)[1] == everything(index.directory)[30:]
    assert open_stream(index.directory).initialOffset() == {}


def test_a_batch_that_is_planned_again_is_the_same(index):
    """Though the broker went on writing into its last file, and into new ones."""
    put(index, 30)
    reader = open_stream(index.directory)
    end, rows = next_batch(reader, {})
    put(index, 30)
    assert entries_between(open_stream(index.directory), {}, end) == rows


def expired(index):
    """Return the offset of a stream whose file expired under it, with one after it."""
    put(index, 30)
    reader = open_stream(index.directory, maxEntriesPerTrigger="15")
    offset, _ = next_batch(reader, {})
    for path in sorted(index.directory.iterdir())[:2]:
        path.unlink()
    return offset


def test_files_that_expired_are_an_error_that_names_them(index):
    """The file and the position where the stream was."""
    offset = expired(index)
    with pytest.raises(RmqIndexError, match="the file is gone, with its entries from position 5"):
        next_batch(open_stream(index.directory), offset)


def test_a_stream_may_go_on_behind_files_that_expired(index, caplog):
    """It says once what is lost."""
    offset = expired(index)
    reader = open_stream(index.directory, failOnDataLoss="false")
    end, rows = next_batch(reader, offset)
    assert rows == everything(index.directory)
    assert caplog.text.count("the file is gone") == 1
    put(index, 3)
    assert len(next_batch(reader, end)[1]) == 3


def warned(caplog, name):
    """Return the warnings about a file."""
    return [record.getMessage() for record in caplog.records if f"/{name}: " in record.getMessage()]


@pytest.mark.parametrize("size", [0, 39, 40, 100])
def test_a_damaged_file_is_an_error_or_named_once(index, size, caplog):
    """What DROPMALFORMED leaves out is named as in a load, however often the files are listed."""
    put(index, 30)
    cut = sorted(index.directory.iterdir())[1]
    cut.write_bytes(cut.read_bytes()[:size])
    geometry = {"maxHashSlotNum": str(SLOTS), "maxIndexNum": str(PLACES)}
    with pytest.raises(CorruptIndexError, match=f"{cut.name}: .*mode=DROPMALFORMED"):
        next_batch(open_stream(index.directory, **geometry), {})
    reader = open_stream(index.directory, mode="DROPMALFORMED", **geometry)
    offset, rows = next_batch(reader, {})
    assert [row for row in rows if row[0] != cut.name] == [
        row for row in everything(index.directory) if row[0] != cut.name
    ]
    put(index, 1)
    next_batch(reader, offset)
    (line,) = warned(caplog, cut.name)
    assert f"{cut}: the answer lacks " in line
    assert f"`rmqindex verify {cut}` says what to do" in line


@pytest.mark.parametrize("mode", ["FAILFAST", "DROPMALFORMED"])
def test_a_file_that_a_broker_is_creating_has_no_entries_yet(index, mode, caplog):
    """It has no size for a moment; only the newest can be one."""
    put(index, 15)
    name = f"{int(max(index.directory.iterdir()).name) + 1}"
    (index.directory / name).touch()
    reader = open_stream(index.directory, mode=mode)
    offset, rows = next_batch(reader, {})
    assert len(rows) == 15
    (index.directory / name).unlink()
    index.roll(name)
    put(index, 2)
    assert [row[0] for row in next_batch(reader, offset)[1]] == [name, name]
    assert not caplog.records


def test_a_newest_file_that_ends_in_its_header_is_damaged(index):
    """A broker sets the size at once."""
    put(index, 15)
    cut = max(index.directory.iterdir())
    cut.write_bytes(cut.read_bytes()[:39])
    with pytest.raises(CorruptIndexError, match=f"{cut.name}: header at byte 0"):
        next_batch(open_stream(index.directory), {})


def test_a_batch_whose_files_expired_before_it_was_planned_again(index):
    """An error that says how many entries are gone, or what is left of them."""
    put(index, 30)
    end, rows = next_batch(open_stream(index.directory), {})
    min(index.directory.iterdir()).unlink()
    with pytest.raises(RmqIndexError, match=r"expected 30 entries .* got 19: files are gone"):
        entries_between(open_stream(index.directory), {}, end)
    left = entries_between(open_stream(index.directory, failOnDataLoss="false"), {}, end)
    assert left == rows[PLACES - 1 :]


def test_a_file_that_goes_between_planning_and_reading(index):
    """An error, or no rows of it."""
    put(index, 30)
    for lenient, count in (("true", None), ("false", 19)):
        reader = open_stream(index.directory, failOnDataLoss=lenient, maxPartitionBytes="1")
        end = reader.latestOffset({}, ReadAllAvailable())
        partitions = reader.partitions({}, end)
        first = min(index.directory.iterdir())
        kept = first.read_bytes()
        first.unlink()
        if count is None:
            with pytest.raises(RmqIndexError, match="removed"):
                [list(reader.read(partition)) for partition in partitions]
            first.write_bytes(kept)
        else:
            batches = [batch for each in partitions for batch in reader.read(each)]
            assert sum(batch.num_rows for batch in batches) == count


def test_a_broker_that_crashed_is_followed_into_its_new_file(index):
    """It deletes the file that it wrote, and indexes its messages once more, under a new name."""
    (index.directory.parent / "commitlog").mkdir()  # a store stands around its empty index
    put(index, 5)
    reader = open_stream(index.directory)
    offset, _ = next_batch(reader, {})
    next(index.directory.iterdir()).unlink()
    assert next_batch(reader, offset) == (offset, [])
    again = LiveIndex(index.directory, SLOTS, PLACES)
    put(again, 9)
    _, rows = next_batch(reader, offset)
    assert rows == everything(index.directory)


def test_stores_have_offsets_of_their_own_and_may_come_later(tmp_path):
    """A pattern stands for those that are there when the next batch is made."""
    stores = [LiveIndex(tmp_path / f"broker-{name}" / "index", SLOTS, PLACES) for name in "ab"]
    for index in stores:
        put(index, 20)
    pattern = tmp_path / "broker-*"
    reader = open_stream(pattern, maxEntriesPerTrigger="10")
    offset, rows = next_batch(reader, {})
    assert {directory: each["entries"] for directory, each in offset.items()} == {
        str(index.directory): 5 for index in stores
    }
    late = LiveIndex(tmp_path / "broker-c" / "index", SLOTS, PLACES)
    put(late, 2)
    while True:
        end, more = next_batch(reader, offset)
        if end == offset:
            break
        offset, rows = end, rows + more
    assert len(rows) == 42
    assert sorted(rows) == sorted(
        row for index in [*stores, late] for row in everything(index.directory)
    )


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"commitLog": "auto"},
        {"commitLog": "auto", "unverified": "drop", "beginTimestamp": "MIDDLE"},
        {"endTimestamp": "MIDDLE"},
    ],
)
@pytest.mark.parametrize("is_lookup", [False, True])
def test_what_a_load_filters_and_verifies_a_stream_does_too(
    store, store_entries, store_pairs, options, is_lookup
):
    """The batches together are what a load of the same options returns."""
    middle = str(sorted(entry.store_timestamp for entry in store_entries)[len(store_entries) // 2])
    options = {name: value.replace("MIDDLE", middle) for name, value in options.items()}
    if is_lookup:
        topic = store_pairs[0][0]
        keys = [key for each, key in store_pairs if each == topic]
        options = {**options, "topic": topic, "keys": json.dumps([*keys, "nothing"])}
    read = read_options({"path": str(store), **options})
    load = IndexReader(read, full_schema(keys=read.has_keys, log=read.has_log), {})
    expected = [
        row for part in load.partitions() for batch in load.read(part) for row in batch.to_pylist()
    ]
    assert expected
    reader, offset, found = open_stream(store, maxEntriesPerTrigger="170", **options), {}, []
    while True:
        end = reader.latestOffset(offset, reader.getDefaultReadLimit())
        if end == offset:
            break
        for part in reader.partitions(offset, end):
            found += [row for batch in reader.read(part) for row in batch.to_pylist()]
        offset = end

    def place(row):
        return row["file_path"], row["position"], row.get("key") or ""

    assert sorted(found, key=place) == sorted(expected, key=place)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"startingPosition": "5"}, "earliest or latest"),
        ({"startingPosition": "first"}, "earliest, latest, or an offset"),
        ({"maxEntriesPerTrigger": "0"}, "an integer from 1"),
        ({"maxMessagesPerTrigger": "1"}, "only for spark.readStream|not for"),
        ({"pushdown": "true"}, "not for spark.readStream"),
        ({"audit": "true"}, "not for spark.readStream"),
        ({"maxEntries": "1"}, "did you mean 'maxEntriesPerTrigger'"),
    ],
)
def test_options_of_a_stream_are_checked(options, words):
    """The error names what is allowed."""
    with pytest.raises(ValueError, match=words):
        stream_options({"path": "/d", **options})


@pytest.mark.parametrize(
    ("source", "options", "words"),
    [
        (DefaultSource, {"path": "/d", "pushdown": "true"}, "not for spark.readStream"),
        (DefaultSource, {"maxEntriesPerTrigger": "5"}, "expected a path"),
        (MessageSource, {"path": "/d", "endOffset": "5"}, "only for spark.read;"),
    ],
)
def test_a_wrong_stream_says_so_when_it_is_asked(source, options, words):
    """Spark would hide an error of streamReader itself behind one of its own."""
    reader = source(options).streamReader(StructType().add("phy_offset", "long"))
    for ask in (
        reader.initialOffset,
        lambda: reader.latestOffset({}, ReadAllAvailable()),
        lambda: reader.partitions({}, {}),
        lambda: reader.read(None),
    ):
        with pytest.raises(ValueError, match=words):
            ask()


def test_a_load_refuses_the_options_of_streams():
    """Though its columns are known: Spark asks for them before it says what it wants."""
    assert schema_options({"path": "/d", "maxEntriesPerTrigger": "5"}).paths == ("/d",)
    with pytest.raises(ValueError, match=r"only for spark\.readStream"):
        read_options({"path": "/d", "maxEntriesPerTrigger": "5"})


def test_a_file_that_is_written_anew_after_the_look_at_it_is_refused(index, monkeypatch):
    """By its name: the position counted is not one of the caller's."""
    put(index, 5)
    look = Directories.look

    def looked_and_lost(self, offsets):
        found = look(self, offsets)
        index.map[36:40] = (2).to_bytes(4, "big")
        return found

    monkeypatch.setattr(Directories, "look", looked_and_lost)
    words = r"index/\d{17}: expected at least the 5 entries .* got 1: the file is written anew"
    with pytest.raises(RmqIndexError, match=words):
        next_batch(open_stream(index.directory), {})


def test_files_that_come_all_the_time_are_an_error_that_names_the_path(index, monkeypatch):
    """The look at the directories is never the same twice, and not returned as it came last."""
    hurry(monkeypatch, least=3600)
    put(index, 1)
    listings = []

    def list_and_add(options):
        listings.append(list_files(options))
        name = str(len(listings))
        with IndexFileWriter(index.directory / name, Layout(SLOTS, PLACES)) as writer:
            writer.put_many([7], [100], [TIME])
        return listings[-1]

    monkeypatch.setattr(listing_module, "list_files", list_and_add)
    words = rf"{index.directory}: expected one reading .* files came"
    with pytest.raises(RmqIndexError, match=words):
        Directories(read_options({"path": str(index.directory)})).look({})
    assert len(listings) >= 5


@pytest.mark.system
def test_a_writing_process_is_followed_with_readers_that_die_at_any_moment(tmp_path):
    """Thousands of entries a second, files that roll, and what the mapping holds at that moment."""
    root = tmp_path / "store"
    limits = ("maxEntriesPerTrigger", [100, 2_000, 10_000])
    with started(root, "index", seconds=4, rate=3000, index_num=1500) as writer:
        rows, batches = follow(
            writer, {}, partial(open_stream, root), limits, next_batch, entries_between
        )
    assert writer.returncode == 0
    assert rows == everything(root / "index", 375)
    assert batches > 10
    shutil.rmtree(root)


def without_checksums(offset):
    """Return an offset as an older version kept it."""
    return {
        directory: {k: v for k, v in each.items() if k not in {"checksum", "finished"}}
        for directory, each in offset.items()
    }


def replace_middle(path):
    """Change an entry that is neither the first nor the last, where it is."""
    data = bytearray(path.read_bytes())
    at = 40 + 4 * SLOTS + 20 * 3 + 4
    data[at : at + 8] = (int.from_bytes(data[at : at + 8], "big") + 1).to_bytes(8, "big")
    path.write_bytes(data)


def test_a_current_file_with_another_entry_is_a_loss_also_after_a_restart(index):
    """Its first and its last entry are those that were read."""
    put(index, 6)
    reader = open_stream(index.directory)
    offset, _ = next_batch(reader, {})
    put(index, 2)
    index.map.flush()
    (path,) = index.directory.iterdir()
    replace_middle(path)
    for again in (reader, open_stream(index.directory)):
        with pytest.raises(RmqIndexError, match=rf"{path.name}: .* written anew"):
            next_batch(again, offset)
    old = without_checksums(offset)
    assert len(next_batch(open_stream(index.directory), old)[1]) == 2
    going_on = open_stream(index.directory, failOnDataLoss="false")
    assert [row[1] for row in next_batch(going_on, offset)[1]] == [7, 8]


@pytest.mark.parametrize("place", [0, 1, 2], ids=["first", "middle", "last"])
def test_a_batch_that_is_run_again_is_the_same_or_refused_by_name(index, place):
    """Its offsets are in the checkpoint, and one of its files was changed since."""
    put(index, 4)
    begin, _ = next_batch(open_stream(index.directory), {})
    put(index, 2 * PLACES)
    end, rows = next_batch(open_stream(index.directory), begin)
    put(index, 1)
    assert entries_between(open_stream(index.directory), begin, end) == rows
    path = sorted(index.directory.iterdir())[place]
    index.map.flush()
    replace_middle(path)
    with pytest.raises(RmqIndexError, match=path.name):
        entries_between(open_stream(index.directory), begin, end)


def test_a_faithful_copy_of_a_store_is_read_on(index, tmp_path):
    """It has other inodes and times, and the same entries."""
    put(index, 30)
    begin, _ = next_batch(open_stream(index.directory), {})
    put(index, 30)
    end, rows = next_batch(open_stream(index.directory), begin)
    index.map.flush()
    index.directory.rename(tmp_path / "gone")
    shutil.copytree(tmp_path / "gone", index.directory, copy_function=shutil.copyfile)
    assert entries_between(open_stream(index.directory), begin, end) == rows
    assert next_batch(open_stream(index.directory), end) == (end, [])


def test_a_checkpoint_of_an_older_version_goes_on_with_checksums(index):
    """The next batch adds them."""
    put(index, 5)
    offset, _ = next_batch(open_stream(index.directory), {})
    old = without_checksums(offset)
    assert next_batch(open_stream(index.directory), old) == (old, [])
    put(index, 20)
    end, rows = next_batch(open_stream(index.directory), old)
    assert len(rows) == 20
    assert end[str(index.directory)].keys() >= {"checksum", "finished"}
    assert entries_between(open_stream(index.directory), old, without_checksums(end)) == rows


def test_a_file_that_is_replaced_between_planning_and_reading_a_batch_is_refused(index):
    """A task knows the file that was planned."""
    put(index, 30)
    reader = open_stream(index.directory)
    end = through_json(reader.latestOffset({}, ReadAllAvailable()))
    planned = reader.partitions({}, end)
    path = min(index.directory.iterdir())
    shutil.copy2(path, path.with_name("copy"))
    path.with_name("copy").replace(path)
    with pytest.raises(RmqIndexError, match=f"{path.name}: the file was replaced"):
        [list(reader.read(each)) for each in planned]
