"""The options of loads and streams of messages, and of loads of ConsumeQueues."""

from __future__ import annotations

from dataclasses import dataclass

from pyspark_rmqindex.options.kinds import NAMES, QUEUES, SIZE, integer, option
from pyspark_rmqindex.options.shared import (
    NO_TOPIC,
    TOPIC_DOC,
    FollowOptions,
    InputOptions,
    RecordOptions,
)
from rmqindex.layout import INT64_MAX


@dataclass(frozen=True, slots=True, kw_only=True)
class MessageOptions(RecordOptions):
    """What to read from a CommitLog, and how."""

    topics: tuple[str, ...] | None = option("topic", NAMES, TOPIC_DOC, default_doc=NO_TOPIC)
    queue_ids: tuple[int, ...] | None = option(
        "queueId",
        QUEUES,
        "Only messages of this queue of their topic, or of the queues of a JSON list.",
        default_doc="every queue",
    )
    tags: tuple[str, ...] | None = option(
        "tags",
        NAMES,
        "Only messages whose column `tags` is this text, or one of a JSON list.",
        default_doc="every message, with tags or without",
    )
    begin_offset: int = option(
        "beginOffset",
        integer(0, INT64_MAX),
        "Only messages that start at this offset or later, bytes.",
        default="0",
        default_doc="no lower bound",
        only=("messages",),
    )
    end_offset: int | None = option(
        "endOffset",
        integer(0, INT64_MAX),
        "Only messages that start before this offset, bytes.",
        default_doc="no upper bound",
        only=("messages",),
    )
    max_clock_step: int | None = option(
        "maxClockStep",
        integer(0, INT64_MAX, "milliseconds"),
        "By how much the broker's clock may have stepped back. With it, files whose first message "
        "and the next file's show that nothing in them is of the time asked for are not read.",
        default_doc="any step: times prune no files, only the work within them",
        only=("messages",),
    )

    def __post_init__(self) -> None:
        """Check the offsets against each other, as the times."""
        RecordOptions.__post_init__(self)
        if self.end_offset is not None and self.begin_offset > self.end_offset:
            raise ValueError(
                "option 'beginOffset': expected an offset at or before 'endOffset', "
                f"{self.end_offset}, got {self.begin_offset}"
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class MessageStreamOptions(FollowOptions, MessageOptions):
    """How to read a stream of messages."""

    max_messages: int | None = option(
        "maxMessagesPerTrigger",
        integer(1, INT64_MAX),
        "How many messages a batch of a stream holds at most, in each store.",
        default_doc="all that are there",
    )
    max_bytes: int | None = option(
        "maxBytesPerTrigger",
        SIZE,
        "How many bytes of the CommitLog a batch of a stream holds at most, in each store; at "
        "least one message.",
        default_doc="all that are there",
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueOptions(InputOptions):
    """Which ConsumeQueues to read, and how."""
