"""Turns what to do about a finding into lines that can be typed for the path that was given."""

from __future__ import annotations

import os
import re
import shlex
from contextlib import suppress
from typing import TYPE_CHECKING

from rmqindex.audit.rules import RESTORE_LOG, WHOLE_LOG
from rmqindex.command_line import command_line
from rmqindex.errors import RmqIndexError
from rmqindex.explanation.wording import Commands
from rmqindex.folders import INDEX_FOLDER
from rmqindex.indexfile.geometry import Layout, infer_layout
from rmqindex.storage.location import Location
from rmqindex.store.snapshot import layout_beside
from rmqindex.store.store import Store, index_entries

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rmqindex.commitlog.log import CommitLog

_LAYOUT_OPTION = "--max-hash-slot-num"

__all__ = ["Remedies", "as_given"]

# In a rule's remedy: a command with what stands for the user's own store or file, or a call.
_TYPED = re.compile(
    r"`rmqindex (?P<name>[a-z-]+) (?P<what>STORE|FILE)(?P<options>[^`]*)`|cover_index\(STORE\)"
)
_REBUILDS = "`rmqindex rebuild STORE"
_REPLACES = f"{_REBUILDS} --replace"
# The commands that look for the CommitLog beside the index unless they are told.
_WITH_LOG = ("verify", "expire", "relayout")


class Remedies:
    """Writes the remedies of the findings of one path."""

    def __init__(
        self,
        path: str,
        log: CommitLog | None,
        given: str | None,
        errors: Sequence[str],
        layout: Layout | None,
    ) -> None:
        """Find out what the commands must be given.

        Args:
            path: The path of the index that the user gave.
            log: The CommitLog that it was compared with, if any.
            given: The option ``--commit-log``: a path, ``auto``, or None for none.
            errors: The remedies of all errors, by their rules.
            layout: The geometry that the user gave, if any.
        """
        self._needs_log = any(remedy == RESTORE_LOG for remedy in errors)
        # What has to be replaced cannot be continued, and one rebuild does for all.
        self._replaces = not self._needs_log and any(_REPLACES in remedy for remedy in errors)
        self._store = Store.open(path, needs_index=False)
        rebuilds = [remedy for remedy in errors if _REBUILDS in remedy]
        self._is_unknown = layout is None and (
            any(_LAYOUT_OPTION in remedy for remedy in rebuilds)
            or (bool(rebuilds) and not _shows_geometry(self._store.index))
        )
        self._layout = Layout() if self._is_unknown else layout
        self._is_whole = log is not None and not self._needs_log
        self._path = path
        commands = Commands.of(self._store, log)
        named = given if given != "auto" else None
        self._is_store = commands.is_store or (
            named is None and self._store.index.absolute.name == INDEX_FOLDER
        )
        self._log = commands.log or named

    def text(self, remedy: str, file: str) -> str:
        """Return the remedy of a finding in a file."""

        def typed(match: re.Match[str]) -> str:
            if match["name"] is None:
                return f"cover_index({self._shown(self._store.root)!r})"
            options = shlex.split(match["options"])
            if self._replaces and match["name"] == "rebuild" and options in ([], ["--resume"]):
                options = ["--replace"]
            layout = self._layout
            if layout is not None and match["name"] == "rebuild" and _LAYOUT_OPTION not in options:
                options += [_LAYOUT_OPTION, str(layout.hash_slot_num)]
                options += ["--max-index-num", str(layout.index_num)]
            if match["name"] == "relayout" and (beside := layout or _layout_beside(file)):
                options += ["--slots", str(beside.hash_slot_num)]
                options += ["--entries", str(beside.index_num)]
            if match["what"] == "FILE":
                return f"`{command_line(match['name'], file, options=options)}`"
            return f"`{self._of_store(match['name'], options)}`"

        if self._is_whole and remedy.startswith(WHOLE_LOG):
            remedy = remedy[len(WHOLE_LOG) :]
            remedy, _, without_log = remedy.partition("; without ")
            remedy = remedy[0].upper() + remedy[1:] + ("." if without_log else "")
        elif self._needs_log and remedy.startswith(WHOLE_LOG):
            then = remedy[len(WHOLE_LOG) :].replace("; else restore it first", "")
            remedy = f"Restore the CommitLog first; then {then}"
        if self._is_unknown and "broker.conf" not in remedy:
            numbers = "with the numbers of broker.conf if it has others"
            remedy = remedy.replace(f"run {_REBUILDS}", f"run, {numbers}, {_REBUILDS}")
        return _TYPED.sub(typed, remedy)

    def _of_store(self, name: str, options: list[str]) -> str:
        store = self._store
        if name == "rebuild" and store.root.local is None:
            return command_line(name, self._log or store.root, options=["--out", "DIR"])
        if self._is_store:
            return command_line(name, self._shown(store.root), options=options)
        if name == "rebuild":
            out = ["--out", self._shown(store.index)]
            return command_line(name, self._log or "COMMITLOG", options=[*out, *options])
        if name == "rebuild-queues":
            out = ["--out", self._shown(store.index.parent)]
            return command_line(name, self._log or "COMMITLOG", options=[*out, *options])
        if name in _WITH_LOG and self._log is not None:
            options = [*options, "--commit-log", self._log]
        where = self._path if name == "verify" else self._shown(store.index)
        return command_line(name, where, options=options)

    def _shown(self, location: Location) -> str:
        return as_given(str(location), self._path)


def _layout_beside(file: str) -> Layout | None:
    """Return the geometry that the files beside a file show, if they can be listed."""
    try:
        return layout_beside(Location.of(file))
    except RmqIndexError:
        return None


def _shows_geometry(index: Location) -> bool:
    """Return whether a rebuild finds the geometry of an index by itself, as a new one does."""
    try:
        files = [each for each in index_entries(index) if not each.is_directory]
    except RmqIndexError:
        return True
    for file in files:
        if file.size == Layout().file_size:
            return True
        with suppress(RmqIndexError):
            infer_layout(file.path)
            return True
    return not files


def as_given(file: str, path: str) -> str:
    """Return a path relative to the working directory if the user's is, else absolute."""
    if Location.of(file).local is None:
        return file
    return os.path.abspath(file) if os.path.isabs(path) else os.path.relpath(file)  # noqa: PTH100, PTH117
