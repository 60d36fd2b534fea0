"""The journal, by which several files enter a local index directory in one step.

A broker's loader must never meet a foreign name in its directory, so every file that is not yet, or
no longer, part of the index lies in a sibling directory:

```text
<parent>/index/                  the index directory
<parent>/.index.rmqindex/        the staging root, removed when no job needs it
    lock                         flocked by whoever commits, recovers or makes a job
    journal.json                 a commit is under way, or died: the old state counts
    undo                         the old slots of the file that the commit appends to in place
    ledger.json                  the journal of the last commit that came with a ledger entry
    last-name                    the last name of an emptied index, never to be reused
    <job>/                       the staged files of one job
    <job>/owner.json             the process that owns the job
    <job>/old/                   hard links to the files that the commit replaces or removes
```

The journal is an undo log.
While it exists, readers see the old state, and the next writer restores it; removing it is the
commit point.
So the retry of a job that died half way finds it undone, and nobody ever sees a mixture.

A commit may append to one file in place, at a cost that depends on the appended entries only.
The journal then holds that file's old header, and ``undo`` the old values of the slots that change;
readers get the old ones (:mod:`rmqindex.indexfile.committed`) and no appended entry.

A commit may also come with a ledger entry, such as the number of a stream's batch.
It is part of the journal, and renaming the journal to ``ledger.json`` is then the commit point: the
ledger and the files change in the same instant.
"""

from __future__ import annotations

import contextlib
import errno
import os
import stat
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

from rmqindex.command_line import command_line
from rmqindex.errors import RmqIndexError
from rmqindex.layout import SLOT_SIZE
from rmqindex.ownfiles.disk import copy_sparse, move_synced, sync_directory, sync_name
from rmqindex.ownfiles.records import RecordKind
from rmqindex.ownfiles.safe_open import (
    INDEX_NAME,
    ensure_directory,
    is_plain_name,
    read_own,
    write_own,
)
from rmqindex.storage.opening import UnsteadyError, read_steady
from rmqindex.transaction.undo import AppendRecord, AppendUndo
from rmqindex.transaction.used_names import NEXT_LAST_NAME

if TYPE_CHECKING:
    from rmqindex.ownfiles.records import Fields

__all__ = [
    "Journal",
    "effective_listing",
    "is_uncommitted",
    "remove_leftovers",
    "root_beside",
    "root_name",
    "staging_root",
    "unfinished_append",
]

_JOURNAL = "journal.json"
_NEXT_JOURNAL = "journal.next"
_UNDO = "undo"
_LEDGER = "ledger.json"
_OLD = "old"
_AN_UNDO = "the old slots of the file that a write continues"
_UNDO_REMEDY = "restore it from a backup, or remove the index and rebuild it"

_DISTURBED = "a commit began or ended"

_NO_HARD_LINKS = frozenset(
    {errno.EPERM, errno.EOPNOTSUPP, errno.ENOTSUP, errno.EMLINK, errno.ENOSYS}
)


def staging_root(directory: str | os.PathLike[str]) -> Path:
    """Return the path of an index directory's staging root, whether or not it exists."""
    return root_beside(Path(os.path.realpath(directory)))


def effective_listing(directory: str | os.PathLike[str]) -> dict[str, Path]:
    """List an index directory as its last finished commit left it.

    Args:
        directory: A local index directory.

    Returns:
        Every name in it (IndexFiles or not), and the path of its bytes: in the directory, or, while
        a commit is unfinished, among the files that the commit set aside.

    Raises:
        FileNotFoundError: No such directory, or an unfinished commit made it.
        NotADirectoryError: It is a file.
        RmqIndexError: A journal is damaged, files that a commit set aside are gone, or commits
            began and ended for ten seconds without a pause.
    """
    path = Path(directory)
    root = staging_root(path)
    return read_steady(path, lambda: _list_once(path, root))


def is_uncommitted(directory: str | os.PathLike[str]) -> bool:
    """Return whether an unfinished commit made a directory, so that it was not there before.

    Args:
        directory: A local directory.

    Raises:
        RmqIndexError: As for :func:`effective_listing`.
    """
    # A commit writes its journal before it makes the directory: without one, none is unfinished.
    if not os.path.lexists(staging_root(directory) / _JOURNAL):
        return False
    try:
        effective_listing(directory)
    except FileNotFoundError:
        return True
    return False


def _list_once(directory: Path, root: Path) -> dict[str, Path]:
    """List a directory once.

    While there is a journal, it yields the old state at once, however long the commit takes. No
    clock and no time stamp decides.

    Raises:
        UnsteadyError: A commit began or ended meanwhile.
    """
    journal = Journal.read(root)
    listing = _listing(directory)
    if journal is not None:
        listing, lost = journal.old_state(root, listing)
        if Journal.read(root) != journal:
            raise UnsteadyError(_DISTURBED)
        if lost:
            raise journal.lost_error(root, lost)
        if journal.created and not listing:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(directory))
        return listing
    # A commit may have begun and ended during the listing, within one tick of the time stamps. It
    # has then left other names, since none is ever used again. Without a journal in between, what
    # two listings agree on is a committed state.
    if Journal.read(root) is not None:
        raise UnsteadyError(_DISTURBED)
    again = set(os.listdir(directory))  # noqa: PTH208  (no paths are needed)
    if listing.keys() != again or Journal.read(root) is not None:
        raise UnsteadyError(_DISTURBED)
    return listing


