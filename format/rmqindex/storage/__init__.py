"""The bytes of files: local ones mapped into memory, remote ones read by ranges.

Nothing here knows what the bytes mean.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from rmqindex.rooms import importer

if TYPE_CHECKING:
    from rmqindex.storage.identity import FileChangedError
    from rmqindex.storage.location import Location, Storage, path_text
    from rmqindex.storage.opening import UnsteadyError, map_files, read_steady
    from rmqindex.storage.s3 import (
        DEFAULT_ATTEMPTS,
        DEFAULT_CONNECT_TIMEOUT,
        DEFAULT_REQUEST_TIMEOUT,
        SCHEMES,
        S3Settings,
        check_no_secret,
    )

__all__ = [
    "DEFAULT_ATTEMPTS",
    "DEFAULT_CONNECT_TIMEOUT",
    "DEFAULT_REQUEST_TIMEOUT",
    "SCHEMES",
    "FileChangedError",
    "Location",
    "S3Settings",
    "Storage",
    "UnsteadyError",
    "check_no_secret",
    "map_files",
    "path_text",
    "read_steady",
]

__getattr__ = importer(
    __name__,
    {
        "identity": ("FileChangedError",),
        "location": (
            "Location",
            "Storage",
            "path_text",
        ),
        "opening": (
            "UnsteadyError",
            "map_files",
            "read_steady",
        ),
        "s3": (
            "DEFAULT_ATTEMPTS",
            "DEFAULT_CONNECT_TIMEOUT",
            "DEFAULT_REQUEST_TIMEOUT",
            "S3Settings",
            "SCHEMES",
            "check_no_secret",
        ),
    },
)


def __dir__() -> list[str]:
    """List the room's names."""
    return __all__
