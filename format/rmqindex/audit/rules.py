"""The rules of the audit: their names, severities and meanings.

The documentation is generated from this table.
"""

from __future__ import annotations

from rmqindex.audit.queue_rules import QUEUE_RULES
from rmqindex.audit.remedies import (
    ENTRIES_BEYOND_LOG,
    GEOMETRY_DIFFERS,
    LOG_FILE_MISNAMED,
    LOG_FILE_NAME,
    LOG_FILE_SIZE,
    READABLE_LOG,
    REBUILD,
    RELAYOUT,
    RESTORE_LOG,
    SURPLUS,
    WHOLE_LOG,
    AuditRule,
)
from rmqindex.layout.index_file import DEFAULT_HASH_SLOT_NUM, DEFAULT_INDEX_NUM
from rmqindex.layout.record import FILE_NAME_DIGITS

_RESUME = f"{WHOLE_LOG}stop the broker and run `rmqindex rebuild STORE --resume`."
_SALVAGE = (
    f"{WHOLE_LOG}stop the broker and run `rmqindex rebuild STORE --replace`; without a CommitLog, "
    "`rmqindex scan FILE --salvage` prints what can be read."
)
_NOTHING = "Nothing: the broker reads and writes on."
_BODY = "Restore the file of the CommitLog; until then `--mode DROPMALFORMED` reads on behind it."
_HARMLESS = "Nothing needs to be done; a rebuild with `--replace` removes it."

