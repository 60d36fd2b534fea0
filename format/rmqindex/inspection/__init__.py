"""Looks at a whole store: what fills it, and what any of its files holds, byte by byte."""

from typing import TYPE_CHECKING

from rmqindex.lazy_exports import lazy_exports

if TYPE_CHECKING:
    from rmqindex.inspection.dump import Dump as Dump
    from rmqindex.inspection.dump import dump_file as dump_file
    from rmqindex.inspection.items import Field as Field
    from rmqindex.inspection.items import Item as Item
    from rmqindex.inspection.usage import FolderUsage as FolderUsage
    from rmqindex.inspection.usage import Usage as Usage
    from rmqindex.inspection.usage import UsageRow as UsageRow
    from rmqindex.inspection.usage import folder_usage as folder_usage
    from rmqindex.inspection.usage import measure_usage as measure_usage
else:
    __getattr__, __dir__, __all__ = lazy_exports(__name__)
