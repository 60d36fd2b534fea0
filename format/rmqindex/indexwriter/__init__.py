"""One IndexFile written: entry by entry as a broker does, by the batch, or appended in place."""

from typing import TYPE_CHECKING

from rmqindex.lazy_exports import lazy_exports

if TYPE_CHECKING:
    from rmqindex.indexwriter.writer import IndexFileWriter as IndexFileWriter
else:
    __getattr__, __dir__, __all__ = lazy_exports(__name__)
