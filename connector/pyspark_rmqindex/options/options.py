"""The options of the data source: one table from which they are parsed, checked and documented."""

from __future__ import annotations

import datetime as dt
import difflib
import json
import os
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

from pyspark_rmqindex.options.reaching import s3_settings_of
from rmqindex import Layout
from rmqindex.layout import INT32_MAX
from rmqindex.record import MAX_BODY_SIZE
from rmqindex.storage import S3Settings, check_no_secret
from rmqindex.store import has_pattern
from rmqindex.times import LocalTime, parse_time, zone_of

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from rmqindex.indexfile import Mode

__all__ = [
    "AUTO",
    "OPTIONS",
    "MessageOptions",
    "Option",
    "QueueOptions",
    "ReadOptions",
    "Unverified",
    "layout_of",
    "message_options",
    "message_options_of",
    "option_text",
    "parse_options",
    "paths_of",
    "queue_options",
    "read_options",
    "read_options_of",
    "wants_pushdown",
]

Unverified = Literal["keep", "drop", "error"]
Scope = Literal["read", "table", "write", "messages", "queues", "stream", "message_stream"]

_READ: frozenset[Scope] = frozenset({"read", "table"})
_LOAD: frozenset[Scope] = frozenset({"read"})
_STREAM: frozenset[Scope] = frozenset({"stream"})
_MESSAGE_STREAM: frozenset[Scope] = frozenset({"message_stream"})
_STREAMS: frozenset[Scope] = _STREAM | _MESSAGE_STREAM
_EVERY: frozenset[Scope] = frozenset({"read", "table", "write", "stream"})
_WRITE: frozenset[Scope] = frozenset({"write"})
_MESSAGES: frozenset[Scope] = frozenset({"messages"})
_QUEUES: frozenset[Scope] = frozenset({"queues"})
_ALL_READS: frozenset[Scope] = _READ | _MESSAGES | _STREAMS
_EVERYWHERE: frozenset[Scope] = _EVERY | _MESSAGES | _MESSAGE_STREAM | _QUEUES

#: The value of ``commitLog`` that stands for the sibling of each index directory.
AUTO = "auto"
_NONE = "none"
# An audit looks at whole files.
_NOT_WITH_AUDIT = (
    "topic",
    "key",
    "keys",
    "keyHash",
    "beginTimestamp",
    "endTimestamp",
    "pathGlobFilter",
    "recursiveFileLookup",
    "message",
)

# Those of a 64-bit number; Python refuses to read thousands.
_MOST_DIGITS = 19


@dataclass(frozen=True, slots=True)
class Option:
    """One option of the data source.

    Attributes:
        name: The name as documented, in camelCase; Spark does not tell case apart.
        type: What its text holds, in words.
        parse: Text to value; raises ``ValueError`` with what was expected.
        scopes: Where it is allowed: ``read`` (``load``), ``table``, ``write``, ``messages``
            (``load`` of the format ``rmqcommitlog``), ``queues`` (of ``rmqconsumequeue``),
            ``stream`` (``readStream``), ``message_stream`` (that of ``rmqcommitlog``).
        doc: What it does.
        default: The text that stands for not giving it; None where absence has its own meaning.
        default_doc: What absence means, where ``default`` does not say it.
        secret: Whether errors must not show its text.
    """

    name: str
    type: str
    parse: Callable[[str], Any]
    scopes: frozenset[Scope]
    doc: str
    default: str | None = None
    default_doc: str = ""
    secret: bool = False


def _text(value: str) -> str:
    return value


def _some_text(value: str) -> str:
    if not value:
        raise ValueError("some text")
    return value


def _boolean(value: str) -> bool:
    lowered = value.strip().lower()
    if lowered not in {"true", "false"}:
        raise ValueError("true or false")
    return lowered == "true"


def _integer(low: int, high: int) -> Callable[[str], int]:
    def parse(value: str) -> int:
        expected = f"an integer from {low} to {high}"
        try:
            number = int(value.strip())
        except ValueError as error:
            raise ValueError(expected) from error
        if not low <= number <= high:
            raise ValueError(expected)
        return number

    return parse


def _starting_position(value: str) -> str | int:
    text = value.strip().lower()
    if text in {"earliest", "latest"}:
        return text
    if not text.isdecimal() or len(text) > _MOST_DIGITS or int(text) >= 2**63:
        raise ValueError("earliest, latest, or an offset of at least 0")
    return int(text)


def _choice(*allowed: str) -> Callable[[str], str]:
    def parse(value: str) -> str:
        for choice in allowed:
            if value.strip().lower() == choice.lower():
                return choice
        raise ValueError(f"one of {', '.join(allowed)}")

    return parse


