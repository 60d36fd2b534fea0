"""What a broker keeps in ``config/``, read as the broker reads it: the offsets of its consumers.

RocketMQ: ``ConfigManager``, ``ConsumerOffsetManager``, ``LmqConsumerOffsetManager``,
``ScheduleMessageService``, ``ConfigStorage``.
"""

from __future__ import annotations

import json
import os
import re
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, TypeVar

import pyarrow.fs as pafs

from rmqindex.errors import RmqIndexError
from rmqindex.layout.index_file import INT32_MAX, INT64_MAX, INT64_MIN
from rmqindex.layout.queue import LMQ_PREFIX, SCHEDULE_TOPIC, SYSTEM_PREFIX
from rmqindex.layout.store import CONFIG_FOLDER
from rmqindex.storage.disk import open_to_read
from rmqindex.storage.filesystem import open_filesystem, unreadable
from rmqindex.storage.location import Location
from rmqindex.storage.records import shorten
from rmqindex.store.contents import manifest_of
from rmqindex.transaction.directories import entries_or_none

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from rmqindex.storage.location import PathLike


T = TypeVar("T")

#: Offsets by queue.
Offsets = dict[int, int]

_BACKUP_SUFFIX = ".bak"
# The second is that of a broker with enableLmq, for all groups.
_OFFSET_NAMES = ("consumerOffset.json", "lmqConsumerOffset.json")
_DELAY_NAME = "delayOffset.json"
_TABLE = "offsetTable"
_LIGHT_TABLE = "lmqOffsetTable"
# ConsumerOffsetManager.TOPIC_GROUP_SEPARATOR.
_SEPARATOR = "@"
# A broker writes its files in place: one that is half written is whole a moment later.
_ATTEMPTS = 3
_PAUSE_SECONDS = 0.02
_MILLISECOND = 1_000_000  # nanoseconds
# A text, or an integer that names a value and that fastjson writes without quotes.
_KEYS = re.compile(r'"(?:[^"\\]|\\.)*"|(?P<before>[{,]\s*)(?P<key>-?[0-9]+)(?=\s*:)', re.DOTALL)
_MOST_NAMED = 3


def parse_config(data: bytes) -> Any:  # noqa: ANN401  (JSON)
    """Decode a broker's JSON, in which fastjson leaves integers that name values unquoted.

    Raises:
        UnicodeDecodeError: It is not UTF-8.
        json.JSONDecodeError: It is no such JSON; ``pos`` is the character of ``data``.
        RecursionError: It is nested too deeply.
    """
    text = data.decode()
    quotes: list[int] = []

    def quoted(match: re.Match[str]) -> str:
        if match["key"] is None:
            return match[0]
        quotes.extend(place + len(quotes) + more for more, place in enumerate(match.span("key")))
        return f'{match["before"]}"{match["key"]}"'

    changed = _KEYS.sub(quoted, text)
    try:
        return json.loads(changed)  # noqa: TID251  (a broker's document, which readers check)
    except json.JSONDecodeError as error:
        place = error.pos - sum(quote < error.pos for quote in quotes)
        raise json.JSONDecodeError(error.msg, text, place) from None


@dataclass(frozen=True, slots=True)
class ConfigFile(Generic[T]):
    """A file of ``config/``.

    Attributes:
        path: The file that was read: the backup where the file itself cannot be used.
        value: What it says.
        modified: When it was written, epoch milliseconds.
        faults: Why the file itself was not used, if it is there.
    """

    path: Location
    value: T
    modified: int
    faults: tuple[str, ...] = ()


def read_config(
    root: Location, name: str, expected: str, parse: Callable[[Any], T]
) -> ConfigFile[T] | None:
    """Read a file of ``config/``, or its backup where it is absent, empty or no such document.

    Args:
        root: The store.
        name: The file's name.
        expected: What it holds, for errors.
        parse: Makes a value of its JSON; raises ``ValueError`` for another document.

    Returns:
        What was read; None where neither is there.

    Raises:
        RmqIndexError: There is no sound one, or it cannot be read.
    """
    path = root.child(CONFIG_FOLDER).child(name)
    for left in reversed(range(_ATTEMPTS)):
        faults: list[str] = []
        for place in (path, path.parent.child(name + _BACKUP_SUFFIX)):
            try:
                found = _contents(place)
                if found is None:
                    continue
                value = parse(_document(found[0]))
            except ValueError as error:
                faults.append(f"{place}: expected {expected}, got {error}")
                if left:  # it may be written just now
                    break
            else:
                return ConfigFile(place, value, found[1], tuple(faults))
        if not faults:
            return None
        time.sleep(_PAUSE_SECONDS if left else 0)
    raise RmqIndexError(f"{faults[0]}; restore it from a backup, or move it out of the store")


