"""Plain text on standard output and standard error."""

from __future__ import annotations

import os
import re
import sys

from rmqindex.display.folding import wrapped

__all__ = ["complain", "counted", "in_flags", "one_line", "visible", "write_line"]

# C0 but for tab and line feed, DEL, C1, the separators of lines and paragraphs, and what turns the
# direction of text: with these a topic or a name could set a terminal's title, move its cursor,
# break a line, or look like another one.
_COMMANDS = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]")

# No terminal is narrower; one that says so does not know.
_LEAST_WIDTH = 20
# What messages of the codec advise to give, and what that is on the command line.
_FLAGS = {
    "allow_live_store=True": "--allow-live-store",
    "resume=True": "--resume",
    "replace=True": "--replace",
    "allow_loss=True": "--allow-loss",
    "leave_out=": "--leave-out ",
    "batch_file_size=": "--batch-file-size ",
    "file_size=": "--file-size ",
    "checkpoint=False": "--no-checkpoint",
    "index_tags=True": "--index-tags",
    "index_tags=False": "--no-index-tags",
    "decompress_body=False": "--no-decompress",
    "raw_bodies=True": "--raw-bodies",
    "max_body_size": "--max-body-size",
    "mode='DROPMALFORMED'": "--mode DROPMALFORMED",
    "mode=DROPMALFORMED": "--mode DROPMALFORMED",
    "maxHashSlotNum and maxIndexNum": "--max-hash-slot-num and --max-index-num",
}
# Words of their own, which no part of a path is.
_ARGUMENTS = re.compile(rf"(?<= )(?:{'|'.join(_FLAGS)})")


def visible(text: str) -> str:
    r"""Return a text with its control characters written out, such as ``\x1b``.

    Tabs and line feeds stay.
    """
    return _COMMANDS.sub(lambda match: ascii(match[0])[1:-1], text)


def one_line(text: str) -> str:
    r"""Return a visible text with its tabs and line feeds written out, too."""
    return visible(text).replace("\n", "\\n").replace("\t", "\\t")


def counted(number: int, one: str, many: str | None = None) -> str:
    """Return a number with its noun."""
    return f"{number} {one if number == 1 else many or one + 's'}"


def write_line(text: str = "") -> None:
    """Write one line to standard output."""
    sys.stdout.write(f"{text}\n")


def in_flags(message: str) -> str:
    """Return a message with the flags of the command line for the arguments that it names."""
    return _ARGUMENTS.sub(lambda match: _FLAGS[match[0]], message)


def complain(message: str) -> None:
    """Write one line to standard error, whatever the message holds; in a terminal, wrapped."""
    line = f"rmqindex: {visible(in_flags(' '.join(message.split())))}"
    width = _terminal_width()
    lines = [line] if width is None else wrapped(line, width, "  ")
    sys.stderr.write("\n".join(lines) + "\n")
    sys.stderr.flush()


def _terminal_width() -> int | None:
    """Return the columns of the terminal that shows standard error; None where none does."""
    if not sys.stderr.isatty():
        return None
    try:
        return max(int(os.environ["COLUMNS"]), _LEAST_WIDTH)
    except (KeyError, ValueError):
        pass
    try:
        return max(os.get_terminal_size(sys.stderr.fileno()).columns, _LEAST_WIDTH)
    except (OSError, ValueError):
        return None