def _json(value: str, expected: str) -> Any:  # noqa: ANN401  (whatever JSON holds)
    try:
        return json.loads(value)  # noqa: TID251  (an option)
    except (ValueError, RecursionError) as error:
        raise ValueError(expected) from error


def _text_list(value: str) -> tuple[str, ...]:
    expected = 'a JSON list of strings, such as ["a", "b"]'
    items = _json(value, expected)
    if not isinstance(items, list) or not all(isinstance(item, str) for item in items):
        raise ValueError(expected)
    return tuple(items)


def _hashes(value: str) -> tuple[int, ...]:
    expected = "an integer from 0 to 2147483647, or a JSON list of them"
    items = _json(value, expected)
    numbers = items if isinstance(items, list) else [items]
    for number in numbers:
        if isinstance(number, bool) or not isinstance(number, int) or not 0 <= number < 2**31:
            raise ValueError(expected)
    return tuple(numbers)


def _time(value: str) -> int | LocalTime:
    return parse_time(value)


def _zone(value: str) -> str:
    try:
        zone_of(value)
    except ValueError as error:
        raise ValueError("a time zone such as Asia/Shanghai or +08:00") from error
    return value


# Spark takes sizes as bytes or with a unit, as in its own spark.sql.files.maxPartitionBytes.
_UNITS = {"": 1, "b": 1, "k": 2**10, "kb": 2**10, "m": 2**20, "mb": 2**20, "g": 2**30, "gb": 2**30}


def _quantity(value: str, units: Mapping[str, int]) -> int:
    """Return a whole number with one of some units, in the smallest of them; 0 for other text."""
    text = value.strip().lower()
    digits = text.rstrip("".join(units))
    unit = text[len(digits) :]
    is_number = digits.isdecimal() and len(digits) <= _MOST_DIGITS
    return int(digits) * units[unit] if is_number and unit in units else 0


def _size(value: str) -> int:
    size = _quantity(value, _UNITS)
    if not size:
        raise ValueError("a number of bytes of at least 1, such as 134217728 or 128m")
    return size


# Hadoop's unit where none is given.
_DURATIONS = {"": 1, "ms": 1, "s": 1000, "m": 60_000}


def _duration(value: str) -> int:
    time = _quantity(value, _DURATIONS)
    if not 1 <= time <= INT32_MAX:
        raise ValueError(f"a time from 1 to {INT32_MAX} ms, such as 5000 (milliseconds), 5s or 1m")
    return time


def _body_size(value: str) -> int:
    size = _size(value)
    if size >= 2**31:  # Arrow's offsets in an array of bodies
        raise ValueError("a number of bytes from 1 to 2147483647, such as 67108864 or 128m")
    return size


