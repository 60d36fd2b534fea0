"""Writes entries into one IndexFile after the other (``getAndCreateLastIndexFile``)."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

from rmqindex.indexwriter.appender import EntryAppender
from rmqindex.indexwriter.writer import InPlaceFlush, open_appender
from rmqindex.store.names import next_names
from rmqindex.transaction.append_undo import HeaderMark

if TYPE_CHECKING:
    from datetime import tzinfo
    from pathlib import Path

    import numpy as np
    from numpy.typing import NDArray

    from rmqindex.bulk.committer import Commit, Committer
    from rmqindex.indexfile.geometry import Layout
    from rmqindex.store.snapshot import IndexSnapshot


class FileRoller:
    """Writes entries into files of a directory; each is flushed when it is full."""

    def __init__(
        self,
        directory: Path,
        layout: Layout,
        zone: tzinfo | None,
        *,
        last_name: str | None = None,
        resumed: Path | None = None,
        commit: Commit | None = None,
    ) -> None:
        """Begin with a new file, or continue a present one."""
        self._directory = directory
        self._layout = layout
        self._zone = zone
        self._last_name = last_name
        self._commit = commit
        self._appender = None if resumed is None else open_appender(resumed, layout)
        self._is_staged = False
        self._end = (0, 0)
        #: The files written to, oldest first.
        self.paths: list[Path] = [] if resumed is None else [resumed]
        #: How many entries were written.
        self.count = 0

    def put_many(
        self,
        key_hashes: NDArray[np.int32],
        phy_offsets: NDArray[np.int64],
        store_timestamps: NDArray[np.int64],
    ) -> None:
        """Append entries, into as many files as they need."""
        done = 0
        while done < len(key_hashes):
            if self._appender is None or not self._appender.free:
                self._roll(int(store_timestamps[done]))
            assert self._appender is not None  # just made
            done += self._appender.put_many(
                key_hashes[done:], phy_offsets[done:], store_timestamps[done:]
            )
        self.count += len(key_hashes)

    def _roll(self, first_timestamp: int) -> None:
        self._last_name = next_names([first_timestamp], self._last_name, zone=self._zone)[0]
        self.close()
        path = self._directory / self._last_name
        self._is_staged = self._commit is not None and self._commit.staging.can_move
        if self._commit is not None and self._is_staged:
            place = self._commit.staging.path / path.name
            self._appender = EntryAppender.create(place, self._layout, *self._end)
        else:
            self._appender = open_appender(path, self._layout, *self._end)
            self._tell_made(path, self._appender)
        self.paths.append(path)

    def flush(self) -> None:
        """Make the written entries visible, and sync them to disk."""
        appender = self._appender
        if appender is None:
            return
        path = self.paths[-1]
        if self._commit is None:
            appender.flush_unseen()
        elif self._is_staged:
            appender.publish(path)
            self._is_staged = False
            self._tell_made(path, appender)
        elif appender.has_changes:
            is_made = path.name in self._commit.made
            self._commit.flush(InPlaceFlush(path.name, appender))
            if is_made:
                self._tell_made(path, appender)

    def _tell_made(self, path: Path, appender: EntryAppender) -> None:
        """Tell the commit the state in which a new file is left."""
        if self._commit is not None:
            header = appender.written_header.to_bytes()
            self._commit.made[path.name] = HeaderMark(self._layout.file_size, header)

    def close(self) -> None:
        """Flush and close the last file."""
        if self._appender is not None:
            try:
                self.flush()
            finally:
                self._appender.close()
            header = self._appender.header
            self._end = (header.end_phy_offset, header.end_timestamp)
            self._appender = None

    def abandon(self) -> None:
        """Close the last file without a flush, after an error."""
        if self._appender is not None and not self._appender.closed:
            with contextlib.suppress(OSError), contextlib.closing(self._appender):
                self._appender.drop()
        self._appender = None


def replace_files(committer: Committer, old: IndexSnapshot, roller: FileRoller) -> int | None:
    """Replace the files that were present when a roller began by the roller's."""
    with committer.begin() as commit:
        old.ensure_unchanged(committer.directory)
        commit.place([path.name for path in roller.paths])
        commit.remove(old.names)
        return commit.finish()
