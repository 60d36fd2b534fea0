"""JSON texts and what becomes of them when they are damaged."""

from __future__ import annotations

import json
import re

_TOKEN = re.compile(rb'"[^"]*"|-?[0-9.eE+]+|[\[\]{}:,]|\w+')
_VALUES = (
    b"null",
    b"true",
    b"0",
    b"-1",
    b"1e999",
    b"NaN",
    b"1.5",
    b"9223372036854775807",
    b"9223372036854775808",
    b"-99999999999999999999",
    b"2147483648",
    b'""',
    b'"."',
    b'".."',
    b'"a/b"',
    b'"\\u0000"',
    b'"\\ud800"',
    b'"\xff"',
    b"[]",
    b"{}",
    b"[null]",
    b'"20231114221320000"',
)


def text_of(value) -> bytes:
    """Return a value as JSON."""
    return json.dumps(value).encode()


def mutate_json(data: bytes, random) -> bytes:
    """Exchange tokens, leave them out, cut, nest, or lengthen a text."""
    tokens = list(_TOKEN.finditer(data))
    kind = random.randrange(8)
    if not tokens or kind == 0:
        place = random.randrange(len(data) + 1)
        return data[:place] + random.choice(_VALUES) + data[place:]
    token = random.choice(tokens)
    before, after = data[: token.start()], data[token.end() :]
    if kind == 1:
        return data[: token.start()]
    if kind == 2:
        depth = random.choice((1, 20, 2000))
        new = b"[" * depth + token[0] + b"]" * depth
    elif kind == 3 and token[0].startswith(b'"'):
        new = b'"' + token[0][1:-1] * 40 + b'"'
    else:
        new = random.choice((b"", random.choice(tokens)[0], *_VALUES))
    return before + new + after