OPTIONS: tuple[Option, ...] = (
    Option(
        "path",
        "string",
        _some_text,
        _EVERY | _MESSAGES | _MESSAGE_STREAM | _QUEUES,
        "An IndexFile, an index directory, or a store root that has `index/`; a local path, a "
        "`file:` URI, or a URI that pyarrow's file systems know (`s3://`, `hdfs://`, `gs://`), of "
        "which `save()` takes local ones and S3's. "
        "When reading, `*`, `?`, `[..]` and `{..}` in its names are patterns. For `rmqcommitlog`: "
        "a store root that has `commitlog/`, a directory of log files, one such file, several of "
        "one log with commas between, as in `storePathCommitLog`, or a pattern. For "
        "`rmqconsumequeue`: a store root, its `consumequeue` directory, or one below; no patterns.",
        default_doc="must be given, here or in `load()` or `save()`",
    ),
    Option(
        "paths",
        "JSON list of strings",
        _text_list,
        _ALL_READS | _QUEUES,
        "Several paths to read, as `load([..])` passes them.",
        default_doc="the one `path`",
    ),
    Option(
        "maxHashSlotNum",
        "integer",
        _integer(1, 2**31 - 1),
        _EVERY,
        "The broker's own setting: hash slots a file. Give it together with `maxIndexNum`.",
        default_doc="reading: found from each file; writing: from the files there, else 5000000",
    ),
    Option(
        "maxIndexNum",
        "integer",
        _integer(1, 2**31 - 1),
        _EVERY,
        "The broker's own setting: entry places a file, of which the first is never used. "
        "Give it together with `maxHashSlotNum`.",
        default_doc="reading: found from each file; writing: from the files there, else 20000000",
    ),
    Option(
        "topic",
        "string",
        _text,
        _LOAD | _STREAM,
        "Look up this topic's `key` or `keys` by their slots instead of scanning. The columns "
        "`topic` and `key` then exist and carry what was asked for.",
        default_doc="no lookup: the entries are scanned",
    ),
    Option("key", "string", _text, _LOAD | _STREAM, "The key to look up, together with `topic`."),
    Option(
        "keys",
        "JSON list of strings",
        _text_list,
        _LOAD | _STREAM,
        "Several keys to look up, together with `topic`; repeated ones count once.",
    ),
    Option(
        "keyHash",
        "integer or JSON list of integers",
        _hashes,
        _LOAD | _STREAM,
        "Only entries with one of these key hashes, found by their slots.",
        default_doc="every key hash",
    ),
    Option(
        "beginTimestamp",
        "epoch milliseconds or timestamp",
        _time,
        _ALL_READS,
        "Only entries, or messages, stored at this time or later. Digits are epoch milliseconds; "
        "anything else is a timestamp as Spark's CAST reads it or as ISO 8601 has it, in the "
        "session's time zone unless it names one. The command line takes the same.",
        default_doc="no lower bound",
    ),
    Option(
        "endTimestamp",
        "epoch milliseconds or timestamp",
        _time,
        _ALL_READS,
        "Only entries, or messages, stored at this time or earlier; written as `beginTimestamp`.",
        default_doc="no upper bound",
    ),
    Option(
        "timeZone",
        "time zone",
        _zone,
        _EVERY | _MESSAGES | _MESSAGE_STREAM,
        "Reading: the zone of `beginTimestamp` and `endTimestamp` texts that name none. "
        "Writing: the zone of the new files' names.",
        default_doc="reading: the session's time zone; writing: the system's",
    ),
    Option(
        "pushdown",
        "boolean",
        _boolean,
        _READ,
        "Push WHERE down to slots, entries and files. `table()` sets it; `CREATE TABLE` and "
        "`CREATE TEMPORARY VIEW` without a list of columns take it, and then each query needs the "
        "filter `position >= 1`, as the documented SQL view has it. In `WITH` it is refused.",
        default="false",
    ),
    Option(
        "keyColumns",
        "boolean",
        _boolean,
        _READ,
        "With `pushdown`: whether `topic` and `key` are columns, which every query must then "
        "bind. `table(.., keys=False)` sets it to false.",
        default="true",
    ),
    Option(
        "relation",
        "string",
        _text,
        _READ,
        "A name by which `last_plan()` tells relations apart. `table()` sets it.",
    ),
    Option(
        "lastPlan",
        "boolean",
        _boolean,
        _READ,
        "Read nothing; the schema carries the last plan of the same load. `last_plan()` sets it.",
        default="false",
    ),
    Option(
        "mode",
        "enumeration",
        _choice("FAILFAST", "DROPMALFORMED"),
        _ALL_READS,
        "What to do with bytes that break the format: `FAILFAST` raises an error that names the "
        "path, the field and the byte; `DROPMALFORMED` reads the sound part.",
        default="FAILFAST",
    ),
    Option(
        "pathGlobFilter",
        "pattern",
        _some_text,
        _READ | _STREAM,
        "Only files whose name fits this pattern.",
        default_doc="every file",
    ),
    Option(
        "recursiveFileLookup",
        "boolean",
        _boolean,
        _READ | _STREAM,
        "Also read the index files of every directory below the path.",
        default="false",
    ),
    Option(
        "storeColumn",
        "boolean",
        _boolean,
        _ALL_READS,
        "Whether there is a column `store`, the root of the store that a row is of. A schema that "
        "names it needs no option.",
        default_doc="`true` where several paths, a pattern or `recursiveFileLookup` are given",
    ),
    Option(
        "ignoreMissingFiles",
        "boolean",
        _boolean,
        _READ | _STREAM,
        "A path that is missing, a store without `index/`, or a file that vanishes, has no rows "
        "instead of being an error.",
        default="false",
    ),
    Option(
        "maxPartitionBytes",
        "size",
        _size,
        _ALL_READS | _QUEUES,
        "How many bytes of entries, or of messages, a partition of a scan aims at; by default a "
        "full IndexFile of the broker's geometry is four partitions.",
        default="96m",
    ),
    Option(
        "commitLog",
        "path, `auto` or `none`",
        _some_text,
        _READ | _STREAM,
        "The CommitLog that the entries point into. With it, `topic` and `key` are the message's "
        "own, hash collisions are dropped, `store_timestamp` is exact, and `match_state` says what "
        "was found. A path is what the format `rmqcommitlog` takes; `auto` is the sibling "
        "`commitlog` of each directory `index`, if it is there.",
        default_doc="`none`; for `table()` with key columns `auto`",
    ),
    Option(
        "unverified",
        "enumeration",
        _choice("keep", "drop", "error"),
        _READ | _STREAM,
        "With a CommitLog: what happens to entries whose message cannot confirm their key, such as "
        "those of expired messages: `keep` returns them, marked in `match_state`; `drop` leaves "
        "them out; `error` fails the query.",
        default="keep",
    ),
    Option(
        "message",
        "boolean",
        _boolean,
        _READ | _STREAM,
        "With a CommitLog: return the columns of the message beside those of the entry, as the "
        "format `rmqcommitlog` has them. A schema that names some of them needs no option.",
        default="false",
    ),
    Option(
        "checkCrc",
        "boolean",
        _boolean,
        _ALL_READS,
        "Check the CRC of every message that is read.",
        default="false",
    ),
    Option(
        "decompressBody",
        "boolean",
        _boolean,
        _ALL_READS,
        "Return bodies as they were sent instead of as they are stored.",
        default="false",
    ),
    Option(
        "maxBodySize",
        "bytes",
        _body_size,
        _ALL_READS,
        "The largest body that is unpacked, as a number or as `128m`, below 2 GiB; one that "
        "unpacks to more is malformed. The broker's `maxMessageSize` is 4 MiB where nobody "
        "raised it.",
        default=str(MAX_BODY_SIZE),
    ),
    Option(
        "beginOffset",
        "integer",
        _integer(0, 2**63 - 1),
        _MESSAGES,
        "Only messages that start at this offset or later, bytes.",
        default_doc="no lower bound",
    ),
    Option(
        "endOffset",
        "integer",
        _integer(0, 2**63 - 1),
        _MESSAGES,
        "Only messages that start before this offset, bytes.",
        default_doc="no upper bound",
    ),
    Option(
        "maxClockStep",
        "integer, milliseconds",
        _integer(0, 2**63 - 1),
        _MESSAGES,
        "By how much the broker's clock may have stepped back. With it, files whose first message "
        "and the next file's show that nothing in them is of the time asked for are not read.",
        default_doc="any step: times prune no files, only the work within them",
    ),
    Option(
        "audit",
        "boolean",
        _boolean,
        _LOAD,
        "Return findings instead of entries: `file`, `rule`, `severity`, `byte`, `expected` and "
        "`got`, one task a file. With `commitLog`, the index is compared with its messages, too. "
        "No patterns in paths.",
        default="false",
    ),
    Option(
        "logLevel",
        "enumeration",
        _choice("INFO", "WARNING"),
        _READ | _STREAM,
        "`INFO` writes one line to the driver's standard error for each planned scan. The "
        "environment variable `RMQINDEX_LOG_LEVEL` sets it for a whole application.",
        default_doc="INFO",
    ),
    Option(
        "startingPosition",
        "`earliest`, `latest`, or an offset",
        _starting_position,
        _STREAMS,
        "Where a new stream begins: at the oldest entry or message, or behind the newest. For "
        "`rmqcommitlog` also at an offset, bytes, where a message starts. A stream that has a "
        "checkpoint goes on where it was.",
        default="earliest",
    ),
    Option(
        "failOnDataLoss",
        "boolean",
        _boolean,
        _STREAMS,
        "What happens when files that were not read to their end expired or were replaced: `true` "
        "fails the stream with an error that names what is lost; `false` goes on with what is "
        "there, and writes the same as a warning to the driver's standard error.",
        default="true",
    ),
    Option(
        "maxEntriesPerTrigger",
        "integer",
        _integer(1, 2**63 - 1),
        _STREAM,
        "How many entries a batch of a stream holds at most, over all stores together.",
        default_doc="all that are there",
    ),
    Option(
        "maxFilesPerTrigger",
        "integer",
        _integer(1, 2**31 - 1),
        _STREAM,
        "From how many files a batch of a stream reads at most, over all stores together.",
        default_doc="all that are there",
    ),
    Option(
        "maxMessagesPerTrigger",
        "integer",
        _integer(1, 2**63 - 1),
        _MESSAGE_STREAM,
        "How many messages a batch of a stream holds at most, in each store.",
        default_doc="all that are there",
    ),
    Option(
        "maxBytesPerTrigger",
        "size",
        _size,
        _MESSAGE_STREAM,
        "How many bytes of the CommitLog a batch of a stream holds at most, in each store; at "
        "least one message.",
        default_doc="all that are there",
    ),
    Option(
        "onIndexed",
        "enumeration",
        _choice("error", "skip"),
        _WRITE,
        "Appending rows that lie before the end of what is indexed: `error` refuses the write, "
        "`skip` leaves them out. Entries at that very end which are already there are treated the "
        "same way, so that a replay adds nothing twice.",
        default="error",
    ),
    Option(
        "brokerRedispatch",
        "boolean",
        _boolean,
        _WRITE,
        "Skip what a broker skips when it dispatches its log again: smaller offsets only, so that "
        "the last message is indexed twice.",
        default="false",
    ),
    Option(
        "allowOverlap",
        "boolean",
        _boolean,
        _WRITE,
        "Accept files whose offset ranges overlap, and rows that lie before the end of what is "
        "indexed. A broker's own search misses rows in such an index; Spark does not.",
        default="false",
    ),
    Option(
        "allowLiveStore",
        "boolean",
        _boolean,
        _WRITE,
        "Write although a broker holds the store, or did not stop cleanly. It does not see the new "
        "files before it starts again, and the file that it writes into is left alone.",
        default="false",
    ),
    Option(
        "indexMembers",
        "boolean",
        _boolean,
        _WRITE,
        "Messages: also index the keys in the column `member_keys`, by which the broker cannot "
        "find members of a batch. They come after the message's own keys.",
        default="false",
    ),
    Option(
        "indexTags",
        "boolean",
        _boolean,
        _WRITE,
        "Messages: also index the column `tags` under the key `T#` and the tags, behind the "
        "message's own keys, as brokers from 5.4.0 on do and older ones do not.",
        default="false",
    ),
    Option(
        "checkpoint",
        "boolean",
        _boolean,
        _WRITE,
        "After the commit, raise `indexMsgTimestamp` in the store's `checkpoint` to the end of the "
        "new files, so that a broker that starts after a crash keeps them.",
        default="false",
    ),
    Option(
        "fs.s3a.endpoint",
        "host and port, or URL",
        _some_text,
        _EVERYWHERE,
        "S3 of another maker than AWS: where it is, such as `http://minio:9000`. This and the "
        "following are Hadoop's names, so that one set of options serves Spark's own sources, too.",
        default_doc="the environment's `AWS_ENDPOINT_URL_S3` or `AWS_ENDPOINT_URL`, else AWS",
    ),
    Option(
        "fs.s3a.endpoint.region",
        "string",
        _some_text,
        _EVERYWHERE,
        "The region of the bucket.",
        default_doc="the environment's `AWS_REGION` or `AWS_DEFAULT_REGION`, else found out",
    ),
    Option(
        "fs.s3a.access.key",
        "string",
        _some_text,
        _EVERYWHERE,
        "The id of the key for S3. No error, plan or log shows this and the next two.",
        default_doc="what AWS's own tools find: the environment's `AWS_ACCESS_KEY_ID`, "
        "`~/.aws`, the instance's role",
        secret=True,
    ),
    Option(
        "fs.s3a.secret.key",
        "string",
        _some_text,
        _EVERYWHERE,
        "The key for S3, together with its id.",
        default_doc="as `fs.s3a.access.key`",
        secret=True,
    ),
    Option(
        "fs.s3a.session.token",
        "string",
        _some_text,
        _EVERYWHERE,
        "The token that belongs to a temporary key.",
        default_doc="none where the key is given, else as `fs.s3a.access.key`",
        secret=True,
    ),
    Option(
        "fs.s3a.connection.ssl.enabled",
        "boolean",
        _boolean,
        _EVERYWHERE,
        "Whether connections to S3 are encrypted, where the endpoint is no URL.",
        default_doc="`true`",
    ),
    Option(
        "fs.s3a.path.style.access",
        "boolean",
        _boolean,
        _EVERYWHERE,
        "Whether a bucket is named in the path, not in the host name.",
        default_doc="`true` with an endpoint, else `false`",
    ),
    Option(
        "fs.s3a.attempts.maximum",
        "integer",
        _integer(1, 100),
        _EVERYWHERE,
        "How often a request to S3 is sent at most, before its failure is an error.",
        default_doc="5",
    ),
    Option(
        "fs.s3a.connection.establish.timeout",
        "milliseconds, or with a unit",
        _duration,
        _EVERYWHERE,
        "How long a connection to S3 may take, such as `5s`; then the request is sent again.",
        default_doc="5s",
    ),
    Option(
        "fs.s3a.connection.timeout",
        "milliseconds, or with a unit",
        _duration,
        _EVERYWHERE,
        "How long a request to S3 may stand still, such as `30s`; then it is sent again. Whole "
        "seconds count, at least one.",
        default_doc="30s",
    ),
)


