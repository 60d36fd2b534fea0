"""One kind of write on a disk whose power is cut: what every state must give."""

from __future__ import annotations

import errno
import hashlib
import os
import pickle
import random
import re
import shlex
import shutil
import sys
import tempfile
import time
import traceback
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Self

from tests.system.faults import writes
from tests.system.faults.readers import REFUSALS

from rmqindex import RmqIndexError

from .kinds import KINDS, refused
from .power import MODELS, cuts, write_tree
from .recorded import Record, Recorder, error_of, tree_of
from .states import tree_of_nodes

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from .kinds import Kind
    from .power import Cut
    from .recorded import Call

__all__ = ["Fault", "Tally", "Trial", "run_trial", "text_of"]

_COMMAND = re.compile("`(rmqindex [^`]*)`")
_STAGED = re.compile(r"\.index\.rmqindex/(job-[^/]*/(?!old|owner)[^/]*|lock|ledger\.json)$")
# Names that come back if their removal was not synced, where the next write has nothing to do; the
# first that has something removes or replaces them.
_REPLACED = {
    "commits.next",  # of the part of Spark that is played here
    "store/.checkpoint.next",
    "other/store/.checkpoint.next",
    "store/.index.rmqindex/undo",
}
# So does the empty folder of a job, where its query is at its end.
_JOB = re.compile(r"(.*/)?\.index\.rmqindex/stream-[^/]*")
# How a job is called that is being removed.
_TRASH = ".trash"
# What works on a full disk.
_FREEING = {"os.unlink", "os.remove", "os.rmdir", "os.rename", "os.replace", "os.fsync"}
# How often the next write runs where the disk holds the same but for what jobs staged.
_ALIKE = 3
_SCRATCH = "/dev/shm" if Path("/dev/shm").is_dir() else None


@dataclass(frozen=True)
class Fault:
    """What was wrong.

    Attributes:
        where: After which call, in which model, what was lost.
        what: What was found.
    """

    where: str
    what: str


@dataclass
class Tally:
    """What was found of one kind of write in one model.

    Attributes:
        kind: Its name.
        model: The model of the disk.
        calls: How many calls it makes.
        cut: After how many of them, or of none, the power was cut, or how many failed.
        states: How many states were judged, those of one call once.
        distinct: How many of them no other call or model had left.
        finished: After how many the next write was run to its end.
        remedies: How many commands were typed that readers printed.
        found: How often readers found what.
        faults: What was wrong.
        seconds: How long it took.
    """

    kind: str
    model: str
    calls: int = 0
    cut: int = 0
    states: int = 0
    distinct: int = 0
    finished: int = 0
    remedies: int = 0
    found: Counter[str] = field(default_factory=Counter)
    faults: list[Fault] = field(default_factory=list)
    seconds: float = 0.0


