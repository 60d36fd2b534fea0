"""The command lines that findings of an audit and reasons of an explanation advise."""

from __future__ import annotations

import os
import pathlib
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

from rmqindex.errors import RmqIndexError, command_line, options_of
from rmqindex.indexfile.geometry import Layout, infer_layout
from rmqindex.layout.store import INDEX_FOLDER, MULTI_PATH_SPLITTER
from rmqindex.storage.location import Location
from rmqindex.store.store import index_entries, root_of

if TYPE_CHECKING:
    from rmqindex.commitlog.log import CommitLog
    from rmqindex.commitlog.snapshot import LogArgument
    from rmqindex.store.store import Store

# The commands that look for the CommitLog beside the index unless they are told.
_WITH_LOG = ("verify", "lookup", "explain", "expire", "relayout")
# Those that ask about the messages of some time.
_WITH_TIMES = ("lookup", "explain")
# Those that are refused where the geometry that was given is needed and not repeated.
_WITH_GEOMETRY = ("verify", "lookup", "explain", "scan", "rebuild")


@dataclass(frozen=True, slots=True)
class Commands:
    """The command lines about one index and its log, for a shell.

    Attributes:
        store: The store of the path that the user gave.
        log: The CommitLog, where a rebuild can read it; None otherwise.
        named: The CommitLog as the user named it; None where it was not named.
        is_store: Whether index and log are those of one store.
        layout: The geometry that was given, which a command may need as this one did.
        times: The store times asked for, epoch milliseconds; None for no limit.
    """

    store: Store
    log: str | None
    named: str | None
    is_store: bool
    layout: Layout | None = None
    times: tuple[int | None, int | None] = (None, None)

    @classmethod
    def of(
        cls,
        store: Store,
        log: CommitLog | None,
        layout: Layout | None = None,
        given: LogArgument = None,
        times: tuple[int | None, int | None] = (None, None),
    ) -> Commands:
        """Return the command lines for an index and its log.

        Args:
            store: The store of the path that the user gave.
            log: The CommitLog.
            layout: The geometry that was given.
            given: How the log was named, as :class:`rmqindex.CommitLog` or the command takes it.
            times: The store times asked for.
        """
        folders = [] if log is None else list(dict.fromkeys(f.path.parent for f in log.files))
        named = os.fspath(given) if isinstance(given, (str, os.PathLike)) else None
        named = None if named == "auto" else named
        is_index = store.index.absolute.name == INDEX_FOLDER
        # A rebuild writes to local disks alone.
        if not folders or any(folder.local is None for folder in (*folders, store.root)):
            return cls(store, None, named, is_index and named is None, layout, times)
        is_store = is_index and all(_is_same(root_of(folder), store.root) for folder in folders)
        where = store.root if is_store else MULTI_PATH_SPLITTER.join(folders)
        return cls(store, where, named, is_store, layout, times)

    def rebuild(self, *options: str) -> str | None:
        """Return the command that rebuilds the index; None where it cannot read the log.

        Where no file shows the geometry, it is the one that tells which numbers are needed.
        """
        if self.log is None:
            return None
        return self.of_store("rebuild", *options) if self.shows_geometry else self.verify()

    def verify(self) -> str:
        """Return the command that checks the index."""
        return self._of_given("verify")

    def lookup(self, topic: str, key: str, *options: str) -> str:
        """Return the command that looks a key up."""
        return self._of_given("lookup", topic, key, options=options)

    def cat(self, phy_offset: int) -> str | None:
        """Return the command that prints a message."""
        return None if self.log is None else command_line("cat", self.log, str(phy_offset))

    def explain(self, topic: str, key: str) -> str:
        """Return the command that explains another question."""
        return self._of_given("explain", topic, key)

    def search_all(self, topic: str, key: str) -> str:
        """Return the command that searches the whole log for a key."""
        return self._of_given("explain", topic, key, options=("--search-log", "all"))

    def of_store(self, name: str, *options: str) -> str:
        """Return a command about the store, or about index and log where they are apart."""
        store, log = self.store, self.log or self.named
        if name == "rebuild" and store.root.local is None:
            kept = [each for each in options if each not in ("--replace", "--resume")]
            words = ["--out", "DIR", *kept, *self._geometry(name, options)]
            return command_line(name, log or store.root, options=words)
        if name == "verify" and not self.is_store:
            return self.verify()
        words = [*options, *self._geometry(name, options)]
        if self.is_store:
            return command_line(name, self.shown(store.root), options=words)
        if name in ("rebuild", "rebuild-queues"):
            out = store.index if name == "rebuild" else store.index.parent
            words = ["--out", self.shown(out), *words]
            return command_line(name, log or "COMMITLOG", options=words)
        options = (*words, *self._log_option(name))
        return command_line(name, self.shown(store.index), options=options)

    def of_file(self, name: str, file: str, *options: str) -> str:
        """Return a command about one file."""
        return command_line(name, file, options=[*options, *self._geometry(name, options)])

    def shown(self, path: str) -> str:
        """Return a path relative to the working directory if the user's is, else absolute."""
        if Location.of(path).local is None:
            return path
        if pathlib.Path(self.store.given).is_absolute():
            return os.path.abspath(path)  # noqa: PTH100
        return os.path.relpath(path)

    @property
    def shows_geometry(self) -> bool:
        """Whether a rebuild knows the geometry: given, of a file, or that of a new index."""
        if self.layout is not None:
            return True
        try:
            files = [each for each in index_entries(self.store.index) if not each.is_directory]
        except RmqIndexError:
            return True
        for file in files:
            if file.size == Layout().file_size:
                return True
            with suppress(RmqIndexError):
                infer_layout(file.path)
                return True
        return not files

    def _of_given(self, name: str, *arguments: str, options: tuple[str, ...] = ()) -> str:
        words = [*options, *self._times_of(name), *self._log_option(name)]
        words += self._geometry(name, options)
        return command_line(name, self.store.given, *arguments, options=words)

    def _times_of(self, name: str) -> list[str]:
        """Return the options of a question about the same times."""
        begin, end = self.times if name in _WITH_TIMES else (None, None)
        return options_of({"--begin": begin, "--end": end})

    def _log_option(self, name: str) -> tuple[str, ...]:
        """Return the option that a command needs to find the CommitLog."""
        log = self.log or self.named
        is_needed = not self.is_store and log is not None and name in _WITH_LOG
        return ("--commit-log", log or "") if is_needed else ()

    def _geometry(self, name: str, options: tuple[str, ...]) -> tuple[str, ...]:
        if self.layout is None or name not in _WITH_GEOMETRY or "--max-index-num" in options:
            return ()
        slots, places = self.layout.hash_slot_num, self.layout.index_num
        return ("--max-hash-slot-num", str(slots), "--max-index-num", str(places))


def _is_same(one: Location, other: Location) -> bool:
    """Return whether two directories are one local directory, by whatever links."""
    first, second = one.local, other.local
    return (
        first is not None
        and second is not None
        and os.path.realpath(first) == os.path.realpath(second)
    )
