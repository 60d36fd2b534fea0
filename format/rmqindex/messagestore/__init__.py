"""One object for a store, which answers with Arrow tables, and one that follows its log."""

from typing import TYPE_CHECKING

from rmqindex.lazy_exports import lazy_exports

if TYPE_CHECKING:
    from rmqindex.messagestore.following import Follower as Follower
    from rmqindex.messagestore.message_store import MessageStore as MessageStore
else:
    __getattr__, __dir__, __all__ = lazy_exports(__name__)
