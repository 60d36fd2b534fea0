"""The directory of an export: what was asked for, and the parts that are finished."""

from __future__ import annotations

import contextlib
import fcntl
import os
import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple, Self, TypeVar

from rmqindex.errors import RmqIndexError
from rmqindex.export.formats import FORMATS, PartFile
from rmqindex.storage.disk import (
    absent_directories,
    make_directories,
    move_synced,
    naming,
    remove_empty,
)
from rmqindex.storage.location import Location
from rmqindex.storage.records import Fields, RecordKind, from_json, shorten, to_json
from rmqindex.storage.writable import write_own
from rmqindex.store.contents import refuse_inside
from rmqindex.times import MILLISECOND, time_text

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from pathlib import Path

    import pyarrow as pa

    from rmqindex.commitlog.end import UnagreedTail

T = TypeVar("T")

# Hidden from Spark, Arrow and DuckDB, which read the files of a directory.
_MANIFEST = "_rmqindex_export.json"
_NEW_MANIFEST = ".rmqindex_export.json.new"
_OPEN_PART = ".rmqindex_export.part"
# Version 1 had no marks.
_VERSION = 2
_DIGITS = 20
_PART = re.compile(
    rf"(?P<stream>messages|entries-[+-]?[0-9]{{1,40}})-(?P<start>[0-9]{{{_DIGITS}}})"
    rf"-(?P<stop>[0-9]{{{_DIGITS}}})\.(?P<kind>{'|'.join(FORMATS)})"
)
_TIMES = ("begin", "end")
# Names of which the same values in another order, or twice, ask for the same.
_SETS = ("topics", "queue_ids", "tags")
_ELSEWHERE = "give a directory that is new or empty"
#: What to do where an export cannot go on.
ANEW = "Export to another directory"


@dataclass(frozen=True, slots=True)
class ExportResult:
    """What an export wrote.

    Attributes:
        directory: Where.
        files: The names of the files that this run added.
        row_count: The rows in them.
        size: Their bytes.
        file_count: How many files there are now, with those of earlier runs.
        is_resumed: Whether files were there before.
        unagreed: What was left out of a log of DLedger, since its group is not known to have
            agreed on it.
        left_out: Ranges of the log before the export's end of which it has no messages, since they
            were damaged or no file had them, as start and stop in bytes.
        begin: The earliest store time that is asked for, epoch milliseconds, as the export was
            begun; None for all.
        end: The latest store time, likewise.
    """

    directory: Path
    files: tuple[str, ...]
    row_count: int
    size: int
    file_count: int
    is_resumed: bool
    unagreed: UnagreedTail | None = None
    left_out: tuple[tuple[int, int], ...] = ()
    begin: int | None = None
    end: int | None = None


class OtherExportError(RmqIndexError):
    """A directory has an export of which something else was asked.

    Attributes:
        directory: The directory.
        name: What differs: a name of the question, such as ``begin``.
        before: What it was when the export was begun.
        words: In which words that was given, if it was relative to that moment.
        got: What it is now.
    """

    def __init__(
        self, directory: Path, name: str, before: object, words: str | None, got: object
    ) -> None:
        """Set what differs."""
        self.directory = directory
        self.name = name
        self.before = before
        self.words = words
        self.got = got
        given = "" if words is None else f" (given as {words!r})"
        super().__init__(
            f"{directory}: expected an export with {name} {_shown(name, before)}{given}, as it was "
            f"begun, got {_shown(name, got)}; go on with the same, or {_ELSEWHERE}"
        )


class Stream(NamedTuple):
    """A part of the source whose rows have places in ascending order."""

    name: str
    origin: list[int]


class _Manifest(NamedTuple):
    question: dict[str, Any]
    origins: dict[str, list[int]]
    starts: dict[str, int]
    # By stream and by where a part ends, in digits: what shows that the source is still the same.
    marks: dict[str, dict[str, Any]]
    # By name of the question: in which words a value was given that was fixed with the first run.
    words: dict[str, Any]

    @classmethod
    def of(cls, fields: Fields) -> Self:
        """Check the fields of a record."""
        fields.integer("version", 1, _VERSION)
        question, origins, starts = (
            fields.inner(name) for name in ("question", "origins", "starts")
        )
        if question is None or origins is None or starts is None:
            raise ValueError("expected question, origins and starts")
        marks = fields.inner("marks") or Fields({})
        of_streams = {name: marks.inner(name) or Fields({}) for name in marks.values}
        for name in starts.values:
            starts.integer(name, 0, 2**63 - 1)
        return cls(
            question.values,
            {name: origins.items(name) for name in origins.values},
            starts.values,
            {name: found.values for name, found in of_streams.items()},
            (fields.inner("words") or Fields({})).values,
        )


