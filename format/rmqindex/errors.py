"""The errors that bytes can cause.

```text
RmqIndexError               a path, directory or geometry that cannot be used
├── CorruptIndexError       bytes that break a rule of the IndexFile format
└── CorruptCommitLogError   bytes that break a rule of the CommitLog format
```

A bad argument is Python's own ``ValueError`` or ``TypeError``; these classes are for bad files.
"""

from __future__ import annotations

__all__ = ["CorruptCommitLogError", "CorruptIndexError", "RmqIndexError"]


class RmqIndexError(Exception):
    """Everything that the bytes on a store can do wrong."""


class _CorruptBytesError(RmqIndexError):
    """Bytes that break a rule of a format."""

    def __init__(self, path: object, field: str, byte: int, expected: object, got: object) -> None:
        """Keep the parts of the message as attributes."""
        super().__init__(f"{path}: {field} at byte {byte}: expected {expected}, got {got}")
        self.path = str(path)
        self.field = field
        self.byte = byte
        self.expected = expected
        self.got = got

    def __reduce__(self) -> tuple[type[_CorruptBytesError], tuple[object, ...]]:
        """Pickle by the five parts, so that the error survives Spark's process boundaries."""
        return (type(self), (self.path, self.field, self.byte, self.expected, self.got))


class CorruptIndexError(_CorruptBytesError):
    """Bytes that break a rule of the IndexFile format.

    The message reads ``<path>: <field> at byte <n>: expected <a>, got <b>``.

    Attributes:
        path: The file.
        field: The field by its RocketMQ name in snake_case, such as ``index_count``.
        byte: Where the field starts, in bytes from the start of the file.
        expected: What a sound file holds there.
        got: What this file holds.
    """


class CorruptCommitLogError(_CorruptBytesError):
    """Bytes that break a rule of the CommitLog format.

    The message reads ``<path>: <field> at byte <n>: expected <a>, got <b>``.

    Attributes:
        path: The file.
        field: The field by its RocketMQ name in snake_case, such as ``total_size``.
        byte: Where the field starts, in bytes from the start of the file.
        expected: What a sound file holds there.
        got: What this file holds.
    """
