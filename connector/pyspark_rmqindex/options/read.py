"""The options of a load, a table or a stream of entries."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from pyspark_rmqindex.options.kinds import (
    AUTO,
    BOOLEAN,
    HASHES,
    LOG,
    NAMES,
    NONE,
    QUEUES,
    SIZE,
    SOME_TEXT,
    TEXT,
    TEXTS,
    choice,
    integer,
    option,
    options_of,
)
from pyspark_rmqindex.options.shared import (
    NO_TOPIC,
    TOPIC_DOC,
    FollowOptions,
    GeometryOptions,
    InputOptions,
    RecordOptions,
)
from rmqindex.layout import INT32_MAX, INT64_MAX
from rmqindex.times import LocalTime

Unverified = Literal["keep", "drop", "error"]

_NEEDS_LOG = ("message", "body_text", "check_crc", "decompress_body")
# An audit checks whole files.
_NOT_WITH_AUDIT = (
    "topic",
    "key",
    "keys",
    "key_hashes",
    "end_timestamp",
    "path_glob_filter",
    "recursive",
    "message",
    "body_text",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadOptions(GeometryOptions, RecordOptions):
    """What to read from IndexFiles, and how."""

    topic: str | None = option(
        "topic",
        TEXT,
        TOPIC_DOC,
        default_doc=NO_TOPIC,
        only=("read", "stream"),
    )
    key: str | None = option(
        "key", TEXT, "The key to look up, together with `topic`.", only=("read", "stream")
    )
    keys: tuple[str, ...] | None = option(
        "keys",
        TEXTS,
        "Several keys to look up, together with `topic`; repeated ones count once.",
        only=("read", "stream"),
    )
    key_hashes: tuple[int, ...] | None = option(
        "keyHash",
        HASHES,
        "Only entries with one of these key hashes, found by their slots.",
        default_doc="every key hash",
        only=("read", "stream"),
    )
    pushdown: bool = option(
        "pushdown",
        BOOLEAN,
        "Push WHERE down to slots, entries and files. `table()` sets it. Elsewhere, Spark 4.1 to "
        "4.3 cannot do it safely: the rows are the same, with `topic` and `key` from the CommitLog "
        "and `unverified=error`, but all entries are read. In `WITH` it is refused.",
        default="false",
        only=("read", "table"),
    )
    key_columns: bool = option(
        "keyColumns",
        BOOLEAN,
        "With `pushdown`: whether `topic` and `key` are columns, which every query must then "
        "bind. `table(.., keys=False)` sets it to false.",
        default="true",
        only=("read", "table"),
        internal=True,
    )
    relation: str | None = option(
        "relation",
        TEXT,
        "A name by which `last_plan()` tells relations apart. `table()` sets it.",
        only=("read", "table"),
        internal=True,
    )
    path_glob_filter: str | None = option(
        "pathGlobFilter",
        SOME_TEXT.rename("pattern"),
        "Only files whose name fits this pattern.",
        default_doc="every file",
    )
    recursive: bool = option(
        "recursiveFileLookup",
        BOOLEAN,
        "Also read the index files of every directory below the path.",
        default="false",
    )
    ignore_missing: bool = option(
        "ignoreMissingFiles",
        BOOLEAN,
        "A path that is missing, a store without `index/`, or a file that vanishes, has no rows "
        "instead of being an error.",
        default="false",
    )
    log: str | None = option(
        "commitLog",
        LOG,
        "The CommitLog that the entries point into. With it, `topic` and `key` are the message's "
        "own, hash collisions are dropped, `store_timestamp` is exact, and `match_state` says what "
        "was found. A path is what the format `rmqcommitlog` takes; `auto` is the sibling "
        "`commitlog` of each directory `index`, if it is there.",
        default_doc="`none`; for `table()` with key columns `auto`",
    )
    unverified: Unverified = option(
        "unverified",
        choice("keep", "drop", "error"),
        "With a CommitLog: what happens to entries whose message cannot confirm their key, such as "
        "those of expired messages: `keep` returns them, marked in `match_state`; `drop` leaves "
        "them out; `error` fails the query.",
        default="keep",
    )
    message: bool = option(
        "message",
        BOOLEAN,
        "With a CommitLog: return the columns of the message beside those of the entry, as the "
        "format `rmqcommitlog` has them. A schema that names some of them needs no option.",
        default="false",
    )
    audit: bool = option(
        "audit",
        BOOLEAN,
        "Return findings instead of entries: `file`, `rule`, `severity`, `byte`, `expected`, "
        "`got` and `remedy`, one task a file. With `commitLog`, the index is compared with its "
        "messages, too. With `beginTimestamp`, with a zone, only what was "
        "stored then or later is checked. No patterns in paths.",
        default="false",
        only=("read",),
    )

    def __post_init__(self) -> None:
        """Check the options against each other."""
        RecordOptions.__post_init__(self)
        if not self.pushdown and not self.key_columns:
            raise ValueError("option 'keyColumns': only with pushdown=true")
        _ = self.layout
        self._check_keys()
        self._check_log()
        self._check_columns()
        if self.audit:
            for name in _NOT_WITH_AUDIT:
                value = getattr(self, name)
                if value is not None and value is not False:  # a time of 0 counts as given
                    raise ValueError(f"option {_name(name)!r}: not together with 'audit'")
            if isinstance(self.begin, LocalTime):
                raise ValueError(
                    "option 'beginTimestamp': with 'audit', expected epoch milliseconds, a time "
                    f"with its zone or the option 'timeZone', got {self.begin.text!r}"
                )

    def _check_keys(self) -> None:
        given = [name for name in ("keys", "key") if getattr(self, name) is not None]
        if len(given) > 1:
            raise ValueError("option 'key': not together with 'keys'")
        if given and self.topic is None:
            raise ValueError(f"option {given[0]!r}: give 'topic' as well")
        if self.topic is not None and not given:
            raise ValueError("option 'topic': give 'key' or 'keys' as well")
        if self.topic == "":
            raise ValueError("option 'topic': expected the name of a topic, got ''")

    def _check_log(self) -> None:
        if self.commit_log is None:
            for name in _NEEDS_LOG:
                if getattr(self, name):
                    raise ValueError(f"option {_name(name)!r}: give 'commitLog' as well")
        elif self.pushdown and not self.key_columns:
            raise ValueError("option 'commitLog': not without the columns topic and key")

    def _check_columns(self) -> None:
        """Raise if pushdown lacks the columns that its queries filter by."""
        if not self.pushdown or self.columns is None:
            return
        needed = ("topic", "key", "position") if self.key_columns else ("position",)
        given = {name.lower() for name in self.columns}
        missing = [name for name in needed if name not in given]
        if missing:
            raise ValueError(
                f"option 'columns': expected {', '.join(needed)} among the columns of a table(), "
                f"whose queries filter by them; write columns="
                f"{','.join([*missing, *self.columns])!r}"
            )

    @property
    def pairs(self) -> tuple[tuple[str, str], ...] | None:
        """Distinct pairs of topic and key to look up; None for no lookup by key."""
        if self.topic is None:
            return None
        keys = self.keys if self.key is None else (self.key,)
        return tuple((self.topic, key) for key in dict.fromkeys(keys or ()))

    @property
    def commit_log(self) -> str | None:
        """The CommitLog with the messages: a path, ``auto``, or None for no CommitLog."""
        if self.log is None:
            return AUTO if self.pushdown and self.key_columns else None
        return None if self.log == NONE else self.log

    @property
    def has_keys(self) -> bool:
        """Whether the columns ``topic`` and ``key`` exist."""
        return self.topic is not None or (self.pushdown and self.key_columns) or self.has_log

    @property
    def has_log(self) -> bool:
        """Whether entries are compared with their messages."""
        return self.commit_log is not None

    @property
    def has_store(self) -> bool:
        """Whether the column ``store`` exists if no schema is given."""
        if self.store_column is None:
            return self.recursive or self.may_find_stores
        return self.store_column


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamOptions(FollowOptions, ReadOptions):
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


def _name(field: str) -> str:
    return options_of(ReadOptions)[field].name


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
