"""Every method of ``MessageStore`` that reads."""

from __future__ import annotations

import re
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from .outcome import Outcome, attempt

if TYPE_CHECKING:
    from collections.abc import Callable

    import pyarrow as pa

    from .outcome import Place

__all__ = ["METHODS", "let_go", "millis", "notes_of"]

#: What was asked once is asked again, as by a program that runs for days beside the broker.
_HELD: dict[tuple[Any, ...], Any] = {}
_HIT_COLUMNS = (
    "topic", "key", "file", "position", "phy_offset", "store_timestamp", "match_state",
)  # fmt: skip
_UNIT_COLUMNS = ("topic", "queue_id", "queue_offset", "phy_offset", "size", "tags_code")


def rows_of(table: pa.Table | pa.RecordBatch) -> list[dict[str, Any]]:
    """Return rows whose timestamps are epoch milliseconds, also those that no datetime can hold."""
    import pyarrow as pa

    kept = [name for name in table.schema.names if not pa.types.is_struct(table[name].type)]
    columns = [
        column.cast(pa.timestamp("ms"), safe=False).cast(pa.int64())
        if pa.types.is_timestamp(column.type)
        else column
        for column in map(table.column, kept)
    ]
    lists = [column.to_pylist() for column in columns]
    return [dict(zip(kept, values, strict=True)) for values in zip(*lists, strict=True)]


def millis(time: Any) -> int:
    """Return epoch milliseconds of a timestamp."""
    return time if isinstance(time, int) else round(time.timestamp() * 1000)


def notes_of(schema: pa.Schema) -> list[str]:
    """Return what the metadata of an answer says."""
    metadata = schema.metadata or {}
    return [f"{name.decode()}: {text.decode()}" for name, text in metadata.items()]


def _store(place: Place, question: dict[str, Any], **more: Any) -> Any:
    from rmqindex import Layout, MessageStore

    layout = place.layout if question.get("geometry") else None
    mode = question.get("mode", "FAILFAST")
    asked = (question.get("path", place.root), layout, mode, *sorted(more.items()))
    store = _HELD.get(asked)
    if store is None:
        path, given = asked[0], Layout(*layout) if layout else None
        store = MessageStore(path, layout=given, mode=mode, time_zone="UTC", **more)
        _HELD[asked] = store
    return store


def let_go() -> None:
    """Forget the stores that were asked: another history begins."""
    _HELD.clear()


def _named(question: dict[str, Any], **names: str) -> dict[str, Any]:
    return {
        theirs: question[ours]
        for ours, theirs in names.items()
        if question.get(ours) not in (None, [])
    }


def lookup(outcome: Outcome, place: Place, question: dict[str, Any]) -> list[tuple[Any, ...]]:
    """Look up keys."""
    keys = question["keys"]
    table = _store(place, question).lookup(
        question["topic"],
        keys[0] if len(keys) == 1 else keys,
        message=bool(question.get("message")),
        **_named(question, begin="begin", end="end", max_num="max_num"),
    )
    outcome.notes += notes_of(table.schema)
    return [tuple(row[name] for name in _HIT_COLUMNS) for row in rows_of(table)]


def entries(outcome: Outcome, place: Place, question: dict[str, Any]) -> list[tuple[Any, ...]]:
    """Read entries."""
    names = _named(question, begin="begin", end="end", key_hash="key_hash")
    names |= _named(question, **{"from": "start", "to": "stop"})
    reader = _store(place, question).entries(**names)
    outcome.notes += notes_of(reader.schema)
    return [
        (row["file"], row["position"], row["key_hash"], row["phy_offset"],
         millis(row["store_timestamp"]))
        for row in rows_of(reader.read_all())
    ]  # fmt: skip


def message_of(row: dict[str, Any]) -> dict[str, Any]:
    """Return a message in the form that the judge compares."""
    names = {
        "phy_offset": "offset",
        "size": "size",
        "topic": "topic",
        "queue_id": "queue_id",
        "queue_offset": "queue_offset",
        "tags": "tags",
        "uniq_key": "uniq_key",
        "keys": "keys",
        "body": "body",
        "sys_flag": "sys_flag",
    }
    message = {ours: row[theirs] for theirs, ours in names.items() if theirs in row}
    if row.get("store_timestamp") is not None:
        message["store_time"] = millis(row["store_timestamp"])
    return message


def messages(outcome: Outcome, place: Place, question: dict[str, Any]) -> list[dict[str, Any]]:
    """Read messages."""
    names = _named(question, topics="topic", queues="queue_id", tags="tags")
    names |= _named(question, begin="begin", end="end", **{"from": "start", "to": "stop"})
    names |= _named(question, columns="columns")
    reader = _store(place, question).messages(**names)
    outcome.notes += notes_of(reader.schema)
    return [message_of(row) for row in rows_of(reader.read_all())]


