"""What is sent to the broker, and by which keys it must be found."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any

from rmqindex import decode_offset_msg_id

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

ORDERS, BATCHES, DELAYED = "Orders", "Batches", "Delayed"
TRANSACTIONS, LIGHT, BODIES = "Transactions", "Light", "Bodies"
RETRIES, INNER_BATCHES = "Retries", "InnerBatches"
GROUP = "retriers"
#: After so many failures a message of the topic ``Retries`` is a dead letter.
MOST_RECONSUME_TIMES = 2

_FIRST_WITH_BATCH_QUEUES = (5, 0, 0)
_FIRST_WITH_TAGS = (5, 4, 0)
_FIRST_WITH_COMPRESSIONS = (5, 0, 0)
_QUEUES = 4
# A broker answers with 32 messages at most; every fourth or so is an order.
_SHARED_BY = 20
_CUSTOMER_ORDERS = 80
_TAGS = ("TagA", "TagB", None, "标签", "TagA-B")
_BODY_UNIT = "a body that is worth compressing, 一个值得压缩的消息体. "


def has_tags(version: str) -> bool:
    """Whether brokers of a version index tags."""
    return _numbers(version) >= _FIRST_WITH_TAGS


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(map(int, version.split(".")))


def topics(version: str) -> list[dict[str, Any]]:
    """Return the topics, as ``Client.java`` makes them."""
    plain = (ORDERS, BATCHES, DELAYED, TRANSACTIONS, LIGHT, BODIES, RETRIES)
    made: list[dict[str, Any]] = [{"topic": topic, "queues": _QUEUES} for topic in plain]
    if _numbers(version) >= _FIRST_WITH_BATCH_QUEUES:
        attributes = {"+queue.type": "BatchCQ"}
        made.append({"topic": INNER_BATCHES, "queues": 1, "attributes": attributes})
    return made


def messages(version: str, count: int, first: int = 0) -> list[dict[str, Any]]:
    """Return what ``Client.java`` sends, every kind in turn.

    Args:
        version: Of RocketMQ.
        count: How many sendings; some send several messages.
        first: The number of the first, from which keys are made.
    """
    kinds = [_plain, _batch, _plain, _delayed, _many_keys, _transaction, _plain, _light]
    kinds += [_compressed, _retried, _without_keys]
    if _numbers(version) >= _FIRST_WITH_BATCH_QUEUES:
        kinds.append(_inner_batch)
    compressions = ["ZLIB"]
    if _numbers(version) >= _FIRST_WITH_COMPRESSIONS:
        compressions += ["LZ4", "ZSTD"]
    made = []
    for number in range(first, first + count):
        turn, kind = divmod(number, len(kinds))
        spec = {"tags": _TAGS[number % len(_TAGS)], "body": f"message {number}", "flag": number}
        spec |= kinds[kind](number, turn)
        if spec["topic"] == BODIES:
            spec["compression"] = compressions[turn % len(compressions)]
        made.append({name: value for name, value in spec.items() if value is not None})
    return made


def _shared(topic: str, turn: int) -> str:
    return f"{topic}-{turn // _SHARED_BY}"


def _plain(number: int, turn: int) -> dict[str, Any]:
    # Two texts of one hash, in turn.
    twin = ("AaAa", "BBBB")[turn % 2]
    group = number // _CUSTOMER_ORDERS
    keys = f"order-{number} customer-{group} {twin}{group}"
    return {"topic": ORDERS, "keys": keys}


def _many_keys(number: int, turn: int) -> dict[str, Any]:
    keys = f" 订单-{number}  é-😀-{number} {_shared('顾客', turn)} #{number} T#{number} "
    return {"topic": ORDERS, "keys": keys}


def _without_keys(number: int, turn: int) -> dict[str, Any]:  # noqa: ARG001
    return {"topic": ORDERS, "tags": "keyless"}


def _batch(number: int, turn: int) -> dict[str, Any]:
    return _members(BATCHES, number, turn)


def _inner_batch(number: int, turn: int) -> dict[str, Any]:
    return _members(INNER_BATCHES, number, turn)


def _members(topic: str, number: int, turn: int) -> dict[str, Any]:
    made = [
        {
            "topic": topic,
            "keys": f"member-{number}-{place} {_shared('batch', turn * 3)}",
            "tags": _TAGS[place],
            "body": f"member {place} of {number}",
        }
        for place in range(3)
    ]
    for member in made:
        if member["tags"] is None:
            del member["tags"]
    return {"topic": topic, "tags": None, "body": None, "members": made}


def _delayed(number: int, turn: int) -> dict[str, Any]:
    return {"topic": DELAYED, "keys": f"later-{number} {_shared('later', turn)}", "delay": 1}


def _transaction(number: int, turn: int) -> dict[str, Any]:
    state = ("COMMIT_MESSAGE", "ROLLBACK_MESSAGE")[turn % 3 == 1]
    keys = f"payment-{number} {_shared('account', turn)}"
    return {"topic": TRANSACTIONS, "keys": keys, "transaction": state}


def _light(number: int, turn: int) -> dict[str, Any]:
    queues = ",".join(f"%LMQ%device-{place}" for place in sorted({turn % 3, turn % 2}))
    keys = f"signal-{number} {_shared('device', turn)}"
    return {"topic": LIGHT, "keys": keys, "properties": {"INNER_MULTI_DISPATCH": queues}}


def _compressed(number: int, turn: int) -> dict[str, Any]:
    keys = f"large-{number} {_shared('large', turn)}"
    return {"topic": BODIES, "keys": keys, "body": _BODY_UNIT, "times": 80 + turn % 7}


def _retried(number: int, turn: int) -> dict[str, Any]:
    # Every fourth goes well at once, every fourth never does.
    keys = f"task-{number} {_shared('task', turn)}"
    return {"topic": RETRIES, "keys": keys, "properties": {"fails": turn % 4}}


def consumed_count(specs: Sequence[dict[str, Any]]) -> int:
    """Return how often messages of the topic ``Retries`` are consumed, dead letters excepted."""
    fails = [spec["properties"]["fails"] for spec in specs if spec["topic"] == RETRIES]
    return sum(min(each, MOST_RECONSUME_TIMES) + 1 for each in fails)


def arrived_count(specs: Sequence[dict[str, Any]], topic: str) -> int:
    """Return how many messages reach a topic, late or not."""
    return sum(
        len(spec.get("members", [spec]))
        for spec in specs
        if spec["topic"] == topic and spec.get("transaction") != "ROLLBACK_MESSAGE"
    )


def findable(
    sent: Sequence[tuple[dict[str, Any], dict[str, Any]]],
) -> dict[tuple[str, str], set[int | str]]:
    """Return by topic and key what an administrator must be shown.

    Args:
        sent: What was sent, and what the producers were told.

    Returns:
        Sets of CommitLog offsets; of messages that the broker writes again, late or when their
        transaction is committed, unique keys.
    """
    wanted: dict[tuple[str, str], set[int | str]] = {}
    for spec, result in sent:
        for keys, name in _names(spec, result):
            for key in filter(None, keys.split(" ")):
                ids = wanted.setdefault((spec["topic"], key), set())
                if name is not None:
                    ids.add(name)
    return wanted


def _names(spec: dict[str, Any], result: dict[str, Any]) -> Iterator[tuple[str, int | str | None]]:
    ids = filter(None, result.get("offsetMsgId", "").split(","))
    offsets = [decode_offset_msg_id(each).phy_offset for each in ids]
    if spec["topic"] == INNER_BATCHES:
        # Its members' keys are inside, where the broker does not look.
        yield from ((member["keys"], None) for member in spec["members"])
    elif "members" in spec:
        keys = [member["keys"] for member in spec["members"]]
        yield from zip(keys, offsets, strict=True)
    elif spec.get("transaction") == "ROLLBACK_MESSAGE":
        yield spec["keys"], None
    elif "transaction" in spec or "delay" in spec:
        yield spec["keys"], result["msgId"]
    elif "keys" in spec:
        yield spec["keys"], offsets[0]


def light_queues(specs: Sequence[dict[str, Any]]) -> set[str]:
    """Return the light queues that messages name."""
    named = (spec.get("properties", {}).get("INNER_MULTI_DISPATCH", "") for spec in specs)
    return {queue for queue in itertools.chain(*(each.split(",") for each in named)) if queue}