class Trial:
    """One kind of write, recorded undisturbed; a context manager, since it keeps files."""

    def __init__(self, kind: Kind) -> None:
        """Prepare, and record the write in a process of its own, which ends as the power is cut."""
        self.kind = kind
        self._scratch = Path(tempfile.mkdtemp(prefix="rmqindex-power-", dir=_SCRATCH))
        self._count = 0
        self._alike: Counter[bytes] = Counter()
        self._known: dict[bytes, dict[str, object]] = {}
        self._remedies: dict[bytes, set[str]] = {}
        self._judged: set[tuple[bytes, int]] = set()
        self._trees: set[bytes] = set()
        self._before = self._scratch / "before"
        self._before.mkdir()
        with writes.silent():
            kind.prepare(self._before)
        end = self.fresh()
        self.record, self.marks = _in_child(_recorded, kind, end)
        assert tree_of_nodes(self.record.replayed()) == tree_of(end), "a call was not heard"
        self.looks = [self.look(self.fresh())]
        staged = self.fresh()
        for stage in kind.stages or (None,):
            with writes.silent():
                kind.run(staged, *(() if stage is None else (stage,)))
            self.looks.append(self.look(self._copied(staged)))
        assert self.look(self._copied(end)) == self.looks[-1]
        assert tree_of(end) != tree_of(self._before)
        self._names = self._names_in(end)

    def __enter__(self) -> Self:
        """Return the trial."""
        return self

    def __exit__(self, *_: object) -> None:
        """Remove the files."""
        shutil.rmtree(self._scratch)

    def fresh(self) -> Path:
        """Return a new folder with what is there before the write."""
        return self._copied(self._before)

    def _copied(self, folder: Path) -> Path:
        self._count += 1
        copy = self._scratch / str(self._count)
        shutil.copytree(folder, copy, symlinks=True)
        return copy

    def look(self, folder: Path) -> dict[str, object]:
        """Return what each reader finds in a folder."""
        return self._look(_mark_of(tree_of(folder)), lambda: folder)

    def _look(self, mark: bytes, folder: Callable[[], Path]) -> dict[str, object]:
        """Return what each reader finds.

        Where all bytes that readers ask for are as they were, they are not asked again.
        """
        if mark not in self._known:
            place = folder()
            REFUSALS.clear()
            with writes.silent():
                found = {name: read(place) for name, read in self.kind.readers.items()}
                self._remedies[mark] = {
                    line.replace(str(place), "FOLDER")
                    for text in REFUSALS
                    for line in _COMMAND.findall(text)
                }
                if refused not in found.values():
                    self.kind.check(place)
            self._known[mark] = found
        return self._known[mark]

    def run(self, model: str, seed: int, *, most: int, states: int | None = None) -> Tally:
        """Cut the power after every call, and look at what it leaves.

        Args:
            model: The model of the disk.
            seed: What states are drawn by.
            most: How many states after one call.
            states: How many are looked at, after calls that are drawn; None for all.
        """
        chance = random.Random(f"{seed} {self.kind.name} {model}")
        tally = Tally(self.kind.name, model, len(self.record.calls))
        if states is None:
            found = cuts(self.record, model, chance, most=most)
        else:
            numbers = range(len(self.record.calls) + 1)
            calls = [numbers[-1], *chance.sample(numbers, min(states, len(numbers)))]
            some = [*cuts(self.record, model, chance, most=most, calls=calls)]
            found = iter(chance.sample(some, min(states, len(some))))
        called = set()
        for cut in found:
            called.add(cut.call)
            self._try(cut, tally)
        tally.cut = len(called)
        return tally

    def _try(self, cut: Cut, tally: Tally) -> None:
        tally.states += 1
        tally.distinct += cut.mark not in self._trees
        self._trees.add(cut.mark)
        least = self._least(cut.call)
        if (cut.mark, least) in self._judged:
            return
        self._judged.add((cut.mark, least))
        self._count += 1
        folder = self._scratch / str(self._count)

        def written() -> Path:
            if not folder.exists():
                write_tree(cut.tree, folder)
            return folder

        try:
            mark = _mark_of(tree_of_nodes(cut.tree))
            tally.found[self.judged(self._look(mark, written), least)] += 1
            for line in sorted(self._remedies.pop(mark, ())):
                tally.remedies += 1
                self._remedied(line, self._copied(written()), least)
            if self._is_unlike(mark):
                tally.finished += 1
                self.finished(written())
        except Exception as error:  # noqa: BLE001  (whatever is run into is a finding)
            last = self.record.calls[cut.call - 1] if cut.call else None
            where = f"{cut.model}, after call {cut.call} {_told(last)}: {cut.what}"
            text = text_of(error).replace(str(folder), "")
            tally.faults.append(Fault(where, text))
        shutil.rmtree(folder, ignore_errors=True)

    def fail(self, error: int, seed: int, *, calls: int | None = None) -> Tally:
        """Let each call fail once, or a full disk refuse all from there on that need space.

        Args:
            error: Such as ``errno.EIO``.
            seed: What calls are drawn by.
            calls: How many; None for all.
        """
        chance = random.Random(f"{seed} {self.kind.name} {error}")
        numbers = range(1, len(self.record.calls) + 1)
        tally = Tally(self.kind.name, errno.errorcode[error], len(numbers))
        for number in (
            numbers if calls is None else chance.sample(numbers, min(calls, len(numbers)))
        ):
            tally.cut += 1
            folder = self.fresh()
            try:
                ended = _in_child(_failed, self.kind, folder, number, error, chance.random() < 0.5)
                tally.found[self._told_of(ended, folder)] += 1
                least = len(self.looks) - 1 if ended is None else 0
                self.judged(self.look(folder), least)
                tally.finished += 1
                self.finished(folder)
            except Exception as found:  # noqa: BLE001  (whatever is run into is a finding)
                where = f"{tally.model} at call {number} {_told(self.record.calls[number - 1])}"
                text = text_of(found).replace(str(folder), "")
                tally.faults.append(Fault(where, text))
            shutil.rmtree(folder)
        return tally

    def _told_of(self, ended: tuple[str, str] | None, folder: Path) -> str:
        """Say how a write on a failing disk ended.

        Raises:
            AssertionError: With a foreign error, or one that names no file.
        """
        if ended is None:
            return "done all the same"
        kind, text = ended
        assert str(folder) in text, f"{kind} that names no file: {text}"
        assert kind in {"OSError", "RmqIndexError", "SystemExit"}, f"{kind}: {text}"
        return "refused"

    def _remedied(self, line: str, folder: Path, least: int) -> None:
        """Type what a reader that refused has printed; then it must answer.

        Raises:
            AssertionError: It refuses again, or finds what may not be there.
        """
        name, *rest = shlex.split(line.replace("FOLDER", str(folder)))[1:]
        with writes.silent():
            writes.typed(name, *rest)
        told = self.judged(self.look(folder), least)
        assert "refused" not in told, f"after `{line}`: {told}"
        shutil.rmtree(folder)

    def _is_unlike(self, mark: bytes) -> bool:
        """Return whether the next write may find what it did not often find before.

        It removes what a dead job staged, whatever that is.
        """
        self._alike[mark] += 1
        return self._alike[mark] <= _ALIKE

    def _least(self, call: int) -> int:
        """Return the first look that may be found after a call: what was finished must last."""
        return sum(mark <= call for mark in self.marks)

    def judged(self, looks: dict[str, object], least: int) -> str:
        """Say which state readers found.

        Raises:
            AssertionError: None that they may find, or different ones.
        """
        places = {name: self._places(name, found, least) for name, found in looks.items()}
        answers = [each for each in places.values() if each]
        if not answers:
            return refused
        told = set.intersection(*answers)
        assert told, f"readers disagree: {places}"
        return min(told) if len(answers) == len(places) else f"{min(told)}, others refused"

    def _places(self, name: str, found: object, least: int) -> set[str]:
        """Return the states that a reader may mean by what it found; none where it refused."""
        states = [look[name] for look in self.looks]
        last = len(states) - 1
        means = {place for place in range(least, last + 1) if states[place] == found}
        if means:
            called = {0: "old", last: "new"}
            return {called.get(place, f"stage {place}") for place in means}
        assert found != refused or least < last, f"{name}: refuses what was finished"
        if found == refused:
            return set()
        if found in states:
            raise AssertionError(f"{name}: state {states.index(found)}, after {least} was done")
        if self.kind.in_place:
            whole, part, first = (_rows(each) for each in (states[-1], found, states[least]))
            assert part == whole[: len(part)], f"{name}: rows that are no beginning of the new ones"
            assert len(part) >= len(first), f"{name}: rows of a finished part are gone"
            return {f"a beginning of {len(part)} rows"} if part else {"old"}
        raise AssertionError(f"{name}: no state that it may find: {str(found)[:300]}")

    def finished(self, folder: Path) -> None:
        """Write again, to the end, and see that nothing else is there.

        Raises:
            AssertionError: Another state, or more names, than after an undisturbed write.
        """
        with writes.silent():
            self.kind.run(folder)
            names = self._names_in(folder)
            if any(_TRASH in name for name in names - self._names):
                writes.recover(folder)  # what was to be removed last is removed with the next job
                names = self._names_in(folder)
        assert names == self._names, f"left behind: {names ^ self._names}"
        looks = self.look(folder)
        for name, found in looks.items():
            assert found == self.looks[-1][name], (
                f"after the next write, {name}: {str(found)[:300]}"
            )

    def _names_in(self, folder: Path) -> set[str]:
        loose = tuple(f"{name}/" for name in self.kind.loose)
        names = {str(path.relative_to(folder)) for path in folder.rglob("*")}
        jobs = {
            name for name in names if _JOB.fullmatch(name) and not any((folder / name).iterdir())
        }
        return {name for name in names if not name.startswith(loose)} - _REPLACED - jobs


