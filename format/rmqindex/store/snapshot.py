"""The IndexFiles of an index as of one listing, with their headers and geometry.

A writer may commit meanwhile: opening a file checks that it is the listed one, and only the entries
counted then are read, so an answer reflects one state, or is refused.

A broker opens all files of an index with one geometry, so a sound file proves that of a truncated
one beside it, of one with surplus bytes, or of one with too few entries.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import TYPE_CHECKING, TypeVar, overload

from rmqindex.errors import CorruptIndexError, RmqIndexError, command_line
from rmqindex.indexfile.chains import FEW_HASHES, walk_full_file
from rmqindex.indexfile.committed import open_index_source, read_header
from rmqindex.indexfile.geometry import (
    Layout,
    OtherLayoutError,
    UnknownLayoutError,
    fits_layout,
    infer_layout,
)
from rmqindex.indexfile.reader import IndexFile
from rmqindex.indexfile.uncounted import damaged_header, ensure_said
from rmqindex.layout.index_file import FIRST_POSITION, HEADER_SIZE, IndexHeader
from rmqindex.storage.filesystem import status_of
from rmqindex.storage.identity import FileChangedError
from rmqindex.storage.opening import UnsteadyError, read_steady
from rmqindex.store.store import Store, index_entries, list_index_files
from rmqindex.transaction.directories import FileEntry, exists
from rmqindex.transaction.journal import effective_listing

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    import numpy as np
    from numpy.typing import NDArray

    from rmqindex.indexfile.chains import PointEntry
    from rmqindex.indexfile.entries import Mode
    from rmqindex.indexfile.fingerprint import Fingerprint
    from rmqindex.storage.location import Location, PathLike

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class SnapshotFile:
    """An IndexFile as of the listing of its directory.

    Attributes:
        entry: Its entry in the listing.
        mode: As :class:`rmqindex.IndexFile` takes it.
        layout: Its geometry; None where none was given and it has no entries to infer it from.
        header: Its header.
        entry_count: How many entries it had.
        fingerprint: Its fingerprint; None without entries.
        error: Why it cannot be used, which :meth:`open` raises; the preceding fields are then
            empty.
        left_out: As :attr:`rmqindex.IndexFile.left_out`.
    """

    entry: FileEntry
    mode: Mode
    layout: Layout | None = None
    header: IndexHeader = field(default_factory=IndexHeader)
    entry_count: int = 0
    fingerprint: Fingerprint | None = None
    error: RmqIndexError | None = None
    left_out: str | None = None

    @classmethod
    def of(cls, entry: FileEntry, layout: Layout | None, mode: Mode) -> SnapshotFile:
        """Read the header of a listed file; one that cannot be used has its ``error`` set.

        Raises:
            RmqIndexError: The file shows another geometry than ``layout``.
        """
        try:
            with open_in_store(entry.path, layout, mode, entry.name_path) as file:
                return cls(
                    entry,
                    mode,
                    file.layout,
                    file.header,
                    file.entry_count,
                    file.fingerprint(),
                    left_out=file.left_out,
                )
        except OtherLayoutError:
            raise
        except RmqIndexError as error:
            return cls(entry, mode, layout, error=error)

    @property
    def name_path(self) -> Location:
        """Its path by its name; while a commit is under way, its bytes may be elsewhere."""
        return self.entry.name_path

    @property
    def is_empty(self) -> bool:
        """Whether the file is usable but has no entries."""
        return self.error is None and self.fingerprint is None

    @property
    def lacking(self) -> str | None:
        """What an answer lacks of the file, as a sentence; None where it lacks nothing."""
        return None if self.left_out is None else lacking_text(self.name_path, self.left_out)

    @property
    def stop(self) -> int:
        """The position behind the last counted entry."""
        return self.entry_count + FIRST_POSITION

    @property
    def is_final(self) -> bool:
        """Whether the file is full and local, so that no append changes it."""
        layout = self.layout
        return (
            self.fingerprint is not None
            and layout is not None
            and self.left_out is None
            and self.header.index_count >= layout.index_num
            and self.entry.path.local is not None
        )

    def walk(self, hashes: NDArray[np.int32]) -> list[PointEntry] | None:
        """Return the entries of a few hashes, each one's newest first, without opening the file.

        Returns:
            The entries; None where :meth:`open` has to tell: the file may grow or was changed, it
            is remote, its chains are not simple, or the hashes are many.
        """
        if len(hashes) > FEW_HASHES or self.mode != "FAILFAST" or not self.is_final:
            return None
        assert self.layout is not None
        assert self.fingerprint is not None
        begin = self.header.begin_timestamp
        return walk_full_file(
            self.entry.path, self.layout, begin, hashes.tolist(), self.fingerprint
        )

    @contextlib.contextmanager
    def open(self) -> Iterator[IndexFile]:
        """Open the file, which must not be empty; check before and after that it is the listed one.

        Yields:
            The file with its header of the listing; read it below :attr:`stop` only.

        Raises:
            FileChangedError: The file is gone, or another one has its name.
            RmqIndexError: It cannot be used.
        """
        if self.error is not None:
            raise self.error
        assert self.fingerprint is not None
        with open_proved(self.entry, self.layout, self.mode, self.fingerprint) as file:
            # The broker's own search would not tell later entries apart.
            file.header = self.header
            yield file
            if not file.matches(self.fingerprint, again=True):
                raise self.changed_error("written anew")

    def changed_error(self, what: str) -> FileChangedError:
        """Return the error of a file that was changed since it was listed."""
        return FileChangedError(self.name_path, what, "run this again")


def open_proved(
    entry: FileEntry, layout: Layout | None, mode: Mode, fingerprint: Fingerprint
) -> IndexFile:
    """Open a file that was listed before, which a commit may have moved for the moment.

    Args:
        entry: Its entry in the listing.
        layout: Its geometry.
        mode: As :class:`IndexFile` takes it.
        fingerprint: What it must have.

    Raises:
        FileChangedError: It was removed, or another file has its name.
        RmqIndexError: It cannot be used.
    """
    problem: RmqIndexError | None = None
    is_replaced = False
    for path in _places_of(entry):
        try:
            file = IndexFile(path, layout, mode=mode)
        except CorruptIndexError as error:
            with open_index_source(path) as source:
                if fingerprint.identity.names_same(source.identity):
                    raise
            problem, is_replaced = error, True
            continue
        except RmqIndexError as error:
            problem = error
            continue
        if file.matches(fingerprint):
            return file
        file.close()
        is_replaced = True
    if problem is not None and not is_replaced and exists(entry.name_path):
        raise problem
    what = "replaced" if is_replaced else "removed"
    raise FileChangedError(entry.name_path, what, "run this again") from problem


def _places_of(entry: FileEntry) -> Iterator[Location]:
    """Yield where the bytes of a listed file may be."""
    yield entry.path
    if entry.name_path != entry.path:
        yield entry.name_path
    if entry.name_path.local is not None:
        try:
            place = effective_listing(entry.name_path.parent).get(entry.name)
        except OSError:  # the whole directory is gone
            return
        if place is not None:
            yield entry.path.storage.at(place)


@dataclass(frozen=True, slots=True)
class IndexSnapshot(Sequence[SnapshotFile]):
    """The files of an index as of one moment, oldest first, with their headers.

    Attributes:
        files: The files; those that cannot be used have their ``error`` set.
    """

    files: tuple[SnapshotFile, ...] = ()

    @classmethod
    def of(
        cls,
        path: PathLike | Store,
        layout: Layout | None,
        mode: Mode,
        before: IndexSnapshot | None = None,
    ) -> IndexSnapshot:
        """List the IndexFiles of a path and read their headers.

        Args:
            path: An IndexFile, an index directory, or a store root that has ``index/``; or its
                store.
            layout: The geometry of every file; None to infer it.
            mode: ``FAILFAST`` or ``DROPMALFORMED``, as :class:`rmqindex.IndexFile` takes it.
            before: An earlier snapshot, with the same geometry and mode. What was full in it, and
                is the same unchanged file by its listing, is not read again; reading its entries
                compares its fingerprint.

        Raises:
            RmqIndexError: The path is absent, the store is of another kind, or files came and went
                during every listing for ten seconds.
        """
        store = Store.open(path, allow_empty=True)
        if store.file is not None:
            entry = FileEntry(store.file, store.file.name, status_of(store.file).size)
            return cls((SnapshotFile.of(entry, layout, mode),))
        directory = store.index
        known = {file.entry: file for file in before or () if file.is_final}

        def read(entries: Sequence[FileEntry]) -> tuple[SnapshotFile, ...]:
            return tuple(
                _unchanged(known, entry) or SnapshotFile.of(entry, layout, mode)
                for entry in entries
            )

        files = read_listed(directory, lambda: list_index_files(directory, mode), read)
        if not files:
            Store.open(store.given)  # refuses an empty directory that is not a store's
        return cls(files)

    @classmethod
    def of_headers(cls, directory: PathLike) -> IndexSnapshot:
        """Read nothing but the headers, for a writer; an absent directory has no files."""
        files = []
        for entry in list_index_files(directory) if exists(directory) else []:
            with open_index_source(entry.path) as source:
                header = read_header(source) if source.size >= HEADER_SIZE else IndexHeader()
                # Linking changes one of the times.
                identity = replace(source.identity, changed=0)
            listed = replace(entry, identity=identity)
            count = header.entry_count
            files.append(SnapshotFile(listed, "FAILFAST", header=header, entry_count=count))
        return cls(tuple(files))

    @property
    def entries(self) -> list[FileEntry]:
        """The files as they were listed."""
        return [file.entry for file in self.files]

    @property
    def names(self) -> list[str]:
        """The names of the files."""
        return [file.entry.name for file in self.files]

    @property
    def entry_count(self) -> int:
        """How many entries there are."""
        return sum(file.entry_count for file in self.files)

    def ensure_unchanged(self, directory: PathLike) -> None:
        """Raise if another writer has changed the directory since :meth:`of_headers`.

        Call it within ``Staging.exclusive``.
        """
        now = IndexSnapshot.of_headers(directory)
        if now != self or [e.identity for e in now.entries] != [e.identity for e in self.entries]:
            raise RmqIndexError(
                f"{os.fspath(directory)}: the index was changed by another writer meanwhile; "
                "nothing was changed here, run this again"
            )

    @overload
    def __getitem__(self, place: int) -> SnapshotFile: ...

    @overload
    def __getitem__(self, place: slice) -> IndexSnapshot: ...

    def __getitem__(self, place: int | slice) -> SnapshotFile | IndexSnapshot:
        """Return a file, or the snapshot of some."""
        return IndexSnapshot(self.files[place]) if isinstance(place, slice) else self.files[place]

    def __len__(self) -> int:
        """Return how many files there are."""
        return len(self.files)


def _unchanged(known: dict[FileEntry, SnapshotFile], entry: FileEntry) -> SnapshotFile | None:
    """Return a file of an earlier snapshot if the listing shows it with the same times."""
    file = known.get(entry)
    if file is None or entry.identity is None or file.entry.identity != entry.identity:
        return None
    return file


def read_listed(
    where: object,
    list_files: Callable[[], Sequence[FileEntry]],
    read: Callable[[Sequence[FileEntry]], T],
) -> T:
    """List files, read them and list them again, until both listings agree.

    Args:
        where: The path that the error names.
        list_files: Lists the files.
        read: Reads the listed files; its result or error counts once the listings agree.

    Raises:
        RmqIndexError: Files came and went during every listing for ten seconds.
    """

    def read_once() -> T:
        entries = list_files()
        failure: RmqIndexError | None = None
        try:
            result = read(entries)
        except RmqIndexError as error:
            failure = error
        if not _are_same(entries, list_files()):
            raise UnsteadyError("files came or went") from failure
        if failure is not None:
            raise failure
        return result

    return read_steady(where, read_once)


def lacking_text(path: Location, left_out: str) -> str:
    """Return what an answer lacks of a file, by its :attr:`IndexFile.left_out`, and what to do."""
    return (
        f"{path}: the answer lacks {left_out}. The file is cut or damaged; "
        f"`{command_line('verify', path)}` says what to do"
    )


def layout_of_fullest(paths: Sequence[Location]) -> Layout | None:
    """Return the geometry of the fullest file that shows it; None without entries."""
    counts: dict[Location, int] = {}
    for path in paths:
        with IndexFile(path, Layout(), mode="DROPMALFORMED", zero_extend=True) as file:
            if file.header.entry_count:
                counts[path] = file.header.entry_count
    problem: RmqIndexError | None = None
    for path in sorted(counts, key=lambda path: -counts[path]):
        try:
            return Layout.infer(path)
        except RmqIndexError as error:  # a damaged file does not show it; one beside it may
            problem = problem or error
    if problem is not None:
        raise problem
    return None


def _are_same(before: Sequence[FileEntry], after: Sequence[FileEntry]) -> bool:
    """Return whether two listings are of the same files, to which a broker may have appended."""
    return list(before) == list(after) and all(
        old.identity is None or new.identity is None or old.identity.names_same(new.identity)
        for old, new in zip(before, after, strict=True)
    )


# Files that are asked for their geometry; each is a few reads, and they should all agree.
_MOST_ASKED = 16


def open_in_store(
    path: Location, layout: Layout | None, mode: Mode, name_path: Location | None = None
) -> IndexFile:
    """Open an IndexFile; where it does not show its geometry, the files beside it do.

    Args:
        path: The file.
        layout: Its geometry; None to infer it.
        mode: As :class:`IndexFile` takes it. With ``DROPMALFORMED``, a file whose header disagrees
            with its entries has none.
        name_path: Its path by its name, where a commit keeps its bytes elsewhere.

    Raises:
        RmqIndexError: Neither the file nor one beside it shows the geometry, or these disagree; or
            it shows another one than ``layout``.
        CorruptIndexError: In ``FAILFAST``: a truncated file, more entries than fit, or more than
            the header counts.
        RmqIndexError: It cannot be read.
    """
    # To a remote one, each request takes as long as a thousand local reads.
    if layout is not None and path.local is not None:
        with open_index_source(path) as source:
            ensure_said(source, layout, is_strict=mode == "FAILFAST")
    try:
        file = IndexFile(path, layout, mode=mode)
    except (UnknownLayoutError, CorruptIndexError) as error:
        proved = None if layout is not None else layout_beside(name_path or path)
        if proved is None:
            raise
        if mode == "FAILFAST":
            _ensure_fits(path, proved, error)
        file = IndexFile(path, proved, mode=mode)
    try:
        if mode == "DROPMALFORMED":
            file.drop_unproved()
        file.check_count(lambda: layout_beside(name_path or path))
    except BaseException:
        file.close()
        raise
    return file


def layout_beside(path: Location) -> Layout | None:
    """Return the geometry that the files beside a file show; None if none does, or they disagree.

    Raises:
        RmqIndexError: The directory cannot be listed.
    """
    layouts: set[Layout] = set()
    for entry in islice(_nearest(path), _MOST_ASKED):
        try:
            with open_index_source(entry.path) as source:
                layouts.add(infer_layout(source))
        except (RmqIndexError, ValueError):
            continue  # it is damaged too, empty, or shorter than a header
    return layouts.pop() if len(layouts) == 1 else None


def _nearest(path: Location) -> Iterator[FileEntry]:
    """Yield the other files of a file's directory, the nearest in the broker's order first."""
    entries = [each for each in index_entries(path.parent) if not each.is_directory]
    names = [each.name for each in entries]
    name = path.name
    place = names.index(name) if name in names else 0
    others = [(abs(n - place), each) for n, each in enumerate(entries) if each.name != name]
    yield from (each for _, each in sorted(others, key=lambda other: other[0]))


def _ensure_fits(path: Location, layout: Layout, error: RmqIndexError) -> None:
    """Raise the error of a file that does not fit, or that of its header, which says more."""
    with open_index_source(path) as source:
        if fits_layout(source, layout, may_be_longer=True):
            return
        if isinstance(error, UnknownLayoutError) and source.size == layout.file_size:
            header = read_header(source)
            raise damaged_header(source, layout, header, is_last=False) or error
        raise error
