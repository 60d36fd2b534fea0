"""Options of Spark's other sources: what to write here instead.

Users of Kafka's source, and of Spark's files, try the names that they know.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from pyspark_rmqindex.options.kinds import Scope

#: A format, read or streamed; or writing.
Family = Literal["entries", "messages", "queues", "write"]

FAMILIES: dict[Scope, Family] = {
    "read": "entries",
    "table": "entries",
    "stream": "entries",
    "messages": "messages",
    "message_stream": "messages",
    "queues": "queues",
    "write": "write",
}

_READ: tuple[Family, ...] = ("entries", "messages", "queues")
_ALL: tuple[Family, ...] = (*_READ, "write")
_BROKER = "give the path of a store to load(), since files are read and no broker is asked"
_NO_TIMES = "filter by queue_offset in WHERE, since a ConsumeQueue has no times"
_FOLDER = "give load() the directory of one topic or queue"
_FIXED = "leave it out, since the files are binary and their columns are fixed"
_ONE_BATCH = (
    "leave it out of df.write; an engine that writes a stream as one batch, as Sail does, has no "
    "streams into an index: use df.write"
)
_TRIGGER = "set .trigger(processingTime='1 minute') on the query"


def _same(advice: str, families: tuple[Family, ...] = _ALL) -> dict[Family, str]:
    return dict.fromkeys(families, advice)


def _without(advice: dict[Family, str], known: Family) -> dict[Family, str]:
    return {family: text for family, text in advice.items() if family != known}


_BEGIN: dict[Family, str] = {
    "entries": "write {beginTimestamp}",
    "messages": "write {beginTimestamp}",
    "queues": _NO_TIMES,
}
_END: dict[Family, str] = {
    "entries": "write {endTimestamp}",
    "messages": "write {endTimestamp}",
    "queues": _NO_TIMES,
}
_FIRST: dict[Family, str] = {
    "entries": "write {startingPosition} for a stream, {beginTimestamp} for a load",
    "messages": "write {startingPosition} for a stream, {beginOffset} or {beginTimestamp} for a "
    "load",
    "queues": "filter by queue_offset in WHERE",
}
_LAST: dict[Family, str] = {
    "entries": "write {endTimestamp}",
    "messages": "write {endOffset} or {endTimestamp} for a load",
    "queues": "filter by queue_offset in WHERE",
}
_RATE: dict[Family, str] = {
    "entries": "write {maxEntriesPerTrigger} or {maxFilesPerTrigger} for a stream",
    "messages": "write {maxMessagesPerTrigger} or {maxBytesPerTrigger} for a stream",
    "queues": "leave it out, since ConsumeQueues are not streamed",
}
_TOPIC: dict[Family, str] = {
    "entries": "write {topic}, with {key} or {keys}",
    "messages": "write {topic}",
    "queues": _FOLDER,
}
_SIZE = _same("write {maxPartitionBytes}", _READ)
_PLACE: dict[Family, str] = {
    "messages": "put a pattern into the path, such as load('/store/commitlog/0000*')",
    "queues": _FOLDER,
    "write": "give save() the one directory to write",
}

#: By name in lower case: the name as users write it, and what to write instead. A name that is also
#: an option of a format is not here for that format; options are in braces.
FOREIGN: dict[str, tuple[str, dict[Family, str]]] = {
    name.lower(): (name, advice)
    for names, advice in (
        (("startingOffsets",), _FIRST),
        (("endingOffsets",), _LAST),
        (("startingTimestamp", "startingOffsetsByTimestamp"), _BEGIN),
        (("startTimestamp", "startTime", "since", "modifiedAfter"), _BEGIN),
        (("endingTimestamp", "endingOffsetsByTimestamp"), _END),
        (("stopTimestamp", "endTime", "until", "modifiedBefore"), _END),
        (("maxOffsetsPerTrigger", "maxRecordsPerTrigger", "maxRowsPerTrigger"), _RATE),
        (
            ("maxFilesPerTrigger", "maxEntriesPerTrigger"),
            _without(_RATE, "entries"),
        ),
        (
            ("maxBytesPerTrigger", "maxMessagesPerTrigger"),
            _without(_RATE, "messages"),
        ),
        (("minOffsetsPerTrigger", "maxTriggerDelay"), _same(_TRIGGER, _READ)),
        (("subscribe", "subscribePattern"), _TOPIC),
        (("assign",), _same("write {topic} and {queueId}", ("messages",))),
        (("topic", "queueId"), _same(_FOLDER, ("queues",))),
        (("includeHeaders",), _same("read the column properties", ("messages",))),
        (("minPartitions", "maxRecordsPerPartition", "numPartitions"), _SIZE),
        (("nameserver", "namesrvAddr", "consumerGroup", "groupIdPrefix"), _same(_BROKER, _READ)),
        (("pathGlobFilter", "recursiveFileLookup"), _PLACE),
        (
            ("latestFirst", "maxFileAge"),
            _same("write {startingPosition} with latest, for a stream", ("entries", "messages")),
        ),
        (
            ("ignoreCorruptFiles", "columnNameOfCorruptRecord"),
            _same("write {mode} with DROPMALFORMED", ("entries", "messages")),
        ),
        (("compression", "codec"), _same("leave it out, since the files have no compression")),
        (
            (
                "header",
                "inferSchema",
                "delimiter",
                "sep",
                "quote",
                "escape",
                "multiLine",
                "lineSep",
                "encoding",
                "charset",
                "mergeSchema",
                "dateFormat",
                "timestampFormat",
                "nullValue",
            ),
            _same(_FIXED),
        ),
        (("maxRecordsPerFile",), _same("write {maxIndexNum}", ("write",))),
        (("checkpointLocation",), _same(_ONE_BATCH, ("write",))),
    )
    for name in names
}
_KAFKA = "kafka."
_NAMED = re.compile(r"\{(\w+)\}")


def advice_on(name: str, scope: Scope) -> tuple[str, str] | None:
    """Return a foreign option as users write it, and what to write instead; None for others."""
    lowered, family = name.lower(), FAMILIES[scope]
    if lowered.startswith(_KAFKA) and family != "write":
        return name, _BROKER
    written, advice = FOREIGN.get(lowered, (name, {}))
    return (written, _NAMED.sub(r"\1", advice[family])) if family in advice else None


def options_named(advice: str) -> list[str]:
    """Return the options that an advice tells to write."""
    return _NAMED.findall(advice)
