"""The IndexFiles of one index: what a path or a pattern stands for, names and listings."""

from typing import TYPE_CHECKING

from rmqindex.lazy_exports import lazy_exports

if TYPE_CHECKING:
    from rmqindex.fileset.cover import cover_index as cover_index
    from rmqindex.fileset.cover import is_coverable as is_coverable
    from rmqindex.fileset.geometry import layout_beside as layout_beside
    from rmqindex.fileset.geometry import open_in_store as open_in_store
    from rmqindex.fileset.paths import index_files as index_files
    from rmqindex.fileset.paths import is_index_name as is_index_name
    from rmqindex.fileset.paths import is_other_kind as is_other_kind
    from rmqindex.fileset.paths import list_index_files as list_index_files
    from rmqindex.fileset.paths import resolve as resolve
    from rmqindex.fileset.patterns import Hit as Hit
    from rmqindex.fileset.patterns import broker_order as broker_order
    from rmqindex.fileset.patterns import expand as expand
    from rmqindex.fileset.patterns import has_pattern as has_pattern
    from rmqindex.fileset.patterns import is_hidden as is_hidden
    from rmqindex.fileset.patterns import matcher as matcher
    from rmqindex.fileset.planned_index import lacking_text as lacking_text
else:
    __getattr__, __dir__, __all__ = lazy_exports(__name__)
