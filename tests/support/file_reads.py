"""Reads of local files, as they are asked of the one class that makes them."""

from __future__ import annotations

import contextlib
from unittest import mock

from rmqindex.storage.local import LocalSource

# An entry head of DLedger, or the mark by which a task knows a file again.
HEAD_BYTES = 64


@contextlib.contextmanager
def before_each_read(act, *names):
    """Call a function before each read of the block.

    Args:
        act: Takes the source, and the arguments of the read.
        names: The methods that read; by default those of bytes.
    """

    def heard(method):
        def call(source, *arguments, **options):
            act(source, *arguments)
            return method(source, *arguments, **options)

        return call

    names = names or ("read", "first_nonzero")
    methods = {name: heard(getattr(LocalSource, name)) for name in names}
    with mock.patch.multiple(LocalSource, **methods):
        yield


@contextlib.contextmanager
def counted_log_reads():
    """Yield a list of the path, offset and length of each read behind the head of a log file.

    The first bytes of a file, which tell its kind, are not counted.
    """
    reads = []

    def count(source, offset, length):
        path = str(source.path)
        is_log = path.rpartition("/")[2].isdecimal() and "/index/" not in path
        if is_log and offset + length > HEAD_BYTES:
            reads.append((path, offset, length))

    with (
        before_each_read(count, "read"),
        before_each_read(
            lambda source, start, stop: count(source, start, stop - start), "first_nonzero"
        ),
    ):
        yield reads