def unfinished_append(path: str | os.PathLike[str]) -> AppendUndo | None:
    """Return the append in place that an unfinished commit, dead or alive, makes to a file.

    Args:
        path: A local file; for a link, the commit is one to the file that it leads to.

    Returns:
        The state of the file before; None where there is no such commit.

    Raises:
        RmqIndexError: A journal is damaged, or one commit after the other appended to the file for
            ten seconds.
    """
    if Path(path).is_symlink():
        path = os.path.realpath(path)
    directory, name = os.path.split(path)
    if not _has_journal(directory):
        return None
    root = staging_root(directory)

    def read() -> AppendUndo | None:
        journal = Journal.read(root)
        if journal is None or journal.append is None or journal.append.name != name:
            return None
        undo = journal.read_undo(root)
        if Journal.read(root) != journal:
            raise UnsteadyError("an append to it began or ended")
        return undo or journal.refuse_undo(root)

    return read_steady(path, read)


def _has_journal(directory: str) -> bool:
    """Return whether a directory has a journal, or whether it has one is unknown.

    Every reading of a file asks this twice, so the path is resolved only where it must be: a
    directory that is no link has its staging root beside it.
    """
    parent, name = os.path.split(directory)
    root = os.path.join(parent, root_name(name))  # noqa: PTH118  (pathlib costs as much again)
    if name in ("", ".", "..") or not _is_own_directory(directory):
        root = str(staging_root(directory))
    try:
        os.lstat(f"{root}/{_JOURNAL}")
    except (FileNotFoundError, NotADirectoryError):
        return False
    except OSError:  # reading it will raise
        return True
    return True


def _is_own_directory(path: str) -> bool:
    """Return whether a directory is at a path, and no link to one."""
    try:
        return stat.S_ISDIR(os.lstat(path).st_mode)
    except OSError:
        return False


