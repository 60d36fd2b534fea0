"""Lists the files of a load and reads their headers."""

from __future__ import annotations

import contextlib
from itertools import chain
from typing import TYPE_CHECKING, NamedTuple

from pyspark_rmqindex.files.slices import FileSlice, changed_error
from pyspark_rmqindex.files.stores import store_of
from rmqindex import RmqIndexError
from rmqindex.layout import INDEX_FOLDER, ROCKSDB_STORE_FOLDER, STORE_FOLDERS
from rmqindex.storage import FileChangedError, map_files
from rmqindex.store import (
    Hit,
    SnapshotFile,
    Store,
    broker_order,
    expand,
    has_pattern,
    is_hidden,
    is_index_name,
    is_other_kind,
    list_index_files,
    matcher,
    open_proved,
    read_listed,
    refuse_rocksdb_index,
)
from rmqindex.transaction import (
    FileEntry,
    directory_entries,
    effective_listing,
    exists,
    list_once,
)

if TYPE_CHECKING:
    import os
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from pyspark_rmqindex.options import ReadOptions
    from rmqindex import IndexFile
    from rmqindex.storage import Location

    Lister = Callable[[str | os.PathLike[str]], list[FileEntry]]


class Listing(NamedTuple):
    """The files of a load.

    Attributes:
        slices: One slice for each whole file with entries; in a directory, in the broker's order.
        total: How many files there are, with or without entries.
        is_remote: Whether any of them is not a local file.
        lacking: What cannot be read of damaged files; and what the indexes lack of their
            CommitLogs, where that was looked at.
    """

    slices: list[FileSlice]
    total: int
    is_remote: bool
    lacking: tuple[str, ...] = ()


def list_slices(options: ReadOptions, stores: frozenset[str] | None = None) -> Listing:
    """List the files of a load and read their headers.

    A concurrent commit could show one file before and another after it; so the names are listed
    again after the headers were read, until both listings agree.

    With ``stores``, as :func:`store_of` names them, files of other stores are counted only.
    """

    def read(entries: Sequence[FileEntry]) -> Listing:
        chosen = [each for each in entries if stores is None or store_of(each.name_path) in stores]
        files = map_files(
            lambda entry: SnapshotFile.of(entry, options.layout, options.mode),
            chosen,
            (entry.path for entry in chosen),
        )
        for file in files:
            if file.error is not None:
                raise file.error
        slices = [part for part in map(FileSlice.of, files) if part is not None]
        lacking = tuple(file.lacking for file in files if file.lacking is not None)
        is_remote = any(entry.path.local is None for entry in entries)
        return Listing(slices, len(entries), is_remote, lacking)

    return read_listed(", ".join(options.paths), lambda: list_files(options), read)


@contextlib.contextmanager
def open_slice(file_slice: FileSlice, options: ReadOptions) -> Iterator[IndexFile | None]:
    """Open the file of a slice, and check before and after that it is the planned one.

    Yields:
        The open file; None if it is gone and the options ignore missing files.
    """
    file: IndexFile | None = None
    try:
        file = open_proved(
            FileEntry.of_file(file_slice.path, file_slice.name_path),
            file_slice.layout,
            options.mode,
            file_slice.fingerprint,
        )
    except FileChangedError as error:
        if error.what != "removed" or not options.ignore_missing:
            raise changed_error(error.path, error.what) from error.__cause__
    if file is None:
        yield None
        return
    with file:
        yield file
        if not file.matches(file_slice.fingerprint, again=True):
            raise changed_error(file_slice.name_path, "written anew")


def list_files(options: ReadOptions) -> list[FileEntry]:
    """List the files of all paths, each file once."""
    fits = matcher(options.path_glob_filter) if options.path_glob_filter is not None else None
    found: dict[Location, FileEntry] = {}
    listed = list_once()
    for path in options.paths:
        for file in _files_of(path, options, listed):
            if fits is None or fits(file.name_path.name):
                found.setdefault(file.name_path, file)
    return list(found.values())


def _files_of(path: Location, options: ReadOptions, listed: Lister) -> Iterable[FileEntry]:
    whole = path.absolute
    if exists(whole):
        return _files_at(whole, options, listed)
    set_aside = _set_aside(whole)
    if set_aside is not None:
        return (FileEntry.of_file(set_aside, whole),)
    is_pattern = has_pattern(whole)
    if is_pattern:
        hits = list(expand(whole))
        if hits:
            return chain.from_iterable(_files_of_hit(hit, options, listed) for hit in hits)
    if options.ignore_missing:
        return ()
    what = "no file fits the pattern" if is_pattern else "no such file or directory"
    raise RmqIndexError(f"{whole}: {what}; with ignoreMissingFiles=true it is passed over")


def _files_of_hit(hit: Hit, options: ReadOptions, listed: Lister) -> Iterator[FileEntry]:
    if hit.entry is None or hit.entry.is_directory:
        yield from _files_at(hit.path, options, listed)
    elif is_index_name(hit.entry.name):
        yield FileEntry.of_file(hit.entry.path, hit.path)


def _files_at(path: Location, options: ReadOptions, listed: Lister) -> Iterator[FileEntry]:
    """List the files of a path that exists."""
    store = Store.open(
        path,
        needs_index=options.recursive or not options.ignore_missing,
        allow_empty=options.recursive or options.ignore_missing,
        listed=listed,
    )
    if not store.has_index:
        return
    if store.file is not None:
        yield FileEntry.of_file(_set_aside(store.file) or store.file, store.file)
    elif options.recursive:
        files = list(_files_below(store.index, options))
        if not (files or options.ignore_missing):
            Store.open(path)  # refuses a directory that is no index
        yield from files
    else:
        yield from list_index_files(store.index, options.mode, listed)


def _set_aside(path: Location) -> Location | None:
    """Return where a commit under way has put a file that it replaces or removes, if it has."""
    listed = _committed_path(path)
    return None if listed == path else listed


def _committed_path(path: Location) -> Location | None:
    """Return where the last finished commit left a local file, if it did."""
    if path.local is None:
        return None
    try:
        listed = effective_listing(path.parent).get(path.name)
    except OSError:  # not a directory, so no commit changes it
        return None
    return None if listed is None else path.storage.at(listed)


def _files_below(directory: Location, options: ReadOptions) -> Iterator[FileEntry]:
    entries = directory_entries(directory)
    for entry in sorted(entries, key=broker_order):
        if entry.is_directory or not is_index_name(entry.name):
            continue
        if options.mode != "DROPMALFORMED" or not is_other_kind(entry):
            yield entry
    folders = {entry.name: directory.child(entry.name) for entry in entries if entry.is_directory}
    if INDEX_FOLDER in folders and folders.keys() & STORE_FOLDERS:
        folders = {INDEX_FOLDER: folders[INDEX_FOLDER]}
    elif ROCKSDB_STORE_FOLDER in folders:
        refuse_rocksdb_index(directory)
    for name, path in sorted(folders.items()):
        if not is_hidden(name):
            yield from _files_below(path, options)
