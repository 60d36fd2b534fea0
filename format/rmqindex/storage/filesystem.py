"""Connects to the file system of a location, and words the errors of one that fails."""

from __future__ import annotations

import os
from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.fs as pafs

from rmqindex.errors import RmqIndexError
from rmqindex.storage.identity import FileIdentity
from rmqindex.storage.s3 import S3_SCHEMES, S3Settings, check_no_secret, connect

if TYPE_CHECKING:
    from rmqindex.storage.location import Location

# How Arrow's message begins where an S3 store has answered with an error.
_AWS_ERROR = "AWS Error"


class Status(NamedTuple):
    """What is at a location.

    Attributes:
        kind: A file, a directory, or nothing.
        size: Bytes; 0 for anything but a file.
        identity: The identity of a local file.
    """

    kind: pafs.FileType
    size: int = 0
    identity: FileIdentity | None = None


def status_of(location: Location) -> Status:
    """Return what is at a location."""
    local = location.local
    if local is not None:
        if local.is_dir():
            return Status(pafs.FileType.Directory)
        if not local.exists():
            return Status(pafs.FileType.NotFound)
        identity = FileIdentity.of_stat(local.stat())
        return Status(pafs.FileType.File, identity.size, identity)
    filesystem, inner_path = open_filesystem(location)
    try:
        info = filesystem.get_file_info(inner_path)
    except Exception as error:  # file systems in Python raise their own
        raise unreadable(location, error, expected="what is there") from error
    return Status(info.type, info.size or 0)


def open_filesystem(location: Location) -> tuple[pafs.FileSystem, str]:
    """Return the file system of a location that is not local, and the path inside it."""
    storage = location.storage
    if storage.filesystem is not None:
        return storage.filesystem, str(location)
    check_no_secret(location)
    scheme, folder, name, query = location.uri_parts()
    try:
        if scheme in S3_SCHEMES:
            bucket, _, rest = folder.partition("/")
            found = _bucket(bucket, query.removeprefix("?"), storage.s3, _environment())
            inner_folder = f"{bucket}/{unquote(rest)}" if rest else bucket
        else:
            found, inner_folder = _filesystem(f"{scheme}://{folder}", query)
    except (OSError, ValueError, pa.ArrowException) as error:
        raise unreadable(location, error) from error
    return found, f"{inner_folder}/{unquote(name)}" if name else inner_folder


@lru_cache(maxsize=64)
def _bucket(
    bucket: str,
    query: str,
    settings: S3Settings,
    environment: tuple[str | None, ...],  # noqa: ARG001  (what was found there may have changed)
) -> pafs.FileSystem:
    """Return the connection to a bucket, shared by all files with the same settings."""
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
    try:
        kind = filesystem.get_file_info(inner_path).type
    except Exception:  # noqa: BLE001  (the first error says more)
        return error
    if kind == pafs.FileType.NotFound:
        return FileNotFoundError("no such file")
    if kind == pafs.FileType.Directory:
        return IsADirectoryError("a directory, not a file")
    return error


class UnreadableError(RmqIndexError):
    """What a storage has cannot be read, so that nothing is known of it."""


def unreadable(
    location: Location, error: Exception, *, expected: str = "", what: str = "read"
) -> UnreadableError:
    """Return the error of a storage failure."""
    reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
    if isinstance(error, FileNotFoundError) and not error.strerror:
        reason = "no such file"  # file systems in Python tell the path alone
    if _AWS_ERROR in reason:
        settings = location.storage.s3
        reason = f"{settings.hidden_in(reason)} (sent at most {settings.attempts} times)"
        if expected:
            reason = f"expected {expected}, got {reason}"
    return UnreadableError(f"{location}: cannot be {what}: {reason}")
