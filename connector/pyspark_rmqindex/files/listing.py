"""Lists the files of a load and reads their headers."""

from __future__ import annotations

import contextlib
from dataclasses import dataclass
from itertools import chain
from typing import TYPE_CHECKING, NamedTuple

from pyspark_rmqindex.files.slices import FileSlice, changed_error
from pyspark_rmqindex.files.stores import store_of
from rmqindex import CorruptIndexError, IndexFile, Layout, RmqIndexError
from rmqindex.folders import INDEX_FOLDER, ROCKSDB_STORE_FOLDER, STORE_FOLDERS
from rmqindex.indexfile import open_index_source
from rmqindex.layout import FIRST_POSITION
from rmqindex.storage import UnsteadyError, map_files, read_steady
from rmqindex.store import (
    Hit,
    Store,
    broker_order,
    expand,
    has_pattern,
    is_hidden,
    is_index_name,
    is_other_kind,
    lacking_text,
    list_index_files,
    matcher,
    open_in_store,
    refuse_rocksdb_index,
)
from rmqindex.transaction import (
    directory_entries,
    effective_listing,
    exists,
    list_once,
)

if TYPE_CHECKING:
    import os
    from collections.abc import Callable, Iterable, Iterator

    from pyspark_rmqindex.options import ReadOptions
    from rmqindex.storage import Location
    from rmqindex.transaction import FileEntry

    Lister = Callable[[str | os.PathLike[str]], list[FileEntry]]

__all__ = ["FoundFile", "Listing", "list_files", "list_slices", "open_slice"]


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


@dataclass(frozen=True, slots=True)
class FoundFile:
    """One file.

    Attributes:
        path: The path to read.
        name_path: The path as listed; it differs from ``path`` while a commit is under way.
    """

    path: Location
    name_path: Location


def list_slices(options: ReadOptions, stores: frozenset[str] | None = None) -> Listing:
    """List the files of a load and read their headers.

    A concurrent commit could show one file before and another after it; so the names are listed
    again after the headers were read, until both listings agree.

    Args:
        options: The options of the load.
        stores: The stores to read, as :func:`store_of` names them; files of other stores are not
            opened. None for all.

    Returns:
        The slices, and how many files there are in all stores.

    Raises:
        RmqIndexError: A path is missing, a store of another kind, or a file that is not an
            IndexFile; or files kept changing for ten seconds.
    """

    def read() -> Listing:
        files = list_files(options)
        failure: RmqIndexError | None = None
        slices: list[FileSlice] = []
        lacking: tuple[str, ...] = ()
        try:
            slices, lacking = _read_headers(_in_stores(files, stores), options)
        except RmqIndexError as error:
            failure = error
        if list_files(options) != files:
            raise UnsteadyError("files came or went") from failure
        if failure is not None:
            raise failure
        is_remote = any(file.path.local is None for file in files)
        return Listing(slices, len(files), is_remote, lacking)

    return read_steady(", ".join(options.paths), read)


@contextlib.contextmanager
def open_slice(file_slice: FileSlice, options: ReadOptions) -> Iterator[IndexFile | None]:
    """Open the file of a slice, and check before and after that it is the planned one.

    Yields:
        The open file; None if it is gone and the options ignore missing files.

    Raises:
        RmqIndexError: The file is gone, or another one has its name.
    """
    file = _planned_file(file_slice, options)
    if file is None:
        yield None
        return
    with file:
        yield file
        if not file.matches(file_slice.fingerprint, again=True):
            raise changed_error(file_slice.name_path, "written anew")


def _planned_file(file_slice: FileSlice, options: ReadOptions) -> IndexFile | None:
    """Open a planned file, which has another path for a moment while a commit replaces it."""
    layout = Layout(file_slice.hash_slot_num, file_slice.index_num)
    problem: RmqIndexError | None = None
    is_replaced = False
    for path in _possible_paths(file_slice):
        try:
            file = IndexFile(path, layout, mode=options.mode)
        except CorruptIndexError as error:
            if _is_planned(path, file_slice):
                raise
            problem, is_replaced = error, True
            continue
        except RmqIndexError as error:
            problem = error
            continue
        if file.matches(file_slice.fingerprint):
            return file
        file.close()
        is_replaced = True
    if problem is not None and not is_replaced:
        if exists(file_slice.name_path):
            raise problem
        if options.ignore_missing:
            return None
    raise changed_error(file_slice.name_path, "replaced" if is_replaced else "removed") from problem


def _is_planned(path: Location, file_slice: FileSlice) -> bool:
    """Return whether a file that cannot be decoded is still the planned one."""
    with open_index_source(path) as source:
        return file_slice.fingerprint.identity.names_same(source.identity)


