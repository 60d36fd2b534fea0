"""Opens a file of a store whose geometry its own bytes do not show, by the files beside it.

A broker opens all files of an index with one geometry, so a sound file proves that of a truncated
one beside it, or of one with too few entries.
"""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING

from rmqindex.errors import CorruptIndexError, RmqIndexError
from rmqindex.fileset.paths import index_entries
from rmqindex.indexfile.committed import open_index_source, read_header
from rmqindex.indexfile.geometry import UnknownLayoutError, fits_layout, infer_layout
from rmqindex.indexfile.reader import IndexFile
from rmqindex.indexfile.uncounted import damaged_header

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rmqindex.indexfile.entries import Mode
    from rmqindex.indexfile.geometry import Layout
    from rmqindex.storage.location import Location
    from rmqindex.transaction.directories import FileEntry

__all__ = ["layout_beside", "open_in_store"]

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
        RmqIndexError: Neither the file nor one beside it shows the geometry, or these disagree.
        CorruptIndexError: In ``FAILFAST``: a truncated file, more entries than fit, or more than
            the header counts.
        RmqIndexError: It cannot be read.
    """
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
        if fits_layout(source, layout):
            return
        if isinstance(error, UnknownLayoutError) and source.size == layout.file_size:
            header = read_header(source)
            raise damaged_header(source, layout, header, is_last=False) or error
        raise error
