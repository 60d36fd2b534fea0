"""What can become of a record: the same damages for each kind, local and remote."""

from __future__ import annotations

import json

__all__ = ["DAMAGES", "HUGE", "damaged"]

#: Larger than a record of any kind may be.
HUGE = 17 << 20
#: The name of each damage.
DAMAGES = (
    "empty",
    "truncated",
    "longer",
    "huge",
    "not JSON",
    "another value",
    "null",
    "no field",
    "wrong types",
    "a field twice",
    "NaN",
    "Infinity",
    "nested deeply",
    "a long number",
    "invalid UTF-8",
    "UTF-16",
)


def damaged(fields: dict[str, object], how: str) -> bytes:
    """Return the bytes of a record after a damage.

    Args:
        fields: The sound record.
        how: One of :data:`DAMAGES`.
    """
    text = json.dumps(fields)
    first = next(iter(fields))
    rest = text[1:]
    return {
        "empty": b"",
        "truncated": text[:-1].encode(),
        "longer": (text + "}").encode(),
        "huge": b" " * HUGE + text.encode(),
        "not JSON": bytes(range(256)),
        "another value": f"[{text}]".encode(),
        "null": b"null",
        "no field": b"{}",
        "wrong types": json.dumps(dict.fromkeys(fields, 1.5)).encode(),
        "a field twice": f'{{"{first}": {json.dumps(fields[first])}, {rest}'.encode(),
        "NaN": f'{{"more": NaN, {rest}'.encode(),
        "Infinity": f'{{"more": [-Infinity], {rest}'.encode(),
        "nested deeply": b'{"more": ' + b"[" * 200_000,
        "a long number": f'{{"more": {"1" * 5000}, {rest}'.encode(),
        "invalid UTF-8": f'{{"more": "\udcff", {rest}'.encode(errors="surrogateescape"),
        "UTF-16": text.encode("utf-16"),
    }[how]
