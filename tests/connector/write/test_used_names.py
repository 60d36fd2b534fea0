"""A new file never takes a name that was used before, whatever writes it and wherever."""

from __future__ import annotations

import shutil
import uuid

import pyarrow.fs as pafs
import pytest
from spark_writes import write

from rmqindex import RmqIndexError, rebuild_index, sample_store
from rmqindex.bulk import expire_index, relayout_index
from rmqindex.indexfile import Layout
from rmqindex.store import index_files, timestamp_name
from rmqindex.times import zone_of
from s3_server import BUCKET

LAYOUT = Layout(97, 64)
NO_ROWS = (0, 0)


@pytest.fixture(params=["local", "s3"])
def index(request, tmp_path):
    """Return an index directory that is not there yet."""
    if request.param == "local":
        return str(tmp_path / "index")
    request.getfixturevalue("s3_environment")
    return f"s3://{BUCKET}/names-{uuid.uuid4().hex}/index"


def names(path):
    """Return the names of the IndexFiles that are there."""
    return [entry.name for entry in index_files(path)]


class Used:
    """The names that were seen so far; a new one must come after all of them."""

    def __init__(self):
        """Know none."""
        self.names: set[str] = set()

    def see(self, path):
        """Check what is new in a directory, and return all that is there."""
        there = names(path)
        new = set(there) - self.names
        assert not self.names or all(name > max(self.names) for name in new)
        self.names |= new
        return there


def test_an_index_that_is_overwritten_again_and_again(index):
    """The first overwrite of a first overwrite once had the first names again."""
    used = Used()
    for _ in range(4):
        before = set(used.names)
        write(index, (0, 100), overwrite=True)
        assert len(used.see(index)) == 2
        assert not before & set(names(index))


def test_an_index_that_is_emptied_and_written_again(index):
    """An overwrite without rows leaves no file that could tell the last name."""
    used = Used()
    write(index, (0, 100))
    used.see(index)
    for overwrite in (False, True):
        write(index, NO_ROWS, overwrite=True)
        write(index, NO_ROWS, overwrite=True)
        assert used.see(index) == []
        before = set(used.names)
        write(index, (0, 100), overwrite=overwrite)
        assert len(used.see(index)) == 2
        assert not before & set(names(index))


def test_the_first_names_are_the_times_of_the_first_entries(index):
    """As long as nothing else was there."""
    write(index, (0, 100))
    begin = 1_700_000_000_000
    assert names(index) == [timestamp_name(begin + each * 1000, zone_of("UTC")) for each in (0, 63)]


def test_what_was_kept_of_an_emptied_index_goes_with_the_next_write(tmp_path):
    """Nothing stays beside an index that tells its names itself."""
    index = tmp_path / "index"
    write(index, (0, 100))
    write(index, NO_ROWS, overwrite=True)
    assert (tmp_path / ".index.rmqindex" / "last-name").exists()
    write(index, (0, 100))
    assert [path.name for path in tmp_path.iterdir()] == ["index"]


def test_a_kept_name_that_is_none_is_refused(tmp_path):
    """By the file that says so."""
    index = tmp_path / "index"
    write(index, (0, 100))
    write(index, NO_ROWS, overwrite=True)
    (tmp_path / ".index.rmqindex" / "last-name").write_text("soon")
    with pytest.raises(RmqIndexError, match=r"last-name: expected .*, 17 digits, got 'soon'"):
        write(index, (0, 100))


def test_a_directory_that_was_made_anew_knows_the_names_of_the_last_recorded_commit(tmp_path):
    """Somebody deleted the files, and not what a stream has recorded beside them."""
    from pyspark_rmqindex.write.job import write_options
    from rmqindex.transaction import LocalStaging, Owner

    index = tmp_path / "index"
    write(index, (0, 100))
    used = Used()
    used.see(index)
    last = index / names(index)[-1]
    staging = LocalStaging.create(index, Owner.current())
    recorded = f"{int(last.name) + 1:017d}"
    shutil.copy(last, staging.path / "new")
    with staging.exclusive():
        staging.commit([(staging.path / "new", recorded)], [], ledger={"streams": {}})
    staging.discard()
    used.see(index)
    shutil.rmtree(index)
    assert write_options({"path": str(index)}).directory == index
    write(index, (0, 100))
    assert len(used.see(index)) == 2


