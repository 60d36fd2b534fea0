"""The options of streams, checked."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from pyspark_rmqindex.options.options import (
    OPTIONS,
    message_options,
    message_options_of,
    parse_options,
    read_options,
    read_options_of,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyspark_rmqindex.options.options import MessageOptions, ReadOptions

__all__ = [
    "MessageStreamOptions",
    "StreamOptions",
    "message_schema_options",
    "message_stream_options",
    "schema_options",
    "stream_options",
]

_STREAM_SCOPES = frozenset({"stream", "message_stream"})
_ONLY_STREAMS = frozenset(
    option.name.lower() for option in OPTIONS if option.scopes <= _STREAM_SCOPES
)


@dataclass(frozen=True, slots=True)
class StreamOptions:
    """The options of a stream of entries, checked.

    Attributes:
        read: What a read has as well.
        starting_position: Where a new stream begins.
        fail_on_data_loss: Whether lost entries are an error.
        max_entries: Entries a batch holds at most; None for all.
        max_files: Files a batch is read from at most; None for all.
    """

    read: ReadOptions
    starting_position: Literal["earliest", "latest"]
    fail_on_data_loss: bool
    max_entries: int | None
    max_files: int | None


@dataclass(frozen=True, slots=True)
class MessageStreamOptions:
    """The options of a stream of messages, checked.

    Attributes:
        read: What a read has as well.
        starting_position: Where a new stream begins; an offset is in bytes.
        fail_on_data_loss: Whether lost messages are an error.
        max_messages: Messages a batch holds at most, of each store; None for all.
        max_bytes: Bytes of the log a batch holds at most, of each store; None for all.
    """

    read: MessageOptions
    starting_position: Literal["earliest", "latest"] | int
    fail_on_data_loss: bool
    max_messages: int | None
    max_bytes: int | None


def stream_options(raw: Mapping[str, str]) -> StreamOptions:
    """Parse and check the options of a stream of entries.

    Raises:
        ValueError: An unknown option, a bad value, or options that do not go together.
    """
    values = parse_options(raw, "stream")
    position: Any = values["startingPosition"]
    if position not in {"earliest", "latest"}:
        raise ValueError(
            f"option 'startingPosition': expected earliest or latest for the format rmqindex, got "
            f"{position}"
        )
    return StreamOptions(
        read=read_options_of(values),
        starting_position=position,
        fail_on_data_loss=values["failOnDataLoss"],
        max_entries=values["maxEntriesPerTrigger"],
        max_files=values["maxFilesPerTrigger"],
    )


def message_stream_options(raw: Mapping[str, str]) -> MessageStreamOptions:
    """Parse and check the options of a stream of messages.

    Raises:
        ValueError: An unknown option or a bad value.
    """
    values = parse_options(raw, "message_stream")
    return MessageStreamOptions(
        read=message_options_of(values),
        starting_position=values["startingPosition"],
        fail_on_data_loss=values["failOnDataLoss"],
        max_messages=values["maxMessagesPerTrigger"],
        max_bytes=values["maxBytesPerTrigger"],
    )


def schema_options(raw: Mapping[str, str]) -> ReadOptions:
    """Return the options by which the columns are known.

    Spark asks for the columns before it says whether it wants a stream.

    Raises:
        ValueError: As :func:`stream_options` and :func:`read_options`.
    """
    return stream_options(raw).read if _is_stream(raw) else read_options(raw)


def message_schema_options(raw: Mapping[str, str]) -> MessageOptions:
    """Return the options by which the columns of messages are known; see :func:`schema_options`.

    Raises:
        ValueError: As :func:`message_stream_options` and :func:`message_options`.
    """
    return message_stream_options(raw).read if _is_stream(raw) else message_options(raw)


def _is_stream(raw: Mapping[str, str]) -> bool:
    return any(name.lower() in _ONLY_STREAMS for name in raw)
