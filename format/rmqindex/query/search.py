"""Searches many IndexFiles for one key, newest first, and compares hits with their messages."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from rmqindex.query.verification import KeyVerifier

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from rmqindex.fileset.planned_index import PlannedFile

__all__ = ["Hit", "search"]


@dataclass(frozen=True, slots=True)
class Hit:
    """An entry with the searched key hash.

    Attributes:
        path: Its IndexFile.
        name: The name of that file.
        position: Its number in the file, from 1.
        phy_offset: CommitLog offset at which the message starts, bytes.
        store_timestamp: Store time, epoch milliseconds; exact where ``state`` is ``verified``,
            else cut to whole seconds after the file's first entry.
        state: ``verified``: the message has the key; ``unverified``: it is no longer in the
            CommitLog; ``beyond_end``, ``missing``, ``not_a_record``: no message starts there;
            ``no_log``: there was no log to compare with.
    """

    path: str
    name: str
    position: int
    phy_offset: int
    store_timestamp: int
    state: str = "no_log"


def search(
    files: Sequence[PlannedFile],
    key_hash: int,
    *,
    begin: int,
    end: int,
    verifier: KeyVerifier | None = None,
) -> Iterator[Hit]:
    """Find the entries of one key hash in every file.

    Unlike the broker, it stops neither at a number of entries nor at the first one that is too old,
    and it returns the first entry of a rolled file with its true time.

    Args:
        files: The files, oldest first.
        key_hash: The hash of the whole ``topic#key``.
        begin: The earliest store time, epoch milliseconds, inclusive.
        end: The latest store time, epoch milliseconds, inclusive.
        verifier: Compares entries with their messages; without it, hits are candidates.

    Yields:
        The newest file's entries first, and in each file the newest first.

    Raises:
        RmqIndexError: A file cannot be used, or was changed since it was listed.
    """
    verifier = verifier or KeyVerifier(None, "", "")
    for each in reversed(files):
        if each.is_empty:
            continue
        with each.open() as file:
            found = file.lookup([key_hash], each.stop)
        verdicts = verifier.compare(found["phy_offset"].to_pylist())
        for row, verdict in enumerate(verdicts):
            if verdict.state == "mismatch":
                continue
            time = verdict.store_timestamp
            time = found["store_timestamp"][row].as_py() if time is None else time
            if begin <= time <= end:
                yield Hit(
                    path=each.entry.path,
                    name=each.entry.name,
                    position=found["position"][row].as_py(),
                    phy_offset=found["phy_offset"][row].as_py(),
                    store_timestamp=time,
                    state=verdict.state,
                )
