"""What a path stands for: an IndexFile, an index directory or a store root (spec: file names).

The broker reads the files of ``<store root>/index`` in the order of their paths, and only those
whose name ``Long.parseLong`` accepts (RocketMQ: ``IndexService.load``, ``DefaultMappedFile``).
"""

from __future__ import annotations

import os
import re
import stat
import unicodedata
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.fs as pafs

from rmqindex._commitlog_layout import (
    BLANK_MAGIC_CODE,
    FILE_NAME_DIGITS,
    MAGIC_CODE_OFFSET,
    MAGIC_CODE_V1,
    MAGIC_CODE_V2,
    SIZE_WIDTH,
)
from rmqindex._consume_queue_layout import BATCH_FOLDER, QUEUE_FOLDER
from rmqindex._errors import RmqIndexError
from rmqindex._journal import effective_listing
from rmqindex._layout import INT64_MAX, INT64_MIN
from rmqindex._remote_staging import committed_listing
from rmqindex._steady import UnsteadyError, read_steady
from rmqindex._storage import (
    child_uri,
    is_remote,
    local_path,
    open_filesystem,
    open_source,
    unreadable,
)
from rmqindex._store_layout import (
    COMMITLOG_FOLDER,
    DLEDGER_PREFIX,
    INDEX_FOLDER,
    STORE_FOLDERS,
)

if TYPE_CHECKING:
    from rmqindex._storage import ByteSource, PathLike

__all__ = [
    "FileEntry",
    "ResolvedPath",
    "directory_entries",
    "exists",
    "index_entries",
    "index_files",
    "is_index_name",
    "list_index_files",
    "refuse_tiered_file",
    "resolve",
]

_QUEUE_FOLDERS = (QUEUE_FOLDER, BATCH_FOLDER)
# UtilAll.offset2FileName.
_LOG_NAME = re.compile(rf"[0-9]{{{FILE_NAME_DIGITS}}}")
_TIERED_FOLDER = "tiered_index_file"
_ROCKSDB_FOLDER = "RocksDBMessageStore"
_ROCKSDB_FILE = "CURRENT"
# tieredstore IndexStoreFile.BEGIN_MAGIC_CODE and END_MAGIC_CODE.
_TIERED_MAGICS = (bytes.fromhex("bcc50289"), bytes.fromhex("bcc50285"))


@dataclass(frozen=True, slots=True)
class FileEntry:
    """A name in a directory.

    Attributes:
        path: A local path or a URI, as :class:`rmqindex.IndexFile` takes it.
        name: The last part of the path.
        size: Bytes; 0 for a directory.
        is_directory: Whether it is a directory.
    """

    path: str
    name: str
    size: int
    is_directory: bool = False


@dataclass(frozen=True, slots=True)
class ResolvedPath:
    """What a user's path stands for.

    Attributes:
        path: An IndexFile or an index directory, as a local path or a URI.
        is_file: Whether it is a file.
    """

    path: str
    is_file: bool


def is_index_name(name: str) -> bool:
    """Return whether the broker loads a file of this name: what ``Long.parseLong`` accepts.

    That is an optional sign and decimal digits of any script of the basic plane, within 64 bits.
    """
    digits = name[1:] if name[:1] in ("+", "-") else name
    value = 0
    for character in digits:
        digit = unicodedata.decimal(character, None)
        if digit is None or ord(character) > 0xFFFF:
            return False
        value = min(value * 10 + int(digit), INT64_MAX + 2)
    if not digits:
        return False
    return -value >= INT64_MIN if name.startswith("-") else value <= INT64_MAX


