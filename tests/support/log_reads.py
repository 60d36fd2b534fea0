"""Counts what is read of CommitLogs, but for the first bytes of files, which tell their kind."""

from __future__ import annotations

import contextlib

from rmqindex.storage.local import LocalSource

# An entry head of DLedger, or the mark by which a task knows a file again.
HEAD_BYTES = 64


@contextlib.contextmanager
def counted_log_reads():
    """Yield a list of the path, offset and length of each read behind the head of a log file."""
    reads = []
    read, first_nonzero = LocalSource.read, LocalSource.first_nonzero

    def count(source, offset, length):
        path = str(source.path)
        is_log = path.rpartition("/")[2].isdecimal() and "/index/" not in path
        if is_log and offset + length > HEAD_BYTES:
            reads.append((path, offset, length))

    def counted_read(self, offset, length):
        count(self, offset, length)
        return read(self, offset, length)

    def counted_search(self, start, stop):
        count(self, start, stop - start)
        return first_nonzero(self, start, stop)

    LocalSource.read, LocalSource.first_nonzero = counted_read, counted_search
    try:
        yield reads
    finally:
        LocalSource.read, LocalSource.first_nonzero = read, first_nonzero
