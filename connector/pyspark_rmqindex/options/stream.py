"""The options of streams."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from pyspark_rmqindex.options.kinds import BOOLEAN, POSITION, SIZE, integer, option
from pyspark_rmqindex.options.messages import MessageOptions
from pyspark_rmqindex.options.read import ReadOptions
from rmqindex.layout import INT32_MAX, INT64_MAX

__all__ = ["MessageStreamOptions", "StreamOptions"]


@dataclass(frozen=True, kw_only=True)
class _FollowOptions:
    """Where a stream begins, and what it does about lost data."""

    __slots__ = ()

    starting_position: Literal["earliest", "latest"] | int = option(
        "startingPosition",
        POSITION,
        "Where a new stream begins: at the oldest entry or message, or behind the newest. For "
        "`rmqcommitlog` also at an offset, bytes, where a message starts. A stream with a "
        "checkpoint continues where it stopped, whatever this says.",
        default="earliest",
    )
    fail_on_data_loss: bool = option(
        "failOnDataLoss",
        BOOLEAN,
        "What happens when files that were not read to their end expired or were replaced: `true` "
        "fails the stream with an error that names what is lost; `false` continues with the data "
        "that remains, and writes the same as a warning to the driver's standard error.",
        default="true",
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamOptions(_FollowOptions, ReadOptions):
    """How to read a stream of entries."""

    max_entries: int | None = option(
        "maxEntriesPerTrigger",
        integer(1, INT64_MAX),
        "How many entries a batch of a stream holds at most, over all stores together.",
        default_doc="all that are there",
    )
    max_files: int | None = option(
        "maxFilesPerTrigger",
        integer(1, INT32_MAX),
        "From how many files a batch of a stream reads at most, over all stores together.",
        default_doc="all that are there",
    )

    def __post_init__(self) -> None:
        """Check the options against each other."""
        if self.starting_position not in {"earliest", "latest"}:
            raise ValueError(
                f"option 'startingPosition': expected earliest or latest for the format rmqindex, "
                f"got {self.starting_position}"
            )
        ReadOptions.__post_init__(self)


@dataclass(frozen=True, slots=True, kw_only=True)
class MessageStreamOptions(_FollowOptions, MessageOptions):
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
