"""What a path stands for."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from killing import dies_before
from remote_stores import under_uri
from rmqindex import RmqIndexError
from rmqindex.store import store as paths
from rmqindex.transaction import LocalStaging, Owner


def names(entries):
    """Return the names of entries."""
    return [entry.name for entry in entries]


class TestOtherFiles:
    """CommitLogs and ConsumeQueues, whose names are numbers as well."""

    @pytest.mark.parametrize("place", ["commitlog", "commitlog/00000000000000065536"])
    def test_a_commitlog_is_told_from_an_index(self, store, place):
        """The error says what it is, where the index is, and what reads it."""
        with pytest.raises(RmqIndexError, match=rf"got a CommitLog. .* give {store}; .* cat"):
            paths.index_files(store / place)

    @pytest.mark.parametrize("magic", ["daa320a7", "daa320ab", "cbd43194"])
    def test_a_commitlog_in_another_folder_is_told_by_its_first_record(self, tmp_path, magic):
        """Also where that is a blank one."""
        (tmp_path / f"{0:020d}").write_bytes(bytes.fromhex(f"00000100{magic}") + bytes(5000))
        with pytest.raises(RmqIndexError, match="got a CommitLog"):
            paths.Store.open(tmp_path)

    @pytest.mark.parametrize("place", ["TopicTest/0", f"TopicTest/0/{0:020d}"])
    def test_a_consume_queue_is_told_from_an_index(self, store, place):
        """Likewise."""
        with pytest.raises(RmqIndexError, match=rf"got a ConsumeQueue. .* give {store};"):
            paths.Store.open(store / "consumequeue" / place)

    def test_an_index_file_may_have_as_many_digits(self, store):
        """A broker reads any number."""
        (first, *_) = sorted((store / "index").iterdir())
        first.rename(first.with_name(f"{5:020d}"))
        assert len(paths.index_files(store)) == 5
        assert paths.Store.open(store / "index" / f"{5:020d}").file


class TestNames:
    """Which names the broker reads: those that ``Long.parseLong`` accepts."""

    @pytest.mark.parametrize(
        "name",
        [
            "20231114221320000",
            "0",
            "-1",
            "+5",
            "007",
            "9223372036854775807",
            "-9223372036854775808",
            "٣٤",  # Arabic-Indic digits
            "12",  # full-width digits
        ],
    )
    def test_numbers(self, name):
        """An optional sign and decimal digits of any script."""
        assert paths.is_index_name(name)

    @pytest.mark.parametrize(
        "name",
        [
            "",
            "+",
            "-",
            "--1",
            "1_0",
            " 12",
            "12 ",
            "1.5",
            "1e5",
            "0x10",
            "12L",
            "²",
            "Ⅷ",
            "\U0001d7cf",  # a digit beyond the basic plane is two chars to Java
            ".1",
            "9223372036854775808",
            "-9223372036854775809",
            "1" * 400,
            "20231114221320000.tmp",
        ],
    )
    def test_others(self, name):
        """What Python's own int() takes is not the measure."""
        assert not paths.is_index_name(name)

    @given(st.integers())
    def test_numbers_of_64_bits(self, number):
        """And no others."""
        assert paths.is_index_name(str(number)) == (-(2**63) <= number < 2**63)


