"""The plan of reading an index: its files, and how many entries each had.

A writer may commit meanwhile: opening a file checks that it is the listed one, and only the entries
counted then are read, so an answer reflects one state, or is refused.
"""

from __future__ import annotations

import contextlib
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeVar

from rmqindex.command_line import command_line
from rmqindex.errors import CorruptIndexError, RmqIndexError
from rmqindex.fileset.geometry import open_in_store
from rmqindex.fileset.paths import index_files, list_index_files, resolve
from rmqindex.header import IndexHeader
from rmqindex.indexfile.committed import open_index_source
from rmqindex.indexfile.geometry import Layout
from rmqindex.indexfile.reader import IndexFile
from rmqindex.layout import FIRST_POSITION
from rmqindex.storage.identity import FileChangedError
from rmqindex.storage.opening import UnsteadyError, read_steady
from rmqindex.transaction.directories import exists
from rmqindex.transaction.journal import effective_listing

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from rmqindex.indexfile.entries import Mode
    from rmqindex.indexfile.fingerprint import Fingerprint
    from rmqindex.storage.location import Location, PathLike
    from rmqindex.transaction.directories import FileEntry

__all__ = ["PlannedFile", "lacking_text", "layout_of_fullest", "plan_index", "read_listed"]

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class PlannedFile:
    """An IndexFile as of the listing of its directory.

    Attributes:
        entry: Its entry in the listing.
        name_path: Its path by its name; while a commit is under way, its bytes may be elsewhere.
        mode: As :class:`IndexFile` takes it.
        layout: Its geometry; None where none was given and it has no entries to infer it from.
        header: Its header.
        entry_count: How many entries it had.
        fingerprint: Its fingerprint; None without entries.
        error: Why it cannot be used, which :meth:`open` raises; the preceding fields are then
            empty.
        left_out: As :attr:`IndexFile.left_out`.
    """

    entry: FileEntry
    name_path: Location
    mode: Mode
    layout: Layout | None = None
    header: IndexHeader = field(default_factory=IndexHeader)
    entry_count: int = 0
    fingerprint: Fingerprint | None = None
    error: RmqIndexError | None = None
    left_out: str | None = None

    @classmethod
    def of(
        cls, entry: FileEntry, name_path: Location, layout: Layout | None, mode: Mode
    ) -> PlannedFile:
        """Read the header of a listed file; one that cannot be used has its ``error`` set."""
        try:
            with open_in_store(entry.path, layout, mode, name_path) as file:
                return cls(
                    entry,
                    name_path,
                    mode,
                    file.layout,
                    file.header,
                    file.entry_count,
                    file.fingerprint(),
                    left_out=file.left_out,
                )
        except RmqIndexError as error:
            return cls(entry, name_path, mode, layout, error=error)

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
        with self._found(self.fingerprint) as file:
            # The broker's own search would not tell later entries apart.
            file.header = self.header
            yield file
            if not file.matches(self.fingerprint, again=True):
                raise self.changed_error("written anew")

    def changed_error(self, what: str) -> FileChangedError:
        """Return the error of a file that was changed since it was listed."""
        return FileChangedError(self.name_path, what, "run this again")

    def _found(self, fingerprint: Fingerprint) -> IndexFile:
        """Open the listed file, which a commit may have moved for the moment."""
        problem: RmqIndexError | None = None
        is_replaced = False
        for path in self._whereabouts():
            try:
                file = IndexFile(path, self.layout, mode=self.mode)
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
        if problem is not None and not is_replaced and exists(self.name_path):
            raise problem
        raise self.changed_error("replaced" if is_replaced else "removed") from problem

    def _whereabouts(self) -> Iterator[PathLike]:
        yield self.entry.path
        if self.name_path != self.entry.path:
            yield self.name_path
        if self.name_path.local is not None:
            try:
                place = effective_listing(self.name_path.parent).get(self.entry.name)
            except OSError:  # the whole directory is gone
                return
            if place is not None:
                yield place


def plan_index(path: PathLike, layout: Layout | None, mode: Mode) -> tuple[PlannedFile, ...]:
    """List the IndexFiles of a path and read their headers, as of one moment.

    Args:
        path: An IndexFile, an index directory, or a store root that has ``index/``.
        layout: The geometry of every file; None to infer it.
        mode: ``FAILFAST`` or ``DROPMALFORMED``, as :class:`IndexFile` takes it.

    Returns:
        The files, oldest first; those that cannot be used have their ``error`` set.

    Raises:
        RmqIndexError: The path is absent, the store is of another kind, or files came and went
            during every listing for ten seconds.
    """
    resolved = resolve(path)
    directory = resolved.path
    if resolved.is_file:
        return tuple(
            PlannedFile.of(each, each.path, layout, mode) for each in index_files(directory)
        )
    return read_listed(
        directory,
        lambda: list_index_files(directory, mode),
        lambda entries: tuple(
            PlannedFile.of(each, directory.child(each.name), layout, mode) for each in entries
        ),
    )


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
    """Return the geometry of the fullest file that shows it; None without entries.

    Raises:
        RmqIndexError: There are entries, and no file shows it.
    """
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
