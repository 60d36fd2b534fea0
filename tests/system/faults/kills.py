"""Kills at random moments of every kind of write, and what must hold after each."""

from __future__ import annotations

import shutil
import statistics
import tempfile
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

from rmqindex.consumequeue import QueueStaging

from . import processes
from .states import errors_in, left_beside, rows_of, seen, tree

_QUEUE_FOLDERS = ("consumequeue", "batchconsumequeue")
_UNDISTURBED = 2
# Moments up to a bit behind the usual end.
_MARGIN = 1.05
_KILLED_AGAIN = 0.3
# Of the kills of a driver, so many come at a step and the others at a time.
_AT_STEPS = 0.7


@dataclass
class Tally:
    """What was found of one kind of write.

    Attributes:
        kind: The kind of write.
        kills: How many processes of each sort were killed.
        at_steps: How many of them just before a call that changes files.
        found: How often readers found what.
        faults: What was wrong, in words.
    """

    kind: str
    kills: Counter[str] = field(default_factory=Counter)
    at_steps: int = 0
    found: Counter[str] = field(default_factory=Counter)
    faults: list[str] = field(default_factory=list)


class Trial:
    """Kills of one kind of write; a context manager, since it keeps files."""

    def __init__(self, write, chance, folder=None, logs=None):
        """Run the write undisturbed, to know what it leaves and how long it takes.

        Args:
            write: The kind.
            chance: Where the moments come from.
            folder: Where files go; by default where temporary files do.
            logs: Where the output of processes goes; by default there as well.
        """
        self.write = write
        self.chance = chance
        self.tally = Tally(write.name)
        self._scratch = Path(tempfile.mkdtemp(prefix="rmqindex-faults-", dir=folder))
        self._logs = self._scratch if logs is None else Path(logs)
        self._count = 0
        before = self._scratch / "before"
        before.mkdir()
        self._to_its_end(write.prepare, before)
        self._before = before
        self.states = [self._state(before)]
        folder = self._fresh()
        for stage in write.stages:
            self._to_its_end(write.run, folder, stage)
            self.states.append(self._state(folder))
        ends = []
        for _ in range(_UNDISTURBED):
            folder = self._fresh()
            ends.append(self._to_its_end(write.run, folder))
        if not write.stages:
            self.states.append(self._state(folder))
        assert self._state(folder) == self.states[-1]
        assert self.states[0] != self.states[-1]
        self.seconds = statistics.median(end.seconds for end in ends)
        self.steps = min(end.steps for end in ends)

    def __enter__(self):
        """Return the trial."""
        return self

    def __exit__(self, *_):
        """Remove the files."""
        shutil.rmtree(self._scratch)

    def kill(self, who):
        """Kill the write once, or twice, and look at what is left."""
        folder = self._fresh()
        outcome = self._kill_at(folder, self._moment(who))
        self._judge(folder, outcome, who)
        if not outcome.killed:
            shutil.rmtree(folder)
            return
        self.tally.kills[who] += 1
        if self.chance.random() < _KILLED_AGAIN:
            # What comes next is killed as well, while it clears up or writes.
            again = self._kill_at(folder, self._moment("driver and tasks"))
            if again.killed:
                self.tally.kills["the next run"] += 1
                self._judge(folder, again, "the next run")
        self._finish(folder)
        shutil.rmtree(folder)

    def _moment(self, who):
        if who != "task" and self.chance.random() < _AT_STEPS:
            return processes.Moment(who, step=self.chance.randint(1, self.steps))
        return processes.Moment(who, seconds=self.chance.uniform(0, _MARGIN * self.seconds))

    def _kill_at(self, folder, moment):
        outcome = self._run(self.write.run, folder, moment)
        self.tally.at_steps += outcome.killed and moment.step is not None
        return outcome

    def _judge(self, folder, outcome, who):
        """Look at the index as a reader does."""
        try:
            place = self._place(folder)
            errors = [] if self.write.queues else errors_in(folder / self.write.index)
        except Exception as error:  # noqa: BLE001  (whatever a reader runs into is a finding)
            self._fault(folder, f"{who} killed: {type(error).__name__}: {error}")
            return
        if errors:
            self._fault(folder, f"{who} killed: the audit finds {errors[0]}")
        survives = who == "task" or not outcome.killed
        if survives and (outcome.exitcode or place != "new"):
            self._fault(folder, f"{who} killed: {place}, and {outcome.error[-300:]}")
        self.tally.found[place] += 1

    def _place(self, folder):
        """Say which state an index is in.

        Raises:
            AssertionError: None that it may be in.
        """
        state = self._state(folder)
        if state == self.states[-1]:
            return "new"
        if state == self.states[0]:
            return "old"
        if state in self.states:
            return "between batches"
        if self.write.in_place:
            rows = rows_of(self.states[-1])
            part = rows_of(state)
            assert part == rows[: len(part)], "rows that are no beginning of the new ones"
            assert len(part) >= len(rows_of(self.states[0])), "old rows are gone"
            return "a beginning"
        counts = [len(rows_of(each)) for each in (self.states[0], self.states[-1], state)]
        raise AssertionError(f"neither the old nor the new state: rows of each {counts}")

    def _finish(self, folder):
        """Write again, to the end."""
        outcome = self._run(self.write.run, folder)
        left = left_beside(folder / self.write.index, streams=self.write.is_stream)
        if outcome.exitcode:
            self._fault(folder, f"the next write failed: {outcome.error[-600:]}")
        elif self._state(folder) != self.states[-1]:
            self._fault(folder, "the next write ends in another state")
        elif left:
            self._fault(folder, f"left behind: {left}")

    def _state(self, folder):
        if not self.write.queues:
            return seen(folder / self.write.index)
        with QueueStaging(folder / "store"):
            pass  # which first goes back to what was there
        return tree(folder / "store", *_QUEUE_FOLDERS)

    def _fresh(self):
        self._count += 1
        folder = self._scratch / str(self._count)
        shutil.copytree(self._before, folder)
        return folder

    def _to_its_end(self, function, *arguments):
        outcome = processes.run(function, *arguments, log=self._logs / "log")
        assert not outcome.exitcode, outcome.error
        return outcome

    def _run(self, function, folder, moment=None):
        return processes.run(function, folder, log=self._logs / "log", moment=moment)

    def _fault(self, folder, text):
        self.tally.faults.append(text.replace(str(folder), ""))


def run_trial(write, kills, chance, folder=None):
    """Kill one kind of write until enough processes were killed; return the tally."""
    who = processes.WHO if write.has_tasks else processes.WHO[1:2]
    with Trial(write, chance, folder) as trial:
        for _ in range(5 * kills):
            if trial.tally.kills.total() >= kills:
                break
            trial.kill(chance.choice(who))
        return trial.tally
