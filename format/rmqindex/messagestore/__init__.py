"""One object for a store, which answers with Arrow tables, and one that follows its log.

``wanted`` has what filters ask of the columns that narrow a read, for every engine.
"""

from typing import TYPE_CHECKING

from rmqindex.lazy_exports import lazy_exports

if TYPE_CHECKING:
    from rmqindex.messagestore.following import Follower as Follower
    from rmqindex.messagestore.message_store import MessageStore as MessageStore
    from rmqindex.messagestore.wanted import EVERYTHING as EVERYTHING
    from rmqindex.messagestore.wanted import NOTHING as NOTHING
    from rmqindex.messagestore.wanted import Around as Around
    from rmqindex.messagestore.wanted import Range as Range
    from rmqindex.messagestore.wanted import Wanted as Wanted
    from rmqindex.messagestore.wanted import wanted_where as wanted_where
else:
    __getattr__, __dir__, __all__ = lazy_exports(__name__)
