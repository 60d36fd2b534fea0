"""Writes numbers, times, offsets and commands into the sentences of an explanation."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from rmqindex.errors import command_line
from rmqindex.layout.store import INDEX_FOLDER, MULTI_PATH_SPLITTER
from rmqindex.store.store import root_of
from rmqindex.times import format_millis

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from datetime import tzinfo

    from rmqindex.commitlog.log import CommitLog
    from rmqindex.indexfile.geometry import Layout
    from rmqindex.storage.location import Location
    from rmqindex.store.store import Store

__all__ = ["Commands", "Times", "counted", "listed", "ranges"]

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
# The most offsets or ranges that a sentence lists.
_SHOWN = 8
# Of 2023-11-14T22:13:20+08:00.
_OFFSET_CHARACTERS = 6


@dataclass(frozen=True, slots=True)
class Times:
    """Writes times, and knows the present one.

    Attributes:
        zone: The zone in which they are written.
        now: The present time, epoch milliseconds.
    """

    zone: tzinfo
    now: int

    def text(self, millis: int) -> str:
        """Return epoch milliseconds as local time, with the distance from UTC."""
        try:
            local = (_EPOCH + timedelta(milliseconds=millis)).astimezone(self.zone)
        except OverflowError:
            return f"{millis} ms after 1970"
        if not local.utcoffset():
            return f"{format_millis(millis, UTC)} UTC"
        return f"{format_millis(millis, self.zone)} {local.isoformat()[-_OFFSET_CHARACTERS:]}"


@dataclass(frozen=True, slots=True)
class Commands:
    """The command lines that help, for a shell.

    Attributes:
        path: The path of the index that the user gave.
        index: The index directory.
        log: The CommitLog, where a rebuild can read it; None otherwise.
        is_store: Whether index and log are those of one store.
        layout: The geometry that was given, which a command may need as this one did.
    """

    path: str
    index: str
    log: str | None
    is_store: bool
    layout: Layout | None = None

    @classmethod
    def of(cls, store: Store, log: CommitLog | None, layout: Layout | None = None) -> Commands:
        """Return the command lines for an index and a log, which rebuild only on local disks."""
        files = () if log is None else log.files
        folders = list(dict.fromkeys(file.path.parent for file in files))
        if not folders or any(folder.local is None for folder in (*folders, store.root)):
            return cls(store.given, store.index, None, is_store=False, layout=layout)
        is_store = store.index.absolute.name == INDEX_FOLDER and all(
            _is_same(root_of(folder), store.root) for folder in folders
        )
        where = store.root if is_store else MULTI_PATH_SPLITTER.join(folders)
        return cls(store.given, store.index, where, is_store=is_store, layout=layout)

    def rebuild(self, *options: str) -> str | None:
        """Return the command that rebuilds the index."""
        if self.log is None:
            return None
        out = () if self.is_store else ("--out", self.index)
        return command_line("rebuild", self.log, options=[*out, *options, *self._geometry])

    def verify(self) -> str:
        """Return the command that checks the index."""
        return command_line("verify", self.path, options=self._of_index)

    @property
    def log_option(self) -> tuple[str, ...]:
        """The option that a command needs to find the CommitLog."""
        return () if self.is_store or self.log is None else ("--commit-log", self.log)

    @property
    def _geometry(self) -> tuple[str, ...]:
        if self.layout is None:
            return ()
        slots, places = self.layout.hash_slot_num, self.layout.index_num
        return ("--max-hash-slot-num", str(slots), "--max-index-num", str(places))

    @property
    def _of_index(self) -> tuple[str, ...]:
        return (*self.log_option, *self._geometry)

    def lookup(self, topic: str, key: str, *options: str) -> str:
        """Return the command that looks a key up."""
        return command_line("lookup", self.path, topic, key, options=[*options, *self._of_index])

    def cat(self, phy_offset: int) -> str | None:
        """Return the command that prints a message."""
        return None if self.log is None else command_line("cat", self.log, str(phy_offset))

    def search_all(self, topic: str, key: str) -> str:
        """Return the command that searches the whole log for a key."""
        options = ["--search-log", "all", *self._of_index]
        return command_line("explain", self.path, topic, key, options=options)


def _is_same(one: Location, other: Location) -> bool:
    """Return whether two directories are one local directory, by whatever links."""
    first, second = one.local, other.local
    return first is not None and second is not None and first.resolve() == second.resolve()


def counted(number: int, one: str, many: str | None = None) -> str:
    """Return a number with its noun."""
    return f"{number} {one if number == 1 else many or one + 's'}"


def listed(values: Iterable[object]) -> str:
    """Return the first of some values, and how many more there are."""
    texts = [str(value) for value in values]
    more = f" and {len(texts) - _SHOWN} more" if len(texts) > _SHOWN else ""
    return ", ".join(texts[:_SHOWN]) + more


def ranges(spans: Sequence[tuple[int, int]]) -> str:
    """Return ranges of offsets."""
    return listed(f"{first} to {last}" for first, last in spans)
