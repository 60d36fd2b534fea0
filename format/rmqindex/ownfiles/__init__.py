"""The files that this project keeps for itself: opened safely, synced to disk, read strictly."""

from rmqindex.ownfiles.dataclass_json import from_json, to_json
from rmqindex.ownfiles.disk import naming
from rmqindex.ownfiles.records import Fields, RecordKind
from rmqindex.ownfiles.writable import write_own

__all__ = [
    "Fields",
    "RecordKind",
    "from_json",
    "naming",
    "to_json",
    "write_own",
]
