"""Looks up one key hash in one IndexFile, and reads one message, without arrays (spec: lookup).

For a single key, the calls of NumPy and Arrow cost many times the work itself.
This module answers the sound and simple cases, which are nearly all; in any other it returns None,
and the caller uses ``IndexFile.lookup`` and ``CommitLog.read_at``, which handle all cases.
"""

from __future__ import annotations

import struct
from bisect import bisect_right
from typing import TYPE_CHECKING, NamedTuple

from rmqindex.commitlog.files import ExpiredFileError
from rmqindex.commitlog.log import CommitLog
from rmqindex.indexfile.chains import PointEntry, walk_one
from rmqindex.indexfile.committed import open_index_source, read_header
from rmqindex.keys.hashing import KEY_SEPARATOR
from rmqindex.keys.messages import tag_key
from rmqindex.layout.index_file import (
    BEGIN_PHY_OFFSET_OFFSET,
    BEGIN_TIMESTAMP_OFFSET,
    ENTRY_SIZE,
)
from rmqindex.layout.record import (
    BODY_LENGTH_OFFSET,
    BODY_LENGTH_SIZE,
    BORN_HOST_V6_FLAG,
    MAGIC_CODE_OFFSET,
    MAGIC_CODE_V1,
    PROPERTIES_LENGTH_SIZE,
    PROPERTY_KEYS,
    PROPERTY_TAGS,
    PROPERTY_UNIQ_KEY,
    STORE_HOST_V6_FLAG,
    SYS_FLAG_OFFSET,
    V6_EXTRA,
)
from rmqindex.query.verification import EXPIRED, MISMATCH, VERIFIED, only_key
from rmqindex.record.bodies import is_inner_batch
from rmqindex.record.properties import property_pairs
from rmqindex.record.records import check_record, store_timestamp_of
from rmqindex.record.text import java_text
from rmqindex.storage.identity import FileChangedError
from rmqindex.storage.opening import ensure_same

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Self

    from rmqindex.commitlog.framing import LogFile
    from rmqindex.indexfile.fingerprint import Fingerprint
    from rmqindex.indexfile.geometry import Layout
    from rmqindex.query.verification import MatchState
    from rmqindex.storage.source import ByteSource

_INT32 = struct.Struct(">i")
_UNIQ_KEY, _KEYS, _TAGS = (
    name.decode() for name in (PROPERTY_UNIQ_KEY, PROPERTY_KEYS, PROPERTY_TAGS)
)


class PointFile:
    """An IndexFile for lookups of one key hash at a time.

    Attributes:
        header: The header when it was opened.
    """

    def __init__(self, path: str, layout: Layout) -> None:
        """Open a file.

        Args:
            path: A local path or a URI.
            layout: Its geometry.
        """
        self._source = open_index_source(path)
        self._layout = layout
        self.header = read_header(self._source)
        self._fingerprint: Fingerprint | None = None
        # The fields that no append changes: the views of a mapped file show its present bytes.
        self._final: list[tuple[bytes | memoryview, bytes]] = []

    def matches(self, fingerprint: Fingerprint) -> bool:
        """Return whether this is the file of a fingerprint, with at least as many entries.

        If it is, later lookups raise once a local file is changed while it is open.
        """
        if self.header.index_count < fingerprint.stop or not fingerprint.matches(
            self._source, self._layout
        ):
            return False
        self._fingerprint = fingerprint
        if not self._source.remote:
            last = self._layout.entry_offset(fingerprint.stop - 1)
            views = [
                self._source.read(BEGIN_TIMESTAMP_OFFSET, 8),
                self._source.read(BEGIN_PHY_OFFSET_OFFSET, 8),
                self._source.read(last, ENTRY_SIZE),
            ]
            self._final = [(view, bytes(view)) for view in views]
        return True

    def ensure_same(self) -> None:
        """Raise if the file was changed since it matched its fingerprint."""
        known = self._fingerprint
        if known is not None and not (
            self._source.is_current() and known.matches(self._source, self._layout)
        ):
            raise self._changed_error()

    def lookup(self, key_hash: int, limit: int) -> list[PointEntry] | None:
        """Return the entries of a hash, newest first.

        Args:
            key_hash: 0 to 2**31 - 1.
            limit: The position after the last entry that counts.

        Returns:
            The entries; None where the chain is long, broken, or goes on beyond ``limit``, as in a
            file that a broker is writing.
        """
        # Check first: reading a mapping behind the end of its file kills the process.
        if self._final and not self._source.is_current():
            raise self._changed_error()
        begin = self.header.begin_timestamp
        found = walk_one(self._source.read, self._layout, begin, key_hash, limit)
        for view, data in self._final:
            if view != data:
                raise self._changed_error()
        return found

    def _changed_error(self) -> FileChangedError:
        return FileChangedError(self._source.path, "replaced or rewritten")

    def close(self) -> None:
        """Close the file."""
        self._final.clear()
        self._source.close()


class PointMessage(NamedTuple):
    """The fields of a message that decide whether an entry is a key's."""

    topic: str
    keys: list[str]
    store_timestamp: int


