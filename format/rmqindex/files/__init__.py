"""The files that this project keeps for itself: opened safely, synced to disk, read strictly."""

from rmqindex.files.records import Fields, RecordKind, shortened

__all__ = [
    "Fields",
    "RecordKind",
    "shortened",
]
