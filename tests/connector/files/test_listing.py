"""Paths to files, on a local disk and on a store that is reached by URI."""

from __future__ import annotations

import shutil

import pytest

from clock import hurry
from pyspark_rmqindex.files import listing as listing_module
from pyspark_rmqindex.files.listing import list_files, list_slices, open_slice
from pyspark_rmqindex.options import read_options
from remote_stores import under_uri
from rmqindex import IndexFileWriter, Layout, RmqIndexError
from rmqindex.transaction import staging_root

LAYOUT = Layout(97, 200)


@pytest.fixture
def far(tmp_path, monkeypatch):
    """Return the URI and the folder of a store that ``pyarrow.fs`` reaches by a scheme."""
    return under_uri(monkeypatch, tmp_path, "?region=x") + "/", tmp_path


def write(folder, name, count=3):
    """Write a small file."""
    folder.mkdir(parents=True, exist_ok=True)
    with IndexFileWriter(folder / name, LAYOUT) as writer:
        writer.put_many(range(count), range(100, 100 + count), [1_700_000_000_000] * count)


def names(listing):
    """Return the last parts of the paths listed."""
    return [each.name_path.partition("?")[0].rpartition("/")[2] for each in listing.slices]


def test_files_come_in_the_brokers_order(tmp_path):
    """By their names as Java compares texts; those without entries count but are not read."""
    for name, count in (("20240102000000000", 2), ("20240101000000000", 1), ("9", 3), ("5", 0)):
        write(tmp_path, name, count)
    listing = list_slices(read_options({"path": str(tmp_path)}))
    assert names(listing) == ["20240101000000000", "20240102000000000", "9"]
    assert (listing.total, listing.is_remote) == (4, False)
    assert [each.limit for each in listing.slices] == [2, 3, 4]
    assert {(each.hash_slot_num, each.index_num) for each in listing.slices[1:]} == {(97, 200)}


def test_a_relative_path_is_listed_as_an_absolute_one(tmp_path, monkeypatch):
    """The column file_path says where the file is, wherever one stands."""
    write(tmp_path / "index", "1")
    monkeypatch.chdir(tmp_path)
    (slice_,) = list_slices(read_options({"path": "index"})).slices
    assert slice_.name_path == str(tmp_path / "index" / "1")


def test_a_file_with_any_name_is_read_where_it_is_named_itself(tmp_path):
    """Only listings and patterns skip names that are no numbers."""
    write(tmp_path, "one.bin")
    assert names(list_slices(read_options({"path": str(tmp_path / "one.bin")}))) == ["one.bin"]
    with pytest.raises(RmqIndexError, match="no file fits the pattern"):
        list_slices(read_options({"path": str(tmp_path / "two*")}))
    assert list_slices(read_options({"path": str(tmp_path / "one*")})).total == 0


def test_a_path_that_looks_like_a_pattern_is_taken_as_it_is_where_it_exists(tmp_path):
    """A literal name comes first."""
    write(tmp_path / "a[1]", "1")
    write(tmp_path / "a1", "2")
    assert names(list_slices(read_options({"path": str(tmp_path / "a[1]")}))) == ["1"]
    shutil.rmtree(tmp_path / "a[1]")
    assert names(list_slices(read_options({"path": str(tmp_path / "a[1]")}))) == ["2"]


def test_a_folder_with_a_numeric_name_is_an_error_unless_folders_are_read(tmp_path):
    """The broker's loader stops at one."""
    write(tmp_path, "1")
    write(tmp_path / "2", "3")
    with pytest.raises(RmqIndexError, match="expected an IndexFile, got a directory"):
        list_slices(read_options({"path": str(tmp_path)}))
    below = read_options({"path": str(tmp_path), "recursiveFileLookup": "true"})
    assert names(list_slices(below)) == ["1", "3"]


