"""Whether consumers can get messages, and which consumer groups have passed them."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from rmqindex.consumequeue.progress import MessagePlace, QueueReaches
from rmqindex.errors import RmqIndexError, counted
from rmqindex.explanation.index_search import SYSTEM_TOPICS
from rmqindex.explanation.result import EXPLAIN_REASONS, Reason
from rmqindex.explanation.transactions import TransactionState, transaction_states
from rmqindex.explanation.wording import listed
from rmqindex.layout.queue import SCHEDULE_TOPIC
from rmqindex.layout.store import CONFIG_FOLDER
from rmqindex.store.config import ConsumerOffsets, config_databases, delay_offsets
from rmqindex.transaction.broker_lock import BrokerState
from rmqindex.transaction.directories import exists

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from rmqindex.commitlog.log import CommitLog
    from rmqindex.explanation.wording import Times
    from rmqindex.storage.location import Location

_NOUN = ("message", "messages")
# States in which a group's offset says something of the message.
_IN_LIFE = frozenset({"in_queue", "behind_queue", "left_queue", "queue_missing", "queue_unread"})
_OF_GROUPS = ("passed", "not_passed", "offset_beyond_end")
# What a rebuild of the queues mends, if the CommitLog has the message.
_MENDED = frozenset({"behind_queue", "queue_missing"})
#: The reasons of how a transaction ended.
TRANSACTION_REASONS: dict[TransactionState, str] = {
    "committed": "half_committed",
    "rolled_back": "half_rolled_back",
}


@dataclass(frozen=True, slots=True)
class Consumption:
    """Where messages stand in their ConsumeQueues, and who has passed them.

    Attributes:
        places: The messages.
        states: The state of each, a name of ``QUEUE_STATES``.
        offsets: What the consumer groups have committed; None where it is not known.
        fault: Why it is not known.
        ends: The ends of their queues, by topic and queue; None where it is not known.
        delays: What of the delayed messages has come due, by queue; None where it is not known.
        transactions: How the transaction of each ended; none where no log was read.
        has_queues: Whether the store has any folder of queues.
    """

    places: tuple[MessagePlace, ...]
    states: tuple[str, ...]
    offsets: ConsumerOffsets | None
    fault: str | None = None
    ends: Mapping[tuple[str, int], int | None] = field(default_factory=dict)
    delays: dict[int, int] | None = None
    transactions: tuple[TransactionState | None, ...] = ()
    has_queues: bool = True

    def apart(self) -> list[Consumption]:
        """Return the same for each message alone."""
        return [
            replace(self, places=(place,), states=(state,), transactions=(ended,))
            for place, state, ended in zip(self.places, self.states, self._ends(), strict=True)
        ]

    def ended(self, state: TransactionState) -> list[MessagePlace]:
        """Return the messages whose transaction ended in one way."""
        return [
            place for place, ended in zip(self.places, self._ends(), strict=True) if ended == state
        ]

    def _ends(self) -> tuple[TransactionState | None, ...]:
        return self.transactions or (None,) * len(self.places)

    @property
    def is_of_groups(self) -> bool:
        """Whether offsets of groups say anything of any of the messages."""
        return self.offsets is not None and any(
            state in _IN_LIFE and place.topic not in SYSTEM_TOPICS
            for place, state in zip(self.places, self.states, strict=True)
        )

    def groups(self) -> dict[str, dict[str, int]]:
        """Return by reason how many of the messages it is of, by group."""
        found: dict[str, Counter[str]] = {code: Counter() for code in _OF_GROUPS}
        for place, state in zip(self.places, self.states, strict=True):
            if self.offsets is None or state not in _IN_LIFE or place.topic in SYSTEM_TOPICS:
                continue
            end = self.ends.get((place.topic, place.queue_id))
            for group, queues in self.offsets.groups(place.topic).items():
                committed = queues.get(place.queue_id, 0)
                if end is not None and committed > end:
                    found["offset_beyond_end"][group] += 1
                else:
                    found["passed" if committed > place.queue_offset else "not_passed"][group] += 1
        return {code: dict(groups) for code, groups in found.items() if groups}


def consumption_of(
    root: Location, places: Sequence[MessagePlace], log: CommitLog | None = None
) -> Consumption | None:
    """Find where messages stand in the ConsumeQueues of a store.

    Args:
        root: The store.
        places: The messages.
        log: Its CommitLog, which tells how transactions ended; None not to ask.

    Returns:
        Where they stand; None where the store has neither ConsumeQueues nor ``config``, as a copy
        of its log alone.
    """
    offsets, delays, fault = None, None, None
    try:
        # Before the queues: what was committed then is in them.
        offsets = ConsumerOffsets.of(root)
        delays = delay_offsets(root)
    except RmqIndexError as error:
        fault = str(error)
    try:
        reaches = QueueReaches(root)
    except RmqIndexError as error:
        states = ("queue_unread",) * len(places)
        return Consumption(tuple(places), states, offsets, fault or str(error), delays=delays)
    if not reaches.has_folder and not exists(root.child(CONFIG_FOLDER)):
        return None
    if offsets is None and fault is None:
        databases = config_databases(root)
        fault = f"{root.child(CONFIG_FOLDER)} has no consumerOffset.json"
        if databases:
            fault += f", and RocksDB databases ({', '.join(databases)}), which are not read"
    queues = dict.fromkeys((place.topic, place.queue_id) for place in places)
    ends = {queue: reaches.end(*queue) for queue in queues}
    ended = () if log is None else transaction_states(log, reaches.queues, places)
    states = tuple(reaches.states(places))
    return Consumption(
        tuple(places), states, offsets, fault, ends, delays, tuple(ended), reaches.has_folder
    )


def state_text(state: str, topic: str) -> str:
    """Return what a state of ``QUEUE_STATES`` means for a message of a topic."""
    if state == "in_queue" and topic in SYSTEM_TOPICS:
        return "The message is in its ConsumeQueue, which is for the broker alone."
    return EXPLAIN_REASONS[state]


def consumption_reasons(
    consumption: Consumption | None, times: Times, rebuild: str | None, broker: BrokerState
) -> Iterator[Reason]:
    """Say whether consumers can get the messages, and which groups have passed them.

    Args:
        consumption: Where they stand; None says nothing.
        times: Writes the time of the offsets.
        rebuild: The command that rebuilds the queues, if one does.
        broker: Whether a broker runs on the store.
    """
    if consumption is None or not consumption.places:
        return
    yield from _queue_reasons(consumption, rebuild, broker)
    yield from _system_reasons(consumption)
    own = [place for place in consumption.places if place.topic not in SYSTEM_TOPICS]
    if own:
        yield from _group_reasons(consumption, own, times)


def _queue_reasons(
    consumption: Consumption, rebuild: str | None, broker: BrokerState
) -> Iterator[Reason]:
    found: dict[tuple[str, bool], list[MessagePlace]] = {}
    for place, state in zip(consumption.places, consumption.states, strict=True):
        found.setdefault((state, place.topic in SYSTEM_TOPICS), []).append(place)
    for (code, is_system), places in found.items():
        if is_system and code == "in_queue":
            continue  # what becomes of it is said instead
        queues = _queues(places)
        total = sum((place.topic in SYSTEM_TOPICS) == is_system for place in consumption.places)
        share = f"{len(places)} of {counted(total, *_NOUN)}" if total > 1 else "The message"
        offsets = "" if len(places) > 1 else f", queue offset {places[0].queue_offset}"
        more = ""
        if code == "behind_queue" and broker is BrokerState.RUNNING:
            more = " The broker runs, and dispatches its newest messages within moments."
        if code == "queue_missing" and not consumption.has_queues:
            more = " The store has none: its broker builds them from the log when it starts."
        mends = code in _MENDED and broker is not BrokerState.RUNNING and consumption.has_queues
        yield Reason(
            code,
            f"{EXPLAIN_REASONS[code]} {share}: {queues}{offsets}.{more}",
            rebuild if mends else None,
            phy_offsets=tuple(each.phy_offset for each in places),
        )


def _queues(places: Sequence[MessagePlace]) -> str:
    """Return the queues of messages, by topic."""
    topics: dict[str, set[int]] = {}
    for place in places:
        topics.setdefault(place.topic, set()).add(place.queue_id)
    return "; ".join(
        f"{topic}, queue{'' if len(numbers) == 1 else 's'} {listed(sorted(numbers))}"
        for topic, numbers in topics.items()
    )


def _system_reasons(consumption: Consumption) -> Iterator[Reason]:
    """Say what becomes of messages that a broker keeps for later."""
    for topic in dict.fromkeys(place.topic for place in consumption.places):
        if topic in SYSTEM_TOPICS:
            yield Reason(
                "not_for_consumers",
                f"{EXPLAIN_REASONS['not_for_consumers']} {topic}: "
                f"{EXPLAIN_REASONS[SYSTEM_TOPICS[topic]]}",
            )
    yield from transaction_reasons(consumption)
    delays = consumption.delays
    delayed = [place for place in consumption.places if place.topic == SCHEDULE_TOPIC]
    if delays is None or not delayed:
        return
    over = [each for each in delayed if delays.get(each.queue_id, 0) > each.queue_offset]
    waiting = [each for each in delayed if each not in over]
    for code, places in (("delay_over", over), ("delay_pending", waiting)):
        if places:
            yield _of_messages(code, places)


def transaction_reasons(consumption: Consumption | None) -> Iterator[Reason]:
    """Say how the transactions of half messages ended, where the log proves it."""
    for state, code in TRANSACTION_REASONS.items():
        places = [] if consumption is None else consumption.ended(state)
        if places:
            yield _of_messages(code, places)


def _of_messages(code: str, places: Sequence[MessagePlace]) -> Reason:
    sentence = f"{EXPLAIN_REASONS[code]} {counted(len(places), *_NOUN)}."
    return Reason(code, sentence, phy_offsets=tuple(each.phy_offset for each in places))


def _group_reasons(
    consumption: Consumption, places: Sequence[MessagePlace], times: Times
) -> Iterator[Reason]:
    if consumption.fault is not None:
        yield Reason(
            "offsets_unknown", f"{EXPLAIN_REASONS['offsets_unknown']} {consumption.fault}."
        )
    offsets = consumption.offsets
    if offsets is None:
        return
    found = consumption.groups()
    as_of = f"As {offsets.path.name} had it {times.text(offsets.modified)}"
    notes = f" Beside it: {'; '.join(offsets.notes)}." if offsets.notes else ""
    for code, groups in found.items():
        named = listed(_named(group, count, places, offsets) for group, count in groups.items())
        yield Reason(code, f"{EXPLAIN_REASONS[code]} {as_of}: {named}.{notes}")
        notes = ""
    alive = [s for p, s in zip(consumption.places, consumption.states, strict=True) if p in places]
    if not found and not _IN_LIFE.isdisjoint(alive):
        yield Reason("no_group", f"{EXPLAIN_REASONS['no_group']} {as_of}.{notes}")


def _named(group: str, count: int, places: Sequence[MessagePlace], offsets: ConsumerOffsets) -> str:
    """Return a group, and how many of the messages, or its offset in the queue of the only one."""
    if len(places) > 1:
        return f"{group} ({count} of {len(places)})"
    (place,) = places
    committed = offsets.table[place.topic, group].get(place.queue_id)
    at = "no offset" if committed is None else f"next is {committed}"
    return f"{group} (queue {place.queue_id}: {at})"