def test_a_relayout_a_rebuild_and_an_expiry(tmp_path):
    """There and back: each has names of its own, after those that it replaces."""
    store = tmp_path / "store"
    shutil.copytree(sample_store(), store)
    index, log = store / "index", store / "commitlog"
    used = Used()
    used.see(index)
    relayout_index(index, Layout(11, 50), old_layout=Layout(97, 200))
    used.see(index)
    relayout_index(index, Layout(97, 200), old_layout=Layout(11, 50))
    used.see(index)
    rebuild_index(log, index, Layout(97, 200), replace=True)
    first = used.see(index)
    rebuild_index(log, index, Layout(97, 200), replace=True)
    used.see(index)
    expire_index(index, 1 << 40, allow_loss=True)
    assert len(used.see(index)) == 1
    assert used.names.issuperset(first)
    rebuild_index(log, index, Layout(97, 200), replace=True)
    used.see(index)


def test_a_rebuild_in_place_of_an_index_that_was_emptied(tmp_path):
    """It finds no file, and the last name beside the directory."""
    store = tmp_path / "store"
    shutil.copytree(sample_store(), store)
    index = store / "index"
    used = Used()
    used.see(index)
    write(index, NO_ROWS, overwrite=True, maxHashSlotNum="97", maxIndexNum="200")
    assert used.see(index) == []
    rebuild_index(store / "commitlog", index, Layout(97, 200))
    assert len(used.see(index)) > 1


def test_a_rebuild_goes_on_behind_a_last_file_without_entries(tmp_path):
    """Its name counts although nothing else in it does."""
    store = tmp_path / "store"
    shutil.copytree(sample_store(), store)
    index = store / "index"
    last = index / "20240101000000000"
    for path in list(index.iterdir()):
        path.unlink()
    header = bytearray(Layout(97, 200).file_size)
    header[:4] = header[8:12] = b"\0\0\1\0"
    last.write_bytes(header)
    rebuild_index(store / "commitlog", index, Layout(97, 200), resume=True)
    assert names(index)[0] == last.name
    assert len(names(index)) > 1


def test_a_last_name_after_now_refuses_new_files(tmp_path):
    """A later name would hide the broker's next file, and an earlier one come before this."""
    index = tmp_path / "index"
    write(index, (0, 100))
    last = max(index.iterdir())
    last.rename(index / "29990101000000000")
    before = {path.name: path.read_bytes() for path in index.iterdir()}
    with pytest.raises(RmqIndexError, match=r"no name is left .*timeZone.* --replace"):
        write(index, (200, 1000))
    assert {path.name: path.read_bytes() for path in index.iterdir()} == before


def test_a_name_after_now_does_not_matter_to_files_that_replace_it(tmp_path):
    """Nor does it to those that follow them."""
    index = tmp_path / "index"
    write(index, (0, 100))
    max(index.iterdir()).rename(index / "29990101000000000")
    write(index, (0, 100), overwrite=True)
    write(index, (200, 1000))
    assert max(names(index)) < "29990101000000000"


def test_a_name_of_another_length_does_not_matter_to_files_that_replace_it(tmp_path):
    """No new file can have it."""
    index = tmp_path / "index"
    write(index, (0, 10))
    (path,) = index.iterdir()
    path.rename(index / "9")
    write(index, (0, 10), overwrite=True)
    assert [len(name) for name in names(index)] == [17]


def test_where_the_index_is_a_whole_bucket_nothing_is_kept_beside_it(s3_environment):
    """There is no such place; the store's ETags tell objects of one name apart."""
    bucket = f"names-{uuid.uuid4().hex}"
    s3_environment.fs.create_dir(bucket)
    for _ in range(2):
        write(f"s3://{bucket}", (0, 10))
        write(f"s3://{bucket}", NO_ROWS, overwrite=True)
    assert s3_environment.fs.get_file_info(pafs.FileSelector(bucket, recursive=True)) == []
