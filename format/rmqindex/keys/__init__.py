"""Keys of messages and their hashes: which keys a broker indexes, and where they land."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rmqindex.rooms import importer

if TYPE_CHECKING:
    from rmqindex.keys.hash_set import HashSet
    from rmqindex.keys.hashing import index_key, index_key_hashes, key_hash, key_hashes
    from rmqindex.keys.messages import expand_messages, message_keys
    from rmqindex.keys.utf8 import NotUtf8Error, bytes_at, is_utf8, not_utf8

__all__ = [
    "HashSet",
    "NotUtf8Error",
    "bytes_at",
    "expand_messages",
    "index_key",
    "index_key_hashes",
    "is_utf8",
    "key_hash",
    "key_hashes",
    "message_keys",
    "not_utf8",
]

__getattr__ = importer(
    __name__,
    {
        "hash_set": ("HashSet",),
        "hashing": (
            "index_key",
            "index_key_hashes",
            "key_hash",
            "key_hashes",
        ),
        "messages": (
            "expand_messages",
            "message_keys",
        ),
        "utf8": (
            "NotUtf8Error",
            "bytes_at",
            "is_utf8",
            "not_utf8",
        ),
    },
)


def __dir__() -> list[str]:
    """List the room's names."""
    return __all__
