"""The CommitLog: files, frames and records; by offset, in order, selected, as a broker appends."""

from typing import TYPE_CHECKING

from rmqindex.lazy_exports import lazy_exports

if TYPE_CHECKING:
    from rmqindex.commitlog.bodies import BODY_TEXT as BODY_TEXT
    from rmqindex.commitlog.bodies import BadBodies as BadBodies
    from rmqindex.commitlog.bodies import bad_body as bad_body
    from rmqindex.commitlog.bodies import body_texts as body_texts
    from rmqindex.commitlog.bodies import in_halves as in_halves
    from rmqindex.commitlog.bodies import unpack_bodies as unpack_bodies
    from rmqindex.commitlog.end import UnagreedTail as UnagreedTail
    from rmqindex.commitlog.files import several_logs as several_logs
    from rmqindex.commitlog.framing import LogFile as LogFile
    from rmqindex.commitlog.log import MATCH_STATES as MATCH_STATES
    from rmqindex.commitlog.log import CommitLog as CommitLog
    from rmqindex.commitlog.selection import Block as Block
    from rmqindex.commitlog.selection import MissingPart as MissingPart
    from rmqindex.commitlog.selection import Selection as Selection
    from rmqindex.commitlog.selection import newest_messages as newest_messages
    from rmqindex.commitlog.selection import select_messages as select_messages
    from rmqindex.commitlog.snapshot import LogSnapshot as LogSnapshot
    from rmqindex.commitlog.snapshot import damage_at as damage_at
    from rmqindex.commitlog.snapshot import ensure_end as ensure_end
    from rmqindex.commitlog.snapshot import marked_file as marked_file
    from rmqindex.commitlog.snapshot import missing_beside as missing_beside
    from rmqindex.commitlog.snapshot import missing_parts as missing_parts
    from rmqindex.commitlog.tailing import LogMark as LogMark
    from rmqindex.commitlog.tailing import follow as follow
    from rmqindex.commitlog.tailing import has_room as has_room
    from rmqindex.commitlog.tailing import next_record as next_record
    from rmqindex.commitlog.tailing import place_of as place_of
    from rmqindex.commitlog.tailing import whole_end as whole_end
    from rmqindex.commitlog.tailing import written_end as written_end
else:
    __getattr__, __dir__, __all__ = lazy_exports(__name__)
