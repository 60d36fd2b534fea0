"""Files in memory, so that an execution costs no system call, and limits that a lie runs into."""

from __future__ import annotations

import contextlib
import mmap
import os
import resource
import signal
import sys
from unittest import mock

import pyarrow as pa

import rmqindex
from rmqindex import RmqIndexError
from rmqindex.indexfile.committed import _CommittedSource, _ExtendedSource
from rmqindex.storage import FileIdentity
from rmqindex.storage.source import IndexSource

# What a decoder may allocate beyond what the process has, bytes: far more than any input holds.
_ROOM = 1 << 30
# No input of a few hundred bytes takes a second; a machine under load may.
_SECONDS = 60

#: What stands for the files of a run: paths and bytes.
FILES: dict[str, bytes] = {}


class MemorySource(_CommittedSource):
    """A file of :data:`FILES`, read as a mapped one; there is no journal beside it."""

    def __init__(self, path, data, *, remote=False):
        """Take the bytes.

        Args:
            path: What errors call it.
            data: Its bytes.
            remote: Whether readers are to treat it as one of a store elsewhere.
        """
        self.path = path
        self.size = len(data)
        self.identity = FileIdentity(self.size)
        self.remote = remote
        self._file = self._map = None
        self._lock = contextlib.nullcontext()
        self._close_file = list  # there is none
        self._data = memoryview(data)
        self._advice = mmap.MADV_NORMAL
        self._header = None
        self.keep_header()

    def latest_index_count(self):
        """Return the header's count."""
        return IndexSource.latest_index_count(self) if self.size >= 40 else 0


def open_memory(path, *, filesystem=None, zero_extend_to=None):
    """Do what ``open_index_source`` does, with :data:`FILES`; ``remote/..`` is elsewhere."""
    assert filesystem is None
    text = os.fspath(path)
    if text not in FILES:
        raise RmqIndexError(f"{text}: cannot be read: no such file")
    source = MemorySource(text, FILES[text], remote=text.startswith("remote/"))
    if zero_extend_to is not None and source.size < zero_extend_to:
        return _ExtendedSource(source, zero_extend_to)
    return source


@contextlib.contextmanager
def in_memory():
    """Let every reader of the package open :data:`FILES` instead of the disk."""
    for name in rmqindex.__all__:  # so that every module is there
        getattr(rmqindex, name)
    with contextlib.ExitStack() as stack:
        for name, module in list(sys.modules.items()):
            for opener in ("open_source", "open_index_source"):
                if name.startswith("rmqindex.") and hasattr(module, opener):
                    stack.enter_context(mock.patch.object(module, opener, open_memory))
        yield


@contextlib.contextmanager
def constants(values):
    """Give modules other constants; as ``mock.patch`` does, at a tenth of its cost.

    Args:
        values: Of each module, names and values.
    """
    before = [
        (module, name, getattr(module, name)) for module, names in values.items() for name in names
    ]
    for module, names in values.items():
        for name, value in names.items():
            setattr(module, name, value)
    try:
        yield
    finally:
        for module, name, value in before:
            setattr(module, name, value)


@contextlib.contextmanager
def limited():
    """Let an allocation that follows a lying size fail, and a hang end."""

    def hang(*_):
        raise TimeoutError(f"expected an end within {_SECONDS} seconds")

    pa.allocate_buffer(1)  # the pool's first allocation reserves as much as is allowed here
    used = _data_size() + _ROOM
    soft, hard = resource.getrlimit(resource.RLIMIT_DATA)
    resource.setrlimit(resource.RLIMIT_DATA, (used, hard))
    before = signal.signal(signal.SIGALRM, hang)
    signal.alarm(_SECONDS)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)
        resource.setrlimit(resource.RLIMIT_DATA, (soft, hard))


def limit_memory():
    """Let allocations that follow a lying size fail for the rest of the process."""
    _, hard = resource.getrlimit(resource.RLIMIT_DATA)
    resource.setrlimit(resource.RLIMIT_DATA, (_data_size() + _ROOM, hard))


def _data_size():
    """Return what counts against the limit now, bytes."""
    with open("/proc/self/status") as status:  # noqa: PTH123
        for line in status:
            if line.startswith("VmData:"):
                return int(line.split()[1]) * 1024
    raise AssertionError("no VmData")
