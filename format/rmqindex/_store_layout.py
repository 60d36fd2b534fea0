"""The folders of a store root (RocketMQ: ``StorePathConfigHelper``)."""

from __future__ import annotations

__all__ = ["COMMITLOG_FOLDER", "CONFIG_FOLDER", "INDEX_FOLDER"]

#: Where the IndexFiles are.
INDEX_FOLDER = "index"
#: Where the messages are.
COMMITLOG_FOLDER = "commitlog"
#: Where the broker keeps the state of topics and consumers.
CONFIG_FOLDER = "config"
