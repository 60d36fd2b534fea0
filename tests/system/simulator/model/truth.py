"""What is in a store: plain lists of messages, entries and units, kept beside the files."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from . import records


@dataclass(frozen=True)
class Message:
    """One message as a consumer sees it; of an inner batch, the record that holds it."""

    #: Where the record starts, and its size, bytes.
    offset: int
    size: int
    #: When the broker stored it, epoch ms.
    store_time: int
    topic: str
    queue_id: int
    queue_offset: int
    #: What a broker without tag indexing makes keys of: UNIQ_KEY, then the parts of KEYS.
    keys: tuple[str, ...]
    #: The text of TAGS, or None.
    tags: str | None
    #: The body as a consumer sees it, unpacked.
    body: bytes
    #: plain, batch, inner_batch, light, delayed, half, op, commit, prepared, rollback, retry, ..
    kind: str
    #: When the client sent it, epoch ms.
    born_time: int = 0
    sys_flag: int = 0
    #: The names and values of PROPERTIES, in their order, doubled ones too.
    properties: tuple[tuple[str, str], ...] = ()
    #: The bodies and the keys of an inner batch's members.
    inner: tuple[Inner, ...] = ()
    #: Whether its body cannot be unpacked; ``body`` is as stored then.
    is_corrupt: bool = False

    @property
    def texts(self) -> list[str]:
        """What a broker hashes of it, tags too."""
        tags = [f"{self.topic}#T#{self.tags}"] if self.tags else []
        return [*(f"{self.topic}#{key}" for key in self.keys), *tags]

    @property
    def hidden_texts(self) -> set[str]:
        """The keys in its record of which no broker makes entries.

        A later property of the same name hides them: a batch's are put behind its message's own. Or
        they are those of an inner batch's members.
        """
        values = [key for one in self.inner for key in one.keys]
        values += [value for name, value in self.properties if name == "UNIQ_KEY"]
        values += [
            part
            for name, value in self.properties
            if name == "KEYS"
            for part in value.split(" ")
            if part
        ]
        return {f"{self.topic}#{value}" for value in values} - set(self.texts)


@dataclass(frozen=True)
class Inner:
    """One member of an inner batch."""

    body: bytes
    keys: tuple[str, ...]
    tags: str | None
    properties: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True)
class Entry:
    """One entry of an IndexFile."""

    #: The file's name, and the entry's position in it, from 1.
    file: str
    position: int
    key_hash: int
    offset: int
    #: What a reader of this file must answer, epoch ms.
    store_time: int
    #: What was hashed, ``topic#key``, and whether it is a "key" (UNIQ_KEY, KEYS) or a "tag" (TAGS,
    #: RocketMQ 5.4.0 and later). No file says so: where one message has several texts of one hash,
    #: only who wrote the entry knows.
    text: str = field(default="", compare=False)
    kind: str = field(default="key", compare=False)


@dataclass(frozen=True)
class Unit:
    """One unit of a ConsumeQueue; of a batch queue, one inner batch."""

    topic: str
    queue_id: int
    #: The number of the unit in its queue; of a batch, its first message's.
    queue_offset: int
    offset: int
    size: int
    tags_code: int
    #: How many messages it stands for; 0 in an ordinary queue.
    batch_size: int = 0
    store_time: int = 0


@dataclass
class Truth:
    """What the files of a store hold now, by the model's own account.

    What a broker is just writing is in ``maybe``: a reader may see it or not.  At least what
    ``messages``, ``entries`` and ``units`` have without ``maybe`` must be answered; at most what
    they and ``maybe`` have.
    """

    messages: list[Message] = field(default_factory=list)
    entries: list[Entry] = field(default_factory=list)
    units: list[Unit] = field(default_factory=list)
    #: Those of which some bytes, or some of DLedger's head before them, were changed so that they
    #: are sound records still; they are not among ``messages``, and a reader may see them with
    #: other fields, or name them.
    altered: list[Message] = field(default_factory=list)
    #: Being written or deleted at this moment, or left half done by a kill.
    maybe: set[Message | Entry | Unit] = field(default_factory=set)
    #: Everything that was there once and may rightly be gone.
    once: set[Message | Entry | Unit] = field(default_factory=set)
    #: Where the log's first file starts, and where its last record ends.
    log_start: int = 0
    log_end: int = 0
    #: Whether a truncation left bytes behind it, or units behind the end of a queue that is used.
    has_remains: bool = False
    #: The sizes of a log's file and of a queue's, bytes; slots and places of an IndexFile.
    log_file_size: int = 4096
    queue_file_size: int = 20 * 25
    hash_slot_num: int = 16
    index_num: int = 20
    #: Whether a broker holds the store's lock, and whether its file ``abort`` is there.
    running: bool = False
    abort: bool = False
    #: Whether the broker indexes TAGS now (5.4.0 and later).
    tags: bool = False
    #: Whether the log is DLedger's, and before which byte the group agrees on it by the broker's
    #: note; what is behind may be given up. None without a note.
    dledger: bool = False
    agreed: int | None = None
    #: How many messages in the log the broker has given no units and entries yet.
    waiting: int = 0

    @property
    def seems_to_go_on(self) -> bool:
        """Whether remains behind the log's end cannot be told from messages behind a damaged one.

        They are newer than its last message where the clock stepped back, or entries lead to them.
        """
        last = max(((one.offset, one.store_time) for one in self.messages), default=(0, 0))
        led_to = {one.offset for one in (*self.entries, *self.units)}
        left = (one for one in self.maybe if isinstance(one, Unit))
        led_to |= {one.offset for one in left if self._goes_on_to(one)}
        return any(
            isinstance(one, Message)
            and one.offset >= self.log_end
            and (one.store_time >= last[1] or one.offset in led_to)
            for one in self.maybe
        )

    def _goes_on_to(self, left: Unit) -> bool:
        """Tell whether a unit from before a cut follows one of a message that the log has."""
        queue = left.topic, left.queue_id
        before = [
            one
            for one in self.possibly("units")
            if (one.topic, one.queue_id) == queue
            and one.queue_offset < left.queue_offset
            and one.offset < self.log_end
        ]
        last = max(before, key=lambda one: one.queue_offset, default=None)
        return last is None or last not in self.maybe

    @property
    def states(self) -> set[str]:
        """How the parts of the store contradict each other now, in words of the model.

        ``abort``: a broker runs or was killed.  ``index_lags``, ``queues_lag``: messages without
        entries or units.  ``index_leads``, ``queues_lead``: entries or units beyond the log's end.
        ``index_expired``, ``queues_expired``: of messages before its first file.  ``index_stale``,
        ``queues_stale``: of messages that another has replaced.  ``doubled``: entries that stand
        twice.  ``torn``: something half written, or left from before a cut.  ``disordered``: the
        names of the IndexFiles are not in the order of their offsets.  ``altered``: messages whose
        bytes or heads are others than those that were written.  ``no_index``, ``no_log``.
        """
        log = {one.offset: one for one in (*self.messages, *self.altered)}
        found = {"abort"} if self.abort else set()
        if not self.entries:
            found.add("no_index")
        if not self.messages:
            found.add("no_log")
        if self.altered:
            found.add("altered")
        if self.maybe:
            found.add("torn")
        if self.running and self.waiting:
            found.add("waiting")
        found |= self._states_of_index(log)
        units = {(unit.topic, unit.offset) for unit in self.units}  # light queues have theirs
        own = ((one.topic, one.offset) for one in self.messages if one.sys_flag & 4 == 0)
        if not units.issuperset(own):
            found.add("queues_lag")
        for unit in self.units:
            found |= self._state_of("queues", unit.offset, log)
        if any(self._is_stale(unit, log) for unit in self.possibly("units")):
            found.add("queues_stale")
        return found

    @staticmethod
    def _is_stale(unit: Unit, log: dict[int, Message]) -> bool:
        """Tell whether a unit leads to a message that is another's."""
        one = log.get(unit.offset)
        if one is None:
            return False
        own = (one.topic, one.queue_id, one.queue_offset, one.size)
        names = dict(one.properties).get("INNER_MULTI_DISPATCH", "").split(",")
        if own == (unit.topic, unit.queue_id, unit.queue_offset, unit.size):
            return False
        return unit.topic not in names or one.size != unit.size

    def _states_of_index(self, log: dict[int, Message]) -> set[str]:
        found, indexed, before = set(), set(), ("", -1)
        counted: Counter[tuple[str, int]] = Counter()
        for entry in sorted(self.entries, key=lambda one: (one.file, one.position)):
            found |= self._state_of("index", entry.offset, log)
            if entry.offset in log and self.message_of(entry, log) is None:
                found.add("index_stale")
            if entry.file >= before[0] and entry.offset < before[1]:
                found.add("disordered")
            before = (entry.file, entry.offset)
            indexed.add(entry.offset)
            counted[entry.text, entry.offset] += 1
        for one in self.messages:
            if one.keys and one.sys_flag & 12 != 12 and one.offset not in indexed:
                found.add("index_lags")
        if any(
            count > max(log[offset].texts.count(text) if offset in log else 0, 1)
            for (text, offset), count in counted.items()
        ):
            found.add("doubled")
        return found

    def _state_of(self, part: str, offset: int, log: dict[int, Message]) -> set[str]:
        if offset in log:
            return set()
        if offset < self.log_start:
            return {f"{part}_expired"}
        return {f"{part}_lead" if part == "queues" else f"{part}_leads"}

    @staticmethod
    def message_of(entry: Entry, log: dict[int, Message]) -> Message | None:
        """Return the message that an entry is of, None if it is of none that the log has."""
        one = log.get(entry.offset)
        if one is None:
            return None
        return one if entry.text in one.texts else None

    def misnumbered(self) -> dict[int, list[str]]:
        """Return the light queues of messages whose numbers in them are not those of their units.

        A broker that cannot read such a number gives no unit; one that it can read may still be
        another than that of the place where the unit then stands, or that of an older message.
        """
        places = {(unit.topic, unit.offset): unit.queue_offset for unit in self.units}
        found = {}
        given: Counter[tuple[str, int | None]] = Counter()
        for one in self.messages:
            properties = dict(one.properties)
            names = properties.get("INNER_MULTI_DISPATCH", "").split(",")
            texts = properties.get("INNER_MULTI_QUEUE_OFFSET", "").split(",")
            numbers = [records.java_number(text, 64) for text in texts]
            pairs = list(zip(names, numbers, strict=False))
            stand = [places.get((name, one.offset), number) for name, number in pairs]
            is_taken = any(given[pair] for pair in pairs)
            given.update(pairs)
            if names != [""] and (None in numbers or numbers != stand or is_taken):
                found[one.offset] = names
        return found

    def present(self) -> set[Message | Entry | Unit]:
        """Return all that stands in the files."""
        return {*self.messages, *self.entries, *self.units}

    def surely(self, kind: str) -> list[Message] | list[Entry] | list[Unit]:
        """Return what readers of ``messages``, ``entries`` or ``units`` must answer."""
        sure = [one for one in getattr(self, kind) if one not in self.maybe]
        if kind == "messages":  # no queue can be made of a topic that is half written
            sure = [one for one in sure if "\0" not in one.topic]
        if kind == "messages" and self.agreed is not None:
            agreed = max(self.agreed, self._dispatched + 1)
            return [one for one in sure if one.offset < agreed]
        return sure

    @property
    def _dispatched(self) -> int:
        """The newest message that index or queues have: a group of DLedger agreed on it."""
        log = {one.offset: one for one in self.messages}
        found = [one.offset for one in self.entries if self.message_of(one, log)]
        found += [
            one.offset
            for one in self.units
            if one.offset in log and log[one.offset].size == one.size
        ]
        return max(found, default=-1)

    def possibly(self, kind: str) -> set[Message | Entry | Unit]:
        """Return what they may answer at most."""
        type_ = {"messages": Message, "entries": Entry, "units": Unit}[kind]
        altered = self.altered if kind == "messages" else []
        uncertain = (one for one in self.maybe if isinstance(one, type_))
        return {*getattr(self, kind), *altered, *uncertain}


@dataclass(frozen=True)
class Damage:
    """Bytes of a store that something changed, and what they made unreadable."""

    #: Relative to the store's root, with "/".
    file: str
    start: int
    stop: int
    #: zeros, noise, lost, cut, swapped.
    kind: str
    messages: frozenset[Message] = frozenset()
    entries: frozenset[Entry] = frozenset()
    units: frozenset[Unit] = frozenset()
    #: The messages that readers had to answer: a group of DLedger agreed on them.
    answered: frozenset[Message] = frozenset()
    #: Where the change cannot be seen in any answer (padding, a flag that nobody reads).
    is_harmless: bool = False