def parse_options(raw: Mapping[str, str], scope: Scope) -> dict[str, Any]:
    """Parse the options of one load, table or write.

    Args:
        raw: The options as Spark passes them: the case of a name does not matter.
        scope: Which options are allowed.

    Returns:
        Every option of the scope by its documented name; None for one that is not given and has
        no default.

    Raises:
        ValueError: An unknown option, one that belongs elsewhere, or a bad value; the message
            names the option and what is allowed.
    """
    known = {option.name.lower(): option for option in OPTIONS}
    given: dict[str, str] = {}
    for name, value in raw.items():
        option = known.get(name.lower())
        if option is None:
            raise ValueError(_unknown(name, scope))
        if scope not in option.scopes:
            raise ValueError(f"option {option.name!r}: {_misplaced(option, scope)}")
        given[option.name] = value
    values: dict[str, Any] = {}
    for option in OPTIONS:
        if scope not in option.scopes:
            continue
        text = given.get(option.name, option.default)
        try:
            values[option.name] = None if text is None else option.parse(text)
        except ValueError as error:
            got = "another text" if option.secret else repr(text)
            raise ValueError(f"option {option.name!r}: expected {error}, got {got}") from error
    _check_no_secrets(values)
    return values


def _check_no_secrets(values: Mapping[str, Any]) -> None:
    """Refuse keys in paths, which are shown in many places."""
    logs = (values.get("commitLog") or "").split(",")
    for path in (values.get("path"), *(values.get("paths") or ()), *logs):
        if path is not None:
            check_no_secret(path)


