"""The broker's search for one key, file by file: what it returns, and why it misses the rest.

RocketMQ: ``IndexService.queryOffset``, ``IndexFile.selectPhyOffset``.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from rmqindex.errors import RmqIndexError
from rmqindex.explanation.result import FileExplanation, HitExplanation
from rmqindex.indexfile.committed import open_index_source
from rmqindex.keys.hashing import index_key, key_hash
from rmqindex.layout import FIRST_POSITION, INVALID_INDEX
from rmqindex.query.ranks import SearchedFile
from rmqindex.query.verification import NO_LOG, Verdict, Verifier
from rmqindex.storage.filesystem import UnreadableError
from rmqindex.storage.identity import FileChangedError

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pyarrow as pa

    from rmqindex.commitlog.log import CommitLog
    from rmqindex.header import IndexHeader
    from rmqindex.indexfile.geometry import Layout
    from rmqindex.indexfile.reader import IndexFile
    from rmqindex.storage.location import PathLike
    from rmqindex.store.snapshot import SnapshotFile

__all__ = ["BrokerSearch", "KeyTruths", "Window", "explain_file", "truth_of"]

# What a verdict means for an entry that the broker returns.
_TRUTHS = {
    "verified": "hit",
    "ambiguous": "hit",
    "no_log": "hit",
    "mismatch": "collision",
    "zeroed": "zeroed",
    "unverified": "expired",
}
# The most entries of a slot whose messages are read to name their keys.
_MAX_CHAIN = 10_000


def truth_of(state: str) -> str:
    """Return the reason that a verdict's state stands for."""
    return _TRUTHS.get(state, "dangling")


class KeyTruths:
    """Compares the entries of keys with their messages, if there is a log."""

    def __init__(self, log: CommitLog | None) -> None:
        """Set the log."""
        self._log = log
        self._verifier = Verifier("members", strict=False)

    def verdicts(
        self, searched: SearchedFile, found: pa.RecordBatch, pairs: Sequence[tuple[str, str]]
    ) -> list[Verdict]:
        """Return a verdict for each entry of a file.

        Args:
            searched: The file.
            found: What :meth:`rmqindex.IndexFile.lookup` found.
            pairs: The topic and key of each hash that was looked up.

        Raises:
            RmqIndexError: The storage failed, or the file was changed since it was listed.
        """
        if self._log is None or not len(found):
            return [Verdict(NO_LOG)] * len(found)
        columns = ("key_hash", "phy_offset", "position")
        compared = self._verifier.compare(
            self._log, [searched], *(found[name].to_numpy() for name in columns)
        )
        return [
            compared.verdict(entry, *pairs[query])
            for entry, query in enumerate(found["query"].to_pylist())
        ]


@dataclass(frozen=True, slots=True)
class Window:
    """The store times queried, epoch milliseconds, both inclusive."""

    begin: int
    end: int

    def holds(self, time: int) -> bool:
        """Return whether a time is queried."""
        return self.begin <= time <= self.end


class BrokerSearch:
    """The broker's search over the files, one after the other, newest first."""

    def __init__(self, window: Window, pair: tuple[str, str], limit: int) -> None:
        """Set the times, the topic and key, and the broker's ``maxMsgsNumBatch``."""
        self.window = window
        self.pair = pair
        self._text = index_key(*pair)
        self.hash = key_hash(self._text)
        self._limit = limit
        self._returned = 0
        self._stopped_by: str | None = None

    def search(self, file: IndexFile) -> tuple[Counter[int], str]:
        """Search a file; return the offsets found, and the reason why others are missing."""
        begin, end = self.window.begin, self.window.end
        if self._stopped_by is not None:
            return Counter(), self._stopped_by
        reason = "hidden_by_stop"
        offsets: list[int] = []
        if file.is_time_matched(begin, end):
            rest = max(self._limit - self._returned, 0)
            offsets = file.select_phy_offset(self._text, rest, begin, end)
            if len(offsets) == rest:
                reason = "hidden_by_limit"
        else:
            reason = "file_skipped"
        self.leave(file.header, len(offsets))
        return Counter(offsets), reason

    def leave(self, header: IndexHeader, found: int = 0) -> None:
        """Note how many offsets a file gave, and whether the broker searches the next one."""
        if self._stopped_by is not None:
            return
        self._returned += found
        if self._returned >= self._limit:
            self._stopped_by = "hidden_by_limit"
        elif header.begin_timestamp < self.window.begin:
            self._stopped_by = "hidden_by_file"


