"""Another process that holds a store as a broker does, or tries to."""

from __future__ import annotations

import subprocess
import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

__all__ = ["can_start", "running_broker", "where_none_runs"]

# As DefaultMessageStore.start: RandomAccessFile(lock, "rw").getChannel().tryLock(0, 1, false).
_START = """
import fcntl, os, sys
file = os.open(sys.argv[1], os.O_RDWR | os.O_CREAT, 0o666)
try:
    fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB, int(sys.argv[3]), int(sys.argv[2]))
except OSError:
    print("refused", flush=True)
else:
    print("locked", flush=True)
sys.stdin.read()
"""


def _start(store: Path, start: int, length: int) -> tuple[subprocess.Popen[str], str]:
    process = subprocess.Popen(
        [sys.executable, "-ISc", _START, str(store / "lock"), str(start), str(length)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    return process, process.stdout.readline().strip()


def where_none_runs(remedy: str) -> str:
    """Return what the remedy of a rule says about a store on which no broker runs."""
    return remedy.replace("stop the broker and ", "").replace("Stop the broker and r", "R")


def can_start(store: Path) -> bool:
    """Return whether a broker that starts now gets the lock of a store root."""
    process, said = _start(store, 0, 1)
    process.communicate("")
    return said == "locked"


@contextmanager
def running_broker(store: Path, start: int = 0, length: int = 1) -> Iterator[int]:
    """Hold the lock of a store root, and yield the process; at the end it stops cleanly.

    Args:
        store: The store root.
        start: The first byte that is locked.
        length: How many are.
    """
    process, said = _start(store, start, length)
    assert said == "locked"
    had_abort = (store / "abort").exists()
    (store / "abort").touch()
    try:
        yield process.pid
    finally:
        if not had_abort:
            (store / "abort").unlink(missing_ok=True)
        process.communicate("")
