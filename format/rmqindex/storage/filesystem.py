"""Connects to the file system of a path, and words the errors of one that fails."""

from __future__ import annotations

import os
from functools import lru_cache
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.fs as pafs

from rmqindex.errors import RmqIndexError
from rmqindex.storage.location import PathLike, split_uri
from rmqindex.storage.s3 import (
    SCHEMES,
    S3Settings,
    check_no_secret,
    connect,
    current_settings,
)

__all__ = ["modified_time", "open_failure", "open_filesystem", "unreadable"]


# How Arrow's message begins where an S3 store has answered with an error.
_AWS_ERROR = "AWS Error"


def open_filesystem(
    path: PathLike, filesystem: pafs.FileSystem | None = None
) -> tuple[pafs.FileSystem, str]:
    """Return the file system of a path, and the path inside it.

    Args:
        path: A URI; with ``filesystem``, a path inside it.
        filesystem: The file system to use; None to find it by the URI.

    Raises:
        RmqIndexError: ``pyarrow.fs`` does not know the scheme, or cannot reach the store.
    """
    text = os.fspath(path)
    if filesystem is not None:
        return filesystem, text
    check_no_secret(text)
    scheme, folder, name, query = split_uri(text)
    try:
        if scheme in SCHEMES:
            found, inner_folder = _s3_filesystem(folder, query)
        else:
            found, inner_folder = _filesystem(f"{scheme}://{folder}", query)
    except (OSError, ValueError, pa.ArrowException) as error:
        raise unreadable(text, error) from error
    return found, f"{inner_folder}/{unquote(name)}" if name else inner_folder


def _s3_filesystem(folder: str, query: str) -> tuple[pafs.FileSystem, str]:
    """Return the connection to a bucket, shared by all files with the same settings."""
    bucket, _, rest = folder.partition("/")
    inner = f"{bucket}/{unquote(rest)}" if rest else bucket
    return _bucket(bucket, query.removeprefix("?"), current_settings(), _environment()), inner


@lru_cache(maxsize=64)
def _bucket(
    bucket: str,
    query: str,
    settings: S3Settings,
    environment: tuple[str | None, ...],  # noqa: ARG001  (what was found there may have changed)
) -> pafs.FileSystem:
    return connect(bucket, query, settings)


def _environment() -> tuple[str | None, ...]:
    return tuple(value for name, value in sorted(os.environ.items()) if name.startswith("AWS_"))


@lru_cache(maxsize=64)
def _filesystem(folder: str, query: str) -> tuple[pafs.FileSystem, str]:
    """Connect once for all files of a folder: finding a bucket's region is a request."""
    filesystem, inner_path = pafs.FileSystem.from_uri(folder + query)
    return filesystem, inner_path.rstrip("/")


def modified_time(filesystem: pafs.FileSystem, inner_path: str) -> int:
    """Return when a file was modified, nanoseconds since the epoch; 0 where unknown."""
    return filesystem.get_file_info(inner_path).mtime_ns or 0


def open_failure(filesystem: pafs.FileSystem, inner_path: str, error: Exception) -> Exception:
    """Return the error of a file that cannot be opened."""
    if _AWS_ERROR in str(error):
        return error
    kind = filesystem.get_file_info(inner_path).type
    if kind == pafs.FileType.NotFound:
        return FileNotFoundError("no such file")
    if kind == pafs.FileType.Directory:
        return IsADirectoryError("a directory, not a file")
    return error


def unreadable(
    path: str, error: Exception, *, expected: str = "", what: str = "read"
) -> RmqIndexError:
    """Return the error of a storage failure.

    Args:
        path: The path or URI that was accessed.
        error: The error that the storage raised.
        expected: What an S3 store should have answered.
        what: What could not be done with it.
    """
    reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
    if _AWS_ERROR in reason:
        settings = current_settings()
        reason = f"{settings.hidden_in(reason)} (sent at most {settings.attempts} times)"
        if expected:
            reason = f"expected {expected}, got {reason}"
    return RmqIndexError(f"{path}: cannot be {what}: {reason}")
