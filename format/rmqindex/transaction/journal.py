"""The journal, by which several files enter a local index directory in one step.

A broker's loader must never meet a foreign name in its directory, so every file that is not yet, or
no longer, part of the index lies in a sibling directory:

```text
<parent>/index/                  the index directory
<parent>/.index.rmqindex/        the staging root, removed when no job needs it
    lock                         flocked by whoever commits, recovers or makes a job
    journal.json                 a commit is under way, or died: the old state counts
    undo                         the old bytes of the file that the commit appends to in place
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

A broker does not know the journal, and may have started since, and appended to a file that the
commit brought in.
So the journal has the marks of all files: what is no longer as the commit left it is never deleted.
Where nothing but old files remained to be removed, the commit is then finished, else refused.

A commit may append to one file in place, at a cost that depends on the appended entries only.
The journal then holds that file's old header, and ``undo`` the old values of the slots that change,
and of the places of the entries; readers get the old slots (:mod:`rmqindex.indexfile.committed`)
and no appended entry.

A build in place makes its files visible one by one, so that a killed one can be continued. Where it
is refused, it writes the journal of one commit that made them all, and undoes that.

A commit may also come with a ledger entry, such as the number of a stream's batch.
It is part of the journal, and renaming the journal to ``ledger.json`` is then the commit point: the
ledger and the files change in the same instant.
"""

from __future__ import annotations

import contextlib
import errno
import os
import shlex
import stat
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

from rmqindex.errors import RmqIndexError, command_line
from rmqindex.layout.index_file import SLOT_SIZE
from rmqindex.storage.disk import (
    INDEX_NAME,
    ensure_directory,
    is_plain_name,
    move_synced,
    read_own,
    sync_directory,
    sync_name,
)
from rmqindex.storage.opening import UnsteadyError, read_steady
from rmqindex.storage.records import RecordKind
from rmqindex.storage.writable import copy_sparse, write_own
from rmqindex.transaction.append_undo import AppendRecord, AppendUndo, HeaderMark
from rmqindex.transaction.used_names import NEXT_LAST_NAME

if TYPE_CHECKING:
    from rmqindex.storage.records import Fields

