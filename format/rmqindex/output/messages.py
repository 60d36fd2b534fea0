"""Messages read from a CommitLog: as JSON documents and as text."""

from __future__ import annotations

import base64
from typing import TYPE_CHECKING, Any

import numpy as np

from rmqindex.commitlog.bodies import BadBodies, bad_body, unpack_bodies
from rmqindex.display.folding import cell_width
from rmqindex.display.terminal import broken
from rmqindex.display.text import complain, one_line, visible
from rmqindex.errors import RmqIndexError
from rmqindex.record.bodies import MAX_TOTAL_SIZE, inner_messages, is_inner_batch
from rmqindex.record.text import as_text

if TYPE_CHECKING:
    from rmqindex.commitlog.log import CommitLog, Mode
    from rmqindex.display.terminal import Console
    from rmqindex.output.interface import Zone
    from rmqindex.record.bodies import InnerMessage

__all__ = [
    "COLUMNS",
    "LISTED",
    "complain_of_crc",
    "is_readable",
    "message_document",
    "print_message",
    "read_messages",
]

COLUMNS = (
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
#: The columns of a message in a list.
LISTED = (
    "phy_offset", "store_timestamp", "topic", "queue_id", "queue_offset", "tags", "keys",
    "uniq_key", "size",
)  # fmt: skip
_TIMES = frozenset({"born_timestamp", "store_timestamp"})
# Shown in other lines, or not worth one.
_HIDDEN = frozenset({"properties", "body", "body_crc"})
# A message with a wrong CRC is better than none.
_READABLE = frozenset({"record", "bad_crc"})
_ADVICE = (
    "mode=DROPMALFORMED gives null for such a body, or the batch without the messages inside; "
    "decompress_body=False gives every body as it is stored"
)
_LABEL = 28
_HEX_LINE = 16
_HEX_BYTES = 512


def read_messages(
    log: CommitLog, phy_offsets: list[int], *, mode: Mode = "FAILFAST", as_stored: bool = False
) -> list[dict[str, Any]]:
    """Read messages, each with ``state`` as :meth:`CommitLog.read_at` says it.

    A message with a wrong CRC (``bad_crc``) is returned like any other. Where it is an inner batch,
    ``inner_messages`` are those inside, or the error of a malformed one.

    Args:
        log: The log.
        phy_offsets: Where messages may start, bytes.
        mode: What to do with a body that cannot be decompressed, or an inner batch that is
            malformed: raise, or give None for it.
        as_stored: Whether bodies are left as they are stored.

    Raises:
        RmqIndexError: A body cannot be decompressed; the storage failed.
    """
    offsets = np.array(phy_offsets, np.int64)
    found = log.read_at(offsets, COLUMNS, decompress_body=False)
    states = log.read_at(offsets, ["phy_offset"], check_crc=True)["state"].to_pylist()
    bodies = found["body"]
    if not as_stored:
        bodies = unpack_bodies(
            bodies,
            found["sys_flag"].fill_null(0).to_numpy(zero_copy_only=False),
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
            found.drop_columns("body").to_pylist(), bodies.to_pylist(), states, strict=True
        )
    ]
    for row in rows:
        if row["sys_flag"] is not None and is_inner_batch(row["sys_flag"]):
            row["inner_messages"] = _inner(log, row, strict=mode == "FAILFAST", packed=as_stored)
    return rows


def _inner(
    log: CommitLog, row: dict[str, Any], *, strict: bool, packed: bool
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


def is_readable(row: dict[str, Any]) -> bool:
    """Return whether a row of :func:`read_messages` is a message."""
    return row["state"] in _READABLE


def message_document(row: dict[str, Any]) -> dict[str, Any]:
    """Return a message as JSON values, with ``body_base64`` for ``body`` if that is not text.

    Raises:
        RmqIndexError: It is an inner batch that is malformed.
    """
    document = {name: row[name] for name in COLUMNS if name != "body"}
    document["properties"] = dict(row["properties"])
    document["message_state"] = row["state"]
    body = row["body"]
    document |= {"body": None} if body is None else _body_field(body)
    inner = row.get("inner_messages")
    if isinstance(inner, RmqIndexError):
        raise inner
    if inner is not None:
        document["inner_messages"] = [
            {"properties": dict(each.properties), **_body_field(each.body)} for each in inner
        ]
    return document


def print_message(console: Console, row: dict[str, Any], zone: Zone) -> None:
    """Print a message: its fields, its properties, its body; complain of a wrong CRC."""
    complain_of_crc(row)
    for name in COLUMNS:
        value = row[name]
        if name in _HIDDEN or value is None:
            continue
        shown = str(value)
        if name in _TIMES:
            time = f"{zone.format(value)} {zone.name}"
            is_wide = _LABEL + len(shown) + 2 + len(time) > console.width
            shown += f"\n{time}" if is_wide else f"  {time}"
        _print_field(console, name, shown, "bold")
    for name, value in row["properties"]:
        _print_field(console, f"  {one_line(name)}", value, "dim")
    console.write()
    console.write(visible(_shown(row["body"])))


def complain_of_crc(row: dict[str, Any]) -> None:
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
