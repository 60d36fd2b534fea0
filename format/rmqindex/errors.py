"""The errors that bytes can cause, and the commands that errors and answers tell to type.

```text
RmqIndexError               a path, directory or geometry that cannot be used
├── CorruptIndexError       bytes that break a rule of the IndexFile format
└── CorruptCommitLogError   bytes that break a rule of the CommitLog format

IncompleteIndexWarning      an index that lacks entries of messages in its CommitLog
IncompleteLogWarning        a CommitLog that lacks messages to which its store leads
```

A bad argument is Python's own ``ValueError`` or ``TypeError``; these classes are for bad files.
"""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

#: How a caller says the geometry: by options in Spark, by an argument in Python. The command line
#: writes its own options instead.
SAID_GEOMETRY = "maxHashSlotNum and maxIndexNum (outside of Spark: layout=Layout(..))"
_SPACE, _DELETE = 0x20, 0x7F


class RmqIndexError(Exception):
    """Everything that the bytes on a store can do wrong."""


class _CorruptBytesError(RmqIndexError):
    """Bytes that break a rule of a format."""

    def __init__(
        self, path: object, field: str, byte: int, expected: object, got: object, hint: str = ""
    ) -> None:
        """Keep the parts of the message as attributes."""
        end = f"; {hint}" if hint else ""
        super().__init__(f"{path}: {field} at byte {byte}: expected {expected}, got {got}{end}")
        self.path = str(path)
        self.field = field
        self.byte = byte
        self.expected = expected
        self.got = got
        self.hint = hint

    def __reduce__(self) -> tuple[type[_CorruptBytesError], tuple[object, ...]]:
        """Pickle by the parts, so that the error survives Spark's process boundaries."""
        parts = (self.path, self.field, self.byte, self.expected, self.got, self.hint)
        return (type(self), parts)


class CorruptIndexError(_CorruptBytesError):
    """Bytes that break a rule of the IndexFile format.

    The message reads ``<path>: <field> at byte <n>: expected <a>, got <b>``, then the hint, if any.

    Attributes:
        path: The file.
        field: The field by its RocketMQ name in snake_case, such as ``index_count``.
        byte: Where the field starts, in bytes from the start of the file.
        expected: What a sound file holds there.
        got: What this file holds.
        hint: What to do; empty where the message says no more.
    """


class CorruptCommitLogError(_CorruptBytesError):
    """Bytes that break a rule of the CommitLog format.

    The message reads ``<path>: <field> at byte <n>: expected <a>, got <b>``, then the hint, if any.

    Attributes:
        path: The file.
        field: The field by its RocketMQ name in snake_case, such as ``total_size``.
        byte: Where the field starts, in bytes from the start of the file.
        expected: What a sound file holds there.
        got: What this file holds.
        hint: What to do; empty where the message says no more.
    """


class CorruptBodyError(CorruptCommitLogError):
    """A message's body that does not unpack, or to more bytes than are allowed.

    Attributes:
        byte: Where the message's record begins, in bytes from the start of the file.
    """

    def __init__(self, path: object, what: str, byte: int, hint: str) -> None:
        """Keep the parts of the message as attributes."""
        expected, _, got = what.partition("expected ")[2].partition(", got ")
        super().__init__(path, "body", byte, expected, got, hint)
        self.what = what
        self.args = (f"{path}: {what}. The record begins at byte {byte}. {hint}",)

    def __reduce__(self) -> tuple[type[CorruptBodyError], tuple[object, ...]]:
        """Pickle by the parts, so that the error survives Spark's process boundaries."""
        return (type(self), (self.path, self.what, self.byte, self.hint))


class IncompleteIndexWarning(UserWarning):
    """An index lacks entries of messages that its CommitLog has, so a lookup may miss some."""


class IncompleteLogWarning(UserWarning):
    """A CommitLog lacks messages to which its store leads, so an answer from it may, too."""


def counted(number: int, one: str, many: str | None = None) -> str:
    """Return a number with its noun."""
    return f"{number} {one if number == 1 else many or one + 's'}"


def command_line(name: str, path: object, *arguments: str, options: Sequence[str] = ()) -> str:
    """Return a command line for a shell; none is printed without the path that it is about."""
    given = [str(path), *arguments]
    words = [name, *given, *options]
    if any(each.startswith("-") for each in given):
        words = [name, *options, "--", *given]
    return " ".join(["rmqindex", *map(_quoted, words)])


def truncate_line(size: object, path: object) -> str:
    """Return the command line that gives a file its size, bytes, as each Linux has it."""
    return " ".join(["truncate", "-s", str(size), *_operands(path)])


def rename_line(path: object, target: object) -> str:
    """Return the command line that gives a file another name, unless another file has it."""
    return " ".join(["mv", "-n", *_operands(path, target)])


def unlink_line(link: object) -> str:
    """Return the command line that puts what a link leads to in its place, as a copy.

    A copy that was interrupted is made whole by the same line; after the end, it does nothing.
    """
    copy = f"{link}.copy"
    lines = [
        ["test", "-L", _operands(link)[-1]],
        ["cp", "-RLT", *_operands(link, copy)],
        ["rm", *_operands(link)],
    ]
    return " && ".join([*(" ".join(line) for line in lines), rename_line(copy, link)])


def _operands(*paths: object) -> list[str]:
    """Return paths as the operands of a system's command."""
    given = [str(path) for path in paths]
    return [*["--"] * any(each.startswith("-") for each in given), *map(_quoted, given)]


def options_of(given: Mapping[str, str | int | bool | Sequence[str] | None]) -> list[str]:
    """Return the options of a command line that is to be typed again with what was given.

    True is a flag, None and False are nothing, and each text of several has its option.
    """
    options: list[str] = []
    for name, value in given.items():
        if isinstance(value, bool):
            options += [name] * value
        elif value is not None:
            values = [str(value)] if isinstance(value, str | int) else value
            options += [word for each in values for word in (name, each)]
    return options


def _quoted(word: str) -> str:
    """Quote a word for a shell, also one that no terminal shows as it is."""
    if word.isprintable():
        return shlex.quote(word)
    return f"$'{''.join(_escaped(octet) for octet in word.encode(errors='surrogateescape'))}'"


def _escaped(octet: int) -> str:
    is_plain = _SPACE <= octet < _DELETE and octet not in b"\\'"
    return chr(octet) if is_plain else f"\\{octet:03o}"
