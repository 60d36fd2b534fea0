"""The CommitLog: messages by offset, in order, by selection, and as a broker appends them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rmqindex.rooms import importer

if TYPE_CHECKING:
    from rmqindex.commitlog.bodies import (
        BODY_TEXT,
        BadBodies,
        bad_body,
        body_texts,
        in_halves,
        unpack_bodies,
    )
    from rmqindex.commitlog.ensured import ensure_end
    from rmqindex.commitlog.log import MATCH_STATES, CommitLog, LogFile
    from rmqindex.commitlog.mark import LogMark
    from rmqindex.commitlog.planned_log import PlannedLog, PlannedLogs, marked_file
    from rmqindex.commitlog.selection import Block, Selection, newest_messages, select_messages
    from rmqindex.commitlog.sibling import sibling_log
    from rmqindex.commitlog.tailing import follow, whole_end

__all__ = [
    "BODY_TEXT",
    "MATCH_STATES",
    "BadBodies",
    "Block",
    "CommitLog",
    "LogFile",
    "LogMark",
    "PlannedLog",
    "PlannedLogs",
    "Selection",
    "bad_body",
    "body_texts",
    "ensure_end",
    "follow",
    "in_halves",
    "marked_file",
    "newest_messages",
    "select_messages",
    "sibling_log",
    "unpack_bodies",
    "whole_end",
]

__getattr__ = importer(
    __name__,
    {
        "bodies": (
            "BODY_TEXT",
            "BadBodies",
            "bad_body",
            "body_texts",
            "in_halves",
            "unpack_bodies",
        ),
        "ensured": ("ensure_end",),
        "log": (
            "CommitLog",
            "LogFile",
            "MATCH_STATES",
        ),
        "mark": ("LogMark",),
        "planned_log": (
            "PlannedLog",
            "PlannedLogs",
            "marked_file",
        ),
        "selection": (
            "Block",
            "Selection",
            "newest_messages",
            "select_messages",
        ),
        "sibling": ("sibling_log",),
        "tailing": ("follow", "whole_end"),
    },
)


def __dir__() -> list[str]:
    """List the room's names."""
    return __all__
