"""What a store shows of itself: its files and its log, in a line and in rows."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rmqindex.answers.files import total
from rmqindex.answers.text import counted, size_text
from rmqindex.times import format_millis

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import tzinfo

    from rmqindex.answers.files import FileFacts
    from rmqindex.commitlog.log import CommitLog

__all__ = ["FILE_COLUMNS", "file_row", "files_text", "log_text"]

#: The names of the cells of :func:`file_row`.
FILE_COLUMNS = (
    "file",
    "entries",
    "slots used",
    "first stored",
    "last stored",
    "first offset",
    "last offset",
    "size",
)


def files_text(facts: Sequence[FileFacts], zone: tzinfo, zone_name: str) -> str:
    """Return how many entries the files have, and of which times."""
    together = total(facts)
    text = (
        f"{counted(together.entry_count, 'entry', 'entries')} in "
        f"{counted(together.file_count, 'IndexFile')}"
    )
    begin, end = together.begin_timestamp, together.end_timestamp
    if begin is None or end is None:
        return text
    return (
        f"{text}, stored {format_millis(begin, zone)} to {format_millis(end, zone)} ({zone_name})"
    )


def log_text(log: CommitLog | None) -> str:
    """Return where a log begins, and how many files it has."""
    if log is None or not log.files:
        return "no CommitLog"
    return f"CommitLog from offset {log.min_offset} in {counted(len(log.files), 'file')}"


def file_row(file: FileFacts, zone: tzinfo) -> tuple[object, ...]:
    """Return the cells of an IndexFile; the error of one that cannot be used."""
    size = size_text(file.size)
    if file.error is not None:
        return (file.name, file.error, *([None] * 5), size)
    share = None
    if file.hash_slot_num:
        share = f"{100 * (file.hash_slot_count or 0) / file.hash_slot_num:.0f} %"
    if not file.entry_count or file.begin_timestamp is None or file.end_timestamp is None:
        return (file.name, 0, share, *([None] * 4), size)
    return (
        file.name,
        file.entry_count,
        share,
        format_millis(file.begin_timestamp, zone),
        format_millis(file.end_timestamp, zone),
        file.begin_phy_offset,
        file.end_phy_offset,
        size,
    )