_RECORD = RecordKind("the manifest of an export", _Manifest.of, _ELSEWHERE)


@dataclass(slots=True)
class Folder:
    """The directory of an export, which no other process may write to meanwhile."""

    path: Path
    kind: str
    max_file_size: int
    manifest: _Manifest
    parts: dict[str, list[tuple[int, int]]]
    added: list[str] = field(default_factory=list)
    row_count: int = 0
    size: int = 0

    @classmethod
    @contextlib.contextmanager
    def open(
        cls,
        path: str | os.PathLike[str],
        question: dict[str, Any],
        kind: str,
        max_file_size: int,
        words: Mapping[str, str] | None = None,
    ) -> Iterator[Folder]:
        """Open a directory that is new, empty, or has an export of the same source.

        What ``words`` were given for keeps the value that the same words had when it was begun; the
        manifest's question has it. A directory that is left without rows is as if never opened.
        """
        folder = Location.of(path).local
        if folder is None:
            raise RmqIndexError(f"{path}: expected a local directory, got a URI")
        refuse_inside(Location(folder))
        if folder.exists() and not folder.is_dir():
            raise RmqIndexError(f"{path}: expected a directory, got a file; {_ELSEWHERE}")
        absent = absent_directories(folder)
        make_directories(folder)
        with _locked(folder):
            manifest = _RECORD.read(folder / _MANIFEST)
            parts = _finished(folder, is_export=manifest is not None)
            if manifest is None or not parts:
                manifest = _Manifest(question, {}, {}, {}, dict(words or {}))
            _ensure_same(folder, manifest, question, words or {})
            found = cls(folder, kind, max_file_size, manifest, parts)
            is_ended = False
            try:
                yield found
                is_ended = True
            except RmqIndexError:
                is_ended = True
                raise
            finally:
                (folder / _OPEN_PART).unlink(missing_ok=True)
                if is_ended and not found.parts:
                    (folder / _MANIFEST).unlink(missing_ok=True)
                remove_empty(absent)

    @staticmethod
    def range_of(path: str | os.PathLike[str], name: str) -> tuple[int, int] | None:
        """Return where a stream's finished parts begin and end; None where it has none."""
        folder = Location.of(path).local
        if folder is None or not folder.is_dir():
            return None
        manifest = _RECORD.read(folder / _MANIFEST)
        parts = _finished(folder, is_export=manifest is not None).get(name)
        if manifest is None or not parts:
            return None
        return manifest.starts.get(name, min(parts)[0]), max(stop for _, stop in parts)

    @property
    def result(self) -> ExportResult:
        """What was written until now."""
        count = sum(len(parts) for parts in self.parts.values())
        return ExportResult(
            self.path,
            tuple(self.added),
            self.row_count,
            self.size,
            count,
            count > len(self.added),
            begin=self.manifest.question["begin"],
            end=self.manifest.question["end"],
        )

    def begin(self, stream: Stream, start: int) -> int:
        """Return where a stream resumes: behind its last part, or at ``start``."""
        parts = sorted(self.parts.get(stream.name, ()))
        known = self.manifest.origins.get(stream.name)
        if parts and known != stream.origin:
            raise RmqIndexError(
                f"{self.path}: the files {stream.name}-* were exported from another store, or one "
                f"that was written anew since; {_ELSEWHERE}"
            )
        at = self.manifest.starts.get(stream.name, start) if parts else start
        for first, stop in parts:
            if first != at:
                raise RmqIndexError(
                    f"{self.path}: expected a file of {stream.name} that begins at {at}, got "
                    f"{self.name(stream, first, stop)}: one was removed. Put it back, or "
                    f"{_ELSEWHERE}"
                )
            at = stop
        if not parts:
            self.manifest.origins[stream.name] = stream.origin
            self.manifest.starts[stream.name] = start
            self._save()
        return at

    def mark(self, name: str, kind: type[T]) -> T:
        """Return the mark of what was exported last, as it was given to :meth:`write`."""
        stop = max(stop for _, stop in self.parts[name])
        found = self.manifest.marks.get(name, {}).get(str(stop))
        if found is None:
            raise RmqIndexError(
                f"{self.path}: expected a mark of what was exported of {name} up to {stop}, by "
                "which to tell that the source is still the same, got none: an earlier release "
                f"wrote this export. {ANEW}"
            )
        try:
            return from_json(kind, found)
        except ValueError as error:
            raise RmqIndexError(
                f"{self.path / _MANIFEST}: expected a mark of what was exported of {name} up to "
                f"{stop}, got a damaged one ({error}). {ANEW}"
            ) from error

    def name(self, stream: Stream, start: int, stop: int) -> str:
        """Return the name of a part."""
        return f"{stream.name}-{start:0{_DIGITS}}-{stop:0{_DIGITS}}.{self.kind}"

    def write(
        self,
        stream: Stream,
        start: int,
        blocks: Iterator[tuple[list[pa.Table], int]],
        mark_at: Callable[[int], object],
        progress: Callable[[int], None],
    ) -> None:
        """Write the rows of a stream from where it resumes."""
        part: PartFile | None = None
        first = stop = start
        try:
            for tables, stop in blocks:
                for table in tables:
                    if table.num_rows:
                        if part is None:
                            part = PartFile(self.path / _OPEN_PART, self.kind, table.schema)
                        part.write(table, self.max_file_size)
                if part is not None and part.size >= self.max_file_size:
                    self._finish(stream, part, (first, stop), mark_at(stop))
                    part, first = None, stop
                progress(stop)
            if part is not None:
                self._finish(stream, part, (first, stop), mark_at(stop))
                part = None
        finally:
            if part is not None:
                part.discard()

    def _finish(
        self,
        stream: Stream,
        part: PartFile,
        places: tuple[int, int],
        mark: object,
    ) -> None:
        start, stop = places
        name = self.name(stream, start, stop)
        # Whether the part is there or not after a crash, its mark or that before it is.
        before = self.manifest.marks.get(stream.name, {}).get(str(start))
        marks = {} if before is None else {str(start): before}
        self.manifest.marks[stream.name] = {**marks, str(stop): to_json(mark)}
        self._save()
        part.finish(self.path / name)
        self.parts.setdefault(stream.name, []).append((start, stop))
        self.added.append(name)
        self.row_count += part.row_count
        self.size += (self.path / name).stat().st_size

    def _save(self) -> None:
        record = {
            "version": _VERSION,
            "question": self.manifest.question,
            "origins": self.manifest.origins,
            "starts": self.manifest.starts,
            "marks": self.manifest.marks,
            "words": self.manifest.words,
        }
        new = self.path / _NEW_MANIFEST
        write_own(new, _RECORD.encode(str(new), record))
        move_synced(new, self.path / _MANIFEST)


