"""Keys of messages and their hashes: which keys a broker indexes, and where they land."""

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