class PointLog:
    """A CommitLog for reading one message at a time."""

    def __init__(self, path: str | Sequence[LogFile] | CommitLog) -> None:
        """Find the files; each is opened when it is needed.

        Args:
            path: As :class:`rmqindex.CommitLog` takes it; or one, which stays open.

        Raises:
            RmqIndexError: Nothing is there, or a store of another kind.
        """
        self._is_own = not isinstance(path, CommitLog)
        self._log = path if isinstance(path, CommitLog) else CommitLog(path)
        self._starts = [file.start for file in self._log.files]
        self._sources: dict[int, ByteSource] = {}

    def is_expired(self, phy_offset: int) -> bool:
        """Return whether an offset of the log, bytes, lies before its first file."""
        return 0 <= phy_offset < self._log.min_offset

    def message(self, phy_offset: int) -> PointMessage | None:
        """Return the message at an offset of the log, bytes.

        Returns:
            The message; None where no sound record starts there, where it is a batch, which has
            further keys, or where it has expired meanwhile.
        """
        number = bisect_right(self._starts, phy_offset) - 1
        if number < 0 or phy_offset >= self._log.files[number].stop:
            return None
        file = self._log.files[number]
        try:
            source = self._sources.get(number)
            if source is None:
                source = self._sources[number] = self._log.open_file(file)
            if not source.remote:
                ensure_same(source, file.mark)
            start = phy_offset - file.start
            size = check_record(source.read, start, min(source.size, file.size), phy_offset)
            return _message(source, start, size) if isinstance(size, int) else None
        except ExpiredFileError:
            return None

    def verify(
        self, entries: Sequence[PointEntry], topic: str, key: str
    ) -> list[tuple[PointEntry, str]] | None:
        """Compare the entries of one key with their messages.

        Args:
            entries: Entries with the key's hash.
            topic: The topic.
            key: The key.

        Returns:
            The key's entries, with ``match_state``: verified ones with the times of their messages,
            and those of expired messages; entries of other keys are left out. None where the simple
            rule cannot decide one of them.

        Raises:
            FileChangedError: A file is not the one that was found.
            RmqIndexError: The storage failed.
        """
        found: list[tuple[PointEntry, str]] = []
        for entry in entries:
            judged = self.judge(entry.phy_offset, entry.key_hash, topic, key)
            if judged is None:
                return None
            state, stored = judged
            if state == VERIFIED:
                found.append((entry._replace(store_timestamp=stored), state))
            elif state == EXPIRED:
                found.append((entry, state))
        return found

    def judge(
        self, phy_offset: int, key_hash: int, topic: str, key: str
    ) -> tuple[MatchState, int] | None:
        """As :meth:`verify`, of one entry: its state, and the store time where it is verified."""
        if self.is_expired(phy_offset):
            return EXPIRED, 0
        message = self.message(phy_offset)
        if message is None:
            return None
        own = only_key(message.topic, message.keys, key_hash, (topic, key))
        if own is None:
            return None
        is_key = (message.topic, own) == (topic, key)
        return (VERIFIED, message.store_timestamp) if is_key else (MISMATCH, 0)

    def ensure_same(self) -> None:
        """Raise if an open file was changed meanwhile."""
        for number, source in self._sources.items():
            ensure_same(source, self._log.files[number].mark)

    def close(self) -> None:
        """Close the files."""
        for source in self._sources.values():
            source.close()
        self._sources.clear()
        if self._is_own:
            self._log.close()

    def __enter__(self) -> Self:
        """Return the log itself."""
        return self

    def __exit__(self, *error: object) -> None:
        """Close the log."""
        self.close()


def _message(source: ByteSource, start: int, size: int) -> PointMessage | None:
    """Parse a sound record without reading its body."""
    read = source.read
    (sys_flag,) = _INT32.unpack(read(start + SYS_FLAG_OFFSET, _INT32.size))
    if is_inner_batch(sys_flag):
        return None
    at = start + BODY_LENGTH_OFFSET
    for flag in (BORN_HOST_V6_FLAG, STORE_HOST_V6_FLAG):
        at += V6_EXTRA if sys_flag & flag else 0
    (body_length,) = _INT32.unpack(read(at, BODY_LENGTH_SIZE))
    at += BODY_LENGTH_SIZE + max(body_length, 0)
    (magic,) = _INT32.unpack(read(start + MAGIC_CODE_OFFSET, _INT32.size))
    width = 1 if magic == MAGIC_CODE_V1 else 2
    topic_length = int.from_bytes(read(at, width), "big")
    at += width
    topic = java_text(bytes(read(at, topic_length)))
    at += topic_length + PROPERTIES_LENGTH_SIZE
    keys: list[str] = []
    named: dict[str, str] = {}
    for name, value in property_pairs(bytes(read(at, start + size - at))):
        if name in (_UNIQ_KEY, _KEYS, _TAGS):
            if name in named:
                return None
            named[name] = value
    if _UNIQ_KEY in named:
        keys.append(named[_UNIQ_KEY])
    if _KEYS in named:
        keys += [part for part in named[_KEYS].split(KEY_SEPARATOR) if part]
    if named.get(_TAGS):
        keys.append(tag_key(named[_TAGS]))
    return PointMessage(topic, keys, store_timestamp_of(read, start))
