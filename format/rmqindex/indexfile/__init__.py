"""One IndexFile: its geometry, entries and chains, read and searched."""

from typing import TYPE_CHECKING

from rmqindex.lazy_exports import lazy_exports

if TYPE_CHECKING:
    from rmqindex.indexfile.committed import open_index_source as open_index_source
    from rmqindex.indexfile.decoding import ENTRY_SCHEMA as ENTRY_SCHEMA
    from rmqindex.indexfile.entries import Mode as Mode
    from rmqindex.indexfile.fingerprint import Fingerprint as Fingerprint
    from rmqindex.indexfile.geometry import Layout as Layout
    from rmqindex.indexfile.geometry import fits_layout as fits_layout
    from rmqindex.indexfile.reader import IndexFile as IndexFile
else:
    __getattr__, __dir__, __all__ = lazy_exports(__name__)