def test_a_far_store_is_listed_matched_and_opened(far):
    """Directory, store root, pattern, folders below, and a missing path."""
    uri, folder = far
    write(folder / "store" / "index", "20240101000000000")
    write(folder / "store" / "index", "20240102000000000", 5)
    (folder / "store" / "commitlog").mkdir()
    (folder / "store" / "index" / "_tmp").write_bytes(b"")
    geometry = {"maxHashSlotNum": "97", "maxIndexNum": "200"}

    def options(path, **more):
        return read_options({"path": f"{uri}{path}?region=x", **geometry, **more})

    both = ["20240101000000000", "20240102000000000"]
    for path in ("store", "store/index", "st*e/index", "store/index/2024*", "store/{index}/*"):
        listing = list_slices(options(path))
        assert names(listing) == both, path
        assert listing.is_remote
    assert names(list_slices(options("", recursiveFileLookup="true"))) == both
    assert names(list_slices(options("store", pathGlobFilter="*02000000000"))) == both[1:]
    one = options("store/index/20240102000000000")
    (slice_,) = list_slices(one).slices
    assert slice_.name_path == f"{uri}store/index/20240102000000000?region=x"
    with open_slice(slice_, one) as file:
        assert file.entry_count == 5
    passed_over = "no such file or directory; with ignoreMissingFiles=true it is passed over$"
    with pytest.raises(RmqIndexError, match=passed_over):
        list_slices(options("missing"))
    assert list_slices(options("missing", ignoreMissingFiles="true")).total == 0
    (folder / "store" / "index" / "20240102000000000").unlink()
    with (
        pytest.raises(RmqIndexError, match="was removed since the query was planned"),
        open_slice(slice_, one),
    ):
        pass


def test_a_longer_copy_that_takes_the_place_of_a_file_is_refused(tmp_path):
    """Nothing proves that all of its entries are the planned ones."""
    write(tmp_path, "1", 2)
    options = read_options({"path": str(tmp_path)})
    (slice_,) = list_slices(options).slices
    write(tmp_path / "new", "1", 2)
    append(tmp_path / "new" / "1")
    (tmp_path / "new" / "1").replace(tmp_path / "1")
    with (
        pytest.raises(RmqIndexError, match="1: the file was replaced since the query was planned"),
        open_slice(slice_, options),
    ):
        pass


def test_a_file_that_grows_where_it_stands_is_read_as_it_was_planned(tmp_path):
    """A broker appends in place; the entries counted at planning are read, and no others."""
    write(tmp_path, "1", 2)
    options = read_options({"path": str(tmp_path)})
    (slice_,) = list_slices(options).slices
    append(tmp_path / "1")
    with open_slice(slice_, options) as file:
        assert file.entry_count == 3
        assert slice_.limit == 3
        assert file.lookup([9], slice_.limit).num_rows == 0


def append(path):
    """Append one entry in place."""
    with IndexFileWriter(path, LAYOUT) as writer:
        writer.put_many([9], [500], [1_700_000_001_000])


@pytest.fixture
def hurried(monkeypatch):
    """Let readings be refused after a few."""
    hurry(monkeypatch, least=3600)


def always_changing(monkeypatch, folder):
    """Put one more file into a folder whenever it was listed; return the listings."""
    original, listings = list_files, []

    def list_and_add(options):
        listings.append(original(options))
        write(folder, str(len(listings)))
        return listings[-1]

    monkeypatch.setattr(listing_module, "list_files", list_and_add)
    return listings


@pytest.mark.usefixtures("hurried")
def test_files_that_come_all_the_time_are_an_error_that_names_the_path(tmp_path, monkeypatch):
    """A listing that is never the same twice is refused, and not returned as it came last."""
    write(tmp_path, "0")
    listings = always_changing(monkeypatch, tmp_path)
    with pytest.raises(RmqIndexError, match=rf"{tmp_path}: expected one reading .* files came"):
        list_slices(read_options({"path": str(tmp_path)}))
    assert len(listings) >= 5


@pytest.mark.parametrize("form", ["index", "index/1", "in*", "in*/1", "index/*"])
def test_a_refused_listing_is_never_taken_for_an_empty_one(tmp_path, form):
    """Be it of a directory, of the directory of a file, or of what fits a pattern."""
    write(tmp_path / "index", "1")
    root = staging_root(tmp_path / "index")
    root.mkdir()
    (root / "journal.json").write_text("damaged")
    options = read_options({"path": str(tmp_path / form), "ignoreMissingFiles": "true"})
    with pytest.raises(RmqIndexError, match=r"journal\.json: expected the journal of a write"):
        list_slices(options)


def test_a_planned_file_is_not_missing_where_its_listing_is_refused(tmp_path):
    """A task that finds neither the file nor a listing that can be trusted fails by name."""
    write(tmp_path / "index", "1")
    options = read_options({"path": str(tmp_path / "index"), "ignoreMissingFiles": "true"})
    (slice_,) = list_slices(options).slices
    (tmp_path / "index" / "1").unlink()
    root = staging_root(tmp_path / "index")
    root.mkdir()
    (root / "journal.json").write_text("damaged")
    with (
        pytest.raises(RmqIndexError, match=r"journal\.json: expected the journal of a write"),
        open_slice(slice_, options),
    ):
        pass
