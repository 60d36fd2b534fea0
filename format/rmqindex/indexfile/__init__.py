"""One IndexFile: its geometry, entries and chains, read and searched."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rmqindex.rooms import importer

if TYPE_CHECKING:
    from rmqindex.indexfile.committed import open_index_source
    from rmqindex.indexfile.decoding import ENTRY_SCHEMA
    from rmqindex.indexfile.entries import Mode
    from rmqindex.indexfile.fingerprint import Fingerprint
    from rmqindex.indexfile.geometry import Layout, fits_layout
    from rmqindex.indexfile.reader import IndexFile

__all__ = [
    "ENTRY_SCHEMA",
    "Fingerprint",
    "IndexFile",
    "Layout",
    "Mode",
    "fits_layout",
    "open_index_source",
]

__getattr__ = importer(
    __name__,
    {
        "committed": ("open_index_source",),
        "decoding": ("ENTRY_SCHEMA",),
        "entries": ("Mode",),
        "fingerprint": ("Fingerprint",),
        "geometry": (
            "Layout",
            "fits_layout",
        ),
        "reader": ("IndexFile",),
    },
)


def __dir__() -> list[str]:
    """List the room's names."""
    return __all__
