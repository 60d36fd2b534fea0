"""The calls by which this process changes files, counted, and what is to be done before them.

No write of ours goes through a mapping, so that what a kill leaves differs from one such call to
the next and in no other moment.
"""

from __future__ import annotations

import os
import sys

_NAMES = ("pwrite", "write", "fsync", "fdatasync", "sendfile", "copy_file_range")
_EVENTS = frozenset(
    ("os.rename", "os.link", "os.symlink", "os.remove", "os.mkdir", "os.rmdir", "os.truncate")
)
_OPEN = "open"
_WRITES = os.O_WRONLY | os.O_RDWR | os.O_CREAT


class Steps:
    """Counts from the moment it is made; children of this process are not counted."""

    def __init__(self, before):
        """Begin to count.

        Args:
            before: Called before each step with its number, from 1.
        """
        self.count = 0
        self._before = before
        self._pid = os.getpid()
        sys.addaudithook(self._hear)
        for name in _NAMES:
            setattr(os, name, self._counted(getattr(os, name)))

    def _hear(self, event, arguments):
        if event in _EVENTS:
            self._step()
        elif event == _OPEN:
            _, _, flags = arguments
            if isinstance(flags, int) and flags & _WRITES:
                self._step()

    def _counted(self, function):
        def call(*arguments, **options):
            self._step()
            return function(*arguments, **options)

        return call

    def _step(self):
        if os.getpid() != self._pid:
            return
        self.count += 1
        self._before(self.count)
