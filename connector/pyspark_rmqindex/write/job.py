"""The options of a write, and the index directory in its path."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark_rmqindex.options import WriteOptions as SparkOptions
from pyspark_rmqindex.options import parse_options
from rmqindex import RmqIndexError
from rmqindex.bulk import WriteOptions
from rmqindex.folders import COMMITLOG_FOLDER, INDEX_FOLDER, QUEUE_FOLDER
from rmqindex.storage import SCHEMES, Location
from rmqindex.store import refuse_target, resolve
from rmqindex.transaction import entries_or_none, exists

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
    assert options.path is not None, "checked by the options"
    directory = _index_directory(options.storage.at(options.path))
    refuse_target(directory)
    if directory.local is None and options.checkpoint:
        raise ValueError("option 'checkpoint': only for a local store")
    return WriteOptions(
        directory=directory.local or directory,
        layout=options.layout,
        zone=options.time_zone,
        on_indexed=options.on_indexed,
        broker_redispatch=options.broker_redispatch,
        allow_overlap=options.allow_overlap,
        allow_live_store=options.allow_live_store,
        index_members=options.index_members,
        index_tags=options.index_tags,
        checkpoint=options.checkpoint,
    )


def _index_directory(path: Location) -> Location:
    """Return the index directory of a path."""
    if path.local is None and path.scheme not in SCHEMES:
        raise ValueError(
            f"option 'path': expected a local directory or one on S3 to write to, got {str(path)!r}"
        )
    whole = Location.of(path)
    if not exists(whole):
        return whole
    folders = {entry.name for entry in entries_or_none(whole) if entry.is_directory}
    if INDEX_FOLDER not in folders and folders.intersection(_MESSAGE_FOLDERS):
        return whole.child(INDEX_FOLDER)
    resolved = resolve(whole, to_write=True)
    if resolved.is_file:
        raise RmqIndexError(f"{whole}: expected an index directory or a store to write to, a file")
    return resolved.path
