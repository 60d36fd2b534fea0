"""Appends in place, as the commit of a stream makes them."""

from __future__ import annotations

import numpy as np

from rmqindex.indexwriter.writer import InPlaceAppend

__all__ = ["append_of"]


def append_of(path, layout, hashes=(), offsets=(), times=()):
    """Return the append of some entries to a file, for the commit of a staging."""
    entries = np.asarray(hashes, np.int32), np.asarray(offsets), np.asarray(times)
    end = (int(offsets[-1]), int(times[-1])) if len(offsets) else (0, 0)
    return InPlaceAppend(path, layout, [entries[0]], lambda: [entries], end)