def explain_file(planned: SnapshotFile, broker: BrokerSearch, truths: KeyTruths) -> FileExplanation:
    """Explain what a file holds for the key; go from the newest file to the oldest."""
    if planned.is_empty:
        broker.leave(planned.header)
        return FileExplanation(planned.entry.path, planned.entry.name, "no_entries", "no entries")
    try:
        with planned.open() as file:
            return _explain_open_file(file, planned, broker, truths)
    except FileChangedError:
        raise
    except RmqIndexError as error:
        reason = "unreadable" if isinstance(error, UnreadableError) else "damaged"
        detail = _without_mode(error)
        return FileExplanation(planned.entry.path, planned.entry.name, reason, detail)


def _without_mode(error: RmqIndexError) -> str:
    """Return what an error says, but for the hint at a mode, which an explanation does not take."""
    what, _, hint = str(error).rpartition("; ")
    return what if "mode=DROPMALFORMED" in hint else str(error)


def _explain_open_file(
    file: IndexFile, planned: SnapshotFile, broker: BrokerSearch, truths: KeyTruths
) -> FileExplanation:
    entry, layout = planned.entry, planned.layout
    assert layout is not None  # there are entries
    returned, missing = broker.search(file)
    slot = broker.hash % layout.hash_slot_num
    chain = _chain_hashes(file.path, layout, slot, planned.entry_count)
    found = file.lookup([broker.hash], planned.stop)
    if not len(found):
        reason = "other_keys" if chain else "empty_slot"
        others = len(set(chain))
        detail = f"slot {slot}: " + (
            f"{len(chain)} {'entry' if len(chain) == 1 else 'entries'} of {others} other key "
            f"{'hash' if others == 1 else 'hashes'}"
            if chain
            else "empty"
        )
        return FileExplanation(entry.path, entry.name, reason, detail, slot, len(chain))
    verdicts = truths.verdicts(SearchedFile.of(file, planned.name_path), found, [broker.pair])
    hits = _explain_hits(found, verdicts, returned, missing, broker, file)
    reasons = Counter(hit.reason for hit in hits)
    reason = "hit" if reasons["hit"] else hits[0].reason
    detail = f"slot {slot}: " + ", ".join(f"{count} {name}" for name, count in reasons.items())
    return FileExplanation(entry.path, entry.name, reason, detail, slot, len(chain), tuple(hits))


def _explain_hits(
    found: pa.RecordBatch,
    verdicts: Sequence[Verdict],
    returned: Counter[int],
    missing: str,
    broker: BrokerSearch,
    file: IndexFile,
) -> list[HitExplanation]:
    """Explain, for each entry with the hash, whether the broker returns it, and why."""
    rows = found.select(["position", "phy_offset", "store_timestamp", "time_diff"]).to_pylist()
    hits = []
    for row, verdict in zip(rows, verdicts, strict=True):
        truth, message = truth_of(verdict.state), verdict.message
        offset, read = row["phy_offset"], row["store_timestamp"]
        time = read if verdict.store_timestamp is None else verdict.store_timestamp
        if returned[offset]:
            returned[offset] -= 1
            reason = truth if broker.window.holds(read) else "outside_window"
        elif not (broker.window.holds(read) or broker.window.holds(time)):
            reason = "outside_window"
        elif truth != "hit":
            reason = truth
        elif not broker.window.holds(read):
            reason = "read_early"
        else:
            late = file.header.begin_timestamp + row["time_diff"] * 1000
            is_first = row["position"] == FIRST_POSITION
            reason = "read_late" if is_first and not broker.window.holds(late) else missing
        hits.append(
            HitExplanation(
                row["position"], offset, time, reason, message if reason == "collision" else None
            )
        )
    return hits


def _chain_hashes(path: PathLike, layout: Layout, slot: int, count: int) -> list[int]:
    """Return the hashes of a slot's counted entries, newest first, as far as its chain goes."""
    hashes: list[int] = []
    with open_index_source(path) as source:
        position = int(source.slots(layout, np.array([slot]))[0])
        while INVALID_INDEX < position <= layout.capacity and len(hashes) < _MAX_CHAIN:
            entry = source.entry_range(layout, position, position + 1)
            if position <= count:  # entries were added since
                hashes.append(int(entry["key_hash"][0]))
            previous = int(entry["prev_position"][0])
            position = previous if previous < position else INVALID_INDEX
    return hashes
