"""Exports of messages from a CommitLog."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from rmqindex.commitlog.bodies import Unpacking
from rmqindex.commitlog.selection import Selection, select_messages
from rmqindex.commitlog.snapshot import ensure_end
from rmqindex.commitlog.tailing import LogMark, whole_end
from rmqindex.errors import CorruptBodyError, RmqIndexError
from rmqindex.export.folder import ANEW, Folder, Stream
from rmqindex.export.formats import DEFAULT_COLUMNS, as_table
from rmqindex.layout.index_file import INT64_MAX
from rmqindex.layout.store import LOCK_NAME
from rmqindex.storage.identity import FileChangedError

if TYPE_CHECKING:
    import os
    from collections.abc import Callable, Iterator, Mapping, Sequence

    import pyarrow as pa

    from rmqindex.commitlog.log import CommitLog
    from rmqindex.commitlog.selection import Block
    from rmqindex.errors import CorruptCommitLogError
    from rmqindex.export.folder import ExportResult
    from rmqindex.indexfile.entries import Mode

_STREAM = "messages"
_DEFAULT_FILE_SIZE = 256 * 1024 * 1024
_CRC_ADVICE = "mode='DROPMALFORMED' makes such a body null"
_ADVICE = f"{_CRC_ADVICE}; raw_bodies=True keeps compressed bodies as they are stored"


@dataclass(frozen=True, slots=True)
class _ExportMark(LogMark):
    """The last message that was exported, and what was left out of the log up to it.

    Attributes:
        left_out: Ranges of offsets in which no sound message was found, as start and stop in bytes.
    """

    left_out: tuple[tuple[int, int], ...] = ()


def export_messages(
    log: CommitLog,
    directory: str | os.PathLike[str],
    selection: Selection | None = None,
    *,
    kind: str = "parquet",
    columns: Sequence[str] = DEFAULT_COLUMNS,
    raw_bodies: bool = False,
    max_file_size: int = _DEFAULT_FILE_SIZE,
    mode: Mode = "FAILFAST",
    words: Mapping[str, str] | None = None,
    on_skipped: Callable[[str], None] | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> ExportResult:
    """Write messages to files, one row each, or resume where an earlier run stopped.

    Args:
        log: The CommitLog.
        directory: A local directory that is new, empty, or has an export of the same.
        selection: Which messages; None for all.
        kind: One of ``FORMATS``.
        columns: Names of ``COMMITLOG_SCHEMA``, or ``body_text``. Times are timestamps in Parquet,
            epoch milliseconds in the other formats, where bodies that are not UTF-8 are in
            ``body_base64``.
        raw_bodies: Keep compressed bodies as they are stored.
        max_file_size: About how many bytes a file may have.
        mode: ``FAILFAST`` raises at damage; ``DROPMALFORMED`` leaves damaged messages out, and
            makes bodies null whose CRC is wrong or that do not unpack.
        words: Of ``begin`` and ``end`` of the selection, those that were given relative to now, in
            the words that were given. With the same words, a later run goes on with the times that
            they stood for when the export was begun, which the result has.
        on_skipped: Called with each error that ``DROPMALFORMED`` does not raise, with what earlier
            runs left out, and with what is left for the next run where no lock of a broker tells
            whether it is being written.
        progress: Called with the bytes of the log that were read, and those that there are.

    Returns:
        What was written; the directory then has every message that is asked for up to the end of
        the log as it was; without a message, nothing is left of it. With DLedger, that is where its
        group has agreed; and a message that a broker is just writing is left for the next run.

    Raises:
        ValueError: An unknown column.
        CorruptCommitLogError: Damage; only ``FAILFAST``. Finished files stay.
        RmqIndexError: The directory has other files or another export, or the log is not proved to
            be the one whose messages the finished files have, lacks what comes behind them, or has
            messages again that were left out, since they were damaged or no file had them.
        OSError: The directory cannot be written.
    """
    selection = selection or Selection()
    Unpacking(columns, decompress=not raw_bodies, strict=True)  # an unknown column
    question: dict[str, Any] = {
        "what": _STREAM,
        "format": kind,
        "columns": list(columns),
        "raw_bodies": raw_bodies,
        **selection.document(),
    }
    with Folder.open(directory, question, kind, max_file_size, words) as folder:
        selection = replace(selection, begin=folder.result.begin, end=folder.result.end)
        stream = Stream(_STREAM, _origin(log, folder.manifest.origins.get(_STREAM)))
        first = max(log.min_offset, selection.start or 0)
        start = folder.begin(stream, first)
        is_resumed = bool(folder.parts.get(_STREAM))
        left_out: list[tuple[int, int]] = []
        if is_resumed:
            _ensure_there(log, first, start, folder)
            known = folder.mark(_STREAM, _ExportMark)
            known.ensure(log, folder.path, ANEW)
            left_out += _still_left_out(log, selection, known.left_out, folder)
        stop, unagreed = log.agreed_stop(selection.stop), log.unagreed_tail(selection.stop)
        end = whole_end(log)
        end = end if stop is None else min(stop, end)
        asked, selection = selection.stop, replace(selection, stop=end)
        total = end - first
        mark: _ExportMark | None = None

        def skip(error: RmqIndexError) -> None:
            if on_skipped is not None:
                on_skipped(str(error))

        passing = _Passing(log, selection, start if is_resumed else first, left_out, skip)
        passing.tell_again(folder)
        ensure_end(log, asked, mode=mode, on_malformed=skip)
        _tell_waiting(log, end, stop, skip)
        bodies = Unpacking(
            columns,
            decompress=not raw_bodies,
            strict=mode == "FAILFAST",
            checks=True,
            advice=_ADVICE,
            crc_advice=_CRC_ADVICE,
            on_bad=passing.over,
        )

        def blocks() -> Iterator[tuple[list[pa.Table], int]]:
            nonlocal mark
            for block in select_messages(
                log,
                selection,
                bodies.source.names,
                within=(start, None) if is_resumed else None,
                mode=mode,
                on_malformed=passing.over,
            ):
                passing.come_to(block)
                mark = _ExportMark.at(log, block.last)  # while its file is there
                found = [] if block.batch is None else bodies.batches(block.batch, log.files)
                yield [as_table(batch) for batch in found], block.stop

        def mark_at(_stop: int) -> object:
            if mark is None:
                raise FileChangedError(log.files[-1].path.parent, "rewritten", "run this again")
            return replace(mark, left_out=tuple(left_out))

        def report(stop: int) -> None:
            if progress is not None:
                progress(stop - first, total)

        folder.write(stream, start, blocks(), mark_at, report)
        return replace(folder.result, unagreed=unagreed, left_out=tuple(left_out))


class _Passing:
    """Notes what an export leaves out on its way through a log."""

    def __init__(
        self,
        log: CommitLog,
        selection: Selection,
        start: int,
        left_out: list[tuple[int, int]],
        tell: Callable[[RmqIndexError], None],
    ) -> None:
        self._log = log
        self._selection = selection
        self._at = start
        self._left_out = left_out
        self._tell = tell
        # Where the messages end before damage that was passed over since.
        self._broken_at: int | None = None

    def tell_again(self, folder: Folder) -> None:
        """Tell what earlier runs left out, which the log still lacks."""
        for start, stop in self._left_out:
            self._tell(
                RmqIndexError(
                    f"{folder.path}: messages from offset {start} to before {stop}, where the "
                    "CommitLog is damaged or has no file, are missing from the export, or their "
                    "bodies are. Once the log is restored from a replica or a backup, "
                    f"{ANEW[0].lower()}{ANEW[1:]}"
                )
            )

    def over(self, error: CorruptCommitLogError) -> None:
        """Pass over damage, or over a body that becomes null."""
        self._tell(error)
        begin = next((file.start for file in self._log.files if str(file.path) == error.path), 0)
        if not isinstance(error, CorruptBodyError):
            if self._broken_at is None:
                self._broken_at = max(self._at, begin)
            return
        found = LogMark.at(self._log, begin + error.byte)
        if found is not None and found.size is not None:
            self._note(found.phy_offset, found.phy_offset + found.size)

    def come_to(self, block: Block) -> None:
        """Go on with the next messages."""
        if self._broken_at is not None:
            self._note(self._broken_at, block.first)
        else:
            for start, stop in self._log.gaps:
                if self._at < stop <= block.first:
                    self._note(max(self._at, start), stop)
        self._at, self._broken_at = block.stop, None

    def _note(self, start: int, stop: int) -> None:
        if not any(_sound_between(self._log, self._selection, start, stop)):
            self._left_out.append((start, stop))


def _sound_between(log: CommitLog, selection: Selection, start: int, stop: int) -> Iterator[Block]:
    """Yield the messages of a range whose CRCs are right."""
    return select_messages(
        log, selection, (), within=(start, stop), check_crc=True, mode="DROPMALFORMED"
    )


def _still_left_out(
    log: CommitLog, selection: Selection, left_out: tuple[tuple[int, int], ...], folder: Folder
) -> Iterator[tuple[int, int]]:
    """Yield what a log still lacks of what was left out; refuse one that has it again."""
    for start, stop in left_out:
        is_back = False
        for block in _sound_between(log, selection, start, stop):
            is_back = True  # be it that none of its messages is asked for
            if block.batch is not None:
                raise RmqIndexError(
                    f"{folder.path}: expected no message from offset {start} to before {stop}, "
                    "where the log was damaged or had no file when it was exported, got one, read "
                    f"from {block.first} on: it was restored since, and the export lacks its "
                    f"messages. {ANEW}"
                )
        if not is_back:
            yield start, stop


def exported_range(directory: str | os.PathLike[str]) -> tuple[int, int] | None:
    """Return the range of the CommitLog whose messages an export has, to which the next run adds.

    Args:
        directory: The local directory of the export.

    Returns:
        The offset of the first byte, and that behind the last one; None where no messages were
        exported yet.

    Raises:
        RmqIndexError: The directory has other files, or its manifest is damaged.
    """
    return Folder.range_of(directory, _STREAM)


def _tell_waiting(
    log: CommitLog, end: int, stop: int | None, tell: Callable[[RmqIndexError], None]
) -> None:
    """Report a last message that is left out, since a broker may be writing it."""
    if end < min(log.max_offset, INT64_MAX if stop is None else stop):
        tell(
            RmqIndexError(
                f"{log.files[-1].path.parent}: the message at offset {end}, the CommitLog's last, "
                "waits for the next run: bytes of it seem to be missing, and no file "
                f"{LOCK_NAME} in the store proves that no broker is writing it still"
            )
        )


def _origin(log: CommitLog, known: list[int] | None) -> list[int]:
    """Return what identifies a log: the offset and the time of its first message.

    Once a broker has deleted the file in which an export began, nothing is left to compare.
    """
    if known is not None and known[0] not in {file.start for file in log.files}:
        return known
    for file in log.files:
        if known is None or file.start == known[0]:
            stored = log.first_store_timestamp(file)
            if file.start >= log.min_offset:  # it has not expired meanwhile
                return [file.start, stored or 0]
    return known or [0, 0]


def _ensure_there(log: CommitLog, first: int, start: int, folder: Folder) -> None:
    """Refuse a log that lacks what follows the finished files, or has more before them."""
    if not log.files:
        raise RmqIndexError(
            f"{folder.path}: expected a CommitLog that goes on at {start}, where the finished "
            "files end, got one without files; is its disk mounted?"
        )
    begun = folder.manifest.starts.get(_STREAM, first)
    if first < begun:
        raise RmqIndexError(
            f"{folder.path}: expected a log that begins at {begun}, as when the export was begun, "
            f"got one that begins at {first}: its older files came later, and the export lacks "
            f"their messages. {ANEW}"
        )
    if start < log.min_offset or any(low <= start < high for low, high in log.gaps):
        begin = min(
            (file.start for file in log.files if file.start > start), default=log.min_offset
        )
        raise RmqIndexError(
            f"{folder.path}: expected a log that goes on at {start}, where the finished files end, "
            f"got one that goes on at {begin}: the messages between these two offsets have expired "
            f"before they were exported, or their files are lost. {ANEW}"
        )
