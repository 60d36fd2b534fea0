"""Offsets that split a file of a log at record boundaries."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from rmqindex.logfile.reading import Reading
from rmqindex.logfile.walk import find_record

if TYPE_CHECKING:
    from rmqindex.logfile.files import LogFile, OpenFiles

__all__ = ["boundaries_of"]

# A record start is searched for within the length of two of the largest messages.
_SEARCH = 8 * 1024 * 1024


def boundaries_of(files: OpenFiles, file: LogFile, chunk_size: int) -> list[int]:
    """Return what :meth:`rmqindex.CommitLog.record_boundaries` does, of checked arguments."""
    number = files.files.index(file)
    last = files.last_with_data()
    if number > last:
        return [file.start]
    if number == last:
        return _walked(files, file, chunk_size)
    source = files.source(file)
    boundaries = [file.start]
    for target in range(chunk_size, file.size, chunk_size):
        found = find_record(source, file, target, target + min(chunk_size, _SEARCH))
        if found is not None:
            boundaries.append(file.start + found)
    return boundaries


def _walked(files: OpenFiles, file: LogFile, chunk_size: int) -> list[int]:
    boundaries = [file.start]
    for records in Reading(files, file.start, file.stop, drop=True).records():
        frames = records.phy_offset - file.entry_head
        while (target := boundaries[-1] + chunk_size) <= frames[-1]:
            boundaries.append(int(frames[np.searchsorted(frames, target)]))
    return boundaries
