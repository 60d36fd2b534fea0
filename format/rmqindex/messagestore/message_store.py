"""A store as one object."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import pyarrow as pa
import pyarrow.fs as pafs

from rmqindex.answers.plot import IMAGE_TYPES
from rmqindex.arguments import int_or_none
from rmqindex.audit.plan import verify
from rmqindex.bulk.rebuild import rebuild_index
from rmqindex.commitlog import Selection, missing_beside
from rmqindex.consumequeue.progress import consumer_progress
from rmqindex.errors import RmqIndexError
from rmqindex.explanation.explain import explain_lookup
from rmqindex.explanation.reach import uncovered
from rmqindex.export.entries import EntrySelection, entry_schema, entry_tables
from rmqindex.export.formats import DEFAULT_COLUMNS
from rmqindex.indexfile.entries import check_mode
from rmqindex.keys.utf8 import check_topic
from rmqindex.messagestore.answers import (
    FILE_COLUMNS,
    described,
    incomplete_index,
    incomplete_log,
    index_figure,
    key_usage_table,
    untagged_keys,
    usage_table,
    with_messages,
)
from rmqindex.messagestore.arguments import (
    key_array,
    selection_of,
    since_millis,
    texts_of,
    time_range,
)
from rmqindex.messagestore.source import StoreSource
from rmqindex.notebooks import html_table
from rmqindex.query.key_usage import KEY_GROUPS, listed_index, store_of
from rmqindex.query.many_keys import lookup_keys
from rmqindex.query.usage import GROUPS, measure_usage
from rmqindex.storage.filesystem import status_of
from rmqindex.storage.identity import FileChangedError
from rmqindex.storage.location import Location, home_expanded
from rmqindex.store.snapshot import IndexSnapshot
from rmqindex.store.store import Store
from rmqindex.times import system_zone, zone_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from datetime import tzinfo

    import pyarrow.dataset as pds

    from rmqindex.bulk.rebuild import RebuildResult
    from rmqindex.commitlog.framing import LogFile
    from rmqindex.commitlog.log import CommitLog
    from rmqindex.explanation.explain import Search
    from rmqindex.explanation.result import LookupExplanation
    from rmqindex.indexfile.entries import Mode
    from rmqindex.indexfile.geometry import Layout
    from rmqindex.messagestore.arguments import Time
    from rmqindex.storage.location import PathLike


class MessageStore:
    """A broker's store: its index and its CommitLog, read as one; answers are Arrow's.

    Tables and readers have real timestamps, as Polars, DuckDB and pandas take them.
    Nothing stays open between two calls, and each call sees the store as it is then; of IndexFiles
    that are full and unchanged, a lookup keeps the headers.
    Times are given as epoch milliseconds, as ``datetime``, as text such as ``2024-01-31 12:30``,
    ``yesterday 9:30`` or ``-2h``, or as a ``timedelta`` for how long ago. Both bounds are
    inclusive: a day as the end stands for all of it.

    Example:
        >>> from rmqindex import MessageStore, sample_store
        >>> store = MessageStore(sample_store(), time_zone="UTC")
        >>> store.lookup("TopicTest", "order-49", max_num=3)["phy_offset"].to_pylist()
        [112033, 109318, 108424]
    """

    def __init__(
        self,
        path: PathLike,
        *,
        commit_log: CommitLog | PathLike | Sequence[PathLike | LogFile] | None = "auto",
        layout: Layout | None = None,
        mode: Mode = "FAILFAST",
        time_zone: str | tzinfo | None = None,
    ) -> None:
        """Set where the store is.

        Args:
            path: A store root, an index directory or an IndexFile; local, also with ``~``, or a
                URI that ``pyarrow.fs`` knows.
            commit_log: What :class:`CommitLog` takes, or one; ``"auto"`` for the one beside the
                index, if there is one; None for none.
            layout: The geometry of every file; None to infer it.
            mode: ``FAILFAST`` raises at damage; ``DROPMALFORMED`` reads what is sound.
            time_zone: The zone of times that name none, and of those that are shown; None for the
                system's.

        Raises:
            RmqIndexError: The path is absent.
            ValueError: An unknown mode or time zone.
        """
        check_mode(mode)
        self._path = Location.of(home_expanded(path))
        if status_of(self._path).kind == pafs.FileType.NotFound:
            raise RmqIndexError(f"{self._path}: no such file or directory")
        self._source = StoreSource(self._path, home_expanded(commit_log), layout, mode)
        self._seen = IndexSnapshot()
        named = system_zone() if time_zone is None else (str(time_zone), zone_of(time_zone))
        self._zone_name, self._zone = named

    @property
    def path(self) -> Path | str:
        """The path that was given; a ``str`` for a remote one."""
        return self._path.local or str(self._path)

    def lookup(
        self,
        topic: str,
        keys: str | Iterable[str] | pa.Array | pa.ChunkedArray,
        *,
        begin: Time | None = None,
        end: Time | None = None,
        max_num: int | None = None,
        message: bool = False,
    ) -> pa.Table:
        """Find the messages with one key, or with any of many, in all files.

        With a CommitLog, messages with other keys of the same hash are left out, and times are
        exact. Without one, a row may be of such a message, and its time is cut to whole seconds
        after the first entry of its file.

        Args:
            topic: The topic.
            keys: A key, or several of any number: unique keys or those of ``KEYS``. ``T#`` and the
                tags finds tags, which brokers from 5.4.0 on index.
            begin: The earliest store time.
            end: The latest store time.
            max_num: At most how many messages of each key, the newest; None for all.
            message: Also return the messages' own columns, bodies unpacked.

        Returns:
            ``topic``, ``key``, ``phy_offset`` (bytes), ``store_timestamp``, ``match_state``,
            ``file`` and ``position``, newest first; a row for each entry. ``match_state`` is
            ``verified`` if the entry is the key's, ``unverified`` if its message is no longer in
            the log, ``no_log`` without one; others mean that no message confirms it. With
            ``message``, the other columns of :meth:`messages` follow, null unless verified.

        Warns:
            IncompleteIndexWarning: Rows may be missing. The metadata ``uncovered`` says it too.

        Raises:
            ValueError: An empty topic, a null of Arrow's, ``max_num`` below 1, a wrong time;
                ``message`` without a CommitLog.
            TypeError: Keys that are not texts.
            RmqIndexError: A file cannot be used, or was changed meanwhile.
        """
        check_topic(topic)
        max_num = int_or_none("max_num", max_num, 1)
        wanted = key_array(keys)
        first, last = time_range(begin, end, self._zone)
        store = Store.open(self._path, needs_index=False, allow_empty=True)
        with self._source.opened_log(store) as log:
            if message and log is None:
                raise ValueError(f"message: needs a CommitLog, and {self.path} has none")
            look_up = partial(lookup_keys, log=log, begin=first, end=last, max_num=max_num)
            files = self._source.files(store, self._seen)
            try:
                found = look_up(files, topic=topic, keys=wanted)
            except FileChangedError:
                if not self._seen:
                    raise
                files = self._source.files()  # a file was rewritten, its times did not show it
                found = look_up(files, topic=topic, keys=wanted)
            self._seen = files
            found = with_messages(found, log, self._source.mode) if log and message else found
            lacks = [part.text() for part in uncovered(store, files, log)]
            lacks += untagged_keys(topic, wanted, files, self._source.layout, log, (first, last))
        return found.replace_schema_metadata(incomplete_index(files, lacks))

    def messages(
        self,
        topic: str | Iterable[str] | None = None,
        *,
        queue_id: int | Iterable[int] | None = None,
        tags: str | Iterable[str] | None = None,
        begin: Time | None = None,
        end: Time | None = None,
        start: int | None = None,
        stop: int | None = None,
        columns: Sequence[str] = DEFAULT_COLUMNS,
    ) -> pa.RecordBatchReader:
        """Read messages from the CommitLog, in the order in which they were stored.

        Args:
            topic: A topic, or several; None for all.
            queue_id: A queue, or several.
            tags: The tags, or several.
            begin: The earliest store time.
            end: The latest store time.
            start: The first offset, bytes.
            stop: The offset from which on messages are left out, bytes.
            columns: Names of ``COMMITLOG_SCHEMA``, and ``body_text`` for bodies as text; others
                are not decoded. By default all that repeat nothing.

        Returns:
            A reader, which reads the log once while it is consumed, in bounded memory. Bodies are
            unpacked. Where files of the log are lost, by what its store leads to, an
            ``IncompleteLogWarning`` says which, and ``missing`` in the metadata of the schema.

        Raises:
            ValueError: An unknown column, a wrong time, or a negative offset.
            RmqIndexError: There is no CommitLog; while reading: damage, unless the mode is
                ``DROPMALFORMED``, which leaves it out and makes bodies null that do not unpack.
        """
        times = time_range(begin, end, self._zone)
        selection = selection_of(topic, queue_id, tags, times, start, stop)
        with self._source.needed_log() as log:  # what is missing is told now, not at the first row
            told = incomplete_log(missing_beside(self._path, log, self._source.commit_log))
        return self._source.messages(selection, columns, told)

    def entries(
        self,
        *,
        begin: Time | None = None,
        end: Time | None = None,
        start: int | None = None,
        stop: int | None = None,
        key_hash: int | None = None,
    ) -> pa.RecordBatchReader:
        """Read the entries of all files, oldest file first.

        Args:
            begin: The earliest store time.
            end: The latest store time.
            start: The first offset, bytes.
            stop: The offset from which on entries are left out, bytes.
            key_hash: The hash of a key.

        Returns:
            A reader of ``file`` and the columns of ``ENTRY_SCHEMA``. Times are those of entries:
            whole seconds after the first one of the file.

        Raises:
            ValueError: A wrong time.
            RmqIndexError: The index cannot be listed; while reading: damage, or a file that was
                changed meanwhile.
        """
        selection = EntrySelection(*time_range(begin, end, self._zone), start, stop, key_hash)
        files = self._source.files()
        schema = entry_schema().with_metadata(incomplete_index(files, ()))

        def read() -> Iterator[pa.RecordBatch]:
            for planned in files:
                for table, _ in entry_tables(planned, selection):
                    yield from table.to_batches()

        return pa.RecordBatchReader.from_batches(schema, read())

    def dataset(self, what: str = "entries") -> pds.Dataset:
        """Return the rows of a store for DuckDB, Polars, DataFusion and whatever reads datasets.

        A dataset reads only the columns that are asked for, and of a filter takes what narrows the
        read: keys and hashes become lookups by slot, positions, times, offsets, topics and queues
        leave out files and messages. Arrow applies the whole filter to what was read. Each scan
        reads the store as it is then, in bounded memory: ahead of a slow consumer, Arrow reads up
        to about 1 GiB. A dataset can be pickled.

        Args:
            what: ``entries`` (also of ``topic`` and ``key``), ``messages`` or ``queues``.

        Returns:
            Of entries, those of :meth:`entries` with ``topic``, ``key`` and ``match_state``. With a
            CommitLog, an entry whose message proves it has its key and exact time, any other has
            nulls. Without one, ``topic`` and ``key`` are those that the filter binds. Of messages,
            those of :meth:`messages` with ``body_text``; of queues, ``CONSUME_QUEUE_SCHEMA``.

        Raises:
            ValueError: Another ``what``.
            RmqIndexError: While scanning: as the methods that read; or there is no CommitLog and a
                filter that does not bind both topic and key.
        """
        from rmqindex.messagestore.dataset import store_dataset  # noqa: PLC0415  (others need none)

        return store_dataset(self._source, what)

    def explain(
        self,
        topic: str,
        key: str,
        *,
        begin: Time | None = None,
        end: Time | None = None,
        search_log: Search = "gaps",
    ) -> LookupExplanation:
        """Explain why the broker and its tools do or do not find a key: :func:`explain_lookup`.

        Args:
            topic: The topic.
            key: The unique key or one of the keys of the message.
            begin: The earliest store time.
            end: The latest store time.
            search_log: As :func:`explain_lookup` takes it.

        Raises:
            RmqIndexError: A file cannot be used.
            ValueError: An empty topic, another ``search_log``, or a wrong time.
        """
        first, last = time_range(begin, end, self._zone)
        return explain_lookup(
            self._path,
            topic,
            key,
            first,
            last,
            self._source.commit_log,
            self._source.layout,
            search_log=search_log,
            time_zone=self._zone,
        )

    def verify(self, *, since: Time | None = None, max_findings: int = 100) -> pa.Table:
        """Check the index, byte by byte, and against its CommitLog: :func:`rmqindex.verify`.

        Args:
            since: Check only what was stored at this time or later; also a text such as ``2h``.
            max_findings: The most findings of one rule in one file.

        Returns:
            A row for each finding.

        Raises:
            RmqIndexError: Nothing can be checked.
            ValueError: A limit below 1, or a wrong time.
        """
        return verify(
            self._path,
            self._source.commit_log,
            self._source.layout,
            max_findings=max_findings,
            since=since_millis(since, self._zone),
        )

    def rebuild(
        self,
        *,
        resume: bool = False,
        replace: bool = False,
        start: int | None = None,
        stop: int | None = None,
        index_tags: bool | Literal["auto"] = "auto",
        checkpoint: bool | Literal["auto"] = "auto",
        allow_live_store: bool = False,
        allow_loss: bool = False,
    ) -> RebuildResult:
        """Rebuild the index from the CommitLog, as the broker writes it; the broker is stopped.

        Args:
            resume: Continue behind the last entry of the present files.
            replace: Replace the present files in one step, once the new ones are complete.
            start: The offset, bytes, from which messages are indexed.
            stop: The offset, bytes, from which on messages are left out.
            index_tags: As :func:`rebuild_index` takes it.
            checkpoint: As :func:`rebuild_index` takes it.
            allow_live_store: Write even if a broker runs on the store.
            allow_loss: As :func:`rebuild_index` takes it.

        Returns:
            What :func:`rebuild_index` returns.

        Raises:
            RmqIndexError: As :func:`rebuild_index`; or there is no CommitLog.
            ValueError: The store is remote, or the path is that of one file.
        """
        if (root := self._path.local) is None or root.is_file():
            raise ValueError(f"{self.path}: expected a local store or index directory to rebuild")
        target = Store.open(self._path, needs_index=False, to_write=True).index
        with self._source.needed_log() as log:
            return rebuild_index(
                log,
                target,
                self._source.layout,
                start=start,
                stop=stop,
                resume=resume,
                replace=replace,
                index_tags=index_tags,
                checkpoint=checkpoint,
                time_zone=self._zone,
                allow_live_store=allow_live_store,
                allow_loss=allow_loss,
                mode=self._source.mode,
            )

    def usage(
        self,
        by: str | Sequence[str] = "topic",
        *,
        begin: Time | None = None,
        end: Time | None = None,
        limit: int | None = None,
    ) -> pa.Table:
        """Count the messages of the CommitLog and their bytes, or the hottest keys or tags.

        Args:
            by: Some of ``topic``, ``queue`` (of its topic) and ``hour``; ``key`` or ``tag`` alone.
            begin: The earliest store time.
            end: The latest store time.
            limit: The most rows; None for all, of keys and tags for 20.

        Returns:
            Of ``topic``, ``queue_id`` and ``hour`` those asked for, ``message_count``, ``size``
            (bytes), ``entry_count`` (null where no index can be read); hours in order, else the
            largest first; or :class:`rmqindex.query.KeyUsageRow`.
            Lost files of the log are told as by :meth:`messages`.

        Raises:
            ValueError: Another ``by``, a limit below 1, or a wrong time.
            RmqIndexError: Damage, or there is no CommitLog, which keys do not need.
        """
        groups, limit = texts_of("by", by), int_or_none("limit", limit, 1)
        first, last = time_range(begin, end, self._zone)
        mode = self._source.mode
        if len(groups) == 1 and groups[0] in KEY_GROUPS:
            store = store_of(self._path)
            files = listed_index(store, self._source.layout, mode)
            source = self._source
            with source.needed_log() if files is None else source.opened_log(store) as found:
                table = key_usage_table(files, found, groups[0], (first, last), limit, mode)
            return table.replace_schema_metadata(incomplete_index(files or (), ()))
        for name in groups:
            if name not in GROUPS:
                known, alone = ", ".join(GROUPS), " or ".join(KEY_GROUPS)
                raise ValueError(f"by: expected some of {known}, or {alone} alone, got {name!r}")
        with self._source.needed_log() as log:
            missing = missing_beside(self._path, log, self._source.commit_log)
            chosen = Selection(begin=first, end=last)
            usage = measure_usage(log, groups, chosen, mode=mode)
            usage = self._source.with_entries(usage, log, groups, chosen)
        return usage_table(usage, groups, incomplete_log(missing))[:limit]

    def consumer_groups(self, group: str | None = None, topic: str | None = None) -> pa.Table:
        """Return how far consumer groups are in each queue, by the store alone.

        Args:
            group: Only this consumer group.
            topic: Only this topic.

        Returns:
            The columns of ``CONSUMER_GROUP_SCHEMA``. The metadata has ``offsets_path``,
            ``offsets_timestamp`` (when it was written, epoch milliseconds) and ``notes`` (JSON).

        Raises:
            RmqIndexError: There are no committed offsets that can be read.
        """
        return consumer_progress(self._path, group=group, topic=topic).table()

    def plot(self, path: PathLike | None = None) -> Any:  # noqa: ANN401  (matplotlib's Figure)
        """Draw how many entries slots have, how full files are, and when entries were stored.

        It needs matplotlib, which ``pip install 'rmqindex[plot]'`` brings.

        Args:
            path: Where to write the picture too; its name ends in ``.png``, ``.svg`` or ``.pdf``.

        Returns:
            A ``matplotlib.figure.Figure``, which a notebook shows.

        Raises:
            RmqIndexError: matplotlib is not installed, or a file cannot be used.
            ValueError: Another kind of picture.
        """
        if path is not None and Path(path).suffix.lower() not in IMAGE_TYPES:
            raise ValueError(f"path: expected a name with {', '.join(IMAGE_TYPES)}, got {path!s}")
        figure = index_figure(self.path, self._source.files(), self._zone, self._zone_name)
        if path is not None:
            figure.savefig(path)
        return figure

    def __repr__(self) -> str:
        """Return the path, the files, the entries, the times and the log, from headers alone."""
        return f"MessageStore({str(self.path)!r}: {self._described()[0]})"

    def _repr_html_(self) -> str:
        line, rows = self._described()
        return html_table(f"{self.path}: {line}", FILE_COLUMNS, rows)

    def _described(self) -> tuple[str, list[tuple[object, ...]]]:
        return described(self._source.files, self._source.opened_log, self._zone, self._zone_name)
