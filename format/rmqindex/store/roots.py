"""The store root that a directory of a broker's files is in."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rmqindex.dledger_layout import DATA_FOLDER
from rmqindex.folders import COMMITLOG_FOLDER, DLEDGER_PREFIX, INDEX_FOLDER

if TYPE_CHECKING:
    from rmqindex.storage.location import Location

__all__ = ["root_of"]

_FOLDERS = frozenset({INDEX_FOLDER, COMMITLOG_FOLDER})


def root_of(directory: Location) -> Location:
    """Return the store root that a directory of IndexFiles or of a log is in.

    It depends on the text of the path alone (RocketMQ: ``StorePathConfigHelper``), and costs no
    I/O.

    Returns:
        The parent of ``index``, ``commitlog`` and ``dledger-*``; of ``dledger-*/data`` the parent
        of the first; of any other directory, the directory itself, which may be a root.
    """
    absolute = directory.absolute
    name, above = absolute.name, absolute.parent
    if name == DATA_FOLDER and above.name.startswith(DLEDGER_PREFIX):
        return above.parent
    return above if name in _FOLDERS or name.startswith(DLEDGER_PREFIX) else directory
