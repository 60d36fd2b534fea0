"""The rules of the audit of ConsumeQueues."""

from __future__ import annotations

from rmqindex.audit.remedies import (
    BEYOND_LOG,
    QUEUE_FILE_NAME,
    QUEUES,
    TOPICS_IF_WRONG,
    WHOLE_LOG,
    AuditRule,
)
from rmqindex.layout.queue import DEFAULT_BATCH_FILE_SIZE, DEFAULT_FILE_SIZE

_DAMAGED_MESSAGE = (
    "Keep a copy of the CommitLog; stop the broker and run `rmqindex rebuild-queues STORE "
    "--replace --mode DROPMALFORMED`, which makes queues of all other messages. Nothing clears "
    "this finding as long as the log has the message."
)
_TOPICS = (
    "Restore `config/topics.json`, in which the topic has the attribute queue.type=BatchCQ; then "
    "run `rmqindex verify STORE` again."
)

#: The rules of ConsumeQueues against the CommitLog.
QUEUE_RULES: tuple[AuditRule, ...] = (
    AuditRule(
        "queues_missing",
        "info",
        "A store has no ConsumeQueues: its broker builds them from the log when it starts.",
        "Nothing, unless a topic was deleted and made again, of whose new messages a broker then "
        "builds but one unit: if the CommitLog is whole, `rmqindex rebuild-queues STORE` before it "
        "starts builds all.",
    ),
    AuditRule(
        "queue_missing",
        "error",
        "Messages of a topic have no queue at all: no consumer gets them. If the topic was deleted "
        "and made again, and has no message in this queue since, nothing is lost.",
        QUEUES,
    ),
    AuditRule(
        "queue_unknown",
        "warning",
        "Messages of a topic have no queue, and no `config/topics.json` tells whether the topic "
        "was deleted.",
        f"If the topic was deleted, nothing; else, {QUEUES[0].lower()}{QUEUES[1:]}",
    ),
    AuditRule(
        "queue_doubtful",
        "info",
        "Older messages of a topic have no queue, and where other queues of it begin anew behind "
        "them, the topic was deleted and made again: whether before these messages or behind, "
        "nothing tells.",
        "Nothing if the topic has not used the queue since it was made again; else stop the broker "
        "and run `rmqindex rebuild-queues STORE --replace`, which brings the queue back.",
    ),
    AuditRule(
        "queue_deleted",
        "warning",
        "A queue has messages of the time before its topic was deleted and made again, and none "
        "since: consumers get deleted messages.",
        "Stop the broker and move the queue's folder out of the store; nothing, if the topic was "
        "not deleted.",
    ),
    AuditRule(
        "queue_kind",
        "error",
        "A topic has queues of the other kind than its broker, or an inner batch in the log, "
        "says, so that a broker does not start.",
        TOPICS_IF_WRONG + QUEUES,
    ),
    AuditRule(
        "topic_kind",
        "error",
        "The broker's table of topics says that a topic has no batch queues, and the log has an "
        "inner batch of it.",
        _TOPICS,
    ),
    AuditRule(
        "queue_file_size",
        "error",
        "A file of a queue has another size than the others, with which a broker does not start.",
        f"{WHOLE_LOG}stop the broker and run, with the numbers of broker.conf if it has others, "
        f"`rmqindex rebuild-queues STORE --replace --file-size {DEFAULT_FILE_SIZE} "
        f"--batch-file-size {DEFAULT_BATCH_FILE_SIZE}`.",
    ),
    AuditRule(
        QUEUE_FILE_NAME,
        "error",
        "A file in a queue's folder is named by no offset, or is empty and not the last by name: "
        "no broker starts with it. Or what has the name of a folder of queues, or of a file, is "
        "none.",
        "While no broker runs, move FILE out of the folder.",
    ),
    AuditRule(
        "queue_unit_missing",
        "error",
        "Messages have no unit in their queue: no consumer gets them, and where no unit follows, "
        "their queue offsets are given again.",
        QUEUES,
    ),
    AuditRule(
        "queue_unit",
        "error",
        "A unit has another size, tags code or batch than its message, or stands behind that of a "
        "newer one.",
        QUEUES,
    ),
    AuditRule(
        "queue_due_time",
        "warning",
        "A few delayed messages are due sooner or later after they were stored than those of "
        "their level before and behind them.",
        "Nothing if the broker had another messageDelayLevel for so short a time; else stop the "
        "broker and run `rmqindex rebuild-queues STORE --replace --mend-due-times`.",
    ),
    AuditRule(
        "queue_offset",
        "warning",
        "Messages have their units at other places than their queue offsets, as after a message "
        "that a broker never stored.",
        "Nothing: consumers get them. A rebuild moves them to their queue offsets.",
    ),
    AuditRule(
        "queue_dangling",
        "error",
        "Units lead to places of the log where no message starts.",
        QUEUES,
    ),
    AuditRule(
        "queue_stray",
        "error",
        "Units lead to messages of another queue, or again to a message that has its unit: a "
        "consumer gets what is not its own, or gets it twice, and a broker drops the unit of the "
        "message whose place is taken.",
        QUEUES,
    ),
    AuditRule(
        "queue_beyond_log",
        "error",
        "Units lead behind the end of the CommitLog.",
        BEYOND_LOG,
    ),
    AuditRule(
        "queue_left_out",
        "warning",
        "Units lead to messages for which a rebuild makes none: of the time before their topic was "
        "deleted and made again, say, or of messages that were rolled back.",
        f"{WHOLE_LOG}stop the broker and run `rmqindex rebuild-queues STORE --replace "
        "--allow-loss`, which drops these units (`--dry-run` shows how many).",
    ),
    AuditRule(
        "queue_offset_taken",
        "error",
        "Messages have queue offsets that older messages of their queue have: a queue has room for "
        "one of them, and no consumer gets the other.",
        "Stop the broker and run `rmqindex rebuild-queues STORE --replace --allow-loss`, which "
        "makes queues of the older ones, as a broker does. Nothing clears this finding as long as "
        "the log has both.",
    ),
    AuditRule(
        "property_number",
        "error",
        "A broker cannot read a number in a message's properties: it dispatches nothing from there "
        "on, and after a crash its log ends there.",
        _DAMAGED_MESSAGE,
    ),
    AuditRule(
        "queue_number",
        "error",
        "A message's topic, queue or queue offset is none that a queue can have, or it has not one "
        "for each light queue that it names: it is damaged.",
        _DAMAGED_MESSAGE,
    ),
    AuditRule(
        "queues_unreadable",
        "error",
        "The ConsumeQueues, or the log or topics beside them, cannot be read.",
        "Make the named file readable, restore it, or move what is none out of the folder; then "
        "run `rmqindex verify STORE` again.",
    ),
    AuditRule(
        "queues_not_audited",
        "info",
        "The store has ConsumeQueues in RocksDB, which are not read.",
        "Nothing: the index is audited all the same.",
    ),
)
