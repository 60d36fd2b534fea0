"""How a command names a CommitLog, as it was given: in what is to be typed again."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from rmqindex.errors import command_line
from rmqindex.layout.store import INDEX_FOLDER, MULTI_PATH_SPLITTER

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rmqindex.storage.location import Location


def given_name(folders: Sequence[Location], files: Sequence[Location]) -> str:
    """Return the text that names a log for a command: all its directories, as they were given.

    Args:
        folders: Those in which its files were looked for.
        files: Its files, of which those that were chosen by name have names of their own.
    """
    known = {folder.absolute for folder in folders}
    chosen = []
    for file in files:
        parent = file.parent
        if known.isdisjoint((parent, parent.parent, parent.parent.parent)):
            chosen.append(file)
    return MULTI_PATH_SPLITTER.join([*folders, *chosen])


def rebuild_line(
    name: str,
    folders: Sequence[Location],
    files: Sequence[Location],
    out: Path,
    *options: str,
) -> str:
    """Return the command that rebuilds what it rebuilt from a log, in the same place.

    Args:
        name: ``rebuild``, which writes an index, or ``rebuild-queues``, which writes into a store.
        folders: As :func:`given_name` takes them.
        files: Likewise.
        out: The directory that is written, absolute.
        options: The other options that were given.
    """
    given = given_name(folders, files)
    place = Path(os.path.abspath(given))  # noqa: PTH100  (links stay)
    is_root = all(file.parent != str(place) for file in files)
    if is_root and out == place / (INDEX_FOLDER if name == "rebuild" else ""):
        return command_line(name, given, options=options)
    return command_line(name, given, options=["--out", str(out), *options])
