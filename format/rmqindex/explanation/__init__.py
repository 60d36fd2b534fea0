"""Why a key is or is not found: by the broker's search, and by how far index and log reach."""

from typing import TYPE_CHECKING

from rmqindex.lazy_exports import lazy_exports

if TYPE_CHECKING:
    from rmqindex.explanation.consumption import Consumption as Consumption
    from rmqindex.explanation.consumption import consumption_of as consumption_of
    from rmqindex.explanation.explain import SEARCHES as SEARCHES
    from rmqindex.explanation.explain import Search as Search
    from rmqindex.explanation.explain import explain_lookup as explain_lookup
    from rmqindex.explanation.index_search import topic_hints as topic_hints
    from rmqindex.explanation.reach import Uncovered as Uncovered
    from rmqindex.explanation.reach import uncovered as uncovered
    from rmqindex.explanation.reach import uncovered_in as uncovered_in
    from rmqindex.explanation.result import EXPLAIN_REASONS as EXPLAIN_REASONS
    from rmqindex.explanation.result import FileExplanation as FileExplanation
    from rmqindex.explanation.result import HitExplanation as HitExplanation
    from rmqindex.explanation.result import IndexReach as IndexReach
    from rmqindex.explanation.result import LogReach as LogReach
    from rmqindex.explanation.result import LookupExplanation as LookupExplanation
    from rmqindex.explanation.result import OtherTopic as OtherTopic
    from rmqindex.explanation.result import Reason as Reason
else:
    __getattr__, __dir__, __all__ = lazy_exports(__name__)
