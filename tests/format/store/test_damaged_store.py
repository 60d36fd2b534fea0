"""Stores of several files of which one is damaged."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import rmqindex
from rmqindex import CorruptIndexError, RmqIndexError
from rmqindex.store.snapshot import IndexSnapshot

STORE = Path(rmqindex.sample_store())
NAMES = sorted(path.name for path in (STORE / "index").iterdir())
MIDDLE = NAMES[2]
LAYOUT = rmqindex.Layout(97, 200)


def rows(path, mode="DROPMALFORMED", layout=None):
    """Return every row of a path, each with its file; links are as stored, right or not."""
    found = set()
    for planned in IndexSnapshot.of(path, layout, mode):
        if planned.is_empty:
            continue
        with planned.open() as file:
            for batch in file.scan(stop=planned.stop):
                for row in batch.drop_columns("prev_position").to_pylist():
                    found.add((planned.entry.name, *row.values()))
    return found


TRUE = rows(STORE, "FAILFAST")


def copied(folder):
    """Copy the sample store."""
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(STORE, folder)
    return folder


def others(name):
    """Return the rows of all files but one."""
    return {row for row in TRUE if row[0] != name}


SIZE = LAYOUT.file_size
damages = st.one_of(
    st.tuples(st.just("cut"), st.integers(0, SIZE - 1)),
    st.tuples(st.just("header"), st.binary(min_size=40, max_size=40)),
    st.tuples(
        st.just("field"), st.tuples(st.sampled_from([0, 8, 36]), st.binary(min_size=4, max_size=4))
    ),
    st.tuples(st.just("surplus"), st.binary(min_size=1, max_size=5000)),
    st.tuples(st.just("zeros"), st.integers(0, SIZE)),
    st.tuples(st.just("tail"), st.integers(0, SIZE)),
    st.tuples(st.just("noise"), st.binary(max_size=300)),
)


def damage(path, how, what):
    """Damage a file."""
    data = bytearray(path.read_bytes())
    if how == "cut":
        data = data[:what]
    elif how == "header":
        data[:40] = what
    elif how == "field":
        data[what[0] : what[0] + 4] = what[1]
    elif how == "surplus":
        data += what
    elif how == "zeros":
        data = bytearray(what)
    elif how == "tail":
        data[what:] = bytes(len(data) - what)
    else:
        data = bytearray(what)
    path.write_bytes(data)


def is_torn(row, name, start):
    """Tell whether zeros from some byte of a file on begin within the entry of a row."""
    return row[0] == name and 0 < start - LAYOUT.entry_offset(row[-1]) < 20


@settings(deadline=None, max_examples=150, suppress_health_check=[HealthCheck.too_slow])
@given(name=st.sampled_from(NAMES), chosen=damages)
def test_a_damaged_file_hides_no_other_and_yields_no_wrong_row(tmp_path_factory, name, chosen):
    """DROPMALFORMED reads all rows of the other files, and true rows of the damaged one.

    What zeros leave of the entry that they begin in may break no rule.
    """
    store = copied(tmp_path_factory.getbasetemp() / "damaged")
    damage(store / "index" / name, *chosen)
    found = rows(store)
    torn = {row for row in found if chosen[0] == "tail" and is_torn(row, name, chosen[1])}
    assert others(name) <= found
    assert found - torn <= TRUE
    alone = rows(store / "index" / name)
    assert alone == found - others(name)


@pytest.mark.parametrize("start", range(SIZE - 19, SIZE - 4))
def test_what_zeros_leave_of_the_last_entry_is_refused(tmp_path, start):
    """The header says where its message is, and when it was stored."""
    store = copied(tmp_path / "store")
    damage(store / "index" / NAMES[1], "tail", start)
    with pytest.raises(RmqIndexError):
        rows(store, "FAILFAST")


@pytest.mark.parametrize("cut", [39, 40, 100, 427, 428, 448, 3000, 3007, SIZE - 20, SIZE - 1])
def test_a_truncated_file_is_read_up_to_its_end(tmp_path, cut):
    """The files beside it prove its geometry."""
    store = copied(tmp_path / "store")
    os.truncate(store / "index" / MIDDLE, cut)
    whole = max(0, (cut - LAYOUT.entry_offset(1)) // 20)
    assert len(rows(store) - others(MIDDLE)) == whole


@pytest.mark.parametrize("name", NAMES[:2] + NAMES[-1:])
@pytest.mark.parametrize("surplus", [b"\0", b"surplus", b"\xff" * 4996])
def test_surplus_bytes_are_not_read(tmp_path, name, surplus):
    """As by a broker, which maps the geometry of the files beside it; the audit says so, too."""
    store = copied(tmp_path / "store")
    path = store / "index" / name
    path.write_bytes(path.read_bytes() + surplus)
    for mode in ("FAILFAST", "DROPMALFORMED"):
        assert rows(store, mode) == TRUE
        assert rows(path, mode) == TRUE - others(name)
    found = rmqindex.verify(store).to_pylist()
    assert {row["rule"] for row in found if row["file"] == str(path)} >= {"surplus_bytes"}
    assert {row["severity"] for row in found} == {"info"}


def test_surplus_bytes_excuse_no_damage(tmp_path):
    """A header that its entries contradict is refused, as in a file of the right size."""
    store = copied(tmp_path / "store")
    path = store / "index" / MIDDLE
    damage(path, "field", (16, b"\x01\x02\x03\x04"))
    damage(path, "surplus", b"\0")
    with pytest.raises(RmqIndexError, match="no geometry has a file size of 4429 bytes"):
        rows(store, "FAILFAST")


def test_a_lone_file_with_surplus_bytes_needs_its_geometry(tmp_path):
    """Nothing proves which bytes are surplus."""
    shutil.copy(STORE / "index" / MIDDLE, tmp_path)
    damage(tmp_path / MIDDLE, "surplus", b"\0")
    with pytest.raises(RmqIndexError, match="no geometry has a file size of 4429 bytes"):
        rows(tmp_path, "FAILFAST")
    assert rows(tmp_path, "FAILFAST", LAYOUT) == TRUE - others(MIDDLE)


@pytest.mark.parametrize("make", [Path.mkdir, os.mkfifo])
def test_what_is_no_file_is_skipped(tmp_path, make):
    """A directory or a pipe has no entries, and opening the pipe would block."""
    store = copied(tmp_path / "store")
    (store / "index" / MIDDLE).unlink()
    make(store / "index" / MIDDLE)
    assert rows(store) == others(MIDDLE)
    with pytest.raises(RmqIndexError, match=f"{MIDDLE}: "):
        rows(store, "FAILFAST")


def test_the_error_of_a_truncated_file_names_what_helps(tmp_path):
    """FAILFAST refuses, and says which options read the rest."""
    store = copied(tmp_path / "store")
    os.truncate(store / "index" / MIDDLE, 3000)
    with pytest.raises(CorruptIndexError, match=r"mode=DROPMALFORMED .* maxHashSlotNum and maxIn"):
        rows(store, "FAILFAST")
    with pytest.raises(CorruptIndexError, match=r"file_size at byte 3000.*mode=DROPMALFORMED"):
        rows(store, "FAILFAST", LAYOUT)


def test_a_lone_truncated_file_needs_its_geometry(tmp_path):
    """Nothing proves it, so it is asked for."""
    shutil.copy(STORE / "index" / MIDDLE, tmp_path)
    os.truncate(tmp_path / MIDDLE, 3000)
    with pytest.raises(RmqIndexError, match="maxHashSlotNum and maxIndexNum"):
        rows(tmp_path)
    assert len(rows(tmp_path, layout=LAYOUT)) == 127


def test_files_that_disagree_prove_nothing(tmp_path):
    """A store of two geometries does not tell which one a truncated file had."""
    store = copied(tmp_path / "store")
    with rmqindex.IndexFileWriter(
        store / "index" / "20990101000000000", rmqindex.Layout(7, 50)
    ) as w:
        for number in range(20):
            w.put(str(number), 10**9 + number, 4_070_908_800_000 + number)
    os.truncate(store / "index" / MIDDLE, 3000)
    with pytest.raises(RmqIndexError, match="maxHashSlotNum and maxIndexNum"):
        rows(store)


def test_a_file_of_few_entries_is_read_with_the_geometry_of_the_others(tmp_path):
    """Its own entries fit many geometries; in FAILFAST it must fit that of the others."""
    with rmqindex.IndexFileWriter(tmp_path / "20260101000000000", rmqindex.Layout(7, 50)) as w:
        for number in range(49):
            w.put(str(number), number * 100, 1_700_000_000_000 + number)
    with rmqindex.IndexFileWriter(tmp_path / "20260102000000000", rmqindex.Layout(7, 50)) as w:
        w.put("5", 4900, 1_700_000_100_000)
    assert len(rows(tmp_path, "FAILFAST")) == 50


def test_the_broker_view_opens_a_truncated_file_with_the_geometry_of_the_others(tmp_path):
    """As the broker does, which extends it; its fullest file need not show the geometry."""
    store = copied(tmp_path / "store")
    for name in NAMES[:4]:
        os.truncate(store / "index" / name, 3000)
    with rmqindex.IndexDirectory(store) as index:
        assert index.layout == LAYOUT
        assert len(index.files) == 5


def test_a_relayout_loses_nothing_of_a_damaged_file(tmp_path):
    """It stops, and says what writes the index anew."""
    store = copied(tmp_path / "store")
    os.truncate(store / "index" / MIDDLE, 3000)
    with pytest.raises(
        CorruptIndexError, match=rf"`rmqindex verify {store}` says how to write the index"
    ):
        rmqindex.relayout_index(store, rmqindex.Layout(7, 50))
    assert sorted(path.name for path in (store / "index").iterdir()) == NAMES


def test_a_relayout_believes_the_log_before_a_damaged_end(tmp_path):
    """It wrote an ``end_timestamp`` that was another time of its second into the new header."""
    store = copied(tmp_path / "store")
    last = store / "index" / NAMES[-1]
    with rmqindex.IndexFile(last, LAYOUT) as file:
        begin, end = file.header.begin_timestamp, file.header.end_timestamp
    data = bytearray(last.read_bytes())
    wrong = end - 1 if (end - begin) % 1000 else end + 1
    data[8:16] = wrong.to_bytes(8, "big")
    last.write_bytes(data)
    made = rmqindex.relayout_index(store, rmqindex.Layout(7, 50), commit_log="auto")
    with rmqindex.IndexFile(made.files[-1], rmqindex.Layout(7, 50)) as file:
        assert file.header.end_timestamp == end


def test_a_relayout_takes_no_last_entry_of_zeros_for_one(tmp_path):
    """No broker counts an entry before it writes it, so that it was there once."""
    store = copied(tmp_path / "store")
    last = store / "index" / NAMES[-1]
    with rmqindex.IndexFile(last, LAYOUT) as file:
        count = file.entry_count
    data = bytearray(last.read_bytes())
    at = LAYOUT.entry_offset(count)
    end = int.from_bytes(data[at - 16 : at - 8], "big")
    data[at : at + 20] = bytes(20)
    data[24:32] = end.to_bytes(8, "big")  # as that of the last entry's message, which has others
    last.write_bytes(data)
    with pytest.raises(CorruptIndexError, match=rf"index_count .* expected {count}, behind which"):
        rmqindex.relayout_index(store, rmqindex.Layout(7, 50), old_layout=LAYOUT)
    assert sorted(path.name for path in (store / "index").iterdir()) == NAMES


def test_a_relayout_keeps_the_last_entry_that_only_its_slot_counts(tmp_path):
    """A kill comes before the count, and a damaged count looks alike: a broker finds the entry."""
    store = copied(tmp_path / "store")
    last = store / "index" / NAMES[-1]
    with rmqindex.IndexFile(last, LAYOUT) as file:
        count = file.entry_count
        (row,) = next(file.scan(count, count + 1)).to_pylist()
    data = bytearray(last.read_bytes())
    data[36:40] = count.to_bytes(4, "big")  # one fewer
    before = LAYOUT.entry_offset(count - 1)
    data[24:32] = data[before + 4 : before + 12]
    last.write_bytes(data)
    made = rmqindex.relayout_index(store, rmqindex.Layout(7, 50), old_layout=LAYOUT)
    assert made.entry_count == len(TRUE)
    with rmqindex.IndexFile(made.files[-1], rmqindex.Layout(7, 50)) as file:
        (kept,) = next(file.scan(file.entry_count, file.entry_count + 1)).to_pylist()
    assert (kept["key_hash"], kept["phy_offset"]) == (row["key_hash"], row["phy_offset"])


def test_a_relayout_keeps_the_only_entry_of_a_file_that_counts_none(tmp_path):
    """The files beside it show its geometry."""
    store = copied(tmp_path / "store")
    hashes = [5]
    with rmqindex.IndexFileWriter(store / "index" / "29990101000000000", LAYOUT) as writer:
        writer.put_many(hashes, [1 << 20], [32_472_144_000_000])
    with (store / "index" / "29990101000000000").open("r+b") as file:
        file.seek(36)
        file.write((1).to_bytes(4, "big"))
    made = rmqindex.relayout_index(store, rmqindex.Layout(7, 50), old_layout=LAYOUT)
    assert made.entry_count == len(TRUE) + 1


def write_first(folder, hashes):
    """Write an index of one message at offset 0."""
    path = folder / "index" / NAMES[0]
    path.parent.mkdir(parents=True)
    with rmqindex.IndexFileWriter(path, LAYOUT) as writer:
        writer.put_many(hashes, [0] * len(hashes), [1_700_000_000_000] * len(hashes))
    return path


@pytest.mark.parametrize("place", [1, 2])
def test_a_relayout_takes_no_zeros_for_an_entry(tmp_path, place):
    """Of which the slot leads elsewhere, be it the last one or not."""
    path = write_first(tmp_path, [5, 6, 7])
    data = bytearray(path.read_bytes())
    at = LAYOUT.entry_offset(1 + place)
    data[at : at + 20] = bytes(20)
    path.write_bytes(data)
    with pytest.raises(CorruptIndexError, match="zeros"):
        rmqindex.relayout_index(tmp_path, rmqindex.Layout(7, 50), old_layout=LAYOUT)
    assert path.read_bytes() == data


@pytest.mark.parametrize("hashes", [[0], [5, 0], [5, 0, 97], [5, 0, 6]])
def test_a_relayout_keeps_an_entry_that_is_of_zeros(tmp_path, hashes):
    """A key of the first message may well hash to 0."""
    write_first(tmp_path, hashes)
    made = rmqindex.relayout_index(tmp_path, rmqindex.Layout(7, 50), old_layout=LAYOUT)
    with rmqindex.IndexFile(made.files[0], rmqindex.Layout(7, 50)) as file:
        assert [row for batch in file.scan() for row in batch["key_hash"].to_pylist()] == hashes
