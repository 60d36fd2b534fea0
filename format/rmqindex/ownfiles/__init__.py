"""The files that this project keeps for itself: opened safely, synced to disk, read strictly."""

from rmqindex.ownfiles.dataclass_json import from_json, to_json
from rmqindex.ownfiles.records import Fields, RecordKind

__all__ = [
    "Fields",
    "RecordKind",
    "from_json",
    "to_json",
]
