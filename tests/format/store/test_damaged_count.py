"""A count that is smaller than the entries that slots lead to is damage; an empty file is none."""

from __future__ import annotations

from dataclasses import replace

import pytest

from rmqindex import CorruptIndexError, IndexFile, IndexFileWriter, IndexHeader, Layout
from rmqindex.store.snapshot import IndexSnapshot

LAYOUT = Layout(97, 200)


@pytest.fixture
def files(store):
    """The five IndexFiles of the sample store, oldest first."""
    return sorted((store / "index").iterdir())


def write_header(path, **fields):
    """Change fields of a header."""
    with path.open("r+b") as file:
        header = replace(IndexHeader.from_bytes(file.read(40)), **fields)
        file.seek(0)
        file.write(header.to_bytes())


def write_at(path, offset, data):
    """Overwrite bytes."""
    with path.open("r+b") as file:
        file.seek(offset)
        file.write(data)


def errors(store, mode="FAILFAST", layout=None):
    """Return the error of each file."""
    return [file.error for file in IndexSnapshot.of(store, layout, mode)]


@pytest.mark.parametrize("layout", [None, LAYOUT])
@pytest.mark.parametrize("count", [-(2**31), -1, 0, 1, 2, 50, 176, 197])
def test_a_count_that_was_set_back_is_refused_by_name(store, files, count, layout):
    """Slots lead to entries behind it, in a middle file as in the last."""
    for place in (2, 4):
        write_header(files[place], index_count=min(count, 150) if place == 4 else count)
    found = errors(store, layout=layout)
    assert [error is None for error in found] == [True, True, False, True, False]
    if layout is not None or count < 2:
        assert isinstance(found[2], CorruptIndexError)
        assert (found[2].field, found[2].byte, found[2].got) == ("index_count", 36, count)
        assert "rmqindex verify" in str(found[2])
        assert f"`rmqindex scan {found[2].path} --salvage`" in str(found[2])


def test_a_count_of_one_fewer_is_refused_where_the_end_is_of_that_entry(store, files):
    """A broker counts an entry before it sets the end; one that was killed between did not."""
    with IndexFile(files[4]) as file:
        count = file.entry_count
        ends = [row["phy_offset"] for row in next(file.scan(count - 4)).to_pylist()]
    last = max(n for n in range(1, 5) if ends[n] != ends[n - 1])  # of a message's first entry
    counted = count - 4 + last
    write_header(files[4], index_count=counted, end_phy_offset=ends[last - 1])
    write_at(files[4], LAYOUT.entry_offset(counted + 1), bytes(20 * (count - counted)))
    assert errors(store) == [None] * 5
    write_header(files[4], end_phy_offset=ends[last])
    error = errors(store)[4]
    assert isinstance(error, CorruptIndexError)
    assert (error.field, error.got) == ("index_count", counted)
    assert f"expected {counted + 1}, behind the last entry, which" in str(error)


@pytest.mark.parametrize("layout", [None, LAYOUT])
def test_a_header_of_zeros_is_refused_by_name(store, files, layout):
    """The entries behind it show that there was one, whatever their geometry."""
    write_at(files[1], 0, bytes(40))
    found = errors(store, layout=layout)
    assert found[1].field == "index_count"
    assert found.count(None) == 4


def test_a_header_of_zeros_in_a_lone_file_of_the_default_size_is_refused(tmp_path):
    """The size alone tells its geometry."""
    path = tmp_path / "20231114221320000"
    with IndexFileWriter(path, Layout()) as writer:
        for number in range(5):
            writer.put(f"topic#key{number}", 100 * number, 1_700_000_000_000)
    write_at(path, 0, bytes(40))
    (error,) = errors(path)
    assert error.field == "index_count"


def test_the_lenient_reader_names_the_uncounted_entries(store, files):
    """It passes them over, and says so."""
    write_header(files[2], index_count=0)
    file = IndexSnapshot.of(store, None, "DROPMALFORMED")[2]
    assert file.error is None
    assert "index_count at byte 36" in file.lacking
    assert "which the header does not count" in file.lacking


@pytest.mark.parametrize("count", [0, 1])
@pytest.mark.parametrize("prev", [(0, 0), (122_928, 1_700_000_000_000)])
def test_an_empty_file_is_sound(store, files, count, prev):
    """It may have inherited the end of the file before it, and not have been flushed."""
    files[4].unlink()
    IndexFileWriter(files[4], LAYOUT, *prev).close()
    write_header(files[4], index_count=count)
    assert errors(store) == [None] * 5


def test_a_put_that_a_kill_cut_short_is_no_damage(store, files):
    """Its entry and its slot were written, its count was not."""
    count = IndexHeader.from_bytes(files[4].read_bytes()[:40]).index_count
    write_at(files[4], LAYOUT.entry_offset(count), b"\0\0\0\5" + bytes(16))
    write_at(files[4], LAYOUT.slot_offset(5), count.to_bytes(4, "big"))
    assert errors(store) == [None] * 5


def test_entries_to_which_no_slot_leads_are_no_damage(store, files):
    """A writer puts entries first, and makes them visible when it flushes."""
    with IndexFile(files[4]) as file:
        count = file.header.index_count
    write_at(files[4], LAYOUT.entry_offset(count), b"\0\0\0\5" * 15)
    assert errors(store) == [None] * 5
