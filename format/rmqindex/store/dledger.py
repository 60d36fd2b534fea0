"""Finds the CommitLog of a DLedger store, and how much of it the broker's group had agreed on.

A broker with ``enableDLegerCommitLog`` keeps its CommitLog in ``<store>/dledger-<selfId>/data``,
each record in an entry of DLedger.
A store that was plain before has both: the log begins in ``commitlog`` and goes on there.

RocketMQ: ``DLedgerCommitLog``. DLedger: ``DLedgerConfig``, ``DLedgerMmapFileStore``.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from rmqindex.errors import CorruptCommitLogError, RmqIndexError
from rmqindex.layout.dledger import (
    BLANK_HEAD,
    BLANK_MAGIC,
    CHECKPOINT_NAME,
    COMMITTED_INDEX_KEY,
    DATA_FOLDER,
    ENTRY_HEAD,
    INDEX_UNIT,
    MAGICS,
    TERM_NAME,
)
from rmqindex.layout.record import (
    BLANK_MAGIC_CODE,
    FILE_NAME_DIGITS,
    MAGIC_CODE_OFFSET,
    MAGIC_CODE_V1,
    MAGIC_CODE_V2,
    SIZE_WIDTH,
)
from rmqindex.layout.store import DLEDGER_PREFIX, INDEX_FOLDER
from rmqindex.storage.opening import open_source
from rmqindex.transaction.directories import directory_entries, entries_or_none, exists

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from rmqindex.storage.location import Location
    from rmqindex.transaction.directories import FileEntry

# DLedgerUtils.offset2FileName.
_LOG_NAME = re.compile(rf"[0-9]{{{FILE_NAME_DIGITS}}}")
# IOUtils.string2File renames the old text before it renames the new one to its place.
_CHECKPOINTS = (CHECKPOINT_NAME, f"{CHECKPOINT_NAME}.bak")
# Far more than the two lines of a checkpoint.
_MAX_CHECKPOINT = 4096
# IOUtils.properties2String ends each line; one without an end is torn, its number too.
_LINE = rb"[^\s=]+=[^\n]*\n"
_WHOLE_LINES = re.compile(rb"(?:%b)*" % _LINE)
_COMMITTED_INDEX = re.compile(
    rb"^%b=(-?[0-9]{1,18})\s*?\n" % COMMITTED_INDEX_KEY.encode(), re.MULTILINE
)
_SHOWN = 32
_WAY_OUT = (
    "restore the file, or start the broker, which writes it anew once its group has agreed; where "
    "neither is possible, move it away: without it, all sound entries count as agreed on"
)


def dledger_data(
    store: Location, entries_of: Callable[[Location], Sequence[FileEntry]] = entries_or_none
) -> Location | None:
    """Return the folder of a store in which DLedger keeps the CommitLog, if any.

    Files of 0 bytes are a log, too, and so is a folder without any: one that lost all it had,
    unless another folder has bytes, or files.
    """
    # By what they have: no files, empty ones, or bytes.
    found: tuple[list[Location], ...] = ([], [], [])
    for entry in sorted(entries_of(store), key=lambda entry: entry.name):
        if not entry.is_directory or not entry.name.startswith(DLEDGER_PREFIX):
            continue
        for folder in entries_of(entry.path):
            if folder.is_directory and folder.name == DATA_FOLDER:
                files = [f for f in entries_of(folder.path) if _LOG_NAME.fullmatch(f.name)]
                found[bool(files) + any(file.size for file in files)].append(folder.path)
    folders = found[2] or found[1] or found[0][:1]
    if len(folders) > 1:
        raise RmqIndexError(
            f"{store}: expected the CommitLog of one DLedger broker, got {' and '.join(folders)}. "
            "Give the folder of one"
        )
    return folders[0] if folders else None


def is_dledger_folder(folder: Location) -> bool:
    """Return whether a directory is that of a DLedger broker, by its name and what is in it."""
    if not folder.name.startswith(DLEDGER_PREFIX):
        return False
    names = {entry.name for entry in entries_or_none(folder)}
    # Before its first election and its first message, a broker has but the checkpoint there.
    return not names.isdisjoint((DATA_FOLDER, TERM_NAME)) or any(
        re.search(_COMMITTED_INDEX, _text_of(folder.child(name)) or b"") is not None
        for name in names.intersection(_CHECKPOINTS)
    )


def entry_head_of(files: Iterable[FileEntry]) -> int:
    """Return how many bytes precede each record in the files of a directory."""
    folder = None
    # The first bytes of a file may be empty, damaged, or just expired.
    for file in sorted(files, key=lambda file: file.name):
        folder = file.path.parent
        head = _head(file.path)
        if _is_entry(head, int(file.name)):
            return ENTRY_HEAD.size
        if _is_record(head):
            return 0
    if folder is None or folder.name != DATA_FOLDER:
        return 0
    return ENTRY_HEAD.size if folder.parent.name.startswith(DLEDGER_PREFIX) else 0


def begins_like_dledger(file: Location) -> bool:
    """Return whether a file begins with an entry of DLedger, or with a unit of its index."""
    start = int(file.name)
    head = _head(file)
    if _is_entry(head, start):
        return True
    if len(head) < INDEX_UNIT.size:
        return False
    magic, _, size, index, _ = INDEX_UNIT.unpack_from(head)
    return magic in MAGICS and size >= ENTRY_HEAD.size and index * INDEX_UNIT.size == start


def _is_record(head: bytes) -> bool:
    """Return whether a file's first bytes are a record, or a blank of a plain log."""
    magic = int.from_bytes(
        head[MAGIC_CODE_OFFSET : MAGIC_CODE_OFFSET + SIZE_WIDTH], "big", signed=True
    )
    return magic in (MAGIC_CODE_V1, MAGIC_CODE_V2, BLANK_MAGIC_CODE)