class TestResolve:
    """A file, an index directory or a store root."""

    def test_a_store_root_stands_for_its_index(self, store):
        """Given as a path, as text, with a slash or as a URI."""
        for path in (store, str(store), f"{store}/", store.as_uri()):
            assert paths.Store.open(path).path == str(store / "index")
            assert paths.Store.open(path).root == str(store)

    def test_an_index_directory_stands_for_itself(self, store):
        """And its files for themselves."""
        index = store / "index"
        assert paths.Store.open(index).path == str(index)
        file = min(index.iterdir())
        assert paths.Store.open(file).path == paths.Store.open(file).file == str(file)
        assert paths.index_files(file) == [
            paths.FileEntry(str(file), file.name, file.stat().st_size)
        ]

    @pytest.mark.parametrize("beside", ["commitlog", "consumequeue", "config"])
    def test_an_empty_index_of_a_store_has_no_files(self, tmp_path, beside, monkeypatch):
        """A broker that has indexed nothing yet; by its root and by itself, however it is named."""
        (tmp_path / "index").mkdir()
        (tmp_path / beside).mkdir()
        assert paths.index_files(tmp_path) == paths.index_files(tmp_path / "index") == []
        monkeypatch.chdir(tmp_path / "index")
        assert paths.index_files(".") == paths.index_files("../index") == []

    def test_an_empty_directory_is_refused(self, tmp_path):
        """It may be where a disk belongs that is not mounted."""
        (tmp_path / "disk").mkdir()
        with pytest.raises(RmqIndexError, match=r"got an empty directory.* is the disk mounted"):
            paths.Store.open(tmp_path / "disk")
        with pytest.raises(RmqIndexError, match="expected IndexFiles, or a store"):
            paths.Store.open(tmp_path)
        assert paths.Store.open(tmp_path / "disk", allow_empty=True).path.endswith("/disk")
        assert paths.Store.open(tmp_path / "disk", to_write=True).path.endswith("/disk")

    def test_an_empty_index_alone_is_refused(self, tmp_path):
        """Its name alone does not tell it from a disk that is not mounted."""
        (tmp_path / "store" / "index").mkdir(parents=True)
        for path in (tmp_path / "store", tmp_path / "store" / "index"):
            with pytest.raises(RmqIndexError, match="is the disk mounted"):
                paths.index_files(path)

    def test_a_folder_of_stores_or_of_anything_is_refused(self, tmp_path):
        """With the name of a store in it, if there is one."""
        (tmp_path / "etc" / "conf").mkdir(parents=True)
        (tmp_path / "etc" / "hosts").touch()
        with pytest.raises(RmqIndexError, match=r"etc: expected IndexFiles.* with neither$"):
            paths.Store.open(tmp_path / "etc")
        (tmp_path / "brokers" / "a" / "commitlog").mkdir(parents=True)
        with pytest.raises(RmqIndexError, match=r"Give one of the stores in it, such as .*/a$"):
            paths.Store.open(tmp_path / "brokers")

    def test_nothing_there_is_an_error(self, tmp_path):
        """It names the path."""
        with pytest.raises(RmqIndexError, match="/none: no such file or directory"):
            paths.Store.open(tmp_path / "none")

    def test_a_store_without_an_index_is_an_error(self, store):
        """Rather than no rows."""
        shutil.rmtree(store / "index")
        with pytest.raises(RmqIndexError, match="expected a store with a folder index, found none"):
            paths.Store.open(store)

    def test_the_index_of_a_dledger_store_is_read(self, store):
        """By its root, its index and a file of it: its offsets lead to records as any other's."""
        (store / "dledger-n0").mkdir()
        file = min((store / "index").iterdir())
        assert paths.Store.open(store).index == paths.Store.open(store / "index").index
        assert paths.Store.open(file).path == str(file)

    def test_a_tiered_index_is_refused(self, tmp_path):
        """By the magic number of its files."""
        folder = tmp_path / "tiered_index_file" / "compacting"
        folder.mkdir(parents=True)
        assert paths.Store.open(tmp_path, to_write=True).path == str(tmp_path)
        (folder / "1700000000000").write_bytes(bytes.fromhex("bcc50285").ljust(40, b"\0"))
        for path in (tmp_path, folder.parent, folder):
            with pytest.raises(RmqIndexError, match="tiered storage, which is not supported"):
                paths.Store.open(path)

    def test_a_rocksdb_database_is_refused(self, tmp_path):
        """By RocksDB's own files; its folder's name says nothing."""
        database = tmp_path / "rocksdbstore"
        database.mkdir()
        assert paths.Store.open(tmp_path, to_write=True).path == str(tmp_path)
        (database / "CURRENT").touch()
        (database / "MANIFEST-000004").touch()
        with pytest.raises(RmqIndexError, match=r"a RocksDB database .* is not supported"):
            paths.Store.open(database)

    def test_other_indexes_beside_the_files_do_no_harm(self, store):
        """A broker may keep several."""
        (store / "rocksdbstore").mkdir()
        (store / "rocksdbstore" / "000013.sst").write_bytes(b"rocksdb.column.family.namedefault")
        (store / "tiered_index_file").mkdir()
        assert paths.Store.open(store).path == str(store / "index")


