"""Stores of every kind that a broker can keep, written by RocketMQ's own message store."""

import functools
import json
import shutil
from pathlib import Path
from typing import Any

from tests.support.recorded import STORE_KINDS

VERSION = "5.5.1"

_ROCKSDB_QUEUE = ("storeType=defaultRocksDB",)
_ROCKSDB_INDEX = ("indexRocksDBEnable=true",)
_NO_INDEX_FILES = ("indexFileWriteEnable=false", "indexFileReadEnable=false")
_LIGHT_QUEUES = ("enableMultiDispatch=true", "enableLmq=true")
_DLEDGER = (
    "enableDLegerCommitLog=true",
    "dLegerGroup=group",
    "dLegerSelfId=n0",
    "dLegerPeers=n0-127.0.0.1:40911",
)

#: The settings of each kind; those of one that is written twice, one after the other.
KINDS: dict[str, tuple[tuple[str, ...], ...]] = {
    "plain": ((),),
    "rocksdb_queue": ((*_ROCKSDB_QUEUE, *_LIGHT_QUEUES),),
    "separate_path": ((*_ROCKSDB_QUEUE, "useSeparateStorePathForRocksdbCQ=true"),),
    "double_write": (
        ("rocksdbCQDoubleWriteEnable=true", "combineCQUseRocksdbForLmq=true", *_LIGHT_QUEUES),
    ),
    "rocksdb_index": (_ROCKSDB_INDEX,),
    "rocksdb_index_alone": ((*_ROCKSDB_INDEX, *_NO_INDEX_FILES),),
    "rocksdb_alone": ((*_ROCKSDB_QUEUE, *_ROCKSDB_INDEX, *_NO_INDEX_FILES),),
    "rocksdb_killed": ((*_ROCKSDB_QUEUE, *_ROCKSDB_INDEX, *_NO_INDEX_FILES, "halt"),),
    "dledger": (_DLEDGER,),
    "dledger_after_plain": ((), _DLEDGER),
    "dledger_batches": ((*_DLEDGER, "batches"),),
}


def copy_store(kind: str, root: Path) -> Path:
    """Copy a golden store into a directory, with the empty folders that Git does not keep."""
    store = root / "store"
    shutil.copytree(STORE_KINDS / kind / "store", store)
    for name in told(kind)["empty_folders"]:
        (store / name).mkdir(parents=True, exist_ok=True)
    return store


@functools.cache
def told(kind: str) -> dict[str, Any]:
    """Return what RocketMQ's classes said of a store when it was made."""
    answers: dict[str, Any] = json.loads((STORE_KINDS / kind / "told.json").read_text())
    return answers


def units_of(kind: str) -> dict[tuple[str, int], list[list[int]]]:
    """Return the queues of a kind that have units: queue offset, offset, size and tags code."""
    return {(q["topic"], q["queue_id"]): q["units"] for q in told(kind)["queues"] if q["units"]}


def bytes_of(store: Path) -> dict[str, bytes]:
    """Return the bytes of every file below a directory."""
    return {
        str(path.relative_to(store)): path.read_bytes()
        for path in store.rglob("*")
        if path.is_file()
    }