def _contents(place: Location) -> tuple[bytes, int] | None:
    """Return the bytes of a file, and when it was written; None where there is none."""
    local = place.local
    try:
        if local is None:
            filesystem, inner_path = open_filesystem(place)
            info = filesystem.get_file_info(inner_path)
            if info.type == pafs.FileType.NotFound:
                return None
            with filesystem.open_input_file(inner_path) as source:
                return source.read(), (info.mtime_ns or 0) // _MILLISECOND
        if not os.path.lexists(local):
            return None
        with open(local, "rb", opener=open_to_read) as file:
            written = os.fstat(file.fileno()).st_mtime_ns
            return file.read(), written // _MILLISECOND
    except FileNotFoundError as error:
        if local is not None and not os.path.lexists(local):  # the broker moved it just now
            return None
        raise unreadable(place, error) from error
    except OSError as error:  # what it says is unknown, and its backup may say something else
        raise unreadable(place, error) from error
    except RmqIndexError as error:  # it is no file
        raise ValueError(f"something else ({error})") from error


def _document(data: bytes) -> Any:  # noqa: ANN401  (JSON)
    if not data:
        raise ValueError("an empty file")
    try:
        return parse_config(data)
    except UnicodeDecodeError as error:
        raise ValueError(f"byte {data[error.start]:#x} at {error.start}, not UTF-8") from error
    except json.JSONDecodeError as error:
        byte = len(error.doc[: error.pos].encode())
        raise ValueError(f"something else at byte {byte}: {error.msg}") from error
    except RecursionError as error:
        raise ValueError("objects or lists nested too deeply") from error


def config_databases(root: Location) -> list[Location]:
    """Return the RocksDB databases in ``config/``, which are not read.

    A broker keeps its configuration there with ``configManagerVersion=v2``, and from 5.2.0 on with
    a store or a configuration in RocksDB.
    """
    folders = [each for each in entries_or_none(root.child(CONFIG_FOLDER)) if each.is_directory]
    held = [each.path for each in folders if manifest_of(entries_or_none(each.path)) is not None]
    return sorted(held)


@dataclass(frozen=True, slots=True)
class ConsumerOffsets:
    """What the consumer groups of a broker have passed, as it was last written.

    Attributes:
        path: The file that was read.
        modified: When it was written, epoch milliseconds; a broker does so every five seconds.
        table: By topic and group, and queue: the queue offset of the next message.
        notes: What else there is, and was not read.
    """

    path: Location
    modified: int
    table: Mapping[tuple[str, str], Offsets]
    notes: tuple[str, ...] = ()

    @classmethod
    def of(cls, root: Location) -> ConsumerOffsets | None:
        """Read the offsets of a store.

        Of a broker with and without light queues (``enableLmq``) each has its own file; where both
        are there, the one written last counts.

        Returns:
            The offsets; None where the store has no such file.

        Raises:
            RmqIndexError: There is no sound one.
        """
        found: list[ConfigFile[tuple[dict[tuple[str, str], Offsets], list[str]]]] = []
        errors: list[RmqIndexError] = []
        for name in _OFFSET_NAMES:
            try:
                read = read_config(root, name, f"a JSON object with {_TABLE}", _consumers)
            except RmqIndexError as error:
                errors.append(error)
            else:
                found += [] if read is None else [read]
        if not found:
            if errors:
                raise errors[0]
            return None
        latest = max(found, key=lambda each: each.modified)
        table, strange = latest.value
        notes = [*latest.faults, *map(str, errors)]
        notes += [f"{each.path}: not read, {latest.path.name} was written later"
                  for each in found if each is not latest]  # fmt: skip
        if latest.path.name.endswith(_BACKUP_SUFFIX):
            notes.append(f"{latest.path}: read in its place, as a broker does; it is older")
        if strange:
            named = ", ".join(map(shorten, strange[:_MOST_NAMED]))
            more = ", .." if len(strange) > _MOST_NAMED else ""
            notes.append(f"{latest.path}: left out what names no topic and group: {named}{more}")
        notes += [
            f"{folder}: a RocksDB database, which is not read; what it has may be newer than "
            f"{latest.path.name}"
            for folder in config_databases(root)
        ]
        return cls(latest.path, latest.modified, table, tuple(notes))

    def groups(self, topic: str) -> dict[str, Offsets]:
        """Return the groups that have offsets of a topic."""
        return {group: queues for (name, group), queues in self.table.items() if name == topic}


def delay_offsets(root: Location) -> Offsets | None:
    """Return, by queue of the schedule topic, the queue offset of the next message to come due.

    Raises:
        RmqIndexError: There is no sound file.
    """

    def parse(document: Any) -> Offsets:  # noqa: ANN401  (JSON)
        levels = _offsets(_DELAY_NAME, _field(document, _TABLE))
        return {level - 1: offset for level, offset in levels.items()}  # delayLevel2QueueId

    read = read_config(root, _DELAY_NAME, f"a JSON object with {_TABLE}", parse)
    return None if read is None else read.value