def _is_entry(head: bytes, start: int) -> bool:
    """Return whether a file's first bytes are an entry, or a blank of DLedger."""
    if len(head) < ENTRY_HEAD.size:
        return False
    magic, size, _, _, pos, _, _, _, body = ENTRY_HEAD.unpack(head)
    if magic == BLANK_MAGIC:
        return bool(size >= BLANK_HEAD.size)
    return magic in MAGICS and size == ENTRY_HEAD.size + body and pos == start


def _head(path: Location) -> bytes:
    try:
        with open_source(path) as source:
            return bytes(source.read(0, min(source.size, ENTRY_HEAD.size)))
    except RmqIndexError:  # a broker's expiry may have deleted it; reading it will raise
        return b""


def committed_index(data: Location) -> int | None:
    """Return the index of the last entry of which a broker noted that its group agreed on it.

    Brokers note it every three seconds and when they stop. Without the file, a broker begins with
    no agreement, and so it does with one that is damaged, which does not say that there was none.

    Returns:
        The index, -1 where there was no such entry; None without a note.

    Raises:
        CorruptCommitLogError: There is a file, and none tells.
        RmqIndexError: It cannot be read.
    """
    damage: CorruptCommitLogError | None = None
    for name in _CHECKPOINTS:
        path = data.parent.child(name)
        text = _text_of(path)
        if text is None:
            continue
        found = re.search(_COMMITTED_INDEX, text)
        if found is not None:
            return int(found[1])
        damage = damage or _damaged(path, text)
    if damage is not None:
        raise damage
    return None


def _text_of(path: Location) -> bytes | None:
    """Return the beginning of a file; None where there is none, also not after a second look.

    A broker deletes the old file before it renames the new one.
    """
    for is_last in (False, True):
        try:
            with open_source(path) as source:
                return bytes(source.read(0, min(source.size, _MAX_CHECKPOINT)))
        except RmqIndexError:
            if not exists(path):
                return None
            if is_last:
                raise
    return None


def _damaged(path: Location, text: bytes) -> CorruptCommitLogError:
    """Return what is wrong with a checkpoint, at its first byte that is no whole line."""
    lines = re.match(_WHOLE_LINES, text)
    byte = 0 if lines is None else lines.end()
    got = ascii(text[byte : byte + _SHOWN])[1:] if len(text) > byte else "the end of the file"
    expected = f"the line {COMMITTED_INDEX_KEY}=<number>"
    return CorruptCommitLogError(path, COMMITTED_INDEX_KEY, byte, expected, got, _WAY_OUT)


def entry_place(data: Location, index: int) -> tuple[int, int, int] | None:
    """Return offset, size and term of an entry by DLedger's own index, where it has it."""
    at = index * INDEX_UNIT.size
    try:
        entries = directory_entries(data.parent.child(INDEX_FOLDER))
    except RmqIndexError:
        return None
    for entry in entries:
        if not _LOG_NAME.fullmatch(entry.name):
            continue
        inner = at - int(entry.name)
        if 0 <= inner <= entry.size - INDEX_UNIT.size:
            with open_source(entry.path) as source:
                unit = INDEX_UNIT.unpack(source.read(inner, INDEX_UNIT.size))
            magic, pos, size, found, term = unit
            return (pos, size, term) if magic in MAGICS and found == index else None
    return None