def _unknown(name: str, scope: Scope) -> str:
    names = sorted(option.name for option in OPTIONS if scope in option.scopes)
    lowered = {candidate.lower(): candidate for candidate in names}
    close = difflib.get_close_matches(name.lower(), lowered, n=1)
    hint = f"; did you mean {lowered[close[0]]!r}" if close else ""
    return f"option {name!r}: unknown{hint}. Known here: {', '.join(names)}"


_NOT_HERE: dict[Scope, str] = {
    "table": (
        "not with pushdown: bind topic and key in WHERE, or give this option to "
        "spark.read.format('rmqindex') without pushdown"
    ),
    "write": "only for reading",
    "messages": "not for the format rmqcommitlog",
    "queues": "not for the format rmqconsumequeue",
    "stream": "not for spark.readStream",
    "message_stream": "not for spark.readStream of the format rmqcommitlog",
}


def _misplaced(option: Option, scope: Scope) -> str:
    if option.scopes == _MESSAGES:
        return "only for the format rmqcommitlog"
    if option.scopes <= _STREAMS and scope not in _STREAMS:
        return "only for spark.readStream"
    return _NOT_HERE.get(scope, "only for writing")


def option_text(value: object) -> str:
    """Return a Python value as the text of an option: bool, int, list, time, path or text.

    Raises:
        TypeError: A value that no option takes.
    """
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return str(value)
    if isinstance(value, str):
        return value
    if isinstance(value, (list, tuple)):
        return json.dumps(list(value))
    if isinstance(value, dt.datetime):
        return value.isoformat(sep=" ")
    if isinstance(value, os.PathLike):
        return str(os.fspath(value))
    raise TypeError(
        f"an option's value: expected bool, int, str, list, datetime or path, got {value!r}"
    )


