"""The files of a CommitLog: their names and frames, and where the records in them begin and end."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rmqindex.rooms import importer

if TYPE_CHECKING:
    from rmqindex.logfile.agreed import UnagreedTail
    from rmqindex.logfile.files import several_logs

__all__ = [
    "UnagreedTail",
    "several_logs",
]

__getattr__ = importer(
    __name__,
    {
        "agreed": ("UnagreedTail",),
        "files": ("several_logs",),
    },
)


def __dir__() -> list[str]:
    """List the room's names."""
    return __all__