def resolve(path: PathLike) -> ResolvedPath:
    """Find out what a path stands for.

    Args:
        path: An IndexFile, an index directory, or a store root that has ``index/``; local, a
            ``file:`` URI, or another URI that ``pyarrow.fs`` knows.

    Returns:
        The file or the index directory.

    Raises:
        RmqIndexError: Nothing is there, a store of a kind that has no IndexFiles, or a CommitLog
            or a ConsumeQueue.
    """
    text = os.fspath(path) if is_remote(path) else str(local_path(path))
    kind = _kind(text)
    if kind == pafs.FileType.File:
        _refuse_dledger(text, _folders_beside(_parent(text)))
        _refuse_log(text, text, _parent(text))
        return ResolvedPath(text, is_file=True)
    if kind != pafs.FileType.Directory:
        raise RmqIndexError(f"{text}: no such file or directory")
    names = {entry.name: entry for entry in directory_entries(text)}
    folders = {name for name, entry in names.items() if entry.is_directory}
    _refuse_other_stores(text, set(names), folders)
    if any(is_index_name(name) for name in names):
        _refuse_log(text, names[min(filter(is_index_name, names))].path, text)
        return ResolvedPath(text, is_file=False)
    if INDEX_FOLDER in folders:
        return ResolvedPath(names[INDEX_FOLDER].path, is_file=False)
    if any(name in folders for name in STORE_FOLDERS):
        raise RmqIndexError(f"{text}: expected a store with a folder {INDEX_FOLDER}, found none")
    return ResolvedPath(text, is_file=False)


def _refuse_log(given: str, file: str, folder: str) -> None:
    """Refuse a file of a CommitLog or of a ConsumeQueue, named by 20 digits in a folder of its own.

    Args:
        given: What the user named.
        file: A file with a numeric name.
        folder: Its directory.

    Raises:
        RmqIndexError: It is one.
    """
    if not _LOG_NAME.fullmatch(_last_name(file)):
        return
    queues = _last_name(_parent(_parent(folder)))
    if queues in _QUEUE_FOLDERS:
        what, how = "ConsumeQueue", "rmqindex.ConsumeQueue or the format rmqconsumequeue"
        store = _parent(_parent(_parent(folder)))
    elif _last_name(folder) == COMMITLOG_FOLDER or _begins_like_a_log(file):
        what, how = "CommitLog", "rmqindex.CommitLog, the format rmqcommitlog or rmqindex cat"
        store = _parent(folder)
    else:
        return
    raise RmqIndexError(
        f"{given}: expected an IndexFile, an index directory or a store, got a {what}. For its "
        f"store's index give {store or '/'}; a {what} is read by {how}"
    )


def _begins_like_a_log(file: str) -> bool:
    """Tell whether a file begins with a record, or with a blank one."""
    with open_source(file) as source:
        if source.size < MAGIC_CODE_OFFSET + SIZE_WIDTH:
            return False
        magic = int.from_bytes(source.read(MAGIC_CODE_OFFSET, SIZE_WIDTH), "big", signed=True)
    return magic in (MAGIC_CODE_V1, MAGIC_CODE_V2, BLANK_MAGIC_CODE)


def index_files(path: PathLike) -> list[FileEntry]:
    """Return the IndexFiles that a path stands for, oldest first.

    Raises:
        RmqIndexError: As :func:`resolve` and :func:`list_index_files`.
    """
    resolved = resolve(path)
    if not resolved.is_file:
        return list_index_files(resolved.path)
    if is_remote(resolved.path):
        with open_source(resolved.path) as source:
            size = source.size
    else:
        size = Path(resolved.path).stat().st_size
    return [FileEntry(resolved.path, _last_name(resolved.path), size)]


def list_index_files(directory: PathLike) -> list[FileEntry]:
    """Return the IndexFiles of an index directory in the broker's order, oldest first.

    Hidden names and others that are no numbers are skipped, as the broker skips them.

    Raises:
        RmqIndexError: No such directory, or a numeric name that is a directory.
    """
    entries = index_entries(directory)
    for entry in entries:
        if entry.is_directory:
            raise RmqIndexError(f"{entry.path}: expected an IndexFile, got a directory")
    return entries


def index_entries(directory: PathLike) -> list[FileEntry]:
    """Return everything with a numeric name, directories too, in the broker's order.

    Raises:
        RmqIndexError: No such directory.
    """
    text = os.fspath(directory) if is_remote(directory) else str(local_path(directory))
    entries = [entry for entry in directory_entries(text) if is_index_name(entry.name)]
    # Java compares strings by UTF-16 code units.
    return sorted(entries, key=lambda entry: entry.name.encode("utf-16-be", "surrogatepass"))


def refuse_tiered_file(source: ByteSource) -> None:
    """Refuse an index file of the tiered storage, which begins with a magic number.

    Raises:
        RmqIndexError: It is one.
    """
    if bytes(source.header()[:4]) in _TIERED_MAGICS:
        raise RmqIndexError(
            f"{source.path}: an index file of RocketMQ's tiered storage, which is not supported"
        )