@dataclass(frozen=True, slots=True)
class Journal:
    """The undo log: the changes that a commit is about to make."""

    job: str
    created: bool
    old: tuple[str, ...]
    new: tuple[str, ...]
    append: AppendRecord | None = None
    ledger: dict[str, object] | None = None

    @classmethod
    def read(cls, root: Path) -> Journal | None:
        """Read the journal of an unfinished commit, if any.

        A power failure may leave a journal its name when it has become the ledger: rename(2)
        promises that neither is lost, not that both change at once.
        """
        journal = _JOURNAL_RECORD.read(root / _JOURNAL)
        is_finished = journal is not None and journal.ledger and journal == cls.read_ledger(root)
        return None if is_finished else journal

    @classmethod
    def read_ledger(cls, root: Path) -> Journal | None:
        """Read the journal of the last commit that came with a ledger entry, if any."""
        return _LEDGER_RECORD.read(root / _LEDGER)

    @classmethod
    def of(cls, fields: Fields) -> Journal:
        """Rebuild a journal from its record."""
        append, ledger = fields.inner("append"), fields.inner("ledger")
        job = fields.text("job")
        if not is_plain_name(job):
            raise ValueError(f"job: expected a name, got {job!r}")
        record = None if append is None else AppendRecord.of(append)
        if record is not None and not INDEX_NAME.fullmatch(record.name):
            raise ValueError(f"append: expected the name of an IndexFile, got {record.name!r}")
        return cls(
            job,
            fields.flag("created"),
            fields.names("old", INDEX_NAME, "names of IndexFiles"),
            fields.names("new", INDEX_NAME, "names of IndexFiles"),
            record,
            None if ledger is None else ledger.values,
        )

    def write(self, root: Path, undo: AppendUndo | None = None) -> None:
        """Write the undo of the append, then the journal, and sync both to disk.

        The names of the staging root and of the undo come first: a journal must never be found
        without them, or with the undo of an earlier commit.
        """
        if undo is not None:
            write_own(root / _UNDO, undo.to_bytes())
            sync_name(root / _UNDO)
        sync_name(root)
        fields = {
            "job": self.job,
            "created": self.created,
            "old": self.old,
            "new": self.new,
            "append": None if self.append is None else self.append.to_dict(),
            "ledger": self.ledger,
        }
        write_own(root / _NEXT_JOURNAL, _JOURNAL_RECORD.encode(str(root / _JOURNAL), fields))
        move_synced(root / _NEXT_JOURNAL, root / _JOURNAL)

    def finish(self, root: Path) -> None:
        """Pass the commit point and remove the undo."""
        if self.ledger is None:
            self.remove(root)
        else:
            move_synced(root / _JOURNAL, root / _LEDGER)
        if self.append is not None:
            (root / _UNDO).unlink(missing_ok=True)

    def remove(self, root: Path) -> None:
        """Remove the journal: the commit point of a commit without a ledger entry."""
        (root / _JOURNAL).unlink()
        sync_name(root / _JOURNAL)

    def read_undo(self, root: Path) -> AppendUndo | None:
        """Read the old slots of the file appended to; None where they are not the journal's."""
        if self.append is None:
            return None
        limit = 2 * SLOT_SIZE * self.append.hash_slot_num
        slots = read_own(root / _UNDO, limit, _AN_UNDO, _UNDO_REMEDY)
        if slots is None:  # the commit died before it changed anything
            return AppendUndo.without_slots(self.append)
        return AppendUndo.of(self.append, slots)

    def refuse_undo(self, root: Path) -> NoReturn:
        """Raise: the slots on disk are not those of the journal."""
        raise RmqIndexError(
            f"{root / _UNDO}: expected {_AN_UNDO}, got others than {root / _JOURNAL} says; "
            f"{_UNDO_REMEDY}"
        )

    def save(self, root: Path, directory: Path) -> None:
        """Set the old files aside as hard links, and sync these to disk.

        The job's own name is synced with the journal.
        """
        if not self.old:
            return
        saved = root / self.job / _OLD
        saved.mkdir()
        for name in self.old:
            _link_or_copy(directory / name, saved / name)
        sync_directory(saved)
        sync_name(saved)

    def _saved_path(self, root: Path) -> Path:
        """Return the directory of the old files, if they were set aside."""
        ensure_directory(root)
        ensure_directory(root / self.job)
        ensure_directory(root / self.job / _OLD)
        return root / self.job / _OLD

    def old_state(self, root: Path, listing: dict[str, Path]) -> tuple[dict[str, Path], list[str]]:
        """Return the listing of a directory before the commit, given the present one.

        The second result is the names of old files that are lost.
        """
        saved = self._saved_path(root)
        state = {name: path for name, path in listing.items() if name not in self.new}
        for name in self.old:
            if (saved / name).exists():
                state[name] = saved / name
        return state, [name for name in self.old if name not in state]

    def lost_error(self, root: Path, lost: list[str]) -> RmqIndexError:
        """Return the error of a commit whose old state is lost."""
        return RmqIndexError(
            f"{self._saved_path(root) / lost[0]}: expected the file as it was before the commit of "
            f"{root / _JOURNAL}, got none; put it back, or remove the journal to accept the index "
            f"as it is and run `{command_line('verify', root)}`"
        )

    def _ensure_saved(self, root: Path, directory: Path) -> None:
        """Raise where the old state is lost, before restoring any of it."""
        _, lost = self.old_state(root, _listing(directory) if directory.exists() else {})
        if lost:
            raise self.lost_error(root, lost)

    def undo(self, root: Path, directory: Path) -> None:
        """Restore the old state; safe to repeat if it dies at any point."""
        job, saved = root / self.job, self._saved_path(root)
        self._ensure_saved(root, directory)
        if self.append is not None:
            undo = self.read_undo(root) or self.refuse_undo(root)
            if (directory / self.append.name).exists():
                try:
                    undo.restore(directory / self.append.name)
                except RmqIndexError as error:
                    raise RmqIndexError(
                        f"{error}, or remove {root / _JOURNAL} to accept the file as it is"
                    ) from error
        for name in self.new:
            if name not in self.old:
                (directory / name).unlink(missing_ok=True)
        for name in self.old:
            if (saved / name).exists():
                restored = job / f"restored-{name}"
                restored.unlink(missing_ok=True)
                _link_or_copy(saved / name, restored)
                restored.replace(directory / name)
        if self.created:
            with contextlib.suppress(OSError):  # another program put a file there: keep it
                directory.rmdir()
            sync_name(directory)
        if directory.exists():
            sync_directory(directory)
        self.remove(root)


_JOURNAL_RECORD = RecordKind(
    "the journal of a write",
    Journal.of,
    "restore it from a backup, or remove it and rebuild the index: without it, the write that it "
    "belongs to cannot be undone",
)


_LEDGER_RECORD = replace(
    _JOURNAL_RECORD,
    remedy="restore it from a backup; a ledger that is removed forgets which batches of streams "
    "are in the index",
)


def remove_leftovers(root: Path) -> None:
    """Remove the leftovers of a commit that died before its journal, or after its end."""
    if os.path.lexists(root / _JOURNAL):  # it has become the ledger
        (root / _JOURNAL).unlink()
        sync_name(root / _JOURNAL)
    for name in (_NEXT_JOURNAL, _UNDO, NEXT_LAST_NAME):
        (root / name).unlink(missing_ok=True)


def root_beside(real: Path) -> Path:
    """Return the staging root of a directory whose symbolic links are resolved."""
    return real.parent / root_name(real.name)


def root_name(name: str) -> str:
    """Return the name of the staging root of an index directory with a name."""
    return f".{name}.rmqindex"


def _listing(directory: Path) -> dict[str, Path]:
    return {path.name: path for path in directory.iterdir()}


def _link_or_copy(source: Path, target: Path) -> None:
    try:
        os.link(source, target, follow_symlinks=False)
    except OSError as error:
        if error.errno not in _NO_HARD_LINKS:
            raise
        target.unlink(missing_ok=True)
        copy_sparse(source, target)