_JOURNAL_NAME = "journal.json"
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
    """List a local index directory as its last finished commit left it.

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
    place = journal_path(path)
    return read_steady(path, lambda: _list_once(path, place))


def journal_path(directory: str | os.PathLike[str]) -> str:
    """Return a path of an index directory's journal, whether or not it exists.

    Every listing and every reading of a file asks, so the path is resolved only where it must be: a
    directory that is no link has its staging root beside it.
    """
    parent, name = os.path.split(directory)
    root = os.path.join(parent, root_name(name))  # noqa: PTH118  (pathlib costs as much again)
    if name in ("", ".", "..") or not _is_own_directory(directory):
        root = str(staging_root(directory))
    return f"{root}/{_JOURNAL_NAME}"


def has_journal(path: str) -> bool:
    """Return whether there is a journal, or whether there is one is unknown."""
    try:
        os.lstat(path)
    except (FileNotFoundError, NotADirectoryError):
        return False
    except OSError:  # reading it will raise
        return True
    return True


def _is_own_directory(path: str | os.PathLike[str]) -> bool:
    """Return whether a directory is at a path, and no link to one."""
    try:
        return stat.S_ISDIR(os.lstat(path).st_mode)
    except OSError:
        return False


def _list_once(directory: Path, place: str) -> dict[str, Path]:
    """List a directory once: while there is a journal, in the old state; no clock decides."""
    journal = _journal_of(directory, place)
    listing = _listing(directory)
    if journal is not None:
        root = staging_root(directory)
        listing, lost = journal.old_state(root, listing)
        if Journal.read(root) != journal:
            raise UnsteadyError(_DISTURBED)
        if lost:
            raise journal.lost_error(root, directory, lost)
        if journal.created and not listing:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(directory))
        return listing
    # A commit may have begun and ended during the listing, within one tick of the time stamps. It
    # has then left other names, since none is ever used again. Without a journal in between, what
    # two listings agree on is a committed state.
    if _journal_of(directory, place) is not None:
        raise UnsteadyError(_DISTURBED)
    again = set(os.listdir(directory))  # noqa: PTH208  (no paths are needed)
    if listing.keys() != again or _journal_of(directory, place) is not None:
        raise UnsteadyError(_DISTURBED)
    return listing


def _journal_of(directory: Path, place: str) -> Journal | None:
    return Journal.read(staging_root(directory)) if has_journal(place) else None


@dataclass(frozen=True, slots=True)
class Journal:
    """The undo log: the changes that a commit is about to make.

    The marks are those of the old files before the commit and of the new ones after it.
    A journal of an older version has none.
    """

    job: str
    created: bool
    old: tuple[str, ...]
    new: tuple[str, ...]
    old_marks: dict[str, HeaderMark]
    new_marks: dict[str, HeaderMark]
    append: AppendRecord | None = None
    ledger: dict[str, object] | None = None

    @classmethod
    def read(cls, root: Path) -> Journal | None:
        """Read the journal of an unfinished commit, if any.

        A power failure may leave a journal its name when it has become the ledger: rename(2)
        promises that neither is lost, not that both change at once.
        """
        journal = _JOURNAL_RECORD.read(root / _JOURNAL_NAME)
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
            _marks(fields, "old_marks"),
            _marks(fields, "new_marks"),
            record,
            None if ledger is None else ledger.values,
        )

    def write(self, root: Path, undo: AppendUndo | None = None) -> None:
        """Write the undo of the append, then the journal, and sync both to disk.

        The names of the staging root, of the job in it and of the undo come first: a journal must
        never be found without them, or with the undo of an earlier commit.
        """
        if undo is not None:
            write_own(root / _UNDO, undo.to_bytes())
        sync_directory(root)
        sync_name(root)
        fields = {
            "job": self.job,
            "created": self.created,
            "old": self.old,
            "new": self.new,
            "old_marks": {name: str(mark) for name, mark in self.old_marks.items()},
            "new_marks": {name: str(mark) for name, mark in self.new_marks.items()},
            "append": None if self.append is None else self.append.to_dict(),
            "ledger": self.ledger,
        }
        write_own(root / _NEXT_JOURNAL, _JOURNAL_RECORD.encode(str(root / _JOURNAL_NAME), fields))
        move_synced(root / _NEXT_JOURNAL, root / _JOURNAL_NAME)

    def finish(self, root: Path) -> None:
        """Pass the commit point and remove the undo."""
        if self.ledger is None:
            self.remove(root)
        else:
            move_synced(root / _JOURNAL_NAME, root / _LEDGER)
        if self.append is not None:
            (root / _UNDO).unlink(missing_ok=True)

    def remove(self, root: Path) -> None:
        """Remove the journal: the commit point of a commit without a ledger entry."""
        (root / _JOURNAL_NAME).unlink()
        sync_name(root / _JOURNAL_NAME)

    def read_undo(self, root: Path) -> AppendUndo | None:
        """Read the old slots of the file appended to; None where they are not the journal's."""
        if self.append is None:
            return None
        limit = 2 * SLOT_SIZE * self.append.hash_slot_num + self.append.places_size
        slots = read_own(root / _UNDO, limit, _AN_UNDO, _UNDO_REMEDY)
        if slots is None:  # the commit died before it changed anything
            return AppendUndo.without_slots(self.append)
        return AppendUndo.of(self.append, slots)

    def refuse_undo(self, root: Path) -> NoReturn:
        """Raise: the slots on disk are not those of the journal."""
        raise RmqIndexError(
            f"{root / _UNDO}: expected {_AN_UNDO}, got others than {root / _JOURNAL_NAME} says; "
            f"{_UNDO_REMEDY}"
        )

    def save(self, root: Path, directory: Path) -> None:
        """Set the old files aside as hard links, and sync these to disk."""
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

    def lost_error(self, root: Path, directory: Path, lost: list[str]) -> RmqIndexError:
        """Return the error of a commit whose old state is lost."""
        return RmqIndexError(
            f"{self._saved_path(root) / lost[0]}: expected the file as it was before the commit of "
            f"{root / _JOURNAL_NAME}, got none; put it back, or {_accept(root, directory)}"
        )

    def recover(self, root: Path, directory: Path) -> bool:
        """Undo the commit; finish it where another program has gone on with what it brought in.

        Safe to repeat if it dies at any point. Returns whether it was finished.
        """
        saved = self._saved_path(root)
        changed = self._changed(directory, saved)
        if changed is None or not self._is_complete(directory, saved):
            self.undo(root, directory)
            return False
        for name in self.old:
            if name not in self.new:
                (directory / name).unlink(missing_ok=True)
        sync_directory(directory)
        self.finish(root)
        return True

    def is_as_made(self, root: Path, directory: Path) -> bool:
        """Return whether no other program has gone on with what the commit brought in."""
        if self._changed(directory, self._saved_path(root)) is not None:
            return False
        append = self.append
        mark = None if append is None else HeaderMark.read(directory / append.name)
        return append is None or (mark is not None and append.is_made(mark.header))

    def undo(self, root: Path, directory: Path) -> None:
        """Restore the old state; safe to repeat if it dies at any point."""
        saved = self._saved_path(root)
        _, lost = self.old_state(root, _listing(directory) if directory.exists() else {})
        if lost:
            raise self.lost_error(root, directory, lost)
        changed = self._changed(directory, saved)
        if changed is not None:
            raise RmqIndexError(
                f"{changed}: another program has written to the file since, and undoing the write "
                f"would destroy that; {_accept(root, directory)}"
            )
        self._undo_append(root, directory)
        for name in self.new:
            if name not in self.old:
                (directory / name).unlink(missing_ok=True)
        for name in self.old:
            if not self._is_present(directory, saved, name):
                restored = root / self.job / f"restored-{name}"
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
        (root / _UNDO).unlink(missing_ok=True)

    def _undo_append(self, root: Path, directory: Path) -> None:
        if self.append is None:
            return
        undo = self.read_undo(root) or self.refuse_undo(root)
        path = directory / self.append.name
        if path.exists():
            try:
                undo.restore(path)
            except RmqIndexError as error:
                raise RmqIndexError(f"{error}; {_accept(root, directory)}") from error

    def _is_present(self, directory: Path, saved: Path, name: str) -> bool:
        """Return whether an old file is still in the directory, or again."""
        path, aside = directory / name, saved / name
        if not os.path.lexists(path) or name not in self.new:
            return os.path.lexists(path)
        # Without hard links, what was set aside is a copy.
        return aside.exists() and (
            path.samefile(aside) or HeaderMark.read(path) == HeaderMark.read(aside)
        )

    def _changed(self, directory: Path, saved: Path) -> str | None:
        """Return in words how a file that the commit brought in was changed since, if any was."""
        for name, mark in self.new_marks.items():
            found = HeaderMark.read(directory / name)
            if found not in (None, mark) and not self._is_present(directory, saved, name):
                return f"{directory / name}: {mark.difference(found)}"
        return None

    def _is_complete(self, directory: Path, saved: Path) -> bool:
        """Return whether nothing remains but to remove old files, which nobody has changed."""
        if self.append is not None:
            header = HeaderMark.read(directory / self.append.name)
            if header is None or not self.append.is_made(header.header):
                return False
        is_in_place = all(
            (directory / name).exists()
            and not (name in self.old and self._is_present(directory, saved, name))
            for name in self.new
        )
        return is_in_place and all(
            HeaderMark.read(directory / name) in (None, self.old_marks.get(name))
            for name in self.old
            if name not in self.new
        )


def _marks(fields: Fields, name: str) -> dict[str, HeaderMark]:
    """Read the marks of files; none where an older version wrote the journal."""
    marks = fields.inner(name)
    if marks is None:
        return {}
    return {each: HeaderMark.parse(marks.text(each)) for each in marks.values}


def _accept(root: Path, directory: Path) -> str:
    """Return the commands that leave all files as they are."""
    remove = shlex.join(["rm", str(root / _JOURNAL_NAME)])
    return (
        f"to accept the files as they are, `{remove}`, and then "
        f"`{command_line('verify', directory)}` says what they lack"
    )


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
    if os.path.lexists(root / _JOURNAL_NAME):  # it has become the ledger
        (root / _JOURNAL_NAME).unlink()
        sync_name(root / _JOURNAL_NAME)
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
