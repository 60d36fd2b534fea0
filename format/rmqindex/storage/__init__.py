"""The bytes of files: local ones mapped into memory, remote ones read by ranges.

Nothing here knows what the bytes of a store mean.
The files that this project keeps for itself are opened safely, synced to disk and read strictly.
"""

from typing import TYPE_CHECKING

from rmqindex.lazy_exports import lazy_exports

if TYPE_CHECKING:
    from rmqindex.storage.disk import naming as naming
    from rmqindex.storage.identity import FileChangedError as FileChangedError
    from rmqindex.storage.identity import FileIdentity as FileIdentity
    from rmqindex.storage.location import Location as Location
    from rmqindex.storage.location import Storage as Storage
    from rmqindex.storage.location import path_text as path_text
    from rmqindex.storage.opening import UnsteadyError as UnsteadyError
    from rmqindex.storage.opening import map_files as map_files
    from rmqindex.storage.opening import read_steady as read_steady
    from rmqindex.storage.records import Fields as Fields
    from rmqindex.storage.records import RecordKind as RecordKind
    from rmqindex.storage.records import from_json as from_json
    from rmqindex.storage.records import to_json as to_json
    from rmqindex.storage.s3 import DEFAULT_ATTEMPTS as DEFAULT_ATTEMPTS
    from rmqindex.storage.s3 import DEFAULT_CONNECT_TIMEOUT as DEFAULT_CONNECT_TIMEOUT
    from rmqindex.storage.s3 import DEFAULT_REQUEST_TIMEOUT as DEFAULT_REQUEST_TIMEOUT
    from rmqindex.storage.s3 import S3_SCHEMES as S3_SCHEMES
    from rmqindex.storage.s3 import S3Settings as S3Settings
    from rmqindex.storage.s3 import check_no_secret as check_no_secret
    from rmqindex.storage.writable import write_own as write_own
else:
    __getattr__, __dir__, __all__ = lazy_exports(__name__)
