"""One object for a store, which answers with Arrow tables and readers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rmqindex.rooms import importer

if TYPE_CHECKING:
    from rmqindex.messagestore.message_store import MessageStore

__all__ = ["MessageStore"]

__getattr__ = importer(__name__, {"message_store": ("MessageStore",)})


def __dir__() -> list[str]:
    """List the room's names."""
    return __all__
