"""Telling a file that was planned from another one that took its name since."""

from __future__ import annotations

import dataclasses
import os
import shutil

import numpy as np
import pyarrow.fs as pafs
import pytest

from appends import append_of
from rmqindex import IndexFile, IndexFileWriter, Layout
from rmqindex.indexfile import Fingerprint
from rmqindex.storage import from_json, to_json
from rmqindex.storage.identity import FileIdentity
from rmqindex.transaction import LocalStaging, Owner
from twin import BrokerFile

LAYOUT = Layout(64, 400)
BEGIN = 1_700_000_000_000
NAME = "20240101000000000"
FOUND = FileIdentity(100, machine="a", device=1, inode=2, modified=3, changed=4)


def write(path, count=300, *, first=0, begin=BEGIN, layout=LAYOUT):
    """Write a file of numbered entries, in the place of what is there."""
    path.unlink(missing_ok=True)
    with IndexFileWriter(path, layout) as writer:
        put(writer, range(first, first + count), begin)
    return path


def put(writer, numbers, begin=BEGIN):
    """Append numbered entries."""
    writer.put_many(list(numbers), [each * 100 for each in numbers], [begin + n for n in numbers])


def fingerprint(path, **options):
    """Return the fingerprint of a file as it is now."""
    with IndexFile(path, LAYOUT, **options) as file:
        return file.fingerprint()


def matches(path, expected, **options):
    """Return whether a file is the one of a fingerprint."""
    with IndexFile(path, LAYOUT, **options) as file:
        return file.matches(expected)


@pytest.fixture
def path(tmp_path):
    """Return a file of 300 entries."""
    return write(tmp_path / NAME)


class TestTheSameFile:
    """What leaves a file the planned one."""

    def test_a_file_that_grew_where_it_is(self, path):
        """A broker appends in place."""
        before = fingerprint(path)
        with IndexFileWriter(path, LAYOUT) as writer:
            put(writer, range(300, 310))
        assert matches(path, before)

    def test_a_file_under_another_name_or_with_more_links(self, path):
        """As a commit sets it aside and brings it back."""
        before = fingerprint(path)
        os.link(path, path.with_name("aside"))
        path.unlink()
        assert matches(path.with_name("aside"), before)

    def test_a_file_whose_times_were_set(self, path):
        """The times alone refuse nothing where the inode and the entries agree."""
        before = fingerprint(path)
        os.utime(path, (1, 1))
        assert matches(path, before)

    def test_an_append_under_way_undone_or_finished(self, tmp_path):
        """At each of these moments, what was counted before is there."""
        path = tmp_path / "index" / NAME
        path.parent.mkdir()
        write(path)
        before = fingerprint(path)
        numbers = np.arange(300, 310)
        seen = []

        class Watched:
            """An append that is looked at while its journal is there, and may fail in the end."""

            def __init__(self, *, fails):
                self.append = append_of(path, LAYOUT, numbers, numbers * 100, BEGIN + numbers)
                self.undo, self.fails = self.append.undo, fails

            def apply(self):
                self.append.apply()
                seen.append((matches(path, before), fingerprint(path).checksum == before.checksum))
                if self.fails:
                    raise OSError("stopped")

        staging = LocalStaging.create(path.parent, Owner.current())
        with staging.exclusive():
            stopped = Watched(fails=True)
            with pytest.raises(OSError, match="stopped"):
                staging.commit([], [], append=stopped)
            stopped.append.close()
            assert matches(path, before)
            finished = Watched(fails=False)
            staging.commit([], [], append=finished)
            finished.append.close()
        staging.discard()
        assert seen == [(True, True)] * 2
        assert matches(path, before)
        assert fingerprint(path).stop == 311

    @pytest.mark.parametrize("count", [0, 1, 64, 65, 128, 200])
    def test_a_brokers_file_at_each_length(self, tmp_path, count):
        """Whatever was counted is recognised after each further entry."""
        broker = BrokerFile(64, 400)
        for number in range(count):
            broker.put(number, number * 100, BEGIN + number)
        path = tmp_path / NAME
        path.write_bytes(bytes(broker.data))
        before = fingerprint(path)
        broker.put(count, count * 100, BEGIN + count)
        with path.open("r+b") as file:
            file.write(bytes(broker.data))
        assert before is None if not count else matches(path, before)

    def test_another_machine_that_mounts_the_same_file_system(self):
        """Device numbers are the host's own, inode numbers the file system's."""
        elsewhere = dataclasses.replace(FOUND, machine="b", device=9, changed=5)
        assert FOUND.names_same(elsewhere)

    def test_a_mount_that_numbers_inodes_as_it_likes(self):
        """A FUSE mount may number a file anew at each opening; the times are the file's."""
        assert FOUND.names_same(dataclasses.replace(FOUND, inode=7))


