"""The bytes of files: local ones mapped into memory, remote ones read by ranges.

Nothing here knows what the bytes mean.
"""

from rmqindex.storage.identity import FileChangedError
from rmqindex.storage.location import child_uri, is_remote, local_path
from rmqindex.storage.s3 import (
    DEFAULT_ATTEMPTS,
    DEFAULT_CONNECT_TIMEOUT,
    DEFAULT_REQUEST_TIMEOUT,
    SCHEMES,
    S3Settings,
    carried,
    check_no_secret,
    current_settings,
    iterated_with,
    using,
)
from rmqindex.storage.steady import UnsteadyError, read_steady

__all__ = [
    "DEFAULT_ATTEMPTS",
    "DEFAULT_CONNECT_TIMEOUT",
    "DEFAULT_REQUEST_TIMEOUT",
    "SCHEMES",
    "FileChangedError",
    "S3Settings",
    "UnsteadyError",
    "carried",
    "check_no_secret",
    "child_uri",
    "current_settings",
    "is_remote",
    "iterated_with",
    "local_path",
    "read_steady",
    "using",
]