@dataclass(frozen=True, slots=True)
class ReadOptions:
    """The options of one load, checked.

    Attributes:
        paths: What to read, at least one.
        layout: The geometry of every file, or None to find each file's own.
        pairs: Distinct (topic, key) to look up; None for no such lookup.
        key_hashes: Distinct key hashes to keep; None for every one.
        begin: Keep entries stored at this time or later: epoch microseconds, or a local time
            whose zone the task finds out; None for no bound.
        end: Keep entries stored at this time or earlier; likewise.
        pushdown: Whether WHERE is pushed down.
        key_columns: With pushdown: whether ``topic`` and ``key`` are columns.
        last_plan: Whether the schema carries the last plan instead.
        mode: ``FAILFAST`` or ``DROPMALFORMED``.
        path_glob_filter: Pattern for file names, or None.
        recursive: Whether directories below are read too.
        ignore_missing: Whether what is missing has no rows.
        max_partition_bytes: Bytes of entries a scan partition aims at.
        commit_log: Where the messages are: a path, ``auto``, or None for no CommitLog.
        unverified: What to do with entries that no message confirms: ``keep``, ``drop``, ``error``.
        message: Whether the schema has the message's columns.
        check_crc: Whether the CRCs of messages are checked.
        decompress_body: Whether bodies are decompressed.
        max_body_size: The most bytes that a body may unpack to.
        log_level: ``INFO`` or ``WARNING``; None for what the environment says.
        audit: Whether findings are returned instead of entries.
        has_store: Whether the column ``store`` exists where no schema is given.
        s3: How S3 is reached.
    """

    paths: tuple[str, ...]
    layout: Layout | None
    pairs: tuple[tuple[str, str], ...] | None
    key_hashes: tuple[int, ...] | None
    begin: int | LocalTime | None
    end: int | LocalTime | None
    pushdown: bool
    key_columns: bool
    last_plan: bool
    mode: Mode
    path_glob_filter: str | None
    recursive: bool
    ignore_missing: bool
    max_partition_bytes: int
    commit_log: str | None
    unverified: Unverified
    message: bool
    check_crc: bool
    decompress_body: bool
    max_body_size: int
    log_level: str | None
    audit: bool = False
    has_store: bool = False
    s3: S3Settings = field(default_factory=S3Settings)

    @property
    def has_keys(self) -> bool:
        """Whether the columns ``topic`` and ``key`` exist."""
        return (
            self.pairs is not None
            or (self.pushdown and self.key_columns)
            or self.commit_log is not None
        )

    @property
    def has_log(self) -> bool:
        """Whether entries are compared with their messages."""
        return self.commit_log is not None


