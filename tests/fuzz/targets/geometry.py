"""The geometry that a file's own entries tell, whatever the file holds."""

from __future__ import annotations

from rmqindex.indexfile import geometry
from rmqindex.indexfile.geometry import fits_layout, infer_layout

from ..index_bytes import MAX_LENGTH, PATH, mutate, seeds, taken_apart
from ..memory import MemorySource, constants
from ..outcome import outcome

SHORT = 6_000
__all__ = ["MAX_LENGTH", "SHORT", "check", "mutate", "seeds"]


def check(data):
    """Infer; a geometry that is found fits the file."""
    layout, flags, file = taken_apart(data)
    with constants({geometry: {"_SEARCH_ROWS": 4, "_EVIDENCE": 3 if flags & 2 else 2000}}):
        for remote in (False, True):
            source = MemorySource(PATH, file, remote=remote)
            found = outcome(infer_layout, source)
            if found.is_value:
                assert found.value.file_size == len(file)
                assert fits_layout(source, found.value)
        if len(file) >= 40:
            outcome(fits_layout, MemorySource(PATH, file), layout)