class TestListing:
    """The files of an index directory in the broker's order."""

    def test_the_order_is_that_of_strings(self, tmp_path):
        """Not of numbers; signs and other digits have their places too."""
        given_names = ["9", "10", "-5", "+7", "٣", "20231114221320000"]
        for name in given_names:
            (tmp_path / name).write_bytes(b"x" * len(name))
        entries = paths.list_index_files(tmp_path)
        assert names(entries) == ["+7", "-5", "10", "20231114221320000", "9", "٣"]
        assert [entry.size for entry in entries] == [2, 2, 2, 17, 1, 1]

    def test_other_names_are_skipped(self, store):
        """Hidden ones, copies and folders that are no numbers."""
        index = store / "index"
        before = names(paths.list_index_files(index))
        for name in (".hidden", "20231114221320000.bak", "notes.txt"):
            (index / name).touch()
        (index / "backup").mkdir()
        (index / "link").symlink_to(index / "nowhere")
        assert names(paths.list_index_files(index)) == before
        assert len(before) == 5

    def test_a_folder_with_a_number_for_a_name_is_an_error(self, tmp_path):
        """The broker's own loading stops there; the plain listing shows it."""
        (tmp_path / "100").mkdir()
        [entry] = paths.index_entries(tmp_path)
        assert entry.is_directory
        with pytest.raises(RmqIndexError, match="/100: expected an IndexFile, got a directory"):
            paths.list_index_files(tmp_path)

    def test_a_dangling_link_is_left_to_opening(self, tmp_path):
        """Which tells what is missing."""
        (tmp_path / "100").symlink_to(tmp_path / "nowhere")
        assert names(paths.list_index_files(tmp_path)) == ["100"]

    def test_an_unfinished_commit_is_not_seen(self, tmp_path):
        """The journal says which names count, and where their bytes are meanwhile."""
        index = tmp_path / "index"
        index.mkdir()
        (index / "100").write_bytes(b"the old state")
        staging = LocalStaging.create(index, Owner.current())
        new = [(staging.path / f"new-{name}", name) for name in ("100", "200")]
        for staged, _ in new:
            staged.write_bytes(b"new")
        with dies_before(lambda _, path: path.name == "journal.json"), staging.exclusive():
            staging.commit(new, ["100"])
        assert {path.read_bytes() for path in index.iterdir()} == {b"new"}
        (entry,) = paths.list_index_files(index)
        assert (entry.name, entry.size) == ("100", 13)
        assert Path(entry.path).read_bytes() == b"the old state"

    def test_no_such_directory_is_an_error(self, tmp_path):
        """It names the path."""
        with pytest.raises(RmqIndexError, match="/none: cannot be listed"):
            paths.list_index_files(tmp_path / "none")


class TestRemote:
    """The same for what ``pyarrow.fs`` reaches."""

    @pytest.fixture
    def remote(self, store, monkeypatch):
        """The sample store under a URI."""
        return under_uri(monkeypatch, store, "?region=x") + "/{}?region=x"

    def test_a_directory_is_listed(self, remote, store):
        """Each path can be opened again."""
        entries = paths.list_index_files(remote.format("index"))
        assert names(entries) == sorted(path.name for path in (store / "index").iterdir())
        assert entries[0].path == remote.format("index/" + entries[0].name)
        assert entries[0].size == 40 + 4 * 97 + 20 * 200

    def test_paths_are_resolved(self, remote, store):
        """Directories and files."""
        assert paths.Store.open(remote.format("index")).path == remote.format("index")
        name = min(path.name for path in (store / "index").iterdir())
        file = remote.format(f"index/{name}")
        assert paths.Store.open(file).path == paths.Store.open(file).file == file
        assert paths.index_files(file) == [paths.FileEntry(file, name, 4428)]
        with pytest.raises(RmqIndexError, match="no such file or directory"):
            paths.Store.open(remote.format("none"))

    def test_an_index_in_rocksdb_alone_is_refused(self, remote, store):
        """By a table in its database; a DLedger log beside the index does no harm."""
        (store / "dledger-n0").mkdir()
        assert paths.Store.open(remote.format("index")).path == remote.format("index")
        shutil.rmtree(store / "index")
        (store / "rocksdbstore").mkdir()
        (store / "rocksdbstore" / "000013.sst").write_bytes(b"rocksdb.column.family.namedefault")
        with pytest.raises(RmqIndexError, match="an index in RocksDB"):
            paths.Store.open(remote.replace("/{}", ""))