def wants_pushdown(raw: Mapping[str, str]) -> bool:
    """Tell whether the options ask for pushdown, before any of them is checked."""
    return any(
        name.lower() == "pushdown" and value.strip().lower() == "true"
        for name, value in raw.items()
    )


def read_options(raw: Mapping[str, str]) -> ReadOptions:
    """Parse and check the options of a read.

    Raises:
        ValueError: An unknown option, a bad value, or options that do not go together.
    """
    values = parse_options(raw, "table" if wants_pushdown(raw) else "read")
    if not values.get("pushdown") and not values["keyColumns"]:
        raise ValueError("option 'keyColumns': only with pushdown=true")
    return read_options_of(values)


def read_options_of(values: Mapping[str, Any]) -> ReadOptions:
    """Return the options of a read or of a stream, which has no pushdown.

    Args:
        values: What :func:`parse_options` returned.

    Raises:
        ValueError: Options that do not go together.
    """
    paths = paths_of(values)
    return ReadOptions(
        paths=paths,
        layout=layout_of(values),
        pairs=_pairs(values),
        key_hashes=_distinct(values.get("keyHash")),
        begin=_placed(values["beginTimestamp"], values["timeZone"]),
        end=_placed(values["endTimestamp"], values["timeZone"]),
        pushdown=values.get("pushdown", False),
        key_columns=values.get("keyColumns", True),
        last_plan=values.get("lastPlan", False),
        mode=values["mode"],
        path_glob_filter=values["pathGlobFilter"],
        recursive=values["recursiveFileLookup"],
        ignore_missing=values["ignoreMissingFiles"],
        max_partition_bytes=values["maxPartitionBytes"],
        commit_log=_commit_log(values),
        unverified=values["unverified"],
        message=values["message"],
        check_crc=values["checkCrc"],
        decompress_body=values["decompressBody"],
        max_body_size=values["maxBodySize"],
        log_level=values["logLevel"],
        audit=_audit(values),
        has_store=_has_store(values, paths),
        s3=s3_settings_of(values),
    )


def _audit(values: Mapping[str, Any]) -> bool:
    """Return whether an audit is asked for, which looks at whole files."""
    if not values.get("audit"):
        return False
    for name in _NOT_WITH_AUDIT:
        if values[name] is not None and values[name] is not False:
            raise ValueError(f"option {name!r}: not together with 'audit'")
    return True


@dataclass(frozen=True, slots=True)
class QueueOptions:
    """The options of one load of ConsumeQueues, checked.

    Attributes:
        paths: Where the queues are, at least one.
        max_partition_bytes: Bytes of files a partition aims at.
        s3: How S3 is reached.
    """

    paths: tuple[str, ...]
    max_partition_bytes: int
    s3: S3Settings = field(default_factory=S3Settings)


def queue_options(raw: Mapping[str, str]) -> QueueOptions:
    """Parse and check the options of a read of ConsumeQueues.

    Raises:
        ValueError: An unknown option or a bad value.
    """
    values = parse_options(raw, "queues")
    return QueueOptions(paths_of(values), values["maxPartitionBytes"], s3_settings_of(values))


@dataclass(frozen=True, slots=True)
class MessageOptions:
    """The options of one load of messages, checked.

    Attributes:
        paths: Where the log is, at least one.
        begin_offset: Keep messages that start here or later, bytes.
        end_offset: Keep messages that start before this; None for no bound.
        begin: Keep messages stored at this time or later: epoch microseconds, or a local time
            whose zone the task finds out; None for no bound.
        end: Keep messages stored at this time or earlier; likewise.
        time_zone: The zone named by the options, or None.
        max_clock_step: Milliseconds by which the broker's clock may have stepped back; None for
            any.
        check_crc: Whether CRCs are checked.
        decompress_body: Whether bodies are decompressed.
        max_body_size: The most bytes that a body may unpack to.
        mode: ``FAILFAST`` or ``DROPMALFORMED``.
        max_partition_bytes: Bytes of the log a partition aims at.
        has_store: Whether the column ``store`` exists where no schema is given.
        s3: How S3 is reached.
    """

    paths: tuple[str, ...]
    begin_offset: int
    end_offset: int | None
    begin: int | LocalTime | None
    end: int | LocalTime | None
    time_zone: str | None
    max_clock_step: int | None
    check_crc: bool
    decompress_body: bool
    max_body_size: int
    mode: Mode
    max_partition_bytes: int
    has_store: bool = False
    s3: S3Settings = field(default_factory=S3Settings)


