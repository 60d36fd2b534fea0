"""A store's index as the broker runs it (spec: index service; RocketMQ: ``IndexService``)."""

from __future__ import annotations

import os
import threading
from dataclasses import dataclass, replace
from functools import partial, wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self, TypeVar, cast

from rmqindex.arguments import ensure_flags, int_of, int_or_none, text_of
from rmqindex.indexfile.geometry import Layout
from rmqindex.indexfile.reader import IndexFile
from rmqindex.indexwriter.appender import EntryAppender
from rmqindex.keys.hashing import index_key, key_hash
from rmqindex.keys.messages import TAG_INDEX_TYPE, message_keys, tag_key
from rmqindex.layout.index_file import DEFAULT_MAX_MSGS_NUM_BATCH, IndexHeader
from rmqindex.layout.store import CHECKPOINT_NAME
from rmqindex.query.loading import (
    finish_writes,
    geometry_of,
    headers_html,
    headers_text,
    index_directory,
    loadable,
    next_name,
    stored_checkpoint,
    write_loaded_count,
)
from rmqindex.storage.disk import make_directories
from rmqindex.storage.writable import WritableFile
from rmqindex.store.contents import hold_writable
from rmqindex.store.snapshot import read_listed
from rmqindex.store.store import index_entries
from rmqindex.times import zone_of
from rmqindex.transaction.broker_lock import StoreHold

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from datetime import tzinfo
    from types import TracebackType

    from rmqindex.storage.location import Location, PathLike
    from rmqindex.transaction.directories import FileEntry

_Method = TypeVar("_Method", bound="Callable[..., Any]")


def _one_at_a_time(method: _Method) -> _Method:
    """Let a method wait until no other thread is in one of the same directory."""

    @wraps(method)
    def locked(self: IndexDirectory, *args: object, **kwargs: object) -> object:
        with self._lock:
            return method(self, *args, **kwargs)

    return cast("_Method", locked)


@dataclass(frozen=True, slots=True)
class QueryOffsetResult:
    """What the broker finds for one key (RocketMQ: ``QueryOffsetResult``).

    Attributes:
        phy_offsets: The CommitLog offsets of the messages, bytes; newest file first, and newest
            entry first within a file. They are candidates: messages with another key of the same
            hash are included.
        index_last_update_timestamp: ``end_timestamp`` of the last file, epoch milliseconds.
        index_last_update_phy_offset: ``end_phy_offset`` of the last file, bytes.
    """

    phy_offsets: tuple[int, ...]
    index_last_update_timestamp: int
    index_last_update_phy_offset: int


