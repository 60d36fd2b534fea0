"""Lets a test meet the permissions of files, also where it runs as root."""

from __future__ import annotations

import contextlib
import ctypes
import os

_VERSION_3 = 0x20080522
_OVERRIDES = 1 << 1 | 1 << 2  # CAP_DAC_OVERRIDE, CAP_DAC_READ_SEARCH
_LIBC = ctypes.CDLL(None, use_errno=True)


@contextlib.contextmanager
def mode_of(path, mode):
    """Give a file a mode, which this thread and those that it starts must obey meanwhile."""
    before = path.stat().st_mode
    path.chmod(mode)
    head = (ctypes.c_uint32 * 2)(_VERSION_3, 0)
    sets = (ctypes.c_uint32 * 6)()  # effective, permitted and inheritable; low, then high bits
    assert not _LIBC.capget(head, sets), os.strerror(ctypes.get_errno())
    effective = sets[0]
    sets[0] = effective & ~_OVERRIDES
    assert not _LIBC.capset(head, sets), os.strerror(ctypes.get_errno())
    try:
        yield path
    finally:
        sets[0] = effective
        assert not _LIBC.capset(head, sets), os.strerror(ctypes.get_errno())
        path.chmod(before)
