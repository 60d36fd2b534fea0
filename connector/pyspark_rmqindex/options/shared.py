"""Options that several formats share."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from pyspark_rmqindex.options.kinds import (
    BODY_SIZE,
    BOOLEAN,
    COLUMNS,
    DURATION,
    END_TIME,
    PATH,
    PATHS,
    POSITION,
    SIZE,
    SOME_TEXT,
    TIME,
    ZONE,
    choice,
    integer,
    option,
)
from rmqindex import Layout
from rmqindex.layout import INT32_MAX
from rmqindex.record import MAX_BODY_SIZE
from rmqindex.storage import (
    DEFAULT_ATTEMPTS,
    DEFAULT_CONNECT_TIMEOUT,
    DEFAULT_REQUEST_TIMEOUT,
    S3Settings,
    Storage,
)
from rmqindex.store import has_pattern
from rmqindex.times import LocalTime, time_text

if TYPE_CHECKING:
    from rmqindex.indexfile import Mode
    from rmqindex.storage import Location

#: What the option ``topic`` means, which entries and messages have.
TOPIC_DOC = (
    "Entries: look up this topic's `key` or `keys` by their slots instead of scanning. The columns "
    "`topic` and `key` then exist and carry what was asked for. Messages: only those of this "
    "topic, or of the topics of a JSON list; for others, nothing but the topic is decoded."
)
NO_TOPIC = "no lookup: the entries are scanned; messages of every topic"


_MILLISECONDS = 1000


@dataclass(frozen=True, kw_only=True)
class S3Options:
    """How to reach S3, under Hadoop's names."""

    __slots__ = ()

    s3_endpoint: str | None = option(
        "fs.s3a.endpoint",
        SOME_TEXT.rename("host and port, or URL"),
        "S3 of another maker than AWS: where it is, such as `http://minio:9000`. This and the "
        "following are Hadoop's names, so that one set of options serves Spark's own sources, too.",
        default_doc="the environment's `AWS_ENDPOINT_URL_S3` or `AWS_ENDPOINT_URL`, else AWS",
    )
    s3_region: str | None = option(
        "fs.s3a.endpoint.region",
        SOME_TEXT,
        "The region of the bucket.",
        default_doc="the environment's `AWS_REGION` or `AWS_DEFAULT_REGION`, else found out",
    )
    s3_access_key: str | None = option(
        "fs.s3a.access.key",
        SOME_TEXT,
        "The id of the key for S3. No error, plan or log shows this and the next two.",
        default_doc="what AWS's own tools find: the environment's `AWS_ACCESS_KEY_ID`, "
        "`~/.aws`, the instance's role",
        secret=True,
    )
    s3_secret_key: str | None = option(
        "fs.s3a.secret.key",
        SOME_TEXT,
        "The key for S3, together with its id.",
        default_doc="as `fs.s3a.access.key`",
        secret=True,
    )
    s3_session_token: str | None = option(
        "fs.s3a.session.token",
        SOME_TEXT,
        "The token that belongs to a temporary key.",
        default_doc="none where the key is given, else as `fs.s3a.access.key`",
        secret=True,
    )
    s3_ssl: bool | None = option(
        "fs.s3a.connection.ssl.enabled",
        BOOLEAN,
        "Whether connections to S3 are encrypted, where the endpoint is no URL.",
        default_doc="`true`",
    )
    s3_path_style: bool | None = option(
        "fs.s3a.path.style.access",
        BOOLEAN,
        "Whether a bucket is named in the path, not in the host name.",
        default_doc="`true` with an endpoint, else `false`",
    )
    s3_attempts: int = option(
        "fs.s3a.attempts.maximum",
        integer(1, 100),
        "How often a request to S3 is sent at most, before its failure is an error.",
        default=str(DEFAULT_ATTEMPTS),
    )
    s3_connect_timeout: int = option(
        "fs.s3a.connection.establish.timeout",
        DURATION,
        "How long a connection to S3 may take, such as `5s`; then the request is sent again.",
        default=f"{DEFAULT_CONNECT_TIMEOUT:g}s",
    )
    s3_request_timeout: int = option(
        "fs.s3a.connection.timeout",
        DURATION,
        "How long a request to S3 may stand still, such as `30s`; then it is sent again. Whole "
        "seconds count, at least one.",
        default=f"{DEFAULT_REQUEST_TIMEOUT:g}s",
    )

    @property
    def storage(self) -> Storage:
        """How to reach the paths."""
        s3 = S3Settings(
            endpoint=self.s3_endpoint,
            region=self.s3_region,
            access_key=self.s3_access_key,
            secret_key=self.s3_secret_key,
            session_token=self.s3_session_token,
            ssl=self.s3_ssl,
            path_style=self.s3_path_style,
            attempts=self.s3_attempts,
            connect_timeout=self.s3_connect_timeout / _MILLISECONDS,
            request_timeout=self.s3_request_timeout / _MILLISECONDS,
        )
        return Storage(s3)


