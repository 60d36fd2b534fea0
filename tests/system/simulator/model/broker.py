"""A broker that keeps one store: its files on the disk, and the truth about them.

Each method that changes files is a generator that yields after every single write, so that others
can look at every state in between. ``run`` takes all of its steps at once.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from tests.system.simulator.draw import Draw

from . import records, sending
from .disk import Disk
from .index import IndexFile, key_hash
from .queues import Queue
from .reading import (
    DLEDGER_HEAD,
    LOG_FOLDERS,
    as_it_stands,
    assign,
    has_remains,
    mixed,
    queues_of,
    read_truth,
)
from .truth import Entry, Message, Truth, Unit

if TYPE_CHECKING:
    from collections.abc import Collection, Generator, Iterator
    from pathlib import Path

#: ``messageDelayLevel``, ms.
DELAYS = (
    *(1_000 * seconds for seconds in (1, 5, 10, 30)),
    *(60_000 * minutes for minutes in (*range(1, 11), 20, 30, 60, 120)),
)
#: DLedger: the size of an index file (of 128 units), the kinds of entries.
DLEDGER_INDEX_SIZE = 4096
NORMAL, NOOP = 1, 2
NOOP_MAGIC = NOOP.to_bytes(4, "big")
#: The version from which on TAGS are indexed, and the checkpoint has a sixth field.
TAGS_SINCE, SIXTH_FIELD_SINCE = (5, 4), (5, 5)


def run(steps: Iterator[None]) -> None:
    """Take all steps of a generator."""
    for _ in steps:
        pass


def string_hash(text: str) -> int:
    """Return Java's ``String.hashCode``."""
    code = 0
    units = text.encode("utf-16-be", "surrogatepass")
    for place in range(0, len(units), 2):
        code = (31 * code + units[place] * 256 + units[place + 1]) % 2**32
    return code - 2**32 if code >= 2**31 else code


def _is_readable(message: Message) -> bool:
    return records.has_readable_numbers(message.topic, dict(message.properties))


@dataclass
class Config:
    """A broker's settings, and its version."""

    version: tuple[int, int] = (5, 3)
    log_file_size: int = 4096
    queue_units: int = 25
    batch_units: int = 8
    slots: int = 16
    places: int = 20
    light: bool = True
    batch_topics: set[str] = field(default_factory=set)
    dledger: bool = False
    index: bool = True
    #: By how many seconds each level of its ``messageDelayLevel`` is longer than by default.
    delay: int = 0


@dataclass
class Checkpoint:
    """The fields of the file ``checkpoint``."""

    physic: int = 0
    logics: int = 0
    index: int = 0
    master: int = 0
    confirm: int = 0
    logics_offset: int = 0

    @property
    def least(self) -> int:
        """From which store time on the log is looked at after a crash, ms."""
        return max(min(self.physic, self.logics) - 3000, 0)


