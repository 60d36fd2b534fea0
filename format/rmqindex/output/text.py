"""Plain text on standard output and standard error."""

from __future__ import annotations

import re
import sys

__all__ = ["complain", "counted", "visible", "write_line"]

# C0 but for tab and line feed, DEL, C1, and what turns the direction of text: with these a topic
# or a name could set a terminal's title, move its cursor, or look like another one.
_COMMANDS = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]")


def visible(text: str) -> str:
    r"""Return a text with its control characters written out, such as ``\x1b``.

    Tabs and line feeds stay.
    """
    return _COMMANDS.sub(lambda match: ascii(match[0])[1:-1], text)


def counted(number: int, one: str, many: str | None = None) -> str:
    """Return a number with its noun."""
    return f"{number} {one if number == 1 else many or one + 's'}"


def write_line(text: str = "") -> None:
    """Write one line to standard output."""
    sys.stdout.write(f"{text}\n")


def complain(message: str) -> None:
    """Write one line to standard error, whatever the message holds."""
    line = " ".join(message.split())
    if "maxHashSlotNum" in line:
        line += " (here --max-hash-slot-num and --max-index-num)"
    if "decompress_body=False" in line:
        line += " (here --mode DROPMALFORMED, where the command has it, and --no-decompress)"
    sys.stderr.write(f"rmqindex: {visible(line)}\n")
    sys.stderr.flush()
