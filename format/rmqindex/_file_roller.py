"""Entries into one IndexFile after the other (``IndexService.getAndCreateLastIndexFile``).

A full file is followed by one that inherits its end.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from rmqindex._names import next_names
from rmqindex._writer import IndexFileWriter

if TYPE_CHECKING:
    from datetime import tzinfo
    from pathlib import Path

    import numpy as np
    from numpy.typing import NDArray

    from rmqindex._layout import Layout

__all__ = ["FileRoller"]


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
    ) -> None:
        """Begin with a new file, or go on with one that is there.

        Args:
            directory: Where the files are made.
            layout: Their geometry.
            zone: The time zone of their names; None for the system's.
            last_name: The name after which new ones must come; None for any.
            resumed: A file to go on with.
        """
        self._directory = directory
        self._layout = layout
        self._zone = zone
        self._last_name = last_name
        self._writer = None if resumed is None else IndexFileWriter(resumed, layout)
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
        """Append entries, into as many files as they need.

        Args:
            key_hashes: int32, 0 to 2**31 - 1.
            phy_offsets: int64, bytes, as many.
            store_timestamps: int64, epoch milliseconds, as many.

        Raises:
            RmqIndexError: No name is left for a new file.
            OSError: The disk is full or broken.
        """
        done = 0
        while done < len(key_hashes):
            if self._writer is None or self._writer.is_write_full:
                self._roll(int(store_timestamps[done]))
            assert self._writer is not None  # just made
            done += self._writer.put_many(
                key_hashes[done:], phy_offsets[done:], store_timestamps[done:]
            )
        self.count += len(key_hashes)

    def _roll(self, first_timestamp: int) -> None:
        self.close()
        self._last_name = next_names([first_timestamp], self._last_name, zone=self._zone)[0]
        path = self._directory / self._last_name
        self._writer = IndexFileWriter(path, self._layout, *self._end)
        self.paths.append(path)

    def flush(self) -> None:
        """Make what was written visible, and wait until it is on the disk."""
        if self._writer is not None:
            self._writer.flush()

    def close(self) -> None:
        """Flush and close the last file."""
        if self._writer is not None:
            self._writer.close()
            header = self._writer.header
            self._end = (header.end_phy_offset, header.end_timestamp)
            self._writer = None

    def abandon(self) -> None:
        """Close the last file without a flush, after an error."""
        if self._writer is not None:
            self._writer.__exit__(RuntimeError, None, None)
            self._writer = None
