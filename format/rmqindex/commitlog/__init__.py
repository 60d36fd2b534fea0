"""The CommitLog: its files, records, properties, bodies and batches, as Arrow arrays."""

from rmqindex.commitlog.bodies import BODY_TEXT, bad_body, body_texts, in_halves, unpack_bodies
from rmqindex.commitlog.files import several_logs
from rmqindex.commitlog.log import MATCH_STATES, CommitLog, LogFile
from rmqindex.commitlog.planned_log import PlannedLog, PlannedLogs, marked_file
from rmqindex.commitlog.sibling import sibling_log
from rmqindex.commitlog.tailing import LastRecord, ends_with, follow

__all__ = [
    "BODY_TEXT",
    "MATCH_STATES",
    "CommitLog",
    "LastRecord",
    "LogFile",
    "PlannedLog",
    "PlannedLogs",
    "bad_body",
    "body_texts",
    "ends_with",
    "follow",
    "in_halves",
    "marked_file",
    "several_logs",
    "sibling_log",
    "unpack_bodies",
]
