"""The options of a write, and the index directory in its path."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from pyspark_rmqindex.options import WriteOptions as SparkOptions
from pyspark_rmqindex.options import parse_options
from rmqindex import RmqIndexError
from rmqindex.bulk import WriteOptions
from rmqindex.folders import COMMITLOG_FOLDER, INDEX_FOLDER, QUEUE_FOLDER
from rmqindex.storage import SCHEMES, child_uri, is_remote, local_path, using
from rmqindex.store import refuse_target, resolve
from rmqindex.transaction import directory_entries, entries_or_none, exists

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["write_options"]

_MESSAGE_FOLDERS = (COMMITLOG_FOLDER, QUEUE_FOLDER)


def write_options(raw: Mapping[str, str]) -> WriteOptions:
    """Parse and check the options of a write.

    Raises:
        ValueError: An unknown option, a bad value, no path, or one that is neither local nor on S3.
        RmqIndexError: The path is a file, a store of another kind, or a directory of other files.
    """
    options = parse_options(SparkOptions, raw, "write")
    with using(options.s3):
        directory = _index_directory(str(options.path))
        refuse_target(str(directory))
    if is_remote(directory) and options.checkpoint:
        raise ValueError("option 'checkpoint': only for a local store")
    return WriteOptions(
        directory=directory,
        layout=options.layout,
        zone=options.time_zone,
        on_indexed=options.on_indexed,
        broker_redispatch=options.broker_redispatch,
        allow_overlap=options.allow_overlap,
        allow_live_store=options.allow_live_store,
        index_members=options.index_members,
        index_tags=options.index_tags,
        checkpoint=options.checkpoint,
        s3=options.s3,
    )


def _index_directory(path: str) -> Path | str:
    """Return the index directory of a path."""
    if is_remote(path):
        return _remote_directory(path)
    local = Path(local_path(path))
    if not local.exists():
        return local
    if not local.is_dir():
        raise RmqIndexError(f"{local}: expected an index directory or a store to write to, a file")
    folders = {entry.name for entry in directory_entries(local) if entry.is_directory}
    if INDEX_FOLDER not in folders and folders.intersection(_MESSAGE_FOLDERS):
        return local / INDEX_FOLDER
    return Path(resolve(local, to_write=True).path)


def _remote_directory(path: str) -> str:
    scheme = path.partition("://")[0].lower()
    if scheme not in SCHEMES:
        raise ValueError(
            f"option 'path': expected a local directory or one on S3 to write to, got {path!r}"
        )
    if not exists(path):
        return path
    folders = {entry.name for entry in entries_or_none(path) if entry.is_directory}
    if INDEX_FOLDER not in folders and folders.intersection(_MESSAGE_FOLDERS):
        return child_uri(path, INDEX_FOLDER)
    resolved = resolve(path, to_write=True)
    if resolved.is_file:
        raise RmqIndexError(f"{path}: expected an index directory or a store to write to, a file")
    return resolved.path
