"""Where the files are that RocketMQ wrote, with what it answered of them."""

from __future__ import annotations

from pathlib import Path

__all__ = [
    "BROKER_VERSIONS",
    "HEALTHY_STORES",
    "MESSAGE_KINDS",
    "ROCKETMQ_CLASSES",
    "STORE_FORMATS",
    "STORE_KINDS",
]

_DATA = Path(__file__).resolve().parents[1] / "data"

#: Files and directories by IndexFile, IndexService and DefaultMessageStore, case by case, and the
#: answers about the sample store of the package.
ROCKETMQ_CLASSES = _DATA / "rocketmq_classes"
#: One store with every kind of message: batches, delays, transactions, retries, inner batches.
MESSAGE_KINDS = _DATA / "message_kinds"
#: A store for each setting that changes what is on the disk.
STORE_KINDS = _DATA / "store_kinds"
#: A store for each version of a whole broker.
BROKER_VERSIONS = _DATA / "broker_versions"
#: Files of a store, whole and damaged, with what RocketMQ's classes said of each.
STORE_FORMATS = _DATA / "store_formats"
#: Undamaged stores of versions and kinds.
HEALTHY_STORES = (
    *(BROKER_VERSIONS / version / "store" for version in ("4.9.7", "5.3.3", "5.5.0")),
    *(
        STORE_KINDS / kind / "store"
        for kind in ("plain", "dledger", "dledger_after_plain", "dledger_batches", "double_write")
    ),
)
