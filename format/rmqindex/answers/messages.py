"""Messages read from a CommitLog, as answers: whole, or as a list."""

from __future__ import annotations

import base64
from dataclasses import asdict
from typing import TYPE_CHECKING

import numpy as np

from rmqindex.answers.answer import NOT_FOUND, Answer, Nothing
from rmqindex.answers.terminal import Table, broken, print_table, print_text
from rmqindex.answers.text import cell_width, complain, one_line, visible
from rmqindex.commitlog.bodies import BadBodies, bad_body, unpack_bodies
from rmqindex.consumequeue.paths import unknown_topics
from rmqindex.errors import RmqIndexError, counted
from rmqindex.record.bodies import MAX_TOTAL_SIZE, inner_messages, is_inner_batch
from rmqindex.record.text import as_text
from rmqindex.store.store import root_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rmqindex.answers.answer import Row, Zone
    from rmqindex.answers.terminal import Console
    from rmqindex.commitlog import MissingPart
    from rmqindex.commitlog.log import CommitLog
    from rmqindex.explanation import Consumption
    from rmqindex.indexfile.entries import Mode
    from rmqindex.record.bodies import InnerMessage

_COLUMNS = (
    "topic",
    "queue_id",
    "queue_offset",
    "uniq_key",
    "keys",
    "tags",
    "phy_offset",
    "size",
    "sys_flag",
    "flag",
    "born_timestamp",
    "born_host",
    "store_timestamp",
    "store_host",
    "reconsume_times",
    "prepared_transaction_offset",
    "msg_id",
    "body_crc",
    "properties",
    "body",
)
#: The columns of a whole message, whose body is in one of two.
MESSAGE_COLUMNS = (
    *_COLUMNS, "body_base64", "inner_messages", "message_state",
    # Where it stands in its ConsumeQueue, and the groups by whether they have passed it.
    "queue_state", "transaction_state", "passed", "not_passed", "offset_beyond_end",
)  # fmt: skip
#: The columns of a message in a list.
LISTED = (
    "phy_offset", "store_timestamp", "topic", "queue_id", "queue_offset", "tags", "keys",
    "uniq_key", "size",
)  # fmt: skip
_TIMES = frozenset({"born_timestamp", "store_timestamp"})
# Shown on lines of their own, or not at all.
_HIDDEN = frozenset({"properties", "body", "body_crc"})
# A message with a wrong CRC is better than none.
_READABLE = frozenset({"record", "bad_crc"})
_ADVICE = (
    "mode=DROPMALFORMED gives null for such a body, or the batch without the messages inside; "
    "decompress_body=False gives every body as it is stored"
)
_LABEL = 28
# The widths of the columns of followed messages, negative where they begin at the left.
_LINE = (14, -23, -20, 5, -10, -24, 6)
_HEX_LINE = 16
_HEX_BYTES = 512


def read_messages(
    log: CommitLog, phy_offsets: list[int], *, mode: Mode = "FAILFAST", as_stored: bool = False
) -> list[Row]:
    """Read what may be messages, each with the ``state`` of :meth:`CommitLog.read_at`.

    A message with a wrong CRC is returned like any other. An inner batch has ``inner_messages``,
    or the error of a malformed one.
    """
    offsets = np.array(phy_offsets, np.int64)
    columns = log.read_at(offsets, _COLUMNS, decompress_body=False)
    # A broker may write the record between the two reads: what the first one lacks is not there.
    checked = log.read_at(offsets, ["phy_offset"], check_crc=True)["state"].to_pylist()
    states = [
        after if before == "record" else before
        for before, after in zip(columns["state"].to_pylist(), checked, strict=True)
    ]
    bodies = columns["body"]
    if not as_stored:
        bodies = unpack_bodies(
            bodies,
            columns["sys_flag"].fill_null(0).to_numpy(zero_copy_only=False),
            offsets,
            BadBodies(
                log.files,
                strict=mode == "FAILFAST",
                advice=_ADVICE,
                on_bad=lambda error: complain(str(error)),
            ),
            crcs=None,  # the state tells
            max_total_size=MAX_TOTAL_SIZE,
        )
    rows = [
        {**row, "body": body, "state": state}
        for row, body, state in zip(
            columns.drop_columns("body").to_pylist(), bodies.to_pylist(), states, strict=True
        )
    ]
    for row in rows:
        if row["sys_flag"] is not None and is_inner_batch(row["sys_flag"]):
            row["inner_messages"] = _inner(log, row, strict=mode == "FAILFAST", packed=as_stored)
    return rows


def _inner(
    log: CommitLog, row: Row, *, strict: bool, packed: bool
) -> list[InnerMessage] | RmqIndexError | None:
    """Return the messages of an inner batch, or what is wrong with it; None if it was dropped."""
    if row["body"] is None:
        return None
    try:
        return inner_messages(row["body"], row["sys_flag"], row["queue_offset"], decompress=packed)
    except RmqIndexError as error:
        offset = row["phy_offset"]
        bad = bad_body(log.files, offset, f"message at offset {offset}: {error}", _ADVICE)
        return bad if strict else None


