"""Real writes by Spark on a disk that is full, and then has space again.

Run as a program it mounts a file system in memory, so it must be root in a name space of its own:

    unshare --mount --map-root-user python -m tests.system.faults.spark_disk
"""

from __future__ import annotations

import errno
import json
import os
import sys
import tempfile
from pathlib import Path

from . import spark_app
from .disks import PAGE, SmallDisk, fill_holes
from .states import errors_in, left_beside, seen
from .tally import Tally

_NO_SPACE = os.strerror(errno.ENOSPC)
_FREE_PAGES = (0, 5)
_KINDS = ("df.write, append", "df.write, overwrite", "write_index, append")


def try_writes(spark, folder, kinds):
    """Fill the disk before each kind of write; yield a tally a kind."""
    for kind in kinds:
        tally = Tally(f"full disk: {kind}, in Spark")
        place = folder / "disk"
        place.mkdir(exist_ok=True)
        with SmallDisk(place) as disk:
            _try(spark, spark_app.WRITES[kind], disk, tally)
        yield tally


def _try(spark, write, disk, tally):
    index = disk.folder / "index"
    write(spark, disk.folder, 0)
    fill_holes(index)
    before = seen(index)
    for pages in _FREE_PAGES:
        disk.fill(pages * PAGE)
        try:
            write(spark, disk.folder, 1)
        except Exception as error:  # noqa: BLE001  (what it says is looked at)
            if _NO_SPACE not in str(error) or str(disk.folder) not in str(error):
                tally.faults.append(f"expected {_NO_SPACE!r} of a file, got {error!s:.1000}")
            tally.times["refused"] += 1
        else:
            tally.faults.append("a write on a full disk is no error")
        disk.drain()
        if seen(index) != before:
            tally.faults.append("a refused write changed what readers find")
        if errors_in(index):
            tally.faults.append(f"the audit finds {errors_in(index)[0]} after a refused write")
        tally.found["old"] += 1
    write(spark, disk.folder, 1)
    if seen(index) == before:
        tally.faults.append("the next write is not there")
    if left_beside(index):
        tally.faults.append(f"left behind: {left_beside(index)}")


def main(*kinds):
    """Print one line of JSON for each kind, by default for all."""
    with tempfile.TemporaryDirectory() as folder:
        for tally in try_writes(spark_app.session(), Path(folder), kinds or _KINDS):
            sys.stdout.write(json.dumps([tally.kind, tally.times, tally.found, tally.faults]))
            sys.stdout.write("\n")
            sys.stdout.flush()


if __name__ == "__main__":
    main(*sys.argv[1:])