class IndexDirectory:
    """The IndexFiles of a store, loaded, queried, appended to and expired as the broker does it.

    Its answers are the broker's own, quirks included: at most 64 offsets, a walk that stops early,
    a rolled file's first entry read late.
    For all entries of a key, use :meth:`IndexFile.lookup`.

    By default it is read-only: loading, also after a crash, and expiry change the view of this
    object, but nothing on disk.
    With ``writable=True`` they do on disk what the broker does.
    Then only one may have the directory open, and indexed messages are on disk after :meth:`flush`
    or :meth:`close`; an exception in the ``with`` block closes without a flush.
    Threads may share one, and wait for each other.

    Example:
        >>> from rmqindex import IndexDirectory, sample_store
        >>> with IndexDirectory(sample_store()) as index:
        ...     index.query_offset("TopicTest", "order-49", 3, 0, 2**63 - 1).phy_offsets
        (112033, 109318, 108424)
    """

    def __init__(
        self,
        path: PathLike,
        layout: Layout | None = None,
        *,
        writable: bool = False,
        last_exit_ok: bool = True,
        index_msg_timestamp: int | None = None,
        max_msgs_num_batch: int = DEFAULT_MAX_MSGS_NUM_BATCH,
        time_zone: str | tzinfo | None = None,
        allow_live_store: bool = False,
    ) -> None:
        """Load the files (``IndexService.load``).

        Args:
            path: An index directory, or a store root with ``index/`` in it.
                Local, or, to read, a URI that ``pyarrow.fs`` knows.
                With ``writable`` it is made where it is absent; a directory without ``index/``
                counts as a store root if it has ``commitlog/`` or ``checkpoint``.
            layout: The geometry of every file, which the broker takes from its configuration.
                By default that of the fullest file, or in a new directory the broker's default.
            writable: Do on disk what the broker does. Until it is closed, no broker can start on
                the store, and nothing else can write into it, in this process or another.
            last_exit_ok: Whether the broker stopped cleanly.
                If not, files that end after ``index_msg_timestamp`` are deleted.
            index_msg_timestamp: The checkpoint's ``index_msg_timestamp``, epoch milliseconds; by
                default from a local store's ``checkpoint``, 0 without one.
            max_msgs_num_batch: The broker's ``maxMsgsNumBatch``: no query returns more.
            time_zone: The broker's, in which new files are named; by default the system's.
            allow_live_store: Write even if a broker runs on the store.

        Raises:
            RmqIndexError: No such directory, the geometry cannot be inferred, a broker runs on a
                store opened for writing, another one has the directory open for writing, or a file
                is not an IndexFile.
            ValueError: An unknown time zone, or a number out of range.
        """
        ensure_flags(
            writable=writable, last_exit_ok=last_exit_ok, allow_live_store=allow_live_store
        )
        index_msg_timestamp = int_or_none("index_msg_timestamp", index_msg_timestamp)
        self._lock = threading.RLock()
        self._writable = writable
        self._zone = zone_of(time_zone)
        self._max_msgs_num_batch = int_of("max_msgs_num_batch", max_msgs_num_batch, 0)
        self._path = index_directory(path, writable=writable)
        self._checkpoint_path = Path(self._path).parent / CHECKPOINT_NAME
        if index_msg_timestamp is None:
            checkpoint = stored_checkpoint(self._path)
            index_msg_timestamp = checkpoint.index_msg_timestamp if checkpoint else 0
        self._index_msg_timestamp = index_msg_timestamp
        self._appender: EntryAppender | None = None
        self._is_published, self._closed = True, False
        self._files: list[IndexFile] = []
        self._hold = StoreHold()
        if writable:
            self._hold = hold_writable(
                Path(self._path), allow_live_store=allow_live_store, alone=True
            )
        try:
            self._load_files(layout, last_exit_ok=last_exit_ok)
        except BaseException:
            self._abandon()
            raise

    def _load_files(self, layout: Layout | None, *, last_exit_ok: bool) -> None:
        writable = self._writable
        if writable:
            make_directories(Path(self._path))
            self._hold.share(Path(self._path), alone=True)
            finish_writes(Path(self._path))

        def load(entries: Sequence[FileEntry]) -> None:
            self._close_files()
            paths, self._load_result = loadable(entries, writable=writable)
            self._layout = layout or geometry_of(paths, writable=writable)
            for each in paths if writable else ():
                self._open(each).close()  # what is refused is refused before any is changed
            for each in paths:
                self._load(each, last_exit_ok=last_exit_ok)

        # Loading for writing changes the listed files, and nobody else may write meanwhile.
        listed = partial(index_entries, self._path)
        load(listed()) if writable else read_listed(self._path, listed, load)

    def _load(self, path: Location, *, last_exit_ok: bool) -> None:
        if self._writable:
            assert self._layout is not None
            if Path(path).stat().st_size < self._layout.file_size:
                with WritableFile(path, os.O_RDWR) as writable:
                    writable.resize(self._layout.file_size)
        file = self._open(path)
        if last_exit_ok or file.header.end_timestamp <= self._index_msg_timestamp:
            self._files.append(file)
            return
        file.close()
        if self._writable:
            Path(path).unlink()

    def _open(self, path: PathLike) -> IndexFile:
        # Malformed bytes are no error to the broker; without a layout, no file has entries.
        return IndexFile(path, self._layout or Layout(), mode="DROPMALFORMED", zero_extend=True)

    @property
    def path(self) -> Path | str:
        """The index directory; a ``str`` for a remote one."""
        return self._path

    @property
    def layout(self) -> Layout | None:
        """The geometry of the files; None if it was not given and no file has entries."""
        return self._layout

    @property
    def load_result(self) -> bool:
        """What ``IndexService.load`` returns.

        False if it met a file that cannot be opened, or a numeric folder, and loaded none behind.
        """
        return self._load_result

    @property
    @_one_at_a_time
    def files(self) -> tuple[IndexFile, ...]:
        """The loaded files in their order, oldest first; they read in mode ``DROPMALFORMED``.

        The files do not change: read this again after :meth:`build_index`. Closing closes them.
        """
        self._publish()
        return tuple(self._files)

    @property
    @_one_at_a_time
    def total_size(self) -> int:
        """The size of the index in bytes (``IndexService.getTotalSize``)."""
        if not self._files:
            return 0
        first, layout = Path(self._files[0].path), self._layout
        return (first.stat().st_size if layout is None else layout.file_size) * len(self._files)

    @property
    def index_msg_timestamp(self) -> int:
        """The ``indexMsgTimestamp`` of the broker's checkpoint.

        It is the ``end_timestamp`` of the last full file flushed, epoch milliseconds, and advances
        when a new file follows. With ``writable``, the store's ``checkpoint`` gets it, if any.
        """
        return self._index_msg_timestamp

    @_one_at_a_time
    def query_offset(
        self,
        topic: str,
        key: str,
        max_num: int,
        begin: int,
        end: int,
        index_type: str | None = None,
    ) -> QueryOffsetResult:
        """Find messages by key and time (``IndexService.queryOffset``).

        Args:
            topic: The topic.
            key: The unique key or one of the keys of the message.
            max_num: The most offsets to return; ``max_msgs_num_batch`` bounds it.
            begin: The earliest store time, epoch milliseconds, inclusive.
            end: The latest store time, epoch milliseconds, inclusive.
            index_type: ``T`` to find the tags ``key``, which brokers from 5.4.0 on index; with any
                other value, ``key`` is a key, as in the broker.

        Returns:
            The candidates.

        Raises:
            ValueError: A negative ``max_num``, a time beyond 64 bits, or the directory is closed.
            CorruptIndexError: A chain runs in a circle without a hit, where the broker hangs.
        """
        self._check_open()
        max_num = min(int_of("max_num", max_num, 0), self._max_msgs_num_batch)
        begin, end = int_of("begin", begin), int_of("end", end)
        text_of("key", key)
        key = index_key(topic, tag_key(key) if index_type == TAG_INDEX_TYPE else key)
        files = self.files
        phy_offsets: list[int] = []
        for file in reversed(files):
            if file.is_time_matched(begin, end):
                rest = max_num - len(phy_offsets)
                phy_offsets += file.select_phy_offset(key, rest, begin, end)
            if file.header.begin_timestamp < begin or len(phy_offsets) >= max_num:
                break
        last = files[-1].header if files else IndexHeader()
        return QueryOffsetResult(tuple(phy_offsets), last.end_timestamp, last.end_phy_offset)

    @_one_at_a_time
    def build_index(
        self,
        topic: str,
        uniq_key: str | None,
        keys: str | Sequence[str | None] | None,
        sys_flag: int,
        phy_offset: int,
        store_timestamp: int,
        tags: str | None = None,
    ) -> None:
        """Index one message (``IndexService.buildIndex``).

        A message before the last indexed one is skipped; that of the same offset is indexed again.
        A full last file is followed by a new one even if this message is then not indexed.

        Args:
            topic: The message's topic.
            uniq_key: Its property ``UNIQ_KEY``; an empty one is indexed, ``None`` is not.
            keys: Its property ``KEYS``, split at single spaces, or the parts themselves.
            sys_flag: Its ``SYSFLAG``; rollbacks are skipped.
            phy_offset: Its CommitLog offset, bytes, int64.
            store_timestamp: Its store time, epoch milliseconds, int64.
            tags: Its property ``TAGS``, to index tags as brokers from 5.4.0 on do.

        Raises:
            ValueError: The directory is read-only or closed, a number beyond 64 bits, a part of
                ``keys`` with a space, or a geometry without room for entries.
            RmqIndexError: A new file cannot be named after the last one.
            OSError: The disk is full or broken.
        """
        self._check_writable()
        phy_offset = int_of("phy_offset", phy_offset)
        store_timestamp = int_of("store_timestamp", store_timestamp)
        index_keys = message_keys(topic, uniq_key, keys, sys_flag, tags)
        appender = self._last_appender()
        if phy_offset < appender.header.end_phy_offset:
            return
        if (more := len(index_keys) - appender.free) > 0:  # all of a message's keys, or none
            next_name(self._files, self._zone, count=-(-more // appender.layout.capacity))
        for key in index_keys:
            while not appender.put(key_hash(key), phy_offset, store_timestamp):
                appender = self._last_appender()
            self._is_published = False

    @_one_at_a_time
    def delete_expired(self, offset: int) -> None:
        """Drop the oldest files that end before an offset (``IndexService.deleteExpiredFile``).

        It stops at the first file that does not, and always keeps the last one.

        Args:
            offset: Where the CommitLog begins, bytes.

        Raises:
            ValueError: The directory is closed.
            OSError: A file cannot be deleted.
        """
        self._check_open()
        offset = int_of("offset", offset)
        while len(self._files) > 1 and self._files[0].header.end_phy_offset < offset:
            file = self._files[0]
            if self._writable:
                self._hold.ensure_own(Path(file.path))
                Path(file.path).unlink()
            file.close()
            del self._files[0]

    @_one_at_a_time
    def flush(self) -> None:
        """Sync everything indexed so far to disk; does nothing when read-only.

        Raises:
            ValueError: The directory is closed.
            OSError: The disk is full or broken.
        """
        self._check_open()
        if self._appender is not None:
            self._appender.flush()

    @_one_at_a_time
    def close(self) -> None:
        """Flush and close all files (``IndexService.shutdown``); a second call does nothing.

        As the broker does, it then writes the ``index_count`` 1 into files without entries.

        Raises:
            OSError: The disk is full or broken.
        """
        if self._closed:
            return
        try:
            if self._writable:
                self._hold.ensure_own(Path(self._path))
                if self._appender is not None:
                    self._appender.flush()
                    self._publish()
                for file in self._files:
                    write_loaded_count(file)
        finally:
            self._abandon()

    def __repr__(self) -> str:
        """Return the path, and how many files and entries are loaded."""
        return f"IndexDirectory({self._summary()})"

    @_one_at_a_time
    def _repr_html_(self) -> str:
        title, names = f"IndexDirectory {self._summary()}", [file.name for file in self._files]
        return headers_html(title, names, self._headers())

    @_one_at_a_time
    def _summary(self) -> str:
        what = "closed" if self._closed else headers_text(self._headers())
        return f"{str(self._path)!r}: {what}"

    def _headers(self) -> list[IndexHeader]:
        """Return the loaded files' headers, the last one with what was put so far."""
        headers = [file.header for file in self._files]
        if self._appender is not None:
            headers[-1] = self._appender.header
        return headers

    def __enter__(self) -> Self:
        """Return the directory itself."""
        return self

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc_value: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Close the files; after an exception without a flush."""
        if exc_type is None:
            self.close()
        else:
            self._abandon()

    @_one_at_a_time
    def _abandon(self) -> None:
        self._closed = True
        with self._hold:
            if self._appender is not None:
                self._appender.close()
            self._close_files()

    def _close_files(self) -> None:
        for file in self._files:
            file.close()
        self._files.clear()

    def _check_open(self) -> None:
        if self._closed:
            raise ValueError(f"{self._path}: the index directory is closed")

    def _check_writable(self) -> None:
        self._check_open()
        if not self._writable:
            raise ValueError(f"{self._path}: opened read-only: pass writable=True to index")
        self._hold.ensure_own(Path(self._path))

    def _last_appender(self) -> EntryAppender:
        """Return the last file, or a new one if that is full (``getAndCreateLastIndexFile``)."""
        if self._appender is not None and self._appender.free:
            return self._appender
        layout = self._layout
        assert layout is not None  # a writable directory has one
        if not layout.capacity:
            raise ValueError(f"index_num: expected at least 2 to index messages, got {layout}")
        previous = IndexHeader()
        if self._files:
            self._publish()
            previous = self._files[-1].header
            if self._appender is None and previous.index_count < layout.index_num:
                self._appender = EntryAppender.resume(self._files[-1].path, layout)
                return self._appender
        path = Path(self._path) / next_name(self._files, self._zone)
        if self._files:
            self._retire_last(previous)
        self._appender = EntryAppender.create(
            path, layout, previous.end_phy_offset, previous.end_timestamp
        )
        self._files.append(self._open(path))
        return self._appender

    def _retire_last(self, header: IndexHeader) -> None:
        """Sync the full last file to disk, and raise the checkpoint."""
        if self._appender is not None:
            self._appender.flush()
            self._appender.close()
            self._appender = None
        if header.end_timestamp > 0:
            self._index_msg_timestamp = header.end_timestamp
            checkpoint = stored_checkpoint(self._path)
            if checkpoint is not None:
                checkpoint = replace(checkpoint, index_msg_timestamp=header.end_timestamp)
                checkpoint.save(self._checkpoint_path)

    def _publish(self) -> None:
        """Make everything put so far readable in the last file."""
        if not self._is_published and self._appender is not None:
            self._appender.flush()
            self._files[-1] = self._open(Path(self._files[-1].path))
            self._is_published = True
