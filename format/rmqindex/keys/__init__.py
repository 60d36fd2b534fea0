"""Keys of messages and their hashes: which keys a broker indexes, and where they land."""

from typing import TYPE_CHECKING

from rmqindex.lazy_exports import lazy_exports

if TYPE_CHECKING:
    from rmqindex.keys.hash_set import HashSet as HashSet
    from rmqindex.keys.hashing import index_key as index_key
    from rmqindex.keys.hashing import index_key_hashes as index_key_hashes
    from rmqindex.keys.hashing import key_hash as key_hash
    from rmqindex.keys.hashing import key_hashes as key_hashes
    from rmqindex.keys.messages import expand_messages as expand_messages
    from rmqindex.keys.messages import message_keys as message_keys
    from rmqindex.keys.utf8 import NotUtf8Error as NotUtf8Error
    from rmqindex.keys.utf8 import bytes_at as bytes_at
    from rmqindex.keys.utf8 import is_utf8 as is_utf8
    from rmqindex.keys.utf8 import not_utf8 as not_utf8
else:
    __getattr__, __dir__, __all__ = lazy_exports(__name__)