@dataclass(frozen=True, kw_only=True)
class PathOption(S3Options):
    """The path to read or write."""

    __slots__ = ()

    path: str | None = option(
        "path",
        PATH,
        "An IndexFile, an index directory, or a store root that has `index/`; a local path, a "
        "`file:` URI, or a URI that pyarrow's file systems know (`s3://`, `hdfs://`, `gs://`), of "
        "which `save()` takes local ones and S3's. "
        "When reading, `*`, `?`, `[..]` and `{..}` in its names are patterns. For `rmqcommitlog`: "
        "a store root that has `commitlog/`, a directory of log files, one such file, several of "
        "one log with commas between, as in `storePathCommitLog`, or a pattern. For "
        "`rmqconsumequeue`: a store root, its `consumequeue` directory, or one below; no patterns.",
        default_doc="must be given, here or in `load()` or `save()`",
    )


@dataclass(frozen=True, kw_only=True)
class InputOptions(PathOption):
    """What to read, and in what pieces."""

    __slots__ = ()

    path_list: tuple[str, ...] | None = option(
        "paths",
        PATHS,
        "Several paths to read, as `load([..])` passes them.",
        default_doc="the one `path`",
        internal=True,
    )
    max_partition_bytes: int = option(
        "maxPartitionBytes",
        SIZE,
        "How many bytes of entries, or of messages, a partition of a scan aims at; by default a "
        "full IndexFile of the broker's geometry is four partitions.",
        default="96m",
    )

    columns: tuple[str, ...] | None = option(
        "columns",
        COLUMNS,
        "Only these columns, in this order, such as `topic,store_timestamp`: others are neither "
        "read nor decoded. Types are not needed, and columns of the message need no option "
        "`message`, only a CommitLog. A `table()` needs `position`, and `topic` and `key` where it "
        "has them; `lookup()` adds the columns of its rows.",
        default_doc="every column that the other options give",
    )
    store_column: bool | None = option(
        "storeColumn",
        BOOLEAN,
        "Whether there is a column `store`, the root of the store that a row is of. A schema that "
        "names it needs no option.",
        default_doc="`true` where several paths, a pattern or `recursiveFileLookup` are given",
    )

    @property
    def paths(self) -> tuple[Location, ...]:
        """The paths to read: the option ``path``, then ``paths``."""
        several = self.path_list or ()
        return tuple(map(self.storage.at, several if self.path is None else (self.path, *several)))

    @property
    def may_find_stores(self) -> bool:
        """Whether the paths may resolve to several stores."""
        return len(self.paths) > 1 or any(map(has_pattern, self.paths))

    @property
    def has_store(self) -> bool:
        """Whether the column ``store`` exists if no schema is given."""
        return self.may_find_stores if self.store_column is None else self.store_column


@dataclass(frozen=True, kw_only=True)
class PlanOptions:
    """How to say what is read."""

    __slots__ = ()

    last_plan: bool = option(
        "lastPlan",
        BOOLEAN,
        "Read nothing; the schema carries the last plan of the same load. `last_plan()` sets it.",
        default="false",
        only=("read", "table", "messages"),
        internal=True,
    )
    log_level: Literal["INFO", "WARNING"] | None = option(
        "logLevel",
        choice("INFO", "WARNING"),
        "`INFO` writes one line for each planned scan, to the handlers of Python's logging or, "
        "where it is not set up, as in the processes in which Spark plans, to standard error. The "
        "environment variable `RMQINDEX_LOG_LEVEL` sets it for a whole application.",
        default_doc="WARNING",
    )


@dataclass(frozen=True, kw_only=True)
class ZoneOption:
    """The time zone of times without one."""

    __slots__ = ()

    time_zone: str | None = option(
        "timeZone",
        ZONE,
        "Reading: the zone of `beginTimestamp` and `endTimestamp` texts that name none. "
        "Writing: the zone of the new files' names.",
        default_doc="reading: the session's time zone; writing: the system's",
    )


