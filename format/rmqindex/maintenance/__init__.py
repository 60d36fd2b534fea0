"""Maintenance of a whole index: rebuild, relayout, expiry and salvage.

New files come from a CommitLog or from the old files, and replace them in one commit of ``bulk``.
"""

from typing import TYPE_CHECKING

from rmqindex.lazy_exports import lazy_exports

if TYPE_CHECKING:
    from rmqindex.maintenance.intact_entries import salvage as salvage
    from rmqindex.maintenance.rebuild import RebuildResult as RebuildResult
    from rmqindex.maintenance.rebuild import rebuild_index as rebuild_index
    from rmqindex.maintenance.relayout import RelayoutResult as RelayoutResult
    from rmqindex.maintenance.relayout import relayout_index as relayout_index
    from rmqindex.maintenance.tags import TagChoice as TagChoice
    from rmqindex.maintenance.tags import tags_of_index as tags_of_index
else:
    __getattr__, __dir__, __all__ = lazy_exports(__name__)