def message_options(raw: Mapping[str, str]) -> MessageOptions:
    """Parse and check the options of a read of messages.

    Raises:
        ValueError: An unknown option or a bad value.
    """
    return message_options_of(parse_options(raw, "messages"))


def message_options_of(values: Mapping[str, Any]) -> MessageOptions:
    """Return the options of a read of messages, or of a stream of them.

    Args:
        values: What :func:`parse_options` returned.
    """
    paths = paths_of(values)
    return MessageOptions(
        paths=paths,
        begin_offset=values.get("beginOffset") or 0,
        end_offset=values.get("endOffset"),
        begin=_placed(values["beginTimestamp"], values["timeZone"]),
        end=_placed(values["endTimestamp"], values["timeZone"]),
        time_zone=values["timeZone"],
        max_clock_step=values.get("maxClockStep"),
        check_crc=values["checkCrc"],
        decompress_body=values["decompressBody"],
        max_body_size=values["maxBodySize"],
        mode=values["mode"],
        max_partition_bytes=values["maxPartitionBytes"],
        has_store=_has_store(values, paths),
        s3=s3_settings_of(values),
    )


def paths_of(values: Mapping[str, Any]) -> tuple[str, ...]:
    """Return what is to be read: the option ``path``, then ``paths``."""
    paths: tuple[str, ...] = values["paths"] if values["paths"] is not None else ()
    return paths if values["path"] is None else (values["path"], *paths)


def _has_store(values: Mapping[str, Any], paths: Sequence[str]) -> bool:
    """Return whether the column ``store`` exists; by default where stores may be several."""
    if values["storeColumn"] is not None:
        return bool(values["storeColumn"])
    may_be_several = len(paths) > 1 or any(map(has_pattern, paths))
    return may_be_several or bool(values.get("recursiveFileLookup"))


def _commit_log(values: Mapping[str, Any]) -> str | None:
    """Return where the messages are; None for no CommitLog."""
    text: str | None = values["commitLog"]
    pushdown = values.get("pushdown", False)
    keyless = pushdown and not values["keyColumns"]
    if text is None:
        text = AUTO if pushdown and not keyless else _NONE
    elif text.lower() in (AUTO, _NONE):
        text = text.lower()
    if text == _NONE:
        for name in ("message", "checkCrc", "decompressBody"):
            if values[name]:
                raise ValueError(f"option {name!r}: give 'commitLog' as well")
        return None
    if keyless:
        raise ValueError("option 'commitLog': not without the columns topic and key")
    return text


def layout_of(values: Mapping[str, Any]) -> Layout | None:
    """Return the geometry that parsed options name, or None where they name none.

    Raises:
        ValueError: One of ``maxHashSlotNum`` and ``maxIndexNum`` without the other, or a file size
            beyond the broker's.
    """
    slots, entries = values["maxHashSlotNum"], values["maxIndexNum"]
    if (slots is None) != (entries is None):
        given, missing = ("maxHashSlotNum", "maxIndexNum")
        if slots is None:
            given, missing = missing, given
        raise ValueError(f"option {given!r}: give {missing!r} as well, or neither")
    if slots is None:
        return None
    try:
        return Layout(slots, entries)
    except ValueError as error:
        raise ValueError(f"options 'maxHashSlotNum' and 'maxIndexNum': {error}") from error


def _pairs(values: Mapping[str, Any]) -> tuple[tuple[str, str], ...] | None:
    topic: str | None = values.get("topic")
    key: str | None = values.get("key")
    keys: tuple[str, ...] | None = values.get("keys")
    if key is not None and keys is not None:
        raise ValueError("option 'key': not together with 'keys'")
    if topic is None and (key is not None or keys is not None):
        raise ValueError(f"option {'keys' if key is None else 'key'!r}: give 'topic' as well")
    if topic is None:
        return None
    if key is not None:
        keys = (key,)
    if keys is None:
        raise ValueError("option 'topic': give 'key' or 'keys' as well")
    return tuple((topic, each) for each in dict.fromkeys(keys))


def _distinct(hashes: tuple[int, ...] | None) -> tuple[int, ...] | None:
    return None if hashes is None else tuple(sorted(set(hashes)))


def _placed(time: int | LocalTime | None, zone: str | None) -> int | LocalTime | None:
    """Give a local time the zone of the option, if there is one."""
    if zone is None or not isinstance(time, LocalTime):
        return time
    return time.in_zone(zone)