def add_consumption(log: CommitLog, rows: Sequence[Row]) -> None:
    """Add to messages where they stand in their ConsumeQueues, and who has passed them."""
    from rmqindex.consumequeue import MessagePlace  # noqa: PLC0415  (it reads logs)
    from rmqindex.explanation import consumption_of  # noqa: PLC0415

    found = [row for row in rows if is_readable(row)]
    names = MessagePlace._fields
    places = [MessagePlace(*(row[name] for name in names)) for row in found]
    whole = consumption_of(root_of(log.files[0].path.parent), places, log) if places else None
    if whole is None:
        return
    for row, own in zip(found, whole.apart(), strict=True):
        row["consumption"] = own
    for note in () if whole.offsets is None else whole.offsets.notes:
        complain(note)


def is_readable(row: Row) -> bool:
    """Return whether a row of :func:`read_messages` is a message."""
    return row["state"] in _READABLE


def message_document(row: Row) -> Row:
    """Return a message as JSON values, with ``body_base64`` for ``body`` if that is not text."""
    document = {name: row[name] for name in _COLUMNS if name != "body"}
    document["properties"] = dict(row["properties"])
    document["message_state"] = row["state"]
    document |= _consumption_fields(row.get("consumption"))
    body = row["body"]
    document |= {"body": None} if body is None else _body_field(body)
    inner = row.get("inner_messages")
    if isinstance(inner, RmqIndexError):
        raise inner
    if inner is not None:
        document["inner_messages"] = [
            {"properties": dict(member.properties), **_body_field(member.body)} for member in inner
        ]
    return document


def messages_answer(rows: Sequence[Row], zone: Zone) -> Answer:
    """Return whole messages: one document, or a list of several."""
    documents = map(message_document, rows)

    def document() -> Row:
        messages = list(documents)
        return messages[0] if len(messages) == 1 else {"messages": messages}

    return Answer(
        text=lambda console: _print_messages(console, rows, zone),
        columns=MESSAGE_COLUMNS,
        rows=documents,
        document=document,
    )


def _consumption_fields(consumption: Consumption | None) -> Row:
    """Return where a message stands in its queue, and by whom it was passed, as JSON values."""
    if consumption is None:
        return {}
    ((place, state),) = zip(consumption.places, consumption.states, strict=True)
    fields: Row = {"queue_state": state}
    ended = next(iter(consumption.transactions), None)
    if ended is not None:
        fields["transaction_state"] = ended
    if consumption.offsets is not None and consumption.is_of_groups:
        groups = consumption.offsets.groups(place.topic)
        found = consumption.groups()
        for code in ("passed", "not_passed", "offset_beyond_end"):
            fields[code] = [
                {"group": group, "committed_offset": groups[group].get(place.queue_id)}
                for group in found.get(code, ())
            ]
    return fields


def _group_text(group: str, committed_offset: int | None) -> str:
    at = "no offset" if committed_offset is None else f"next is {committed_offset}"
    return f"{group} ({at})"


def _print_consumption(console: Console, consumption: Consumption) -> None:
    """Print where a message stands in its queue, and by whom it was passed."""
    from rmqindex.explanation.consumption import (  # noqa: PLC0415
        TRANSACTION_REASONS,
        state_text,
    )
    from rmqindex.explanation.index_search import SYSTEM_TOPICS  # noqa: PLC0415
    from rmqindex.explanation.result import EXPLAIN_REASONS  # noqa: PLC0415

    fields = _consumption_fields(consumption)
    state, topic = fields.pop("queue_state"), consumption.places[0].topic
    ended = fields.pop("transaction_state", None)
    _print_field(console, "queue_state", f"{state}: {state_text(state, topic)}", "bold")
    code = SYSTEM_TOPICS.get(topic)
    if code is not None:
        code = TRANSACTION_REASONS.get(ended, code)
        _print_field(console, code, EXPLAIN_REASONS[code], "bold")
    elif consumption.fault is not None:
        _print_field(console, "passed", f"not known: {consumption.fault}", "bold")
    for name, groups in fields.items() if code is None else ():
        named = [_group_text(**each) for each in groups]
        if named or name == "passed":
            _print_field(console, name, "\n".join(named) or "by no group", "bold")


def message_list_answer(
    path: str,
    rows: Sequence[Row],
    missing: Sequence[MissingPart],
    zone: Zone,
    *,
    whole: bool,
    hint: str = "",
) -> Answer:
    """Return messages, the newest first; ``whole`` if they have properties and bodies.

    ``hint`` is what is said where there are none.
    """
    print_rows = _print_messages if whole else print_message_list
    documents = map(message_document, rows) if whole else rows
    return Answer(
        text=lambda console: print_rows(console, rows, zone),
        columns=MESSAGE_COLUMNS if whole else LISTED,
        rows=documents,
        document=lambda: {
            "path": path,
            "messages": list(documents),
            "missing": [asdict(part) for part in missing],
        },
        nothing=None if rows else (path, Nothing(f"no message matches{hint}")),
        exit_code=0 if rows else NOT_FOUND,
    )