@contextlib.contextmanager
def _locked(folder: Path) -> Iterator[None]:
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        with naming(folder):
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise RmqIndexError(
                    f"{folder}: another export is writing to it; wait for it, or {_ELSEWHERE}"
                ) from None
        yield
    finally:
        os.close(descriptor)


def _finished(folder: Path, *, is_export: bool) -> dict[str, list[tuple[int, int]]]:
    """Return the ranges of the finished parts by stream; refuse other files."""
    parts: dict[str, list[tuple[int, int]]] = {}
    for entry in sorted(folder.iterdir()):
        if entry.name in {_MANIFEST, _NEW_MANIFEST, _OPEN_PART}:
            continue
        match = _PART.fullmatch(entry.name)
        if match is None or not is_export:
            raise RmqIndexError(
                f"{folder}: expected an empty directory or that of an export, found "
                f"{entry.name!r}; {_ELSEWHERE}"
            )
        parts.setdefault(match["stream"], []).append((int(match["start"]), int(match["stop"])))
    return parts


def _ensure_same(
    folder: Path, manifest: _Manifest, question: dict[str, Any], words: Mapping[str, str]
) -> None:
    before = manifest.question
    # What is exported comes first, without which other names differ that nobody gave.
    for name in dict.fromkeys((*question, *before)):
        begun, got = before.get(name), question.get(name)
        known = manifest.words.get(name)
        if not _is_same(name, begun, got) and (known is None or known != words.get(name)):
            raise OtherExportError(folder, name, begun, known, got)


def _is_same(name: str, begun: object, got: object) -> bool:
    if name in _SETS and isinstance(begun, list) and isinstance(got, list):
        return {*map(repr, begun)} == {*map(repr, got)}
    return begun == got


def _shown(name: str, value: object) -> str:
    if name in _TIMES and isinstance(value, int):
        return f"{value} ({time_text(value * MILLISECOND)})"
    return shorten(value)