def _possible_paths(file_slice: FileSlice) -> Iterator[Location]:
    yield file_slice.path
    if file_slice.name_path != file_slice.path:
        yield file_slice.name_path
    listed = _committed_path(file_slice.name_path)
    if listed is not None:
        yield listed


def _in_stores(files: list[FoundFile], stores: frozenset[str] | None) -> list[FoundFile]:
    return [file for file in files if stores is None or store_of(file.name_path) in stores]


def _read_headers(
    files: list[FoundFile], options: ReadOptions
) -> tuple[list[FileSlice], tuple[str, ...]]:
    def read(file: FoundFile) -> tuple[FileSlice | None, str | None]:
        return _whole_file(file, options)

    found = map_files(read, files, (file.path for file in files))
    slices = [file_slice for file_slice, _ in found if file_slice is not None]
    return slices, tuple(lacking for _, lacking in found if lacking is not None)


def _whole_file(file: FoundFile, options: ReadOptions) -> tuple[FileSlice | None, str | None]:
    """Return what can be read of a file, and a sentence about the rest."""
    with open_in_store(file.path, options.layout, options.mode, file.name_path) as index_file:
        layout, fingerprint = index_file.layout, index_file.fingerprint()
        begin_timestamp, left_out = index_file.header.begin_timestamp, index_file.left_out
    lacking = None if left_out is None else lacking_text(file.name_path, left_out)
    if layout is None or fingerprint is None:
        return None, lacking
    file_slice = FileSlice(
        path=file.path,
        name_path=file.name_path,
        hash_slot_num=layout.hash_slot_num,
        index_num=layout.index_num,
        begin_timestamp=begin_timestamp,
        fingerprint=fingerprint,
        limit=fingerprint.stop,
        start=FIRST_POSITION,
        stop=fingerprint.stop,
    )
    return file_slice, lacking


def list_files(options: ReadOptions) -> list[FoundFile]:
    """List the files of all paths, each file once.

    Raises:
        RmqIndexError: A path is missing, or a store of another kind.
    """
    fits = matcher(options.path_glob_filter) if options.path_glob_filter is not None else None
    found: dict[Location, FoundFile] = {}
    listed = list_once()
    for path in options.paths:
        for file in _files_of(path, options, listed):
            if fits is None or fits(file.name_path.name):
                found.setdefault(file.name_path, file)
    return list(found.values())


def _files_of(path: Location, options: ReadOptions, listed: Lister) -> Iterable[FoundFile]:
    whole = path.absolute
    if exists(whole):
        return _files_at(whole, options, listed)
    set_aside = _set_aside(whole)
    if set_aside is not None:
        return (FoundFile(set_aside, whole),)
    is_pattern = has_pattern(whole)
    if is_pattern:
        hits = list(expand(whole))
        if hits:
            return chain.from_iterable(_files_of_hit(hit, options, listed) for hit in hits)
    if options.ignore_missing:
        return ()
    what = "no file fits the pattern" if is_pattern else "no such file or directory"
    raise RmqIndexError(f"{whole}: {what}")


def _files_of_hit(hit: Hit, options: ReadOptions, listed: Lister) -> Iterator[FoundFile]:
    if hit.entry is None or hit.entry.is_directory:
        yield from _files_at(hit.path, options, listed)
    elif is_index_name(hit.entry.name):
        yield FoundFile(hit.entry.path, hit.path)


def _files_at(path: Location, options: ReadOptions, listed: Lister) -> Iterator[FoundFile]:
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
        yield FoundFile(_set_aside(store.file) or store.file, store.file)
    elif options.recursive:
        files = list(_files_below(store.index, options))
        if not (files or options.ignore_missing):
            Store.open(path)  # refuses a directory that is no index
        yield from files
    else:
        for entry in list_index_files(store.index, options.mode, listed):
            yield FoundFile(entry.path, store.index.child(entry.name))


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


def _files_below(directory: Location, options: ReadOptions) -> Iterator[FoundFile]:
    entries = directory_entries(directory)
    for entry in sorted(entries, key=broker_order):
        if entry.is_directory or not is_index_name(entry.name):
            continue
        if options.mode != "DROPMALFORMED" or not is_other_kind(entry):
            yield FoundFile(entry.path, directory.child(entry.name))
    folders = {entry.name: directory.child(entry.name) for entry in entries if entry.is_directory}
    if INDEX_FOLDER in folders and folders.keys() & STORE_FOLDERS:
        folders = {INDEX_FOLDER: folders[INDEX_FOLDER]}
    elif ROCKSDB_STORE_FOLDER in folders:
        refuse_rocksdb_index(directory)
    for name, path in sorted(folders.items()):
        if not is_hidden(name):
            yield from _files_below(path, options)
