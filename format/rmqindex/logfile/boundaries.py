"""Where the records of a file of a log begin: offsets that split it, and the time of the first."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from rmqindex.logfile.end import last_with_data
from rmqindex.logfile.files import ExpiredFileError
from rmqindex.logfile.reading import Reading
from rmqindex.logfile.walk import find_record, is_record
from rmqindex.record.records import store_timestamp_of

if TYPE_CHECKING:
    from rmqindex.logfile.files import LogFile, OpenFiles

__all__ = ["boundaries_of", "first_store_timestamp"]

# A record start is searched for within the length of two of the largest messages.
_SEARCH = 8 * 1024 * 1024


def boundaries_of(files: OpenFiles, file: LogFile, chunk_size: int) -> list[int]:
    """Return what :meth:`rmqindex.CommitLog.record_boundaries` does, of checked arguments."""
    number = files.files.index(file)
    last = last_with_data(files)
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


def first_store_timestamp(files: OpenFiles, file: LogFile) -> int | None:
    """Return what :meth:`rmqindex.CommitLog.first_store_timestamp` does."""
    try:
        source = files.source(file)
        if is_record(source, file, file.entry_head, crc=False) is None:
            return None
        return store_timestamp_of(source.read, file.entry_head)
    except ExpiredFileError:
        return None
