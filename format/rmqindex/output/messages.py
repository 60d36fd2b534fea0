"""Messages read from a CommitLog: as JSON documents and as text."""

from __future__ import annotations

import base64
from typing import TYPE_CHECKING, Any

import numpy as np

from rmqindex.display.folding import cell_width
from rmqindex.display.terminal import broken
from rmqindex.display.text import one_line, visible
from rmqindex.record.bodies import inner_messages, is_inner_batch

if TYPE_CHECKING:
    from rmqindex.commitlog.log import CommitLog, Mode
    from rmqindex.display.terminal import Console
    from rmqindex.output.interface import Zone

__all__ = ["COLUMNS", "LISTED", "is_readable", "message_document", "print_message", "read_messages"]

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
_LABEL = 28
_HEX_LINE = 16
_HEX_BYTES = 512


def read_messages(
    log: CommitLog, phy_offsets: list[int], *, mode: Mode = "FAILFAST", as_stored: bool = False
) -> list[dict[str, Any]]:
    """Read messages, each with ``state`` as :meth:`CommitLog.read_at` says it.

    A message with a wrong CRC (``bad_crc``) is returned like any other.

    Args:
        log: The log.
        phy_offsets: Where messages may start, bytes.
        mode: What to do with a body that cannot be decompressed: raise, or give None for it.
        as_stored: Whether bodies are left as they are stored, which ``as_stored`` of a row tells.
    """
    offsets = np.array(phy_offsets, np.int64)
    found = log.read_at(offsets, COLUMNS, mode=mode, decompress_body=not as_stored)
    rows: list[dict[str, Any]] = found.to_pylist()
    states = log.read_at(offsets, ["phy_offset"], check_crc=True)["state"].to_pylist()
    return [
        {**row, "state": state, "as_stored": as_stored}
        for row, state in zip(rows, states, strict=True)
    ]


def is_readable(row: dict[str, Any]) -> bool:
    """Return whether a row of :func:`read_messages` is a message."""
    return row["state"] in _READABLE


def message_document(row: dict[str, Any]) -> dict[str, Any]:
    """Return a message as JSON values, with ``body_base64`` for ``body`` if that is not text."""
    document = {name: row[name] for name in COLUMNS if name != "body"}
    document["properties"] = dict(row["properties"])
    body = row["body"]
    document |= {"body": None} if body is None else _body_field(body)
    if is_inner_batch(row["sys_flag"]) and body is not None:
        document["inner_messages"] = [
            {"properties": dict(inner.properties), **_body_field(inner.body)}
            for inner in inner_messages(
                body, row["sys_flag"], row["queue_offset"], decompress=row["as_stored"]
            )
        ]
    return document


def print_message(console: Console, row: dict[str, Any], zone: Zone) -> None:
    """Print a message: its fields, its properties, its body."""
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
    text = _as_text(body)
    return _hex_dump(body) if text is None else text


def _body_field(body: bytes) -> dict[str, str]:
    text = _as_text(body)
    if text is None:
        return {"body_base64": base64.b64encode(body).decode()}
    return {"body": text}


def _as_text(body: bytes) -> str | None:
    """Return a body as text if it is UTF-8 without control characters, None otherwise."""
    try:
        text = body.decode()
    except UnicodeDecodeError:
        return None
    return text if all(char.isprintable() or char in "\n\r\t" for char in text) else None


def _hex_dump(body: bytes) -> str:
    lines = []
    for start in range(0, min(len(body), _HEX_BYTES), _HEX_LINE):
        part = body[start : start + _HEX_LINE]
        shown = "".join(chr(byte) if 0x20 <= byte < 0x7F else "." for byte in part)
        lines.append(f"{start:08x}  {part.hex(' '):<47}  {shown}")
    if len(body) > _HEX_BYTES:
        lines.append(f"... {len(body) - _HEX_BYTES} bytes more")
    return "\n".join(lines)
