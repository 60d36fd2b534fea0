"""Standard output and standard error of the process, whose failures have one place each.

Of what a command prints to standard output nothing may be lost unsaid. Standard error is where it
would be said: where that cannot be written, the exit code alone tells.
"""

from __future__ import annotations

import errno
import os
import select
import sys
from contextlib import suppress
from io import BufferedWriter, FileIO, TextIOWrapper
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from typing import TextIO

    from _typeshed import ReadableBuffer

_STDOUT = 1
_STDERR = 2


class OutputError(Exception):
    """Standard output cannot be written; none of the errors that commands and click catch."""

    def __init__(self, cause: OSError) -> None:
        """Set what the system said."""
        super().__init__(f"standard output: cannot be written: {cause.strerror}")
        self.is_unread = isinstance(cause, BrokenPipeError)


class _StandardOutput(FileIO):
    """Tells a failure of standard output from one of the files that a command reads or writes."""

    def write(self, data: ReadableBuffer, /) -> int:
        try:
            return super().write(data)
        except OSError as error:
            raise OutputError(error) from error


class _StandardError(FileIO):
    """Takes what nobody can read."""

    def write(self, data: ReadableBuffer, /) -> int:
        with suppress(OSError):
            super().write(data)
        return memoryview(data).nbytes


def open_streams() -> bool:
    """Set up the two streams, and return whether there is a standard output."""
    has_output = sys.stdout is not None
    # Started without one, as by `>&-`: a file that is opened must not get its number.
    while (descriptor := os.open(os.devnull, os.O_RDWR)) <= _STDERR:
        pass
    os.close(descriptor)
    if sys.stdout is sys.__stdout__ and sys.stdout is not None:
        # A name that the terminal's encoding lacks is shown escaped, not as a traceback.
        sys.stdout = _reopened(sys.stdout, _StandardOutput(_STDOUT, "w", closefd=False))
    if sys.stderr is sys.__stderr__:
        sys.stderr = _reopened(sys.stderr, _StandardError(_STDERR, "w", closefd=False))
    return has_output


def _reopened(stream: TextIO | None, file: FileIO) -> TextIOWrapper:
    """Return a text stream for a file that treats texts as another does."""
    return TextIOWrapper(
        BufferedWriter(file),
        encoding=None if stream is None else stream.encoding,
        errors="backslashreplace",
        line_buffering=stream is None or stream.isatty() or file.fileno() == _STDERR,
    )


def ensure_output_is_read() -> None:
    """Raise where the reader of standard output is gone, as writing to it would.

    For those that may have nothing to write for long.

    Raises:
        OutputError: It is gone.
    """
    if not isinstance(getattr(getattr(sys.stdout, "buffer", None), "raw", None), _StandardOutput):
        return
    asked = select.poll()
    asked.register(_STDOUT, 0)
    if any(events & select.POLLERR for _, events in asked.poll(0)):
        raise OutputError(BrokenPipeError(errno.EPIPE, os.strerror(errno.EPIPE)))


def drop_output() -> None:
    """Let nothing more be written to standard output, such as what Python writes at its end."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), _STDOUT)
