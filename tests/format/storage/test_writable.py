"""Files that are being written: what is written is whole, and what fails names its file."""

from __future__ import annotations

import errno
import io
import os

import pytest

from rmqindex import RmqIndexError
from rmqindex.storage.writable import WritableFile, copy_sparse, write_own

DATA = bytes(range(256)) * 40


@pytest.fixture(params=["os.write", "os.pwrite"])
def short(request, monkeypatch):
    """Have a call write less than it was given, as it may on a disk that is almost full."""
    name = request.param.removeprefix("os.")
    real = getattr(os, name)
    monkeypatch.setattr(os, name, lambda file, data, *at: real(file, data[:100], *at))


@pytest.mark.usefixtures("short")
def test_a_short_write_is_gone_on_with(tmp_path):
    """In every way in which a file is written."""
    write_own(tmp_path / "own", DATA)
    copy_sparse(tmp_path / "own", tmp_path / "copy")
    with WritableFile(tmp_path / "at") as file:
        file.write_at(DATA[100:], 100)
        file.write_at(DATA[:100], 0)
    with io.BufferedWriter(WritableFile(tmp_path / "buffered")) as file:
        file.write(DATA)
    for name in ("own", "copy", "at", "buffered"):
        assert (tmp_path / name).read_bytes() == DATA, name


CALLS = {
    "write": lambda file: file.write(DATA),
    "pwrite": lambda file: file.write_at(DATA, 0),
    "pread": lambda file: file.read_at(1, 0),
    "ftruncate": lambda file: file.resize(7),
    "fsync": lambda file: file.sync(),
    "fdatasync": lambda file: file.sync_data(),
}


@pytest.mark.parametrize("name", CALLS)
def test_an_error_of_an_open_file_names_it(name, monkeypatch, tmp_path):
    """The functions of os know its number alone."""

    def fail(*_):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with WritableFile(tmp_path / "file", os.O_RDWR | os.O_CREAT) as file:
        monkeypatch.setattr(os, name, fail)
        with pytest.raises(OSError, match=f"No space left on device: '{tmp_path}/file'"):
            CALLS[name](file)
        monkeypatch.undo()


def test_a_copy_that_cannot_be_read_names_what_was_read(monkeypatch, tmp_path):
    """Not the copy."""
    (tmp_path / "source").write_bytes(DATA)

    def fail(*_):
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    monkeypatch.setattr(os, "pread", fail)
    with pytest.raises(OSError, match=f"Input/output error: '{tmp_path}/source'"):
        copy_sparse(tmp_path / "source", tmp_path / "copy")


def test_nothing_is_written_through_a_link(tmp_path):
    """Nor into a pipe, which would block."""
    (tmp_path / "file").write_bytes(b"kept")
    (tmp_path / "link").symlink_to(tmp_path / "file")
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(RmqIndexError, match="got a symbolic link"):
        WritableFile(tmp_path / "link", os.O_RDWR)
    with pytest.raises(RmqIndexError, match="neither a file nor a directory"):
        WritableFile(tmp_path / "pipe", os.O_RDWR)
    assert (tmp_path / "file").read_bytes() == b"kept"


class TestSparseCopies:
    """Copies of sparse files."""

    @pytest.mark.parametrize("size", [0, 1, 5000, 3 << 20])
    def test_a_copy_holds_the_same_bytes_and_the_same_holes(self, tmp_path, size):
        """Bytes are equal, and what was a hole takes no room."""
        source = tmp_path / "source"
        with source.open("wb") as file:
            file.truncate(size)
            if size:
                file.seek(size // 2)
                file.write(b"x")
        copy_sparse(source, tmp_path / "target")
        assert (tmp_path / "target").read_bytes() == source.read_bytes()
        assert (tmp_path / "target").stat().st_blocks <= source.stat().st_blocks + 16

    def test_a_copy_keeps_the_mode(self, tmp_path):
        """Who could open the file can open its copy."""
        source = tmp_path / "source"
        source.write_bytes(b"x")
        source.chmod(0o664)
        copy_sparse(source, tmp_path / "target")
        assert (tmp_path / "target").stat().st_mode == source.stat().st_mode
