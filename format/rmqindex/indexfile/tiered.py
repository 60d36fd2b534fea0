"""Detects index files of the tiered storage, which have another format."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rmqindex.errors import RmqIndexError

if TYPE_CHECKING:
    from rmqindex.storage.source import IndexSource

__all__ = ["TIERED_MAGICS", "refuse_tiered_file"]

#: tieredstore IndexStoreFile.BEGIN_MAGIC_CODE and END_MAGIC_CODE.
TIERED_MAGICS = (bytes.fromhex("bcc50289"), bytes.fromhex("bcc50285"))


def refuse_tiered_file(source: IndexSource) -> None:
    """Refuse an index file of the tiered storage, which begins with a magic number.

    Raises:
        RmqIndexError: It is one.
    """
    if bytes(source.header()[:4]) in TIERED_MAGICS:
        raise RmqIndexError(
            f"{source.path}: an index file of RocketMQ's tiered storage, which is not supported"
        )
