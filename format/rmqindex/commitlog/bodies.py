"""The bodies of many messages: unpacked, as text, or an error that says which one is bad."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from rmqindex.arguments import int_of
from rmqindex.errors import CorruptBodyError, CorruptCommitLogError, RmqIndexError
from rmqindex.keys.utf8 import not_utf8
from rmqindex.layout.record import INNER_BATCH_FLAG, NEED_UNWRAP_FLAG
from rmqindex.record.batches import schema_of
from rmqindex.record.bodies import (
    MAX_BODY_SIZE,
    MAX_TOTAL_SIZE,
    UnpackedSizeError,
    body_crc_faults,
    decompress_bodies,
    decompress_body,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from numpy.typing import NDArray

    from rmqindex.commitlog.framing import LogFile

#: The column of bodies as text, which is read only where it is named.
BODY_TEXT = "body_text"

# The most bytes of unpacked bodies in a batch of a scan, unless it holds a single message.
_MAX_UNPACKED = 256 * 1024 * 1024
_ADVICE = (
    "mode='DROPMALFORMED' gives null for such a body; decompress_body=False gives every body as it "
    "is stored; max_body_size is the largest that is unpacked"
)
_CRC_ADVICE = (
    "mode='DROPMALFORMED' gives null for such a body; decompress_body=False gives every body as it "
    "is stored"
)
_INNER = INNER_BATCH_FLAG | NEED_UNWRAP_FLAG
_TEXT_FIELD = pa.field(BODY_TEXT, pa.string())


class BadBodies:
    """What becomes of bodies that are damaged: an error, or null, with the error told."""

    def __init__(
        self,
        files: Sequence[LogFile],
        *,
        strict: bool = True,
        advice: str = _ADVICE,
        crc_advice: str = _CRC_ADVICE,
        on_bad: Callable[[CorruptCommitLogError], None] | None = None,
    ) -> None:
        """Choose.

        Args:
            files: The files of the log.
            strict: Whether a damaged body is an error; otherwise it is null.
            advice: What the error of one that does not unpack recommends.
            crc_advice: What the error of one whose CRC is wrong recommends.
            on_bad: Called with the error of each body that becomes null, once.
        """
        self._files = files
        self._strict = strict
        self._advice = advice
        self._crc_advice = crc_advice
        self._on_bad = on_bad
        self._told: set[int] = set()

    def checked(
        self, bodies: pa.Array, phy_offsets: NDArray[np.int64], crcs: NDArray[np.int32]
    ) -> pa.Array:
        """Return bodies with null for those whose CRC is wrong.

        Args:
            bodies: A ``binary`` array, as stored.
            phy_offsets: Of each message its offset in the log, bytes.
            crcs: Of each message its ``BODYCRC``.

        Raises:
            CorruptCommitLogError: The CRC of one is wrong, and that is an error.
        """
        return self.without(bodies, phy_offsets, body_crc_faults(bodies, crcs), self._crc_advice)

    def without(
        self,
        bodies: pa.Array,
        phy_offsets: NDArray[np.int64],
        faults: Mapping[int, str],
        advice: str | None = None,
    ) -> pa.Array:
        """Return bodies with null for damaged ones.

        Args:
            bodies: A ``binary`` array.
            phy_offsets: Of each message its offset in the log, bytes.
            faults: What is wrong, by row.
            advice: What the error recommends; None for that of bodies that do not unpack.

        Raises:
            CorruptCommitLogError: One is damaged, and that is an error.
        """
        advice = self._advice if advice is None else advice
        if not faults:
            return bodies
        sound = np.ones(len(bodies), bool)
        for row, what in faults.items():
            offset = int(phy_offsets[row])
            bad = bad_body(self._files, offset, f"message at offset {offset}: {what}", advice)
            if self._strict:
                raise bad
            if self._on_bad is not None and offset not in self._told:
                self._told.add(offset)
                self._on_bad(bad)
            sound[row] = False
        import pyarrow.compute as pc  # noqa: PLC0415  (a command may not need it)

        return pc.if_else(pa.array(sound), bodies, pa.scalar(None, bodies.type))


def unpack_bodies(
    bodies: pa.Array,
    sys_flags: NDArray[np.int32],
    phy_offsets: NDArray[np.int64],
    bad: BadBodies,
    *,
    crcs: NDArray[np.int32] | None,
    max_size: int = MAX_BODY_SIZE,
    max_total_size: int = _MAX_UNPACKED,
) -> pa.Array:
    """Return the bodies of messages as they were sent.

    Args:
        bodies: A ``binary`` array, as stored.
        sys_flags: Of each message its ``SYSFLAG``.
        phy_offsets: Of each message its offset in the log, bytes.
        bad: What becomes of a body whose CRC is wrong, or that does not unpack.
        crcs: Of each message its ``BODYCRC``; None where the caller names wrong ones by itself.
        max_size: The most bytes that a body may unpack to.
        max_total_size: The most bytes that all of several may have.

    Raises:
        UnpackedSizeError: All are too large together; see :func:`in_halves`.
        CorruptCommitLogError: One is damaged, with its file and offset.
    """
    if crcs is not None:
        bodies = bad.checked(bodies, phy_offsets, crcs)
    try:
        return decompress_bodies(
            bodies, sys_flags, max_size=max_size, max_total_size=max_total_size
        )
    except UnpackedSizeError:
        raise
    except RmqIndexError:
        faults = {}
        for row, (body, flag) in enumerate(
            zip(bodies.to_pylist(), sys_flags.tolist(), strict=True)
        ):
            try:
                decompress_body(b"" if body is None else body, flag, max_size=max_size)
            except RmqIndexError as error:
                faults[row] = str(error)
    kept = bad.without(bodies, phy_offsets, faults)
    return decompress_bodies(kept, sys_flags, max_size=max_size, max_total_size=max_total_size)


def body_texts(bodies: pa.Array, sys_flags: NDArray[np.int32]) -> pa.Array:
    """Return bodies as text: null where one is not UTF-8, or holds the messages of an inner batch.

    Args:
        bodies: A ``binary`` array, unpacked.
        sys_flags: Of each message its ``SYSFLAG``.
    """
    import pyarrow.compute as pc  # noqa: PLC0415  (a command may not need it)

    texts = bodies.view(pa.string())
    hidden = sys_flags & _INNER == _INNER
    strange = not_utf8(texts)
    if strange is not None:
        hidden |= strange
    return pc.if_else(pa.array(hidden), pa.scalar(None, texts.type), texts)


def bad_body(
    files: Sequence[LogFile], offset: int, what: str, advice: str = _ADVICE
) -> CorruptCommitLogError:
    """Return the error for a bad body, with its file and the options that help.

    Args:
        files: The files of the log.
        offset: Where the message starts, bytes.
        what: What is wrong.
        advice: The options, in the words of the interface.
    """
    file = next(each for each in files if each.start <= offset < each.stop)
    return CorruptBodyError(file.path, what, offset - file.start, advice)


def in_halves(
    rows: pa.RecordBatch, build: Callable[[pa.RecordBatch], pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    """Build batches of rows with their messages, halving the rows while they are too large.

    Args:
        rows: At least one row.
        build: Builds one batch, or raises ``UnpackedSizeError``.
    """
    todo = [rows]
    while todo:
        part = todo.pop()
        try:
            built = build(part)
        except UnpackedSizeError:
            half = part.num_rows // 2
            todo += [part.slice(half), part.slice(0, half)]
            continue
        yield built


class Unpacking:
    """What a caller wants of bodies, and the columns that it takes to give it."""

    def __init__(
        self,
        columns: Sequence[str] | None,
        *,
        decompress: bool,
        strict: bool,
        checks: bool | None = None,
        max_size: int = MAX_BODY_SIZE,
        advice: str = _ADVICE,
        crc_advice: str = _CRC_ADVICE,
        on_bad: Callable[[CorruptCommitLogError], None] | None = None,
    ) -> None:
        """Check the names of the columns.

        Args:
            columns: Names of ``COMMITLOG_SCHEMA`` or ``body_text``; None for all of the schema.
            decompress: Whether ``body`` is unpacked; ``body_text`` always is.
            strict: Whether a damaged body is an error; otherwise it is null.
            checks: Whether the CRC of each body is compared; by default where it is unpacked.
                That of ``body_text`` always is.
            max_size: The most bytes that a body may unpack to.
            advice: What the error for a body that does not unpack recommends.
            crc_advice: What the error for a body whose CRC is wrong recommends.
            on_bad: Called with the error of each body that becomes null.

        Raises:
            ValueError: An unknown or repeated name, or a size below 1.
            TypeError: One text instead of a sequence.
        """
        self._strict = strict
        self._max_size = int_of("max_body_size", max_size, 1)
        self._advice, self._crc_advice = advice, crc_advice
        self._on_bad = on_bad
        has_text = columns is not None and not isinstance(columns, str) and BODY_TEXT in columns
        if has_text:
            assert columns is not None
            # The text stands for the body while names are checked.
            others = [name for name in columns if name != BODY_TEXT] or ["body"]
            known = schema_of(others, (BODY_TEXT,))
            if len(set(columns)) != len(columns):
                raise ValueError(f"columns: expected each once, got {', '.join(columns)}")
            fields = [_TEXT_FIELD if name == BODY_TEXT else known.field(name) for name in columns]
        else:
            fields = list(schema_of(columns, (BODY_TEXT,)))
        has_body = any(field.name == "body" for field in fields)
        self._unpacks = decompress and has_body
        self._checks = has_body and (decompress if checks is None else checks)
        if self._checks and not strict:
            fields = [
                field.with_nullable(True) if field.name == "body" else field for field in fields
            ]
        #: The fields of the answer.
        self.schema = pa.schema(fields)
        self.is_needed = self._checks or self._unpacks or has_text
        #: The fields to read from records.
        self.source = self.schema
        if self.is_needed:
            names = [name for name in self.schema.names if name != BODY_TEXT]
            wanted = [*names, "body", "body_crc", "sys_flag", "phy_offset"]
            self.source = schema_of(list(dict.fromkeys(wanted)))

    def batches(self, batch: pa.RecordBatch, files: Sequence[LogFile]) -> Iterator[pa.RecordBatch]:
        """Yield the answer for a batch of ``source``, in pieces where bodies are large."""
        if not self.is_needed:
            yield batch
        elif batch.num_rows:
            bad = self._bad(files)
            yield from in_halves(batch, lambda part: self._batch(part, bad, _MAX_UNPACKED))

    def batch(
        self, batch: pa.RecordBatch, files: Sequence[LogFile], extra: Sequence[pa.Field] = ()
    ) -> pa.RecordBatch:
        """Return the answer for a batch of ``source`` in one piece, after some columns of it.

        Raises:
            ValueError: It has more than 2 GiB of bodies.
        """
        try:
            return self._batch(batch, self._bad(files), MAX_TOTAL_SIZE, extra)
        except UnpackedSizeError as error:
            raise ValueError(
                "offsets: expected fewer at a time, body is beyond 2 GiB together"
            ) from error

    def _bad(self, files: Sequence[LogFile]) -> BadBodies:
        return BadBodies(
            files,
            strict=self._strict,
            advice=self._advice,
            crc_advice=self._crc_advice,
            on_bad=self._on_bad,
        )

    def _batch(
        self,
        batch: pa.RecordBatch,
        bad: BadBodies,
        max_total_size: int,
        extra: Sequence[pa.Field] = (),
    ) -> pa.RecordBatch:
        flags = batch.column("sys_flag").fill_null(0).to_numpy(zero_copy_only=False)
        offsets = batch.column("phy_offset").fill_null(-1).to_numpy(zero_copy_only=False)
        crcs = batch.column("body_crc").fill_null(0).to_numpy(zero_copy_only=False)
        made = {}
        if self._unpacks or BODY_TEXT in self.schema.names:
            made["body"] = unpack_bodies(
                batch.column("body"),
                flags,
                offsets,
                bad,
                crcs=crcs,
                max_size=self._max_size,
                max_total_size=max_total_size,
            )
            made[BODY_TEXT] = body_texts(made["body"], flags)
        if not self._unpacks:
            made["body"] = batch.column("body")
            if self._checks:
                made["body"] = bad.checked(made["body"], offsets, crcs)
        fields = [*extra, *(field.with_nullable(True) if extra else field for field in self.schema)]
        arrays = [
            made[field.name] if field.name in made else batch.column(field.name) for field in fields
        ]
        return pa.RecordBatch.from_arrays(arrays, schema=pa.schema(fields))
