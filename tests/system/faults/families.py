"""A process and all that came from it, and its end."""

from __future__ import annotations

import contextlib
import os
import signal
from pathlib import Path

from rmqindex.transaction import Owner


def family_of(pid):
    """Return a process and all that came from it, with the names of their commands."""
    parents = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            fields = stat.read_text().rpartition(")")[2].split()
            parents[int(stat.parent.name)] = int(fields[1])
    found = [pid]
    for each in found:
        found += [child for child, parent in parents.items() if parent == each]
    family = []
    for each in found:
        with contextlib.suppress(OSError):
            command = (Path("/proc") / str(each) / "comm").read_text().strip()
            family.append((Owner.of_process(each), command))
    return family


def kill(process):
    """Kill a process, and no other that came to have its id; say whether it was there."""
    if process.is_gone:
        return False
    with contextlib.suppress(ProcessLookupError):
        os.kill(process.pid, signal.SIGKILL)
        return True
    return False