def run_trial(
    name: str, models: Sequence[str], seed: int, most: int, states: int | None
) -> list[Tally]:
    """Try one kind of write in models, and with errors, in a process of its own."""
    tallies = []
    with Trial(next(kind for kind in KINDS if kind.name == name)) as trial:
        for model in models:
            start = time.monotonic()
            if model in MODELS:
                tally = trial.run(model, seed, most=most, states=states)
            else:
                tally = trial.fail(getattr(errno, model), seed, calls=states)
            tally.seconds = time.monotonic() - start
            tallies.append(tally)
    return tallies


def _mark_of(tree: dict[str, bytes | str | None]) -> bytes:
    """Return a digest of what readers may ask for: all but what jobs stage, and the locks."""
    mark = hashlib.blake2b(digest_size=16)
    for name, content in sorted(tree.items()):
        if _STAGED.search(name) is None:
            mark.update(f"{name}\0{content is None}\0{len(content or '')}\0".encode())
            mark.update(content.encode() if isinstance(content, str) else content or b"")
    return mark.digest()


def _rows(found: object) -> list[object]:
    """Return the rows of all files of a state, or those that a reader found."""
    if found == refused:
        return []
    rows: list[object] = []
    for each in found:
        if not isinstance(each, tuple):
            return list(found)
        is_file = len(each) == 2 and isinstance(each[1], tuple)
        rows += [row[:3] for row in each[1]] if is_file else [each]
    return rows


