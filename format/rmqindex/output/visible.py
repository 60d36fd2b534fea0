"""Texts of messages and files as a terminal may show them."""

from __future__ import annotations

import re

__all__ = ["visible"]

# C0 but for tab and line feed, DEL, C1, and what turns the direction of text: with these a topic
# or a name could set a terminal's title, move its cursor, or look like another one.
_COMMANDS = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]")


def visible(text: str) -> str:
    r"""Return a text with its control characters written out, such as ``\x1b``.

    Tabs and line feeds stay.
    """
    return _COMMANDS.sub(lambda match: ascii(match[0])[1:-1], text)
