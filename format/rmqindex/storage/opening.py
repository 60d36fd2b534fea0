"""Opens a file for reading, and tells whether it is the one found before (spec: reading a file).

Local files are read or memory-mapped; everything else is read by ranges through ``pyarrow.fs``.
A source reads only the requested ranges: a lookup touches the header, slots and chains, never the
empty tail of a file.
A short read is an error of the file, not of the caller.
A file that grows at its end is recognized by its mark; what a writer may disturb is read again.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

from rmqindex.errors import RmqIndexError
from rmqindex.storage.identity import FileChangedError, FileIdentity
from rmqindex.storage.local import LocalSource
from rmqindex.storage.location import Location, PathLike
from rmqindex.storage.remote import RemoteSource

if TYPE_CHECKING:
    import io
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from rmqindex.storage.source import ByteSource

T = TypeVar("T")
R = TypeVar("R")

# Requests to a remote store spend most of their time waiting.
_REMOTE_THREADS = 16
# Bytes compared at either end of a stretch: the fixed fields of a message, or three units.
_SAMPLED_BYTES = 64
# Reading many files may take longer than the time limit, so a few attempts are always made.
_PATIENCE_SECONDS = 10.0
_LEAST_ATTEMPTS = 5
_POLL_SECONDS = 0.01


@dataclass(frozen=True, slots=True)
class ByteSample:
    """Some bytes of a file at one moment.

    Attributes:
        offset: Where they begin in the file.
        data: The bytes. A broker may since have written where one is zero.
    """

    offset: int
    data: bytes

    def is_in(self, read: Callable[[int, int], bytes | memoryview]) -> bool:
        """Return whether a file still holds the bytes."""
        now = read(self.offset, len(self.data))
        return now == self.data or all(
            not before or before == byte for before, byte in zip(self.data, now, strict=True)
        )


def ends_of(start: int, stop: int, length: int) -> list[tuple[int, int]]:
    """Return offset and length, bytes, of the first and the last bytes of a range, once each."""
    length = min(length, stop - start)
    first, last = (start, length), (stop - length, length)
    return [first] if first == last else [first, last]


@dataclass(frozen=True, slots=True)
class FileMark:
    """What recognizes any file that grows at its end, a record half written included; picklable.

    It keeps the bytes themselves, since those that were zero may have been written since.
    :class:`rmqindex.indexfile.Fingerprint` is the short form for counted entries, which are final.

    Attributes:
        identity: The file.
        samples: Bytes that no append changes; empty where the store's own version suffices.
    """

    identity: FileIdentity
    samples: tuple[ByteSample, ...] = ()

    @classmethod
    def of(
        cls,
        source: ByteSource,
        stretches: Iterable[tuple[int, int]],
        sampled_bytes: int = _SAMPLED_BYTES,
    ) -> FileMark:
        """Mark an open file."""
        if source.identity.version:
            return cls(source.identity)
        ends = (end for stretch in stretches for end in ends_of(*stretch, sampled_bytes))
        samples = (ByteSample(each[0], bytes(source.read(*each))) for each in dict.fromkeys(ends))
        return cls(source.identity, tuple(each for each in samples if any(each.data)))

    def matches(self, source: ByteSource) -> bool:
        """Return whether an open file is the marked one."""
        return self.identity.names_same(source.identity) and all(
            sample.is_in(source.read) for sample in self.samples
        )


def ensure_same(source: ByteSource, mark: FileMark | None) -> None:
    """Raise if an open file was changed while it was read."""
    if mark is not None and not (source.is_current() and mark.matches(source)):
        raise FileChangedError(source.path, "replaced or rewritten")


def open_source(path: PathLike) -> ByteSource:
    """Open a file for reading."""
    location = Location.of(path)
    return RemoteSource(location) if location.local is None else LocalSource(location)


def open_found(path: PathLike, size: int, mark: FileMark | None = None) -> ByteSource:
    """Open a file that was listed before, and that may have grown since."""
    source = open_source(path)
    ensure_found(source, size, mark)
    return source


def ensure_found(source: ByteSource, size: int, mark: FileMark | None) -> None:
    """Raise, and close the file, unless it is the one that was listed before."""
    found = source.size
    if found >= size and (mark is None or mark.matches(source)):
        return
    source.close()
    what = "replaced" if found >= size else f"cut from {size} to {found} bytes"
    raise FileChangedError(source.path, what)


def map_files(
    function: Callable[[T], R], items: Sequence[T], locations: Iterable[Location]
) -> list[R]:
    """Return what a function that opens a file returns for each item.

    Args:
        function: Opens the file of an item; it must be safe to run in several threads.
        items: The items.
        locations: Where their files lie: several are opened at a time if any is not local.
    """
    if all(location.local is not None for location in locations):
        return [function(item) for item in items]
    from concurrent.futures import ThreadPoolExecutor  # noqa: PLC0415  (remote)

    with ThreadPoolExecutor(_REMOTE_THREADS) as pool:
        return list(pool.map(function, items))


class UnsteadyError(Exception):
    """A reading was disturbed: its files changed meanwhile. The message says which."""


def read_steady(where: object, read: Callable[[], T]) -> T:
    """Repeat a reading until it is undisturbed.

    Args:
        where: The path, or paths as text, that the error names.
        read: Reads once; raises :class:`UnsteadyError` where it was disturbed.

    Returns:
        The first undisturbed reading.

    Raises:
        RmqIndexError: Every reading was disturbed for ten seconds.
    """
    deadline = time.monotonic() + _PATIENCE_SECONDS
    attempt = 0
    while True:
        attempt += 1
        try:
            return read()
        except UnsteadyError as error:
            if attempt >= _LEAST_ATTEMPTS and time.monotonic() > deadline:
                raise RmqIndexError(
                    f"{where}: expected one reading without a change, got {attempt} during each "
                    f"of which {error}; stop what writes there, or run this again when it writes "
                    "less"
                ) from error
        time.sleep(_POLL_SECONDS)


@contextlib.contextmanager
def flushing(file: io.FileIO) -> Iterator[None]:
    """Have readers wait that find slots ahead of the header; the block writes both.

    Slots then lead behind the count, as those of a damaged count do. The kernel takes the lock of a
    writer that died there. On a file system without locks, readers do not wait.
    """
    with contextlib.suppress(OSError):
        fcntl.flock(file, fcntl.LOCK_EX)
    try:
        yield
    finally:
        if not file.closed:  # a child process may have the descriptor, too
            with contextlib.suppress(OSError):
                fcntl.flock(file, fcntl.LOCK_UN)


def wait_for_flush(path: str | os.PathLike[str]) -> None:
    """Wait until no writer is between the slots and the header of a local file."""
    read_steady(path, lambda: _ensure_unlocked(path))


def _ensure_unlocked(path: str | os.PathLike[str]) -> None:
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    except OSError:  # it was removed, so that nobody writes to it by its name
        return
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        raise UnsteadyError("a flush of it was under way") from None
    except OSError:  # a file system without locks
        return
    finally:
        os.close(descriptor)