@dataclass(frozen=True, kw_only=True)
class RecordOptions(ZoneOption, InputOptions, PlanOptions):
    """How to read entries and messages."""

    __slots__ = ()

    begin_timestamp: int | LocalTime | None = option(
        "beginTimestamp",
        TIME,
        "Only entries, or messages, stored at this time or later. Digits are epoch milliseconds; "
        "anything else is a timestamp as Spark's CAST reads it or as ISO 8601 has it, in the "
        "session's time zone unless it names one: of a local time that occurs twice the first is "
        "meant, and one that a clock change skips moves forward by as much. `now`, `today`, "
        "`yesterday`, `yesterday 14:00` and ages such as `-2h` (`s`, `m`, `h`, `d` of 24 hours, "
        "`w`) are counted from the moment at which a query, or a stream, is planned. The command "
        "line takes the same.",
        default_doc="no lower bound",
    )
    end_timestamp: int | LocalTime | None = option(
        "endTimestamp",
        END_TIME,
        "Only entries, or messages, stored at this time or earlier; written as `beginTimestamp`. "
        "A day without a time of day stands for all of it.",
        default_doc="no upper bound",
    )
    mode: Mode = option(
        "mode",
        choice("FAILFAST", "DROPMALFORMED"),
        "What to do with bytes that break the format: `FAILFAST` raises an error that names the "
        "path, the field and the byte; `DROPMALFORMED` reads the sound part.",
        default="FAILFAST",
    )
    check_crc: bool = option(
        "checkCrc",
        BOOLEAN,
        "Check the CRC of every message that is read, and leave one out that is wrong, or refuse "
        "it. Without it, only the CRCs of bodies that are returned as they were sent are checked.",
        default="false",
    )
    decompress_body: bool | None = option(
        "decompressBody",
        BOOLEAN,
        "Whether the column `body` holds bodies as they were sent, or, with `false`, as they are "
        "stored: clients compress those above 4 KiB.",
        default_doc="`true`",
    )
    body_text: bool = option(
        "bodyText",
        BOOLEAN,
        "Whether there is a column `body_text`: the body as it was sent where that is UTF-8 text, "
        "else NULL. A schema that names it needs no option.",
        default="false",
    )
    max_body_size: int = option(
        "maxBodySize",
        BODY_SIZE,
        "The largest body that is unpacked, as a number or as `128m`, below 2 GiB; one that "
        "unpacks to more is malformed. The broker's `maxMessageSize` is 4 MiB where nobody "
        "raised it.",
        default=str(MAX_BODY_SIZE),
    )

    def __post_init__(self) -> None:
        """Check the two times against each other; those of unlike kinds only a task can compare."""
        begin, end = self.begin, self.end
        if isinstance(begin, int) and isinstance(end, int):
            is_reversed, first, last = begin > end, time_text(begin), time_text(end)
        elif isinstance(begin, LocalTime) and isinstance(end, LocalTime):
            is_reversed, first, last = begin.is_after(end), begin.text, end.text
        else:
            return
        if is_reversed:
            raise ValueError(
                f"option 'beginTimestamp': expected a time at or before 'endTimestamp', {last}, "
                f"got {first}"
            )

    @property
    def begin(self) -> int | LocalTime | None:
        """The first time: epoch microseconds, or local if only a task knows the zone."""
        return self._in_zone(self.begin_timestamp)

    @property
    def end(self) -> int | LocalTime | None:
        """The last time; as :attr:`begin`."""
        return self._in_zone(self.end_timestamp)

    def _in_zone(self, time: int | LocalTime | None) -> int | LocalTime | None:
        if self.time_zone is None or not isinstance(time, LocalTime):
            return time
        return time.in_zone(self.time_zone)

    @property
    def unpacks_bodies(self) -> bool:
        """Whether the column ``body`` is decompressed."""
        return self.decompress_body is not False


@dataclass(frozen=True, kw_only=True)
class GeometryOptions:
    """The geometry of IndexFiles: both numbers or neither."""

    __slots__ = ()

    max_hash_slot_num: int | None = option(
        "maxHashSlotNum",
        integer(1, INT32_MAX),
        "The broker's own setting: hash slots a file. Give it together with `maxIndexNum`.",
        default_doc="reading: found from each file; writing: from the files there, else 5000000",
    )
    max_index_num: int | None = option(
        "maxIndexNum",
        integer(1, INT32_MAX),
        "The broker's own setting: entry places a file, of which the first is never used. "
        "Give it together with `maxHashSlotNum`.",
        default_doc="reading: found from each file; writing: from the files there, else 20000000",
    )

    @property
    def layout(self) -> Layout | None:
        """The geometry of every file, or None if each file has its own."""
        slots, entries = self.max_hash_slot_num, self.max_index_num
        if slots is None and entries is None:
            return None
        if slots is None or entries is None:
            given, missing = "maxHashSlotNum", "maxIndexNum"
            if slots is None:
                given, missing = missing, given
            raise ValueError(f"option {given!r}: give {missing!r} as well, or neither")
        try:
            return Layout(slots, entries)
        except ValueError as error:
            raise ValueError(f"options 'maxHashSlotNum' and 'maxIndexNum': {error}") from error


@dataclass(frozen=True, kw_only=True)
class FollowOptions:
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
        "that is there, returns what was made anew once more, and writes the same as a warning to "
        "the driver's standard error.",
        default="true",
    )