def print_message_list(console: Console, rows: Sequence[Row], zone: Zone) -> None:
    """Print a row for each message and how many there are."""
    table = Table()
    table.add_column("Offset", right=True)
    table.add_column(f"Stored ({zone.name})")
    table.add_column("Topic", may_be_cut=True)
    table.add_column("Queue", right=True)
    table.add_column("Tags", may_be_cut=True)
    table.add_column("Keys", may_be_cut=True)
    table.add_column("Size", right=True)
    for row in rows:
        table.add_row(
            str(row["phy_offset"]),
            zone.format(row["store_timestamp"]),
            row["topic"],
            str(row["queue_id"]),
            row["tags"] or "",
            row["keys"] or "",
            str(row["size"]),
        )
    print_table(console, table)
    print_text(console, f"\n{counted(len(rows), 'message')}, newest first")


def followed_answer(rows: Sequence[Row], zone: Zone, *, whole: bool, is_first: bool) -> Answer:
    """Return messages in their order, a line each, or whole; the first one has a head."""

    def text(console: Console) -> None:
        if whole:
            _print_messages(console, rows, zone)
            return
        if is_first:
            head = ("Offset", f"Stored ({zone.name})", "Topic", "Queue", "Tags", "Keys", "Size")
            console.write(_line(head))
        for row in rows:
            time = zone.format(row["store_timestamp"])
            values = [row["phy_offset"], time, row["topic"], row["queue_id"]]
            values += [row["tags"] or "-", row["keys"] or "-", row["size"]]
            console.write(_line([one_line(str(value)) for value in values]))

    return Answer(
        text=text,
        columns=MESSAGE_COLUMNS if whole else LISTED,
        rows=map(message_document, rows) if whole else rows,
    )


def _line(cells: Sequence[str]) -> str:
    """Return cells in columns that longer cells move."""
    padded = [
        f"{' ' * (width - cell_width(cell))}{cell}{' ' * (-width - cell_width(cell))}"
        for cell, width in zip(cells, _LINE, strict=True)
    ]
    return "  ".join(padded).rstrip()


def _print_messages(console: Console, rows: Sequence[Row], zone: Zone) -> None:
    for number, row in enumerate(rows):
        if number:
            console.write()
        print_message(console, row, zone)


def print_message(console: Console, row: Row, zone: Zone) -> None:
    """Print a message: its fields, its properties, its body; complain of a wrong CRC."""
    complain_of_crc(row)
    for name in _COLUMNS:
        value = row[name]
        if name in _HIDDEN or value is None:
            continue
        shown = str(value)
        if name in _TIMES:
            time = f"{zone.format(value)} {zone.name}"
            is_wide = _LABEL + len(shown) + 2 + len(time) > console.width
            shown += f"\n{time}" if is_wide else f"  {time}"
        _print_field(console, name, shown, "bold")
    if row.get("consumption") is not None:
        _print_consumption(console, row["consumption"])
    for name, value in row["properties"]:
        _print_field(console, f"  {one_line(name)}", value, "dim")
    console.write()
    console.write(visible(_shown(row["body"])))


def topic_hint(store: str, topics: Sequence[str]) -> str:
    """Return what is said of topics that have no queue in a store, with those that are meant."""
    return "".join(
        f"; there is no queue of the topic {visible(topic)}"
        + ("" if other is None else f", but of {visible(other)}")
        for topic, other in unknown_topics(store, topics)
    )


def complain_of_crc(row: Row) -> None:
    """Say on standard error that a message is damaged, if its CRC tells."""
    if row["state"] == "bad_crc":
        complain(f"the CRC of the message at {row['phy_offset']} does not agree: it is damaged")


def _print_field(console: Console, name: str, value: str, style: str) -> None:
    """Print a name and its whole value, below one another where the terminal is too narrow."""
    lines = visible(value).split("\n")
    if console.is_terminal:
        lines = broken(visible(value), max(console.width - _LABEL, 1))
    blank = " " * (_LABEL - cell_width(name))
    if not blank:
        console.write(console.styled(name, style))
    for number, line in enumerate(lines):
        head = console.styled(name, style) + blank if blank and not number else " " * _LABEL
        console.write(f"{head}{line}".rstrip(" "))


def _shown(body: bytes | None) -> str:
    if body is None:
        return "(the body cannot be decompressed)"
    text = as_text(body)
    return _hex_dump(body) if text is None else text


def _body_field(body: bytes) -> dict[str, str]:
    text = as_text(body)
    if text is None:
        return {"body_base64": base64.b64encode(body).decode()}
    return {"body": text}


def _hex_dump(body: bytes) -> str:
    lines = []
    for start in range(0, min(len(body), _HEX_BYTES), _HEX_LINE):
        part = body[start : start + _HEX_LINE]
        shown = "".join(chr(byte) if 0x20 <= byte < 0x7F else "." for byte in part)
        lines.append(f"{start:08x}  {part.hex(' '):<47}  {shown}")
    if len(body) > _HEX_BYTES:
        lines.append(f"... {len(body) - _HEX_BYTES} bytes more")
    return "\n".join(lines)
