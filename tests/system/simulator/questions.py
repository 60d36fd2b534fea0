"""Questions that a seed asks: of keys that exist, keys that do not, collisions, times, filters."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable

    from .draw import Draw
    from .model.truth import Truth

__all__ = ["ABSENT", "question_of"]

Question = dict[str, Any]
#: Pairs of one hash, and what is in no store.
_ODD_KEYS = ("Aa", "BB", "AaAa", "absent", "polygenelubricants", "a b", "x#y", "k0 k1")


#: A topic that no store has.
ABSENT = "Ordres"


class _Asked(NamedTuple):
    """What a question is drawn from."""

    draw: Draw
    truth: Truth
    root: str
    user: str


def question_of(draw: Draw, truth: Truth, root: str, user: str) -> Question:
    """Draw a question for a user.

    Args:
        draw: The choices.
        truth: What is in the store.
        root: The store.
        user: Who is asked.
    """
    asked = _Asked(draw, truth, root, user)
    question: Question = {}
    if user not in _WITHOUT_GEOMETRY and draw.chance(0.5):
        question["geometry"] = True
    for part in _PARTS.get(user, ()):
        question |= part(asked)
    if user not in _WITHOUT_MODE and draw.chance(0.15):
        question["mode"] = "DROPMALFORMED"
    return question


def _keys(asked: _Asked) -> Question:
    draw, truth = asked.draw, asked.truth
    if asked.user == "lookup --tag":
        pairs = [(one.topic, one.tags) for one in truth.messages if one.tags]
    else:
        pairs = [(one.topic, key) for one in truth.messages for key in one.keys]
        pairs += [
            (one.topic, key) for one in truth.messages for inner in one.inner for key in inner.keys
        ]
        old = [entry.text.partition("#") for entry in truth.entries if entry.kind == "key"]
        pairs += [(topic, key) for topic, _, key in old[:50]]
    pairs = [pair for pair in pairs if pair[1] and not set(pair[1]) & {"\0", "\n"}]
    topic = draw.one([pair[0] for pair in pairs] or ["Orders"])
    mine = [key for other, key in pairs if other == topic]
    keys = [draw.one(mine) for _ in range(draw.skewed(1, 4))] if mine else []
    if not keys or draw.chance(0.2):
        keys.append(draw.one(_ODD_KEYS))
    return {"topic": topic, "keys": list(dict.fromkeys(keys))}


def _typed_keys(asked: _Asked) -> Question:
    """Ask for keys that are typed, a line each; or standard input is closed."""
    question = _keys(asked)
    keys = [key for key in question["keys"] if "\r" not in key]
    return {**question, "keys": keys or ["k0"], "input": asked.draw.one(["open", "open", "closed"])}


def _key(asked: _Asked) -> Question:
    keys = _keys(asked)
    return {"topic": keys["topic"], "key": keys["keys"][0]}


def _times(asked: _Asked) -> Question:
    draw = asked.draw
    times = [one.store_time for one in asked.truth.messages]
    if not times or not draw.chance(0.25):
        return {}
    first, last = (max(draw.one(times) + draw.one([0, 0, -1, 1, 1000, -1000]), 0) for _ in range(2))
    question = {}
    if draw.chance(0.8):
        question["begin"] = min(first, last)
    if draw.chance(0.8):
        question["end"] = max(first, last)
    return question


def _reversed(asked: _Asked) -> Question:
    """Ask for times of which the first is the later one."""
    draw = asked.draw
    if not draw.chance(0.03):
        return {}
    first = draw.number(1_700_000_000_000, 1_700_000_100_000)
    return {"begin": first + draw.number(1, 10**9), "end": first}


def _range(asked: _Asked) -> Question:
    draw = asked.draw
    offsets = [one.offset for one in asked.truth.messages]
    question: Question = {}
    if offsets and draw.chance(0.2):
        question["from"] = draw.one(offsets)
    if offsets and draw.chance(0.2):
        question["to"] = max(draw.one(offsets), question.get("from", 0))
    return question


def _filters(asked: _Asked) -> Question:
    draw, truth = asked.draw, asked.truth
    question: Question = {}
    if not truth.messages:
        return question
    some = draw.one(truth.messages)
    if draw.chance(0.3):
        question["topics"] = [ABSENT if draw.chance(0.1) else some.topic]
    if draw.chance(0.15):
        question["queues"] = [some.queue_id]
    if some.tags and draw.chance(0.15):
        question["tags"] = [some.tags]
    return question


def _topics(asked: _Asked) -> Question:
    topics = _filters(asked).get("topics")
    return {"topics": topics} if topics else {}


def _key_hash(asked: _Asked) -> Question:
    if not asked.truth.entries or not asked.draw.chance(0.2):
        return {}
    return {"key_hash": asked.draw.one(asked.truth.entries).key_hash}


def _of(
    name: str, probability: float, value: Callable[[Draw], Any]
) -> Callable[[_Asked], Question]:
    """Return what sometimes adds an argument to a question."""
    return lambda asked: {name: value(asked.draw)} if asked.draw.chance(probability) else {}


def _by(draw: Draw) -> list[str]:
    return draw.some(["topic", "queue", "hour"], 3)


def _offsets(asked: _Asked) -> Question:
    draw, truth = asked.draw, asked.truth
    offsets = [draw.one(truth.messages).offset for _ in range(3)] if truth.messages else []
    return {"offsets": [*offsets, draw.number(0, max(truth.log_end, 1)), truth.log_end]}


def _offset(asked: _Asked) -> Question:
    draw, truth = asked.draw, asked.truth
    if truth.messages and draw.chance(0.9):
        return {"offset": draw.one(truth.messages).offset}
    return {"offset": draw.number(0, max(truth.log_end, 1))}


def _file(asked: _Asked) -> Question:
    root = Path(asked.root)
    files = sorted(str(path.relative_to(root)) for path in root.rglob("*") if path.is_file())
    return {"file": asked.draw.one(files or ["checkpoint"]), "limit": asked.draw.skewed(1, 1000)}


def _query(asked: _Asked) -> Question:
    draw = asked.draw
    question: Question = {"query": asked.user.replace(" ", "-")}
    if draw.chance(0.3):
        name, most = draw.one(_LIMITS[asked.user])
        question["limits"] = {name: str(draw.skewed(1, most))}
    if draw.chance(0.2):
        question["available_now"] = True
    if draw.chance(0.3):
        question["dies"] = draw.skewed(0, 3)
    return question


#: The options of a stream that limit a batch, and how much is asked for.
_LIMITS = {
    "stream of entries": [("maxEntriesPerTrigger", 30), ("maxFilesPerTrigger", 2)],
    "stream of messages": [("maxMessagesPerTrigger", 30), ("maxBytesPerTrigger", 5000)],
}


def _table_options(draw: Draw) -> dict[str, str]:
    """Draw options of a ``table()``."""
    choices = ["message", "bodyText", "checkCrc", "decompressBody"]
    options = dict.fromkeys(draw.some(choices, 2), "true")
    if draw.chance(0.3):
        options["columns"] = "topic,key,position,phy_offset"
    return options


_LIMIT = _of("limit", 0.3, lambda draw: draw.skewed(1, 30))
_MAX_NUM = _of("max_num", 0.2, lambda draw: draw.skewed(1, 80))
_CRC = _of("crc", 0.3, lambda _: True)
_BODIES = _of("bodies", 0.3, lambda _: True)
_SEARCH = _of("search_log", 0.3, lambda draw: draw.one(["all", "all", "none"]))
_SINCE = _of("since", 0.1, lambda _: "2h")
_HITS = (_keys, _times)
_LISTED = (_times, _reversed, _range, _filters, _LIMIT, _of("body", 0.5, lambda _: True))
_HOTTEST = (
    _of("by", 1, lambda draw: draw.one(["key", "key", "tag"])),
    _of("limit", 1, lambda draw: draw.one([3, 1000])),
)
#: What the question of each user is made of.
_PARTS: dict[str, tuple[Callable[[_Asked], Question], ...]] = {
    "lookup": (*_HITS, _MAX_NUM),
    "lookup --csv": (*_HITS, _MAX_NUM),
    "lookup --keys-file -": (_typed_keys, _times),
    "lookup --message": _HITS,
    "lookup (table)": _HITS,
    "lookup --tag": _HITS,
    "lookup --broker": (*_HITS, _MAX_NUM),
    "MessageStore.lookup": (*_HITS, _MAX_NUM),
    "IndexFile.lookup": (_keys,),
    "IndexDirectory.query_offset": (*_HITS, _MAX_NUM),
    "load, filtered": _HITS,
    "load with keys": _HITS,
    "table()": _HITS,
    "table(), overtaken": (_keys,),
    "table(), its LATERAL line": _HITS,
    "table(), its load() line": (_of("options", 0.8, _table_options),),
    "pushdown, unviewed": (_keys,),
    "lookup() by slots": _HITS,
    "lookup() by scan": _HITS,
    "rmq_lookup": _HITS,
    "explain": (_key, _times, _SEARCH),
    "MessageStore.explain": (_key, _times, _SEARCH),
    "scan": (_times, _range, _key_hash, _of("salvage", 0.25, lambda _: True)),
    "MessageStore.entries": (_times, _range, _key_hash),
    "messages": _LISTED,
    "messages (table)": _LISTED,
    "MessageStore.messages": (_times, _range, _filters),
    "usage": (_times, _reversed, _topics, _of("by", 0.3, _by)),
    "MessageStore.dataset, of entries": (_times, _range, _key_hash),
    "MessageStore.dataset, of keys": _HITS,
    "MessageStore.dataset, of messages": (_times, _range, _filters),
    "MessageStore.usage": (_times, _of("by", 0.3, _by)),
    "usage --by key": _HOTTEST,
    "MessageStore.usage, of keys": _HOTTEST,
    "CommitLog.scan": (_range, _CRC),
    "CommitLog.record_boundaries": (
        _of("chunk_size", 1, lambda draw: draw.one([300, 1000, 3000, 100_000])),
    ),
    "CommitLog.read_at": (_offsets, _CRC),
    "cat": (_offset,),
    "cat --raw": (_offset,),
    "dump": (_file,),
    "verify": (_SINCE, _BODIES),
    "verify (table)": (_SINCE,),
    "rmqindex.verify": (_of("log", 1, lambda draw: draw.one(["auto", None])),),
    "stream of entries": (_query,),
    "stream of messages": (_query,),
}
_WITHOUT_GEOMETRY = {
    "rmqcommitlog", "rmqconsumequeue", "MessageStore.__repr__",
    "MessageStore.dataset, of queues", *(
    user for user in _PARTS if user.startswith(("stream", "CommitLog", "messages", "cat", "usage"))
)}  # fmt: skip
_WITHOUT_MODE = {
    "explain", "verify", "verify (table)", "dump", "lookup --broker", "audit", "salvage",
    "IndexDirectory.query_offset", "rmqindex.verify", "ConsumeQueue.scan", "CommitLog.read_at",
    "CommitLog.record_boundaries", "rmqconsumequeue", "MessageStore.dataset, of queues",
}  # fmt: skip