def _kind(path: str) -> pafs.FileType:
    if not is_remote(path):
        if Path(path).is_dir():
            return pafs.FileType.Directory
        return pafs.FileType.File if Path(path).exists() else pafs.FileType.NotFound
    filesystem, inner_path = open_filesystem(path)
    try:
        return filesystem.get_file_info(inner_path).type
    except (OSError, pa.ArrowException) as error:
        raise unreadable(path, error, expected="what is there") from error


def exists(path: PathLike) -> bool:
    """Return whether a file or a directory is at a local path or URI.

    Raises:
        RmqIndexError: The storage failed.
    """
    text = os.fspath(path) if is_remote(path) else str(local_path(path))
    return bool(_kind(text) != pafs.FileType.NotFound)


def directory_entries(directory: PathLike) -> list[FileEntry]:
    """Return everything that stands in a directory, in no particular order.

    What the last commit of ours left there: while one is under way, an entry's path can lie
    outside the directory, or deeper in it.

    Raises:
        RmqIndexError: No such directory, or the storage failed.
    """
    text = os.fspath(directory) if is_remote(directory) else str(local_path(directory))
    try:
        return _remote_directory(text) if is_remote(text) else _local_directory(text)
    except (OSError, pa.ArrowException) as error:
        raise unreadable(text, error, expected="the names in it", what="listed") from error


def _local_directory(path: str) -> list[FileEntry]:
    return read_steady(path, lambda: _local_entries(path))


def _local_entries(path: str) -> list[FileEntry]:
    entries = []
    for name, place in effective_listing(path).items():
        try:
            status = place.stat()
        except FileNotFoundError:
            if not place.is_symlink():
                # Perhaps a commit ended, and the file is listed elsewhere now.
                raise UnsteadyError(f"{name} was listed and then gone") from None
            entries.append(FileEntry(str(place), name, 0))  # opening it will tell what is missing
            continue
        is_directory = stat.S_ISDIR(status.st_mode)
        size = 0 if is_directory else status.st_size
        entries.append(FileEntry(str(place), name, size, is_directory=is_directory))
    return entries


def _remote_directory(path: str) -> list[FileEntry]:
    return [
        FileEntry(
            child_uri(path, place),
            info.base_name,
            info.size or 0,
            is_directory=info.type == pafs.FileType.Directory,
        )
        for info, place in committed_listing(path)
    ]


def _last_name(path: str) -> str:
    base = path.partition("?")[0] if is_remote(path) else path
    return base.rstrip("/").rpartition("/")[2]


def _parent(path: str) -> str:
    if not is_remote(path):
        return str(Path(path).absolute().parent)
    base, mark, query = path.partition("?")
    return base.rstrip("/").rpartition("/")[0] + mark + query


def _folders_beside(path: str) -> set[str]:
    """Return the names of the folders beside an index directory, none where it is not one."""
    if _last_name(path) != INDEX_FOLDER:
        return set()
    try:
        entries = directory_entries(_parent(path))
    except RmqIndexError:  # a parent that may not be listed tells nothing
        return set()
    return {entry.name for entry in entries if entry.is_directory}


def _refuse_dledger(path: str, folders: set[str]) -> None:
    for name in sorted(folders):
        if name.startswith(DLEDGER_PREFIX):
            raise RmqIndexError(
                f"{path}: a DLedger store ({name}), whose offsets mean something else, is not "
                "supported"
            )


def _refuse_other_stores(path: str, names: set[str], folders: set[str]) -> None:
    """Refuse stores whose index is another, where their layout tells."""
    _refuse_dledger(path, folders | _folders_beside(path))
    indexed = INDEX_FOLDER in folders
    if _last_name(path) == _TIERED_FOLDER or (_TIERED_FOLDER in folders and not indexed):
        raise RmqIndexError(f"{path}: an index of RocketMQ's tiered storage is not supported")
    if (_ROCKSDB_FOLDER in folders and not indexed) or (
        _ROCKSDB_FILE in names and any(name.startswith("MANIFEST-") for name in names)
    ):
        raise RmqIndexError(f"{path}: an index kept in RocksDB is not supported")
