"""One IndexFile written: entry by entry as a broker does, by the batch, or appended in place."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rmqindex.rooms import importer

if TYPE_CHECKING:
    from rmqindex.indexwriter.writer import IndexFileWriter

__all__ = [
    "IndexFileWriter",
]

__getattr__ = importer(
    __name__,
    {
        "writer": ("IndexFileWriter",),
    },
)


def __dir__() -> list[str]:
    """List the room's names."""
    return __all__