def _told(call: object) -> str:
    return "" if call is None else f"({call.name} {Path(call.path).name})"


def text_of(error: BaseException) -> str:
    """Return an error's kind, the last place of its trace, and its text."""
    frames = traceback.extract_tb(error.__traceback__)
    at = next((f"{f.filename.rpartition('/')[2]}:{f.lineno}" for f in reversed(frames)), "")
    return f"{type(error).__name__} at {at}: {error}"


def _recorded(kind: Kind, folder: Path) -> tuple[Record, list[int]]:
    marks = []
    with Recorder(folder) as recorder, writes.silent():
        for stage in kind.stages or (None,):
            kind.run(folder, *(() if stage is None else (stage,)))
            marks.append(len(recorder.calls))
    return recorder.record, marks


def _failed(
    kind: Kind, folder: Path, number: int, error: int, lasts: bool
) -> tuple[str, str] | None:
    """Run a write of which a call fails; return its error's kind and text, None without one."""

    def before(call: Call) -> None:
        needs_space = call.name not in _FREEING
        if call.number == number or (lasts and call.number > number and needs_space):
            raise error_of(call, error)

    with Recorder(folder, before), writes.silent() as text:
        try:
            for stage in kind.stages or (None,):
                kind.run(folder, *(() if stage is None else (stage,)))
        except SystemExit as ended:
            return ("SystemExit", f"{text.getvalue()} {ended.code}") if ended.code else None
        except (OSError, RmqIndexError) as found:
            kind_of = "OSError" if isinstance(found, OSError) else "RmqIndexError"
            return kind_of, str(found)
        except Exception as found:  # noqa: BLE001  (the judge names it)
            return type(found).__name__, str(found)
    return None


def _in_child(function, *arguments):
    """Return what a function returns in a process of its own, which then ends."""
    reader, writer = os.pipe()
    pid = os.fork()
    if not pid:
        try:
            try:
                data = pickle.dumps((True, function(*arguments)))
            except BaseException:  # noqa: BLE001  (the parent raises it)
                data = pickle.dumps((False, traceback.format_exc()))
            with os.fdopen(writer, "wb") as answer:
                answer.write(data)
        finally:
            sys.stderr.flush()
            os._exit(0)
    os.close(writer)
    with os.fdopen(reader, "rb") as answer:
        data = answer.read()
    os.waitpid(pid, 0)
    is_done, value = pickle.loads(data)
    assert is_done, value
    return value
