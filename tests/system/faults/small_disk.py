"""Every kind of write on a disk of a few pages: full, read-only, and with space again.

Run as a program it mounts file systems in memory, so it must be root in a name space of its own:

    unshare --mount --map-root-user python -m tests.system.faults.small_disk --seed 1
"""

from __future__ import annotations

import argparse
import errno
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from random import Random

from .kills import Trial
from .states import errors_in, left_beside, seen
from .writes import WRITES

_SIZE = 64 << 20
PAGE = 4096
_LONGEST = 60
_POLL_SECONDS = 0.05
_NO_SPACE = os.strerror(errno.ENOSPC)
_READ_ONLY = os.strerror(errno.EROFS)


class SmallDisk:
    """A file system in memory; a context manager."""

    def __init__(self, folder):
        """Mount it on a folder."""
        self.folder = Path(folder)
        self._mount("-t", "tmpfs", "-o", f"size={_SIZE}", "tmpfs")

    def __enter__(self):
        """Return the disk."""
        return self

    def __exit__(self, *_):
        """Unmount it, with all that it holds."""
        subprocess.run(["umount", "--lazy", self.folder], check=True)

    def free(self):
        """Return how many bytes are free."""
        status = os.statvfs(self.folder)
        return status.f_bavail * status.f_bsize

    def fill(self, left):
        """Fill it, but for some bytes."""
        with (self.folder / "filler").open("wb") as file:
            os.posix_fallocate(file.fileno(), 0, max(self.free() - left, PAGE))

    def drain(self):
        """Undo :meth:`fill`."""
        (self.folder / "filler").unlink()

    def remount(self, how):
        """Make it read-only (``ro``), or not (``rw``); who was killed must first be gone."""
        until = time.monotonic() + _LONGEST
        while True:
            try:
                self._mount("-o", f"remount,{how}")
            except subprocess.CalledProcessError:
                if time.monotonic() > until:
                    raise
                time.sleep(_POLL_SECONDS)
            else:
                return

    def _mount(self, *arguments):
        subprocess.run(["mount", *arguments, self.folder], check=True, capture_output=True)


def fill_holes(directory):
    """Write every byte of files.

    Even to read a hole through a mapping, this kind of file system needs a free page; on a full
    one the process that reads is ended by SIGBUS. No other kind does that.
    """
    for path in directory.iterdir():
        data = path.read_bytes()
        with path.open("r+b") as file:
            file.write(data)


class DiskTrial(Trial):
    """Faults of the disk under one kind of write."""

    def full(self, disk):
        """Let the disk be full at a random place of the write, then give it space."""
        folder = self._fresh()
        free = disk.free()
        copy = self._fresh()
        self._to_its_end(self.write.run, copy)
        need = free - disk.free()
        shutil.rmtree(copy)
        disk.fill(self.chance.randrange(0, max(need, PAGE), PAGE))
        outcome = self._run(self.write.run, folder)
        disk.drain()  # see fill_holes
        if not outcome.exitcode:  # it has just had room, or made some
            self.tally.found["there was room"] += 1
        else:
            self.tally.kills["refused"] += 1
            self._refused(folder, outcome, _NO_SPACE)
        self._finish(folder)
        shutil.rmtree(folder)

    def read_only(self, disk):
        """Let the disk be read-only, with a write that died half way or without, and not again."""
        folder = self._fresh()
        died = self.chance.random() < 0.5
        if died:
            self._run(self.write.run, folder, self._moment("driver and tasks"))
        disk.remount("ro")
        before = None if self.write.queues else seen(folder / self.write.index)
        outcome = self._run(self.write.run, folder)
        self.tally.kills["refused"] += 1
        if outcome.exitcode:
            self._named(folder, outcome, _READ_ONLY)
        elif before != self.states[-1]:  # a stream that has its last batch has nothing to write
            self._fault(folder, "a write into a read-only directory is no error")
        if not self.write.queues:
            if seen(folder / self.write.index) != before:
                self._fault(folder, "a refused write changed what readers find")
            if errors_in(folder / self.write.index):
                self._fault(folder, "the audit finds errors on a read-only disk")
        disk.remount("rw")
        self._finish(folder)
        shutil.rmtree(folder)

    def _refused(self, folder, outcome, reason):
        self._named(folder, outcome, reason)
        try:
            place = self._place(folder)
            if not self.write.queues and errors_in(folder / self.write.index):
                found = errors_in(folder / self.write.index)[0]
                self._fault(folder, f"the audit finds {found} after a refused write")
        except Exception as error:  # noqa: BLE001  (whatever a reader runs into is a finding)
            self._fault(folder, f"after a refused write: {type(error).__name__}: {error}")
            return
        if place == "new":
            self._fault(folder, "a refused write is there")
        self.tally.found[place] += 1
        left = left_beside(folder / self.write.index, streams=self.write.is_stream)
        if left:
            self.tally.found["cleared by the next write"] += 1

    def _named(self, folder, outcome, reason):
        """See that the error names a file of the index, and the reason."""
        text = " ".join(outcome.error.split())
        last = text[-1500:]
        if reason not in last or not re.search(re.escape(str(folder / "store")), last):
            self._fault(folder, f"the error does not say {reason!r} of a file: {last[-400:]}")


def try_disks(times, seed, only=None):
    """Try each kind of write; yield a tally for each fault and kind."""
    with tempfile.TemporaryDirectory() as logs:
        for write in WRITES:
            if only is not None and write.name not in only:
                continue
            for fault in ("full", "read_only"):
                place = Path(logs) / "disk"
                place.mkdir(exist_ok=True)
                with SmallDisk(place) as disk:
                    trial = DiskTrial(write, Random(f"{seed}/{fault}/{write.name}"), place, logs)
                    for _ in range(times):
                        getattr(trial, fault)(disk)
                trial.tally.kind = f"{fault.replace('_', '-')} disk: {write.name}"
                yield trial.tally


def main():
    """Print one line of JSON a kind."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--times", type=int, default=3, help="of each fault for each kind")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", action="append", help="a kind of write; may be repeated")
    arguments = parser.parse_args()
    for tally in try_disks(arguments.times, arguments.seed, arguments.only):
        sys.stdout.write(json.dumps([tally.kind, tally.kills, tally.found, tally.faults]) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
