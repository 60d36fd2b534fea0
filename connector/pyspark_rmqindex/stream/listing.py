"""Lists the index directories of a stream repeatedly while a broker writes to them.

A broker writes an entry, then its slot, then ``index_count``, which it increments after a memory
fence (RocketMQ: ``IndexFile.putKey``, ``IndexHeader.incIndexCount``).
So the entries below a count that was read are complete.
So are ``begin_timestamp`` and ``begin_phy_offset`` if they are read after the count, since they are
set before the count first becomes 2.
A broker starts a file only when the previous one is full.
So a count is final if it was read after a later file with entries was listed; and only the newest
file can be one that it has created, but whose size it has not yet set.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from pyspark_rmqindex.files.listing import list_files
from pyspark_rmqindex.files.slices import FileSlice
from pyspark_rmqindex.stream.store_offset import PositionMark, SeenFile, as_java_compares
from rmqindex import IndexFile, RmqIndexError
from rmqindex.indexfile import fits_layout, open_index_source
from rmqindex.layout import FIRST_POSITION
from rmqindex.storage import UnsteadyError, read_steady
from rmqindex.store import SnapshotFile, lacking_text, open_in_store

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyspark_rmqindex.options import ReadOptions
    from pyspark_rmqindex.stream.store_offset import StoreOffset
    from rmqindex import Layout
    from rmqindex.storage import Location
    from rmqindex.transaction import FileEntry

# Reading may fail for a moment while a broker creates a file.
_MOST_FAILURES = 20


@dataclass(frozen=True, slots=True)
class LiveFile:
    """A file that has entries: what an offset keeps of it, and what reads it in this batch."""

    seen: SeenFile
    whole: FileSlice

    def slice_of(self, start: int, stop: int) -> FileSlice:
        """Return what a task needs to read the entries from ``start`` to before ``stop``."""
        return replace(self.whole, limit=stop, start=start, stop=stop)


class Directories:
    """The index directories in the paths of a stream."""

    def __init__(self, options: ReadOptions) -> None:
        """Store the options; nothing is read yet."""
        self._options = options
        self._known: dict[Location, LiveFile] = {}
        # Those that no broker can write to any more.
        self._final: set[Location] = set()
        self._lacking: dict[Location, str] = {}

    @property
    def lacking(self) -> list[str]:
        """What ``DROPMALFORMED`` leaves out of the files, as of the last listing: sentences."""
        return list(self._lacking.values())

    def look(self, offsets: Mapping[str, StoreOffset]) -> dict[str, dict[str, LiveFile]]:
        """List the files, and read the headers of those that may have unread entries."""
        failures = 0

        def read() -> dict[str, dict[str, LiveFile]]:
            nonlocal failures
            listed = list_files(self._options)
            try:
                found = self._read(listed, offsets)
            except RmqIndexError as error:
                # Most likely a file is being created, or was deleted after it was listed.
                failures += 1
                if failures == _MOST_FAILURES:
                    raise
                raise UnsteadyError("a file could not be read") from error
            if list_files(self._options) != listed:
                raise UnsteadyError("files came or went")
            self._forget(listed)
            return found

        return read_steady(", ".join(self._options.paths), read)

    def mark_at(self, file: LiveFile, position: int) -> PositionMark:
        """Return the mark of the entries before a position; without an offset if malformed."""
        whole = file.whole
        with IndexFile(whole.path, whole.layout, mode=self._options.mode) as index_file:
            if index_file.entry_count < position - 1:
                raise RmqIndexError(
                    f"{whole.path}: expected at least the {position - 1} entries that were counted "
                    f"a moment ago, got {index_file.entry_count}: the file is written anew"
                )
            last = index_file.scan(position - 1, position, ["phy_offset"])
            offsets = [value.as_py() for batch in last for value in batch.column(0)]
            return PositionMark(offsets[0] if offsets else None, index_file.checksum(position))

    def _read(
        self, listed: list[FileEntry], offsets: Mapping[str, StoreOffset]
    ) -> dict[str, dict[str, LiveFile]]:
        found: dict[str, dict[str, LiveFile]] = {}
        newest: dict[str, str] = {}
        for file in listed:
            path = file.name_path
            newest[path.parent] = max(newest.get(path.parent, ""), path.name, key=as_java_compares)
        for file in listed:
            directory, name = file.name_path.parent, file.name_path.name
            files = found.setdefault(directory, {})
            offset = offsets.get(directory)
            known = self._known.get(file.name_path)
            if known is not None:
                is_current = offset is not None and offset.file == name
                if file.name_path in self._final and not is_current:
                    files[name] = LiveFile(known.seen, replace(known.whole, path=file.path))
                    continue
            live = self._live_file(file, is_newest=name == newest[directory])
            if live is not None:
                files[name] = live
        for files in found.values():
            self._remember(files)
        return found

    def _remember(self, files: Mapping[str, LiveFile]) -> None:
        """Cache what is final: all files except those that a broker may still write to."""
        if not files:
            return
        names = {
            max(files, key=as_java_compares),
            max(files.values(), key=lambda file: file.seen.begin).seen.name,
        }
        for name, file in files.items():
            path = file.whole.name_path
            self._known[path] = file
            if name not in names:
                self._final.add(path)
            else:
                self._final.discard(path)

    def _forget(self, listed: list[FileEntry]) -> None:
        there = {file.name_path for file in listed}
        self._known = {path: known for path, known in self._known.items() if path in there}
        self._final &= there
        self._lacking = {path: text for path, text in self._lacking.items() if path in there}

    def _live_file(self, file: FileEntry, *, is_newest: bool) -> LiveFile | None:
        """Read the header of a file; None if it has no entries."""
        options = self._options
        if is_newest and _is_being_created(file):
            return None
        layout = options.layout or self._layout_of(file)
        with open_in_store(file.path, layout, options.mode, file.name_path) as index_file:
            stop = index_file.entry_count + FIRST_POSITION
            layout, left_out = index_file.layout, index_file.left_out
        self._lacking.pop(file.name_path, None)
        if left_out is not None:
            self._lacking[file.name_path] = lacking_text(file.name_path, left_out)
        if stop <= FIRST_POSITION or layout is None:
            return None
        # Read it once more: what identifies a file is final only after its first entry.
        with open_in_store(file.path, layout, options.mode) as index_file:
            header, fingerprint = index_file.header, index_file.fingerprint()
            checksum = index_file.checksum(stop)
        seen = SeenFile(
            file.name_path.name, header.begin_timestamp, header.begin_phy_offset, stop, checksum
        )
        snapshot = SnapshotFile(
            file, options.mode, layout, header, stop - FIRST_POSITION, fingerprint
        )
        whole = FileSlice.of(snapshot)
        assert whole is not None  # there are entries
        return LiveFile(seen, whole)

    def _layout_of(self, file: FileEntry) -> Layout | None:
        """Return the geometry of a file if it is known without searching the file for it.

        A file with few entries does not reveal its geometry, but earlier files do.
        """
        known = self._known.get(file.name_path)
        if known is not None:
            return known.whole.layout
        directory = file.name_path.parent
        layouts = {
            each.whole.layout for path, each in self._known.items() if path.parent == directory
        }
        if not layouts:
            return None
        with open_index_source(file.path) as source:
            return next((layout for layout in layouts if fits_layout(source, layout)), None)


def _is_being_created(file: FileEntry) -> bool:
    """Return whether a broker has created a file, but not yet set its size."""
    with open_index_source(file.path) as source:
        return not source.size