def _consumers(document: Any) -> tuple[dict[tuple[str, str], Offsets], list[str]]:  # noqa: ANN401
    """Return the offsets by topic and group, and the names that are of neither."""
    table: dict[tuple[str, str], Offsets] = {}
    strange: list[str] = []
    light = document.get(_LIGHT_TABLE) if isinstance(document, dict) else None
    named = {name: _offsets(name, each) for name, each in _field(document, _TABLE).items()}
    for name, offset in _field(document, _LIGHT_TABLE).items() if light else ():
        named[name] = {0: _integer(name, offset, INT64_MIN, INT64_MAX)}
    for name, queues in named.items():
        pair = _topic_and_group(name)
        if pair is None:
            strange.append(name)
        else:
            table.setdefault(pair, {}).update(queues)
    return table, strange


def _topic_and_group(name: str) -> tuple[str, str] | None:
    """Return the parts of ``topic@group``; of a light queue, both are its own name.

    No topic has the separator in its name (``TopicValidator``), but light queues and groups may.
    """
    half = len(name) // 2
    if len(name) % 2 and name[half] == _SEPARATOR and name[:half] == name[half + 1 :] != "":
        return name[:half], name[half + 1 :]
    topic, _, group = name.partition(_SEPARATOR)
    return (topic, group) if topic and group else None


def _field(document: Any, name: str) -> dict[str, Any]:  # noqa: ANN401  (JSON)
    if not isinstance(document, dict):
        raise ValueError(shorten(document))  # noqa: TRY004  (a ValueError is what parsers raise)
    value = document.get(name)
    if not isinstance(value, dict):
        raise ValueError(f"{name} {shorten(value)}")  # noqa: TRY004
    return value


def _offsets(name: str, value: Any) -> Offsets:  # noqa: ANN401  (JSON)
    if not isinstance(value, dict):
        raise ValueError(f"{shorten(name)}: {shorten(value)}, not offsets by queue")  # noqa: TRY004
    return {
        _integer(name, int(queue) if _is_number(queue) else queue, -INT32_MAX - 1, INT32_MAX):
        _integer(name, offset, INT64_MIN, INT64_MAX)
        for queue, offset in value.items()
    }  # fmt: skip


def _is_number(text: str) -> bool:
    return re.fullmatch(r"-?[0-9]{1,10}", text) is not None


def _integer(name: str, value: Any, least: int, most: int) -> int:  # noqa: ANN401  (JSON)
    if type(value) is not int or not least <= value <= most:
        raise ValueError(
            f"{shorten(name)}: {shorten(value)}, not an integer from {least} to {most}"
        )
    return value


_NAME = "topics.json"
_TOPICS = "topicConfigTable"
_QUEUE_TYPE = "queue.type"
_BATCH = "BatchCQ"
_READ_QUEUES = "readQueueNums"
# TopicConfig.defaultReadQueueNums.
_DEFAULT_QUEUES = 16


@dataclass(frozen=True, slots=True)
class TopicTable:
    """The topics of a store's ``config/topics.json``.

    Attributes:
        path: The file.
        topics: The names of all topics.
        batch_topics: Those with batch queues.
        read_queue_nums: By topic, how many of its queues consumers read.
    """

    path: Location
    topics: frozenset[str]
    batch_topics: frozenset[str]
    read_queue_nums: Mapping[str, int]

    @classmethod
    def of(cls, root: PathLike) -> TopicTable | None:
        """Read the topics of a store, or their backup, as a broker does.

        Returns:
            The topics; None where the store has no such file.
        """
        read = read_config(Location.of(root), _NAME, f"a JSON object with {_TOPICS}", _topics)
        return None if read is None else cls(read.path, *read.value)

    def lacks(self, topic: str) -> bool:
        """Return whether a topic was deleted: the broker has no such topic, and would name it."""
        return topic not in self.topics and not (
            topic.startswith(LMQ_PREFIX)
            or topic.lower().startswith(SYSTEM_PREFIX)
            or topic == SCHEDULE_TOPIC
        )


def _topics(document: Any) -> tuple[frozenset[str], frozenset[str], dict[str, int]]:  # noqa: ANN401
    try:
        table = document[_TOPICS]
        return (
            frozenset(table),
            frozenset(topic for topic, config in table.items() if _is_batch(config)),
            {topic: _read_queue_num(config) for topic, config in table.items()},
        )
    except (TypeError, KeyError, AttributeError) as error:
        raise ValueError("something else") from error


def _is_batch(config: dict[str, dict[str, str]]) -> bool:
    attributes = config.get("attributes") or {}
    return attributes.get(_QUEUE_TYPE) == _BATCH


def _read_queue_num(config: dict[str, Any]) -> int:
    number = config.get(_READ_QUEUES)
    return number if type(number) is int else _DEFAULT_QUEUES