def _filter_of(question: dict[str, Any]) -> Any:
    """Return what a question asks for as an expression of Arrow; None for everything."""
    from functools import reduce

    import pyarrow as pa
    import pyarrow.compute as pc

    def time(name: str) -> Any:
        return pa.scalar(question[name], pa.timestamp("ms", "UTC"))

    parts = [
        make()
        for name, make in {
            "begin": lambda: pc.field("store_timestamp") >= time("begin"),
            "end": lambda: pc.field("store_timestamp") <= time("end"),
            "from": lambda: pc.field("phy_offset") >= question["from"],
            "to": lambda: pc.field("phy_offset") < question["to"],
            "keys": lambda: pc.field("key").isin(question["keys"]),
            "key_hash": lambda: pc.field("key_hash") == question["key_hash"],
            "topics": lambda: pc.field("topic").isin(question["topics"]),
            "queues": lambda: pc.field("queue_id").isin(question["queues"]),
            "tags": lambda: pc.field("tags").isin(question["tags"]),
        }.items()
        if question.get(name) not in (None, [])
    ]
    return reduce(lambda one, other: one & other, parts) if parts else None


def entry_dataset(_: Outcome, place: Place, question: dict[str, Any]) -> list[tuple[Any, ...]]:
    """Filter the dataset of entries, without the log, whose times are exact."""
    names = ["file", "position", "key_hash", "phy_offset", "store_timestamp"]
    dataset = _store(place, question, commit_log=None).dataset()
    rows = rows_of(dataset.to_table(names, filter=_filter_of(question)))
    return [(*(row[name] for name in names[:-1]), row["store_timestamp"]) for row in rows]


def key_dataset(_: Outcome, place: Place, question: dict[str, Any]) -> list[tuple[Any, ...]]:
    """Filter the dataset of entries by keys, which are compared with their messages."""
    dataset = _store(place, question).dataset()
    wanted = {"topics": [question["topic"]], **question}
    table = dataset.to_table(list(_HIT_COLUMNS), filter=_filter_of(wanted))
    return [tuple(row[name] for name in _HIT_COLUMNS) for row in rows_of(table)]


def unit_dataset(_: Outcome, place: Place, question: dict[str, Any]) -> list[tuple[Any, ...]]:
    """Filter the dataset of units."""
    table = _store(place, question).dataset("queues").to_table(filter=_filter_of(question))
    return [tuple(row[name] for name in _UNIT_COLUMNS) for row in rows_of(table)]


def message_dataset(_: Outcome, place: Place, question: dict[str, Any]) -> list[dict[str, Any]]:
    """Filter the dataset of messages."""
    table = _store(place, question).dataset("messages").to_table(filter=_filter_of(question))
    return [message_of(row) for row in rows_of(table)]


def usage(outcome: Outcome, place: Place, question: dict[str, Any]) -> list[tuple[Any, ...]]:
    """Count messages."""
    by = question.get("by") or ["topic"]
    names = _named(question, begin="begin", end="end")
    table = _store(place, question).usage(by=by, **names)
    outcome.notes += notes_of(table.schema)
    return [
        (row.get("topic"), row.get("queue_id"), row.get("hour"), row["message_count"], row["size"])
        for row in rows_of(table)
    ]


def key_usage(outcome: Outcome, place: Place, question: dict[str, Any]) -> list[dict[str, Any]]:
    """Count keys or tags."""
    table = _store(place, question).usage(by=question["by"], limit=question["limit"])
    outcome.notes += notes_of(table.schema)
    return rows_of(table)


def explain(_: Outcome, place: Place, question: dict[str, Any]) -> dict[str, Any]:
    """Explain a key."""
    names = _named(question, begin="begin", end="end", search_log="search_log")
    return asdict(_store(place, question).explain(question["topic"], question["key"], **names))


def verify(_: Outcome, place: Place, question: dict[str, Any]) -> list[dict[str, Any]]:
    """Audit."""
    return _store(place, question).verify(**_named(question, since="since")).to_pylist()


def shown(_: Outcome, place: Place, question: dict[str, Any]) -> None:
    """Show the store as a notebook does."""
    store = _store(place, question)
    repr(store)
    store._repr_html_()


def _method(
    kind: str, function: Callable[[Outcome, Place, dict[str, Any]], Any]
) -> Callable[[Place, dict[str, Any], str], Outcome]:
    def asked(place: Place, question: dict[str, Any], user: str) -> Outcome:
        from rmqindex import RmqIndexError

        outcome = Outcome(user, kind, question)
        attempt(outcome, lambda _: function(outcome, place, question), (RmqIndexError, ValueError))
        if outcome.error == "ValueError" and not _is_told(outcome.text):
            outcome.status = "crashed"
        return outcome

    return asked


def _is_told(text: str) -> bool:
    """Tell whether an error is the package's own: it says what was expected, or needed."""
    return bool(re.search(r"expected|needs|give|not ", text))


#: Who asks what: the kind of the answer, and the call.
METHODS = {
    "MessageStore.lookup": _method("hits", lookup),
    "MessageStore.entries": _method("entries", entries),
    "MessageStore.messages": _method("messages", messages),
    "MessageStore.dataset, of entries": _method("entries", entry_dataset),
    "MessageStore.dataset, of keys": _method("hits", key_dataset),
    "MessageStore.dataset, of queues": _method("units", unit_dataset),
    "MessageStore.dataset, of messages": _method("messages", message_dataset),
    "MessageStore.usage": _method("usage", usage),
    "MessageStore.usage, of keys": _method("key_usage", key_usage),
    "MessageStore.explain": _method("explained", explain),
    "MessageStore.verify": _method("findings", verify),
    "MessageStore.__repr__": _method("printed", shown),
}