#: Every rule that a finding can name.
AUDIT_RULES: tuple[AuditRule, ...] = (
    # One file by itself.
    AuditRule(
        "unreadable",
        "error",
        "The file cannot be opened or is of another kind.",
        "Make the file readable, or move what is no IndexFile out of the directory; for a lost "
        f"file, {WHOLE_LOG[0].lower()}{WHOLE_LOG[1:]}stop the broker and run "
        "`rmqindex rebuild STORE --replace`.",
    ),
    AuditRule(
        "header_size",
        "error",
        "The file is too short for a header.",
        f"{WHOLE_LOG}stop the broker and run `rmqindex rebuild STORE --replace`; without one, move "
        "the file out of the directory, since nothing of it can be read.",
    ),
    AuditRule(
        "geometry",
        "error",
        "No geometry, or more than one, fits the file.",
        f"{WHOLE_LOG}stop the broker and run, with the numbers of broker.conf if it has others, "
        f"`rmqindex rebuild STORE --replace --max-hash-slot-num {DEFAULT_HASH_SLOT_NUM} "
        f"--max-index-num {DEFAULT_INDEX_NUM}`.",
    ),
    AuditRule("file_size", "error", "The file is shorter than its geometry.", _SALVAGE),
    AuditRule(SURPLUS, "info", "Bytes follow the last entry place; no reader uses them.", _NOTHING),
    AuditRule(
        "file_name",
        "warning",
        "The name is not a time of 17 digits.",
        "Move what the broker did not write out of the directory, or rename it to the time at "
        "which it was made.",
    ),
    AuditRule(
        "index_count",
        "error",
        "The header counts more entries than the file can hold, or fewer than slots lead to.",
        _SALVAGE,
    ),
    AuditRule(
        "uncounted_entries",
        "warning",
        "Bytes stand where the next entry will be written.",
        _NOTHING,
    ),
    AuditRule(
        "hash_slot_count",
        "warning",
        "Neither the slots in use nor, as before 4.7.1, the entries are so many; no search reads "
        "the field.",
        _NOTHING,
    ),
    AuditRule(
        "begin_phy_offset", "error", "The header does not have the first entry's offset.", REBUILD
    ),
    AuditRule(
        "end_phy_offset",
        "error",
        "The header does not have the last entry's offset, at which the broker resumes indexing.",
        REBUILD,
    ),
    AuditRule(
        "begin_timestamp",
        "error",
        "The header does not have the first message's store time, from which all times of the "
        "file are counted.",
        REBUILD,
    ),
    AuditRule(
        "end_timestamp",
        "error",
        "The header does not have the last message's store time, by which the broker chooses "
        "files.",
        REBUILD,
    ),
    AuditRule(
        "inherited_header",
        "error",
        "A file without entries does not have the end of the file before it, by which the broker "
        "finds older files and resumes indexing.",
        REBUILD,
    ),
    AuditRule("slot_range", "error", "A slot holds no position of an entry.", REBUILD),
    AuditRule(
        "slot_uncounted",
        "warning",
        "A slot without older entries holds a position that the header does not count, as after a "
        "kill.",
        _NOTHING,
    ),
    AuditRule(
        "slot_torn",
        "warning",
        "A slot with older entries leads to the entry that the header counts next, as after a kill "
        "within a put. Every search goes on from there, but the broker's next put hides the older "
        "ones from it.",
        REBUILD,
    ),
    AuditRule("slot_cross_link", "error", "A slot holds an entry of another slot.", REBUILD),
    AuditRule(
        "slot_newest",
        "error",
        "A slot does not hold its newest entry, which is hidden from every search.",
        REBUILD,
    ),
    AuditRule(
        "key_hash_range", "error", "A key hash is negative, so no search finds the entry.", REBUILD
    ),
    AuditRule(
        "entry_unwritten",
        "error",
        "A counted entry was never written: all its bytes are zero.",
        REBUILD,
    ),
    AuditRule("chain_order", "error", "An entry does not lead to an older one.", REBUILD),
    AuditRule(
        "chain_own_link",
        "info",
        "The oldest entry of a slot leads to itself, as the put after a kill makes it; every "
        "search ends there.",
        _NOTHING,
    ),
    AuditRule(
        "chain_cycle", "error", "A chain runs in a circle, in which the broker hangs.", REBUILD
    ),
    AuditRule(
        "chain_cross_link", "error", "An entry leads into the chain of another slot.", REBUILD
    ),
    AuditRule(
        "chain_link",
        "error",
        "An entry does not lead to the next older one of its slot, which is hidden from every "
        "search.",
        REBUILD,
    ),
    AuditRule(
        "entry_unreachable", "error", "No slot and no newer entry leads to an entry.", REBUILD
    ),
    AuditRule(
        "time_diff_range",
        "error",
        "An entry's seconds are negative, at which the broker stops.",
        REBUILD,
    ),
    AuditRule(
        "time_diff",
        "error",
        "An entry's seconds are not what its message's store time gives.",
        REBUILD,
    ),
    AuditRule(
        "first_entry_late",
        "info",
        "The broker reads the first entry of a rolled file as so many seconds later than it is.",
        "Nothing: the command lookup and Spark read its true time.",
    ),
    AuditRule(
        "time_order",
        "info",
        "Clocks stepped back inside the file: the broker's search with a begin time may stop "
        "early.",
        "Nothing; look keys up without a begin time; the command lookup misses none.",
    ),
    AuditRule("phy_offset_range", "error", "An offset is negative.", REBUILD),
    AuditRule(
        "phy_offset_order", "warning", "An entry's offset is smaller than the one before.", REBUILD
    ),
    # Files beside each other, and the store around them.
    AuditRule(
        "directory_name",
        "error",
        "A directory has a numeric name, at which the broker stops loading.",
        "Move the directory out of `index`.",
    ),
    AuditRule(
        "foreign_name", "info", "Something that the broker skips stands among the files.", _NOTHING
    ),
    AuditRule(
        GEOMETRY_DIFFERS,
        "error",
        "A file has another geometry than the files beside it, which a broker opens all with one.",
        RELAYOUT,
    ),
    AuditRule(
        "file_order",
        "error",
        "A file begins before the file before it ends, so that the broker's search may miss "
        "entries.",
        REBUILD,
    ),
    AuditRule(
        "file_name_ahead",
        "warning",
        "A file's name is a day or more later than the newest message and than the name before it "
        "lets expect, as when a clock was ahead: the broker's next file sorts before it, and no "
        "write finds a name behind it.",
        "Nothing if the broker indexed old messages that late, as after a crash; else, "
        f"{WHOLE_LOG[0].lower()}{WHOLE_LOG[1:]}stop the broker and run "
        "`rmqindex rebuild STORE --replace`, which names files by their messages.",
    ),
    AuditRule("not_full", "info", "A file that is not the last one is not full.", _NOTHING),
    AuditRule(
        "unfinished_write",
        "warning",
        "A write into the directory has not finished.",
        "Wait until the write has ended; if its process died, run `rmqindex recover STORE`.",
    ),
    AuditRule(
        "restart_loses",
        "error",
        "The broker was killed. When it starts, it deletes this file, which ends after the "
        "checkpoint's time, and indexes again only what follows its recovery point, which is later "
        "for a broker from 5.5.0 on than for one before.",
        f"Do not start the broker yet: {WHOLE_LOG[0].lower()}{WHOLE_LOG[1:]}"
        "`rmqindex rebuild STORE --resume` indexes what is missing and raises the checkpoint, so "
        "that the broker keeps the file.",
    ),
    AuditRule(
        "restart_rebuilds",
        "info",
        "The broker was killed. When it starts, it deletes this file, and indexes it all again, "
        "unless messageIndexEnable=false.",
        "Nothing if the CommitLog is whole: no entry is lost.",
    ),
    AuditRule(
        "restart_indexes",
        "warning",
        "The broker was killed before it indexed its newest messages. When it starts, it indexes "
        "them, unless messageIndexEnable=false.",
        "Nothing before the broker starts; `rmqindex rebuild STORE --resume` indexes them now.",
    ),
    AuditRule(
        "abort_present",
        "info",
        "The broker was killed. When it starts, it loses no entry of the index.",
        "The broker may start, once errors are mended, if there are any.",
    ),
    AuditRule(
        "checkpoint_missing",
        "warning",
        "A store has no checkpoint.",
        "Nothing if this is no broker's store; else the broker makes one when it starts.",
    ),
    AuditRule(
        "checkpoint_size",
        "warning",
        "The checkpoint is shorter than its fields.",
        f"{WHOLE_LOG}stop the broker and run `rmqindex rebuild STORE --resume`, which writes it "
        "anew, or call `rmqindex.cover_index(STORE)` in Python.",
    ),
    AuditRule(
        "checkpoint_behind",
        "warning",
        "A file that is not the last one ends after the checkpoint's index_msg_timestamp: if the "
        "broker is killed after its next start, it deletes the file.",
        f"{WHOLE_LOG}stop the broker and run `rmqindex rebuild STORE --resume`, which raises it, "
        "or call `rmqindex.cover_index(STORE)` in Python.",
    ),
    AuditRule(
        "checkpoint_ahead",
        "warning",
        "The checkpoint's index_msg_timestamp is later than every file's end.",
        "Nothing clears it but the broker, when its next file is full; run `rmqindex verify STORE` "
        "after a crash before that, since the broker keeps a file that the crash damaged. Where "
        "newer files were lost, other findings say so.",
    ),
    AuditRule(
        "lock_held",
        "info",
        "A broker runs, or rmqindex writes. What was added since the audit began is not judged.",
        "Nothing; a repair is refused until that process has ended: then run `rmqindex verify "
        "STORE` again.",
    ),
    # Against the CommitLog.
    AuditRule("log_unreadable", "error", "The CommitLog cannot be read.", READABLE_LOG),
    AuditRule(
        LOG_FILE_SIZE,
        "error",
        "The CommitLog's newest file has another size than those before it, with which a broker "
        "does not start.",
        "If it was cut and other findings tell of lost messages, restore it from a replica or a "
        "backup; else keep a copy, stop the broker and run `truncate -s SIZE FILE` with the "
        "expected size, which adds zeros or drops what no broker reads.",
    ),
    AuditRule(
        LOG_FILE_NAME,
        "error",
        "A file in the CommitLog's folder has a name with which no broker starts.",
        "While no broker runs, move FILE out of the folder.",
    ),
    AuditRule(
        LOG_FILE_MISNAMED,
        "error",
        "A file in the CommitLog's folder begins with a message of another offset than its name "
        "says: it has another file's name, or is the copy of one.",
        f"While no broker runs, give it the name of that offset, in {FILE_NAME_DIGITS} digits. If "
        "a file has that name and begins with a message of another offset, too, exchange the two "
        "names; if it begins with the one at that offset, move FILE out of the folder, and restore "
        "what then lacks from a replica or a backup.",
    ),
    AuditRule(
        "log_damaged",
        "error",
        "The CommitLog has no sound record where one should be.",
        f"{RESTORE_LOG} Where a checkpoint leads behind the end of a log that has all its files, "
        "the checkpoint is wrong: move it away while no broker runs.",
    ),
    AuditRule(
        "log_remains",
        "warning",
        "Behind the CommitLog's end follow messages that are older than its last one, and nothing "
        "tells whether an earlier life of the log left them.",
        "Nothing if the broker's clock never stepped back; else its end is damage, and they are "
        "missing: restore the file from a replica or a backup.",
    ),
    AuditRule(
        "log_ends_early",
        "warning",
        "The CommitLog ends before the message up to which the checkpoint says that the queues "
        "were flushed (logics_physical_offset, of brokers from 5.5.0 on).",
        "Nothing if the disk lost power and a broker has started since: it takes what is left for "
        "all, and the number stays until its queues are flushed, with an older broker for good. "
        "Else the log has lost its newest files: restore them from a replica or a backup.",
    ),
    AuditRule(
        "dledger_checkpoint",
        "error",
        "DLedger's own checkpoint does not tell up to which entry its group had agreed, so that "
        "nothing tells which messages another leader may still replace.",
        "Restore the file, or start the broker, which writes it anew once its group has agreed; "
        "where neither is possible, move it away: without it, all sound entries count as agreed "
        "on.",
    ),
    AuditRule(
        "file_expired",
        "info",
        "All entries of a file lie before the CommitLog; the broker's next expiry deletes the "
        "file, unless it is the last.",
        "Nothing if the messages have expired: `rmqindex expire STORE --dry-run` names the command "
        "that deletes the files before the broker does. Else restore the CommitLog's oldest files.",
    ),
    AuditRule(
        "entry_expired", "info", "Entries lie before the CommitLog's first message.", _NOTHING
    ),
    AuditRule("entry_dangling", "error", "No message starts at an entry's offset.", REBUILD),
    AuditRule(
        "entry_beyond_log",
        "error",
        "An entry's offset lies behind the CommitLog's end: the log lost its newest files, or the "
        "entry was damaged.",
        ENTRIES_BEYOND_LOG,
    ),
    AuditRule(
        "entry_in_gap", "warning", "An entry's offset lies in a gap between log files.", RESTORE_LOG
    ),
    AuditRule(
        "entry_hash",
        "error",
        "The entry's key hash matches no key of its message.",
        f"{REBUILD} Where it refuses, the message may be damaged, not the entry: restore the "
        "file of the CommitLog, or give `--allow-loss` too.",
    ),
    AuditRule(
        "entry_duplicate",
        "warning",
        "A message's key is indexed more often than it has it, as after a recovery or a replay.",
        _HARMLESS,
    ),
    AuditRule("key_missing", "error", "A key of a message has no entry.", REBUILD),
    AuditRule("coverage_gap", "error", "Messages with keys have no entries at all.", REBUILD),
    AuditRule("body_crc", "error", "A message's body has another CRC (`--bodies`).", _BODY),
    AuditRule(
        "body_packed",
        "info",
        "A body whose flags call it compressed does not unpack (`--bodies`): its producer sent it "
        "so, or a flag was damaged, which no CRC covers.",
        "Nothing, if it was sent so; `--mode DROPMALFORMED` makes such a body null.",
    ),
    AuditRule(
        "inner_number",
        "error",
        "An inner batch has other messages than as many as its property INNER_NUM says, by which "
        "queues count them (`--bodies`).",
        "Restore the file of the CommitLog, whose message is damaged.",
    ),
    AuditRule("property_crc", "error", "A message has another CRC (`--bodies`).", _BODY),
    AuditRule(
        "index_begins_late",
        "error",
        "Messages with keys lie before the first entry, though the broker deletes no file before "
        "the messages expire: a file was lost, or the index was switched off or begun late.",
        REBUILD,
    ),
    AuditRule(
        "index_missing",
        "error",
        "The CommitLog has messages with keys, and the index has no entry, unless "
        "messageIndexEnable=false.",
        f"{WHOLE_LOG}stop the broker and run `rmqindex rebuild STORE --replace`; with "
        "messageIndexEnable=false there is nothing to verify.",
    ),
    AuditRule(
        "index_ends_early",
        "error",
        "Messages with keys lie behind the last entry, and no broker is about to index them: none "
        "runs, or they are ten minutes old. A file was lost, or messageIndexEnable=false.",
        _RESUME,
    ),
    AuditRule(
        "index_lags",
        "info",
        "The newest messages are not indexed yet, while a broker runs or rmqindex writes.",
        "Nothing if `rmqindex verify STORE` finds fewer of them in a few minutes; else see "
        "`messageIndexEnable`.",
    ),
    AuditRule(
        "index_behind",
        "warning",
        "Messages behind the last entry are not indexed, in a copy, where no broker can be seen.",
        f"{WHOLE_LOG}copy the index again, or index them: `rmqindex rebuild STORE --resume`.",
    ),
    AuditRule(
        "stop_barrier",
        "error",
        "The last file ends behind the CommitLog: the broker skips every message until the log "
        "has passed that offset.",
        ENTRIES_BEYOND_LOG,
    ),
    *QUEUE_RULES,
)