class TestAnotherFile:
    """What makes a file another one."""

    def test_a_copy_takes_its_place(self, path):
        """Nothing proves that all of a copy is as it was."""
        before = fingerprint(path)
        shutil.copy2(path, path.with_name("copy"))
        path.with_name("copy").replace(path)
        assert not matches(path, before)

    @pytest.mark.parametrize(
        "other",
        [{"first": 1}, {"begin": BEGIN + 5000}, {"layout": Layout(69, 399)}, {"count": 299}],
        ids=["entries", "times", "geometry", "count"],
    )
    def test_content_that_is_written_over_it_where_it_is(self, path, other):
        """The inode and the size stay; the entries do not, or are fewer."""
        before = fingerprint(path)
        written = write(path.with_name("other"), **other)
        with path.open("r+b") as file:
            file.write(written.read_bytes())
        assert not matches(path, before)

    def test_a_file_with_the_inode_of_one_that_was_deleted(self, path):
        """Inode numbers are given out again."""
        before = fingerprint(path)
        write(path, first=1)
        reused = dataclasses.replace(before.identity, inode=path.stat().st_ino)
        assert not matches(path, dataclasses.replace(before, identity=reused))

    def test_a_file_of_another_size(self, path):
        """Even where it holds as much, as an IndexFile never grows."""
        before = fingerprint(path)
        os.truncate(path, path.stat().st_size + 1)
        assert not matches(path, before)

    def test_a_file_that_is_cut_while_what_is_sound_is_read(self, path):
        """DROPMALFORMED reads fewer entries then, which is no part of the plan."""
        before = fingerprint(path, mode="DROPMALFORMED")
        os.truncate(path, LAYOUT.entry_offset(200))
        assert not matches(path, before, mode="DROPMALFORMED")

    def test_a_short_file_is_recognised_as_it_is(self, path):
        """DROPMALFORMED plans what a file that was cut before still has."""
        os.truncate(path, LAYOUT.entry_offset(200) + 7)
        before = fingerprint(path, mode="DROPMALFORMED")
        assert before.stop == 200
        assert matches(path, before, mode="DROPMALFORMED")

    def test_another_file_system_of_this_machine(self):
        """The same inode number on two devices names two files."""
        other = dataclasses.replace(FOUND, device=9, changed=5)
        assert not FOUND.names_same(other)


class TestRemoteObjects:
    """What stores say of an object, and what they leave open."""

    @pytest.mark.parametrize("name", ["ETag", "etag", "Etag", "Generation", "Version-Id"])
    def test_a_version_is_proof_in_each_spelling(self, name):
        """Those of S3, Google Cloud Storage and Azure."""
        first, second = (
            FileIdentity.of_object(9, {name: value, "Last-Modified": b"now"}, lambda: 0)
            for value in (b"1", b"2")
        )
        assert first.version
        assert first.names_same(first)
        assert not first.names_same(second)

    def test_the_version_null_of_a_bucket_proves_nothing(self):
        """Every object has it in turn where versioning is suspended."""
        marks = {"VersionId": b"null", "ETag": b"1"}
        assert "1" in FileIdentity.of_object(9, marks, lambda: 0).version
        assert FileIdentity.of_object(9, {"VersionId": b"null"}, lambda: 7) == FileIdentity(
            9, modified=7
        )

    def test_without_a_version_the_time_and_the_entries_are_compared(self, path):
        """HDFS says when a file was modified, which proves nothing by itself."""
        far = {"filesystem": pafs.SubTreeFileSystem(str(path.parent), pafs.LocalFileSystem())}

        def opened():
            return IndexFile(NAME, LAYOUT, **far)

        with opened() as file:
            before = file.fingerprint()
        assert not before.identity.version
        assert before.checksum is not None
        modified = path.stat().st_mtime_ns
        with opened() as file:
            assert file.matches(before)
            write(path, first=1)
            assert not file.matches(before, again=True)
        os.utime(path, ns=(modified, modified))
        with opened() as file:
            assert not file.matches(before)
        os.utime(write(path), (1, 1))
        with opened() as file:
            assert not file.matches(before)


def test_a_fingerprint_goes_through_json_as_it_is(path):
    """A listing that a task makes comes back as text."""
    before = fingerprint(path)
    assert from_json(Fingerprint, to_json(before)) == before
