"""The topic of a question: whether the store has it, and under which others the key is."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

from rmqindex.consumequeue.paths import nearest_topic
from rmqindex.errors import RmqIndexError, counted
from rmqindex.explanation.index_search import is_spelling, topic_code, topics_of
from rmqindex.explanation.result import EXPLAIN_REASONS, Reason
from rmqindex.explanation.wording import listed
from rmqindex.keys.hashing import index_key
from rmqindex.store.config import TopicTable

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from rmqindex.explanation.commands import Commands
    from rmqindex.explanation.diagnosis import Evidence
    from rmqindex.explanation.result import OtherTopic
    from rmqindex.storage.location import Location

# Of more stores, nobody is told which topics they have; and more topics are not named.
_MOST_STORES, _MOST_HINTS = 8, 3
# The likeliest mistake first; the topics in which a broker keeps messages of others in between.
_ORDER = {"topic_spelling": 0, "other_topic": 2}


def topic_names(root: Location) -> list[str]:
    """Return the topics that a store has, by its ConsumeQueues and its table of topics.

    None are known of a copy without both; a table that cannot be read names none.
    """
    names = {*(topics_of(root) or ())}
    with suppress(RmqIndexError):
        if root.local is not None and (table := TopicTable.of(root.local)):
            names |= table.topics
    return sorted(names)


def swapped_pairs(topic: str, key: str, names: Sequence[str]) -> list[tuple[str, str]]:
    """Return the topics and keys that are meant where the two are in each other's place.

    Only a key that is a topic, maybe in other case, and a topic that is none show that.
    """
    if topic in names:
        return []
    return [(name, topic) for name in names if name == key or is_spelling(name, key)]


def topic_hints(roots: Iterable[Location], pairs: Iterable[tuple[str, str]]) -> list[str]:
    """Return a sentence for each topic asked for that none of some local stores has.

    Nothing is said where a store does not tell its topics, nor of more stores than a few: each
    costs two listings and a table.

    Args:
        roots: The store roots.
        pairs: The topics and keys that are looked up.
    """
    stores = list(dict.fromkeys(roots))
    if len(stores) > _MOST_STORES or any(root.local is None for root in stores):
        return []
    keys: dict[str, str] = {}
    for topic, key in pairs:
        keys.setdefault(topic, key)
    told = [topic_names(root) for root in stores]
    names = {name for each in told for name in each} if all(told) else set()
    texts = []
    for topic, key in keys.items() if names else ():
        if topic in names:
            continue
        text = f"the topic {topic!r} is none of the store's"
        if swapped := swapped_pairs(topic, key, sorted(names)):
            text += f", and {swapped[0][0]!r} is one: topic and key may be in each other's place"
        elif (near := nearest_topic(topic, sorted(names))) is not None:
            text += f"; the nearest one is {near!r}"
        texts.append(text)
    return texts[:_MOST_HINTS]


def topic_reasons(evidence: Evidence, commands: Commands) -> Iterator[Reason]:
    """Say that the store does not have the topic, and name the other topics with the key."""
    yield from _unknown_topic(evidence, commands)
    reasons = [_other_topic(other, evidence, commands) for other in evidence.others]
    drawn = {reason.code for reason in reasons}
    # A topic that was misspelt explains more than others with the same key.
    left_out = "other_topic" if "topic_spelling" in drawn else None
    rest = [reason for reason in reasons if reason.code != left_out]
    yield from sorted(rest, key=lambda reason: _ORDER.get(reason.code, 1))
    if not evidence.topics_known:
        yield Reason(
            "topics_unknown",
            "Retry and dead letter topics were not looked at: the ConsumeQueues, whose folders "
            "name them, are in RocksDB.",
            commands.search_all(evidence.topic, evidence.forms.key),
        )


def _unknown_topic(evidence: Evidence, commands: Commands) -> Iterator[Reason]:
    topic, key, names = evidence.topic, evidence.forms.key, evidence.topic_names
    if not names or topic in names or evidence.own_entries or evidence.own_messages("key"):
        return
    swapped = swapped_pairs(topic, key, names)
    if swapped:
        hits = next(iter(evidence.swapped), None)
        meant = swapped[0] if hits is None else (hits.topic, hits.key)
        sentence = f"{EXPLAIN_REASONS['swapped']} {meant[0]} is a topic of the store, {topic} none."
        if hits is None:
            yield Reason("swapped", sentence, commands.explain(*meant), meant[0])
            return
        offsets = hits.phy_offsets
        count = counted(len(offsets), "message")
        sentence += f" {index_key(*meant)} has {count}: {listed(offsets)}."
        yield Reason("swapped", sentence, commands.lookup(*meant), meant[0], offsets)
        return
    if any(is_spelling(other.topic, topic) for other in evidence.others):
        return  # that reason says it
    near = nearest_topic(topic, names)
    if near is None:
        yield Reason("topic_unknown", f"The store has no topic {topic}.")
        return
    remedy = commands.lookup if near in evidence.indexed_topics else commands.explain
    sentence = f"The store has no topic {topic}; the nearest one is {near}."
    yield Reason("topic_unknown", sentence, remedy(near, key), near)


def _other_topic(other: OtherTopic, evidence: Evidence, commands: Commands) -> Reason:
    code = topic_code(other.topic, evidence.topic)
    kind = "messages" if other.is_verified else "candidates"
    sentence = f"Under the topic {other.topic}: {kind} with this key at "
    sentence += listed(other.phy_offsets)
    if other.real_topics:
        sentence += f", of {listed(other.real_topics)}"
    if code in ("topic_spelling", "other_topic"):
        ending = "topics are case-sensitive" if code == "topic_spelling" else ""
        sentence += f"; {ending}." if ending else "."
    else:
        sentence += f". {EXPLAIN_REASONS[code]}"
    return Reason(
        code,
        sentence,
        commands.lookup(other.topic, evidence.forms.key)
        if other.topic in evidence.indexed_topics
        else commands.cat(other.phy_offsets[0]),
        other.topic,
        other.phy_offsets,
    )
