"""A rule of the audit, and those of ConsumeQueues."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

__all__ = ["QUEUES", "QUEUE_RULES", "WHOLE_LOG", "AuditRule", "Severity"]

Severity = Literal["error", "warning", "info"]


@dataclass(frozen=True, slots=True)
class AuditRule:
    """One rule of the audit.

    Attributes:
        name: Its name in findings, which does not change between versions.
        severity: ``error``: answers are wrong or missing; ``warning``: the bytes are not what a
            broker writes, or a restart will do harm; ``info``: worth knowing, but normal.
        meaning: What a finding means.
        remedy: What to do about it, with the command to type.
    """

    name: str
    severity: Severity
    meaning: str
    remedy: str


#: What a rebuild needs, which replaces everything by what the CommitLog's messages give.
WHOLE_LOG = "If the CommitLog is whole, "
#: What to do where a rebuild of the queues mends them.
QUEUES = f"{WHOLE_LOG}stop the broker and run `rmqindex rebuild-queues STORE --replace`."

#: The rules of ConsumeQueues against the CommitLog.
QUEUE_RULES: tuple[AuditRule, ...] = (
    AuditRule(
        "queues_missing",
        "info",
        "A store has no ConsumeQueues: its broker builds them from the log when it starts.",
        "Nothing, unless a topic was deleted and made again, of whose new messages a broker then "
        "builds but one unit: `rebuild-queues` before it starts builds all.",
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
        "queue_kind",
        "error",
        "A topic has queues of the other kind than its broker, or an inner batch in the log, "
        "says, so that a broker does not start.",
        f"Restore `config/topics.json` if it is wrong. {QUEUES}",
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
        "A unit has another size, tags code or batch than its message.",
        QUEUES,
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
        "queue_beyond_log",
        "error",
        "Units lead behind the end of the CommitLog.",
        "Restore the newest files of the CommitLog; if it is whole, stop the broker and run "
        "`rmqindex rebuild-queues STORE --replace --allow-loss`, which drops the units behind its "
        "end (`--dry-run` shows how many).",
    ),
    AuditRule(
        "property_number",
        "error",
        "A broker cannot read a number in a message's properties: it dispatches nothing from there "
        "on, and after a crash its log ends there.",
        "Keep a copy of the CommitLog; `rmqindex rebuild-queues STORE --replace --mode "
        "DROPMALFORMED` makes queues of all other messages.",
    ),
    AuditRule(
        "queues_unreadable",
        "error",
        "The ConsumeQueues, or the log or topics beside them, cannot be read.",
        "Make the named file readable, or restore it; then run `rmqindex verify STORE` again.",
    ),
    AuditRule(
        "queues_not_audited",
        "info",
        "The store has ConsumeQueues in RocksDB, which are not read.",
        "Nothing: the index is audited all the same.",
    ),
)
