"""The files of a CommitLog: their names and frames, and where the records in them begin and end."""

from typing import TYPE_CHECKING

from rmqindex.lazy_exports import lazy_exports

if TYPE_CHECKING:
    from rmqindex.logfile.agreed import UnagreedTail as UnagreedTail
    from rmqindex.logfile.files import several_logs as several_logs
else:
    __getattr__, __dir__, __all__ = lazy_exports(__name__)