class ModelBroker:
    """A broker and its store."""

    def __init__(self, root: Path, config: Config, now: int) -> None:
        """Begin with a directory that need not exist.

        Args:
            root: The store's root.
            config: The settings.
            now: What the broker's clock says, epoch ms.
        """
        self.root, self.config, self.now = root, config, now
        self.disk = Disk(root)
        self.truth = Truth(
            log_file_size=config.log_file_size,
            queue_file_size=20 * config.queue_units,
            hash_slot_num=config.slots,
            index_num=config.places,
            dledger=config.dledger,
        )
        #: The bytes and the message of every record that was ever written, by its offset.
        self.known: dict[int, list[tuple[bytes, Message]]] = {}
        #: The heads that DLedger wrote before records, by the records' offsets.
        self.heads: dict[int, set[bytes]] = {}
        #: The messages that the log has by its broker's account, damaged or not, by their offset.
        self.alive: dict[int, Message] = {}
        #: What was hashed into the index, by hash and offset.
        self.texts: dict[tuple[int, int], list[str]] = {}
        #: Of entries that it made, by file, position, hash and offset.
        self.made: dict[tuple[str, int, int, int], str] = {}
        self.log_files: list[int] = []
        self.end = 0
        #: The message that is being stored, or was last.
        self._written: Message | None = None
        self._torn: Message | None = None
        #: Messages in the log that are in no queue and index yet.
        self.waiting: list[Message] = []
        self.queues: dict[tuple[str, int], Queue] = {}
        self.index: list[IndexFile] = []
        self.offsets: dict[tuple[str, int], int] = {}
        self.checkpoint = Checkpoint()
        #: From which offset on the log is DLedger's, if any of it is.
        self.dledger_from: int | None = None
        self.term = 1
        #: Where DLedger's entries are, in their order, and the index of the first one.
        self.entries: list[int] = []
        self.first_index = 0
        #: Where the log ends on which the group has agreed; None where it agrees on everything.
        self.agreed: int | None = None
        #: Why the last start failed.
        self.failure = ""

    # The log

    def put(self, sent: dict[str, Any]) -> Iterator[None]:
        """Store what a client sends; see ``history`` for the fields."""
        if not self.truth.running:
            return
        parts = sent.get("parts")
        for part in [None] if sent.get("inner") or not parts else parts:
            yield from self._append(sent, part)

    def _append(self, sent: dict[str, Any], part: dict[str, Any] | None) -> Iterator[None]:
        draft = sending.draft(
            sent if part is None else {**sent, **part},
            self.offsets,
            self.now,
            light=self.config.light,
            in_batch=part is not None,
        )
        head = DLEDGER_HEAD if self.config.dledger else 0
        size = len(records.encode(draft.record, 0))
        if head + size + 8 > self._size or len(draft.record.properties) > 32_000:
            return
        yield from self._roll_log(head + size)
        offset = self.end + head
        data = records.encode(draft.record, offset)
        message = draft.message(offset, data)
        self._learn(data, message)
        self._written = message
        self.truth.maybe.add(message)
        if head:
            entry = self._entry_head(NORMAL, size)
            self.heads.setdefault(offset, set()).add(entry)
            yield from self._write_log(self.end, entry)
        cut = max(1, min(size - 1, size * sent.get("cut", 50) // 100))
        pieces = [(offset, data[:cut]), (offset + cut, data[cut:])]
        for at, piece in reversed(pieces) if sent.get("tail_first") else pieces:
            yield from self._write_log(at, piece)
        self.alive[offset] = message
        self.truth.messages.append(message)
        self.truth.maybe -= {message, self._torn}
        self._end_at(self.end + head + size)
        self.waiting.append(message)
        self.truth.waiting = len(self.waiting)
        for queue, count in draft.taken.items():
            self.offsets[queue] = self.offsets.get(queue, 0) + count
        if head:
            yield from self._index_entry(offset - head, head + size)

    def _learn(self, data: bytes, message: Message) -> None:
        known = self.known.setdefault(message.offset, [])
        if any(bytes_ == data for bytes_, _ in known):
            return
        known.append((data, message))
        for text in (*self._texts(message), *self._tag_texts(message)):
            self.texts.setdefault((key_hash(text), message.offset), []).append(text)

    @staticmethod
    def _texts(message: Message) -> list[str]:
        return [f"{message.topic}#{key}" for key in message.keys]

    @staticmethod
    def _tag_texts(message: Message) -> list[str]:
        return [f"{message.topic}#T#{message.tags}"] if message.tags else []

    def _roll_log(self, size: int) -> Iterator[None]:
        """End the log's last file where it has no room for a record."""
        room = self.config.log_file_size - self.end % self.config.log_file_size
        if self.log_files and self.log_files[-1] <= self.end and size + 8 > room:
            mark = struct.pack(">ii", -1, room) if self._head(self.end) else records.blank(room)
            yield from self._write_log(self.end, mark)
            self._end_at(self.end + room)
        start = self.end - self.end % self.config.log_file_size
        if start not in self.log_files:
            self.disk.create(self._log_name(start), self.config.log_file_size)
            self.log_files.append(start)
            yield

    def _log_name(self, start: int) -> str:
        return f"{LOG_FOLDERS[self._head(start) > 0]}/{start:020d}"

    def _head(self, at: int) -> int:
        """Return how many bytes are before each record there."""
        is_dledger = self.dledger_from is not None and at >= self.dledger_from
        return DLEDGER_HEAD if is_dledger else 0

    def _write_log(self, at: int, data: bytes) -> Iterator[None]:
        gone = self._overwrite(at, at + len(data))
        start = at - at % self.config.log_file_size
        self.disk.write(self._log_name(start), at - start, data)
        for offset in gone:
            self.truth.maybe |= set(mixed(self.log_bytes(offset), self.known[offset]))
        yield

    def log_bytes(self, at: int) -> bytes:
        """Return the bytes of the log from an offset to the end of its file."""
        start = at - at % self._size
        return self.disk.read(self._log_name(start))[at - start :]

    def _overwrite(self, start: int, stop: int) -> set[int]:
        """Forget the messages before a cut whose bytes are written over; return their offsets."""
        gone = set()
        for one in [each for each in self.truth.maybe if isinstance(each, Message)]:
            if one.offset < stop and start < one.offset + one.size and one != self._written:
                self.truth.maybe.discard(one)
                self.truth.once.add(one)
                gone.add(one.offset)
        return gone

    def expire_log(self, files: int) -> Iterator[None]:
        """Delete the oldest files of the log, and what of the index and the queues goes with it."""
        if not self.truth.running:
            return
        for start in self.log_files[: max(min(files, len(self.log_files) - 1), 0)]:
            yield from self._delete_log_file(start)
        yield from self._expire_others()

    def _delete_log_file(self, start: int) -> Iterator[None]:
        gone = [m for m in self.truth.messages if start <= m.offset < start + self._size]
        self.truth.maybe.update(gone)
        self.disk.delete(self._log_name(start))
        self.log_files.remove(start)
        for message in gone:
            self.alive.pop(message.offset, None)
        self._forget("messages", gone)
        self.truth.log_start = self.log_files[0] if self.log_files else self.end
        yield

    @property
    def _size(self) -> int:
        return self.config.log_file_size

    def _expire_others(self) -> Iterator[None]:
        least = self.log_files[0] if self.log_files else 0
        for queue in self.queues.values():
            before = queue.units()
            queue.expire(least)
            gone = [unit for _, unit in set(before) - set(queue.units())]
            if gone:
                self._forget("units", gone)
                yield
        while len(self.index) > 1 and self.index[0].end_offset < least:
            file = self.index.pop(0)
            self.disk.delete(file.path)
            self._forget("entries", [e for e in self.truth.entries if e.file == file.name])
            yield

    def cut(self, messages: int) -> Iterator[None]:
        """End the log before its last messages, as a replica does that another was chosen over."""
        if not self.truth.running or not self.truth.messages or messages < 1:
            return
        gone = self.truth.messages[-messages:]
        end = gone[0].offset - self._head(gone[0].offset)
        if self.dledger_from is not None and end < self.dledger_from:
            return
        yield from self._end_log(end)
        self.waiting = [one for one in self.waiting if one.offset < self.end]
        self.truth.waiting = len(self.waiting)
        self._read_offsets()
        self.refresh()

    def _end_at(self, end: int) -> None:
        """Let the log end there, whatever a truncation left behind it and behind the queues."""
        self.end = self.truth.log_end = end
        self._see_remains()

    def _see_remains(self) -> None:
        held = self.queues.values() if self.truth.running else ()
        self.truth.has_remains = has_remains(self.disk, self._size, self.end) or any(
            queue.has_remains for queue in held
        )

    def _end_log(self, end: int) -> Iterator[None]:
        """Forget what is behind; the bytes in the file of the end stay."""
        kinds = (self.truth.messages, self.truth.units)
        self.truth.maybe |= {one for kind in kinds for one in kind if one.offset >= end}
        for start in [one for one in self.log_files if one > end]:
            yield from self._delete_log_file(start)
        self._end_at(end)
        self.alive = {offset: one for offset, one in self.alive.items() if offset < end}
        self.entries = [one for one in self.entries if one < end]
        for queue in self.queues.values():
            if queue.most > end - queue.is_batch:
                queue.truncate(end)
                yield

    def _read_offsets(self) -> None:
        """Take the next queue offsets from the queues."""
        self.offsets = {key: queue.next_offset for key, queue in self.queues.items()}

    def _forget(self, kind: str, gone: list[Any]) -> None:
        lost = set(gone)
        self.truth.once |= lost
        self.truth.maybe -= lost
        setattr(self.truth, kind, [one for one in getattr(self.truth, kind) if one not in lost])

    # Queues and index

    def dispatch(self, most: int | None = None) -> Iterator[None]:
        """Give messages that wait their units and their entries."""
        count = len(self.waiting) if most is None else most
        while self.truth.running and self.waiting and count:
            if self.agreed is not None and self.waiting[0].offset >= self.agreed:
                break
            count -= 1
            if not (yield from self._dispatch(self.waiting[0])):
                break
            self.waiting.pop(0)
            self.truth.waiting = len(self.waiting)

    def _dispatch(self, message: Message) -> Generator[None, None, bool]:
        """Give a message its units and its entries; tell whether the broker got past it."""
        properties = dict(message.properties)
        if not _is_readable(message):
            return False
        units, is_readable = self._units(message, properties)
        for unit, is_batch in units:
            queue = self._queue(unit.topic, unit.queue_id, batch=is_batch)
            before = queue.end
            self.truth.maybe.add(unit)
            yield from queue.put(unit, unit.queue_offset)
            self.truth.maybe.discard(unit)
            if queue.end != before:
                place = (queue.end - queue.unit_size) // queue.unit_size
                taken = unit if is_batch else replace(unit, queue_offset=place)
                self.truth.units.append(taken)
                self._drop_stale(taken)
                self._see_remains()
        if not is_readable:
            return False
        if self.config.index:
            yield from self._build(message)
        self.truth.maybe.discard(message)
        self.checkpoint.logics = message.store_time
        self.checkpoint.logics_offset = message.offset
        return True

    def _drop_stale(self, taken: Unit) -> None:
        """Forget what stood at the place of a unit."""
        for one in [each for each in self.truth.maybe if isinstance(each, Unit)]:
            if (one.topic, one.queue_id) == (taken.topic, taken.queue_id) and (
                one.queue_offset == taken.queue_offset
            ):
                self.truth.maybe.discard(one)
                self.truth.once.add(one)

    def _units(
        self, message: Message, properties: dict[str, str]
    ) -> tuple[list[tuple[Unit, bool]], bool]:
        """Return units, whether each is of a batch queue, and whether these are all of them."""
        if message.sys_flag & records.ROLLBACK not in {0, records.COMMIT}:
            return [], True
        if "\0" in message.topic:
            return [], True  # torn; no folder has such a name
        code = string_hash(message.tags) if message.tags else 0
        level = int(properties.get("DELAY", "0")) if message.topic == records.SCHEDULE else 0
        if level > 0:
            delay = DELAYS[min(level, len(DELAYS)) - 1] + 1000 * self.config.delay
            code = message.store_time + delay
        is_batch = message.topic in self.config.batch_topics
        place = (message.queue_offset, message.offset, message.size, code)
        own = Unit(
            message.topic,
            message.queue_id,
            *place,
            batch_size=(len(message.inner) or 1) if is_batch else 0,
            store_time=message.store_time if is_batch else 0,
        )
        names = properties.get("INNER_MULTI_DISPATCH", "").split(",")
        texts = properties.get("INNER_MULTI_QUEUE_OFFSET", "").split(",")
        if names == [""] or len(names) != len(texts) or not self.config.light:
            return [(own, is_batch)], True
        numbers = [records.java_number(text, 64) for text in texts]
        light = [
            (Unit(name, 0, number, *place[1:]), False)
            for name, number in zip(names, numbers, strict=True)
            if number is not None
        ]
        is_readable = None not in numbers
        return [(own, is_batch), *(light if is_readable else [])], is_readable

    def _queue(self, topic: str, queue_id: int, *, batch: bool) -> Queue:
        queue = self.queues.get((topic, queue_id))
        if queue is None:
            units = self.config.batch_units if batch else self.config.queue_units
            queue = Queue(self.disk, topic, queue_id, units, batch=batch)
            self.queues[topic, queue_id] = queue
        return queue

    def _build(self, message: Message) -> Iterator[None]:
        if not self.index or self.index[-1].is_full:
            yield from self._roll_index()
        if message.offset < self.index[-1].end_offset:
            return
        for text, kind in self.texts_of(message):
            if self.index[-1].is_full:
                yield from self._roll_index()
            file = self.index[-1]
            code = key_hash(text)
            entry = Entry(
                *(file.name, file.count, code, message.offset),
                *(file.time_read(message.store_time), text, kind),
            )
            self.made[file.name, file.count, code, message.offset] = text
            self.truth.maybe.add(entry)
            self.truth.entries.append(entry)
            yield from file.put(code, message.offset, message.store_time)
            self.truth.maybe.discard(entry)

    def texts_of(self, message: Message) -> list[tuple[str, str]]:
        """Return what a message is indexed under, each with its kind."""
        if message.sys_flag & records.ROLLBACK == records.ROLLBACK:
            return []
        texts = [(text, "key") for text in self._texts(message)]
        if self.config.version >= TAGS_SINCE:
            texts += [(text, "tag") for text in self._tag_texts(message)]
        return texts

    def _roll_index(self) -> Iterator[None]:
        while True:
            time = datetime.fromtimestamp(self.now / 1000, UTC)
            name = time.strftime("%Y%m%d%H%M%S") + f"{self.now % 1000:03d}"
            if not (self.root / "index" / name).exists():
                break
            self.now += 1
        last = self.index[-1] if self.index else None
        file = IndexFile(self.disk, name, self.config.slots, self.config.places)
        self.index.append(file)
        yield from file.create(*((last.end_offset, last.end_time) if last else (0, 0)))
        if last:
            self.disk.sync(last.path)
        if last and last.end_time > 0:
            self.checkpoint.index = last.end_time
            yield from self._write_checkpoint()

    def flush(self) -> Iterator[None]:
        """Bring log, queues and checkpoint to the disk."""
        if self.truth.running:
            alive = self.truth.messages
            self.checkpoint.physic = alive[-1].store_time if alive else self.checkpoint.physic
            if self.config.dledger:
                yield from self._note_agreed()
            self.disk.sync("commitlog", "dledger-n0", "consumequeue", "batchconsumequeue")
            yield from self._write_checkpoint()

    def _make_checkpoint(self) -> Iterator[None]:
        """Map a file of one page, as the broker does when it starts."""
        if len(self.disk.read("checkpoint")) < 4096:
            self.disk.create("checkpoint", 4096)
            yield

    def _write_checkpoint(self) -> Iterator[None]:
        """Write the fields one by one, in their order."""
        yield from self._make_checkpoint()
        fields = self.checkpoint
        values = [fields.physic, fields.logics, fields.index, fields.master, fields.confirm]
        if self.config.version >= SIXTH_FIELD_SINCE:
            values.append(fields.logics_offset)
        for number, value in enumerate(values):
            self.disk.write("checkpoint", 8 * number, struct.pack(">q", value))
            yield
        self.disk.sync("checkpoint")

    def delete_topic(self, topic: str) -> Iterator[None]:
        """Delete a topic's queues; its messages stay in the log."""
        if not self.truth.running:
            return
        for key in [each for each in self.queues if each[0] == topic]:
            queue = self.queues.pop(key)
            gone = [u for u in self.truth.units if (u.topic, u.queue_id) == key]
            self.truth.maybe.update(gone)
            self.disk.delete_folder(queue.folder)
            self._forget("units", gone)
            yield
        for folder in ("consumequeue", "batchconsumequeue"):
            self.disk.delete_folder(f"{folder}/{topic}")
        for key in [each for each in self.offsets if each[0] == topic]:
            del self.offsets[key]
        yield

    # Start and end

    def start(self) -> Iterator[None]:
        """Start, after a clean or another end, and recover as the version does."""
        if self.truth.running:
            return
        self.failure = ""
        if not self.disk.lock():
            self.failure = "locked"
            return
        is_clean = not (self.root / "abort").exists()
        if not self._load_log():
            self.failure = "load"
            self.disk.close()
            return
        self.truth.running = True
        data = self.disk.read("checkpoint").ljust(48, b"\0")
        self.checkpoint = Checkpoint(*struct.unpack_from(">6q", data))
        yield from self._make_checkpoint()
        self._load_queues()
        for name in self.disk.names("index"):
            file = IndexFile(self.disk, name, self.config.slots, self.config.places)
            file.load()
            if not is_clean and file.end_time > self.checkpoint.index:
                self.disk.delete(file.path)
                self._forget("entries", [e for e in self.truth.entries if e.file == name])
                yield
            else:
                self.index.append(file)
        self.disk.write("abort", 0, b"1")
        self.truth.abort = True
        yield
        yield from self._recover(is_clean=is_clean)
        self.agreed = None
        if self.config.dledger and self.dledger_from is None:
            yield from self._become_dledger()
        self.refresh()

    def _load_log(self) -> bool:
        names = (name for folder in LOG_FOLDERS for name in self.disk.names(folder))
        self.log_files = [int(name) for name in names if name.isdecimal()]
        self._load_entries()
        sizes = {start: len(self.disk.read(self._log_name(start))) for start in self.log_files}
        if self.log_files and sizes[self.log_files[-1]] == 0:
            self.disk.delete(self._log_name(self.log_files.pop()))
            self._load_entries()  # it may have been DLedger's only file
        return all(sizes[start] == self._size for start in self.log_files)

    def _load_entries(self) -> None:
        """Find DLedger's entries in its files."""
        starts = [int(name) for name in self.disk.names(LOG_FOLDERS[1]) if name.isdecimal()]
        self.dledger_from = min(starts, default=None)
        if self.config.dledger and not self.log_files:
            self.dledger_from = 0
        self.entries, self.first_index = [], 0
        for start in starts:
            data = self.disk.read(self._log_name(start))
            at = 0
            while at + DLEDGER_HEAD <= len(data):
                magic, size, number, _, position = struct.unpack_from(">iiqqq", data, at)
                if magic not in {NORMAL, NOOP} or position != start + at:
                    break
                if not self.entries:
                    self.first_index = number
                self.entries.append(position)
                at += size

    def _load_queues(self) -> None:
        self.queues, self.index, self.offsets, self.waiting = {}, [], {}, []
        for queue in queues_of(self.disk, self.config):
            queue.load()
            self.queues[queue.topic, queue.queue_id] = queue

    def _recover(self, *, is_clean: bool) -> Iterator[None]:
        queues_end = max(
            (q.most for q in self.queues.values() if not q.is_batch), default=0
        )  # where the last message with a unit ends
        begin = self._recovery_begin(queues_end, is_clean=is_clean)
        found, end = self._walk(begin)
        kept = {offset: one for offset, one in self.alive.items() if offset < begin}
        self.alive = {**kept, **{one.offset: one for one in found}}
        yield from self._end_log(end)
        later = found if not is_clean else [m for m in found if m.offset >= queues_end]
        self.waiting = later
        yield from self.dispatch()
        self._read_offsets()

    def _recovery_begin(self, queues_end: int, *, is_clean: bool) -> int:
        """Return the start of the file from which on the log is checked."""
        for start in reversed(self.log_files):
            if is_clean:
                if start <= max(queues_end, 0):
                    return start
                continue
            first = self._check(start + self._head(start))
            if first.record and 0 < first.record.store_time <= self.checkpoint.least:
                return start
        return self.log_files[0] if self.log_files else 0

    def _check(self, at: int) -> records.Check:
        return records.check(self.log_bytes(at), 0)

    def _walk(self, begin: int) -> tuple[list[Message], int]:
        """Return the messages from the start of a file on, and where the log ends.

        What was a plain log before DLedger's is not checked for its end.
        """
        found = []
        for start in [one for one in self.log_files if one >= begin]:
            data = self.disk.read(self._log_name(start))
            head, at = self._head(start), 0
            while data[at : at + 4] != b"\xff\xff\xff\xff":
                if head and data[at : at + 4] == NOOP_MAGIC:
                    at += head
                    continue
                checked = records.check(data, at + head)
                if checked.size == 0 and not head:
                    break
                message = self._known_at(start + at + head, data[at + head :][: checked.size])
                is_end = checked.size <= 0 or message is None or not (head or _is_readable(message))
                if is_end and not head and self.dledger_from is not None:
                    break
                if is_end:  # DLedger reads no messages to find it
                    return found, start + at
                found.append(message)
                at += head + checked.size
            if start == self.log_files[-1]:
                return found, start + at
        return found, self.log_files[-1] if self.log_files else 0

    def _known_at(self, offset: int, data: bytes) -> Message | None:
        for bytes_, message in self.known.get(offset, []):
            if bytes_ == data:
                return message
        return None

    def stop(self) -> Iterator[None]:
        """Stop as a broker does that is asked to."""
        if not self.truth.running:
            return
        yield from self.dispatch()
        for file in self.index:
            yield from file.flush()
        yield from self.flush()
        self.disk.delete("abort")
        self.truth.abort = False
        yield
        self.disk.sync("")
        self._leave()

    def kill(self) -> None:
        """End at once; what was written stays, the file ``abort`` too."""
        self._leave()

    def refresh_killed(self) -> None:
        """Read the truth anew; what was being written is uncertain still."""
        halves = self.truth.maybe
        if self._written in halves:
            self._learn_torn(self._written)
        self.refresh()
        there = self.truth.present()
        self.truth.maybe |= halves & there

    def cut_power(self, seed: str, page: int, loss: float) -> None:
        """End at once, and lose what was not synced; see ``Disk.cut_power``."""
        self._leave()
        self.disk.cut_power(Draw(seed), page, loss)
        self.refresh()

    def _learn_torn(self, message: Message) -> None:
        """Learn what is there of a message that was being written, if it looks like a record."""
        data = self.log_bytes(message.offset)
        torn = records.check(data, 0)
        if torn.record is None:
            return
        self._learn(data[: torn.size], as_it_stands(message, torn.record))

    def _leave(self) -> None:
        self.truth.running = False
        self.disk.close()

    def forget(self, changed: Collection[str]) -> None:
        """Forget what it made the entries of files of that others have written."""
        names = {path.removeprefix("index/") for path in changed}
        self.made = {key: text for key, text in self.made.items() if key[0] not in names}

    def refresh(self) -> None:
        """Read the truth anew from the disk."""
        held = self.queues if self.truth.running else {}
        ends = {key: queue.end for key, queue in held.items()}
        now = read_truth(
            self.disk,
            self.config,
            self.known,
            self.heads,
            self.texts,
            self.made,
            self.alive,
            ends,
        )
        assign(self.truth, now)
        self._end_at(self.end)
        # What a kill left of a copy may be one under way, until something follows or leads to it.
        last = self.waiting[-1] if self.truth.running and self.waiting else None
        if last in self.truth.messages and 0 in self.log_bytes(last.offset)[: last.size][-8:]:
            self._torn = last
            self.truth.maybe.add(last)

    # DLedger

    def isolate(self) -> None:
        """Let the group agree on nothing more: what is stored from now on may be given up."""
        if self.truth.running and self.config.dledger and self.agreed is None:
            self.agreed = self.end

    def elect(self, *, noop: bool) -> Iterator[None]:
        """Follow a new leader, who has nothing of what the group did not agree on."""
        if not self.truth.running or not self.config.dledger:
            return
        agreed = self.end if self.agreed is None else self.agreed
        lost = [one for one in self.truth.messages if one.offset >= agreed]
        self.agreed = None
        yield from self.cut(len(lost))
        self.term += 1
        self.disk.replace("dledger-n0/currterm", f"voteLeader=n1\ncurrTerm={self.term}".encode())
        yield
        if noop:
            yield from self._roll_log(DLEDGER_HEAD)
            yield from self._write_log(self.end, self._entry_head(NOOP, 0))
            yield from self._index_entry(self.end, DLEDGER_HEAD)
            self._end_at(self.end + DLEDGER_HEAD)

    def _become_dledger(self) -> Iterator[None]:
        """Go on with DLedger behind a plain log, whose last file ends with a blank record."""
        if self.log_files:
            room = self._size - self.end % self._size
            yield from self._write_log(self.end, records.blank(room))
            self.disk.sync("commitlog")
            self._end_at(self.end + room)
        self.dledger_from = self.end

    def _entry_head(self, magic: int, body_size: int) -> bytes:
        numbers = (magic, DLEDGER_HEAD + body_size, self._next_index(), self.term, self.end)
        return struct.pack(">iiqqqiiii", *numbers, 0, 0, 0, body_size)

    def _next_index(self) -> int:
        return self.first_index + len(self.entries)

    def _index_entry(self, position: int, size: int) -> Iterator[None]:
        number = self._next_index()
        unit = struct.pack(">iqiqq", NORMAL, position, size, number, self.term)
        at = 32 * number
        start = at - at % DLEDGER_INDEX_SIZE
        name = f"dledger-n0/index/{start:020d}"
        if not (self.root / name).exists():
            self.disk.create(name, DLEDGER_INDEX_SIZE)
            yield
        self.disk.write(name, at - start, unit)
        self.entries.append(position)
        yield

    def _note_agreed(self) -> Iterator[None]:
        """Write down on how many entries the group has agreed."""
        beyond = [one for one in self.entries if self.agreed is not None and one >= self.agreed]
        last = self._next_index() - 1
        text = f"committedIndex={last - len(beyond)}\nendIndex={last}"
        self.disk.replace("dledger-n0/checkpoint", text.encode())
        yield
        self.truth.agreed = self.end if self.agreed is None else self.agreed
