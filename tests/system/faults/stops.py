"""Writers that are stopped before each of their steps, and what readers find meanwhile.

A process that is stopped, or that waits for a slow disk, stands longer than any reader waits.
Each reader is asked while the writer stands still; then the writer goes on to its next step.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from functools import partial
from pathlib import Path

from tests.system.simulator.schedule import stops

from rmqindex.consumequeue import is_exchanging
from rmqindex.transaction import staging_root

from .readers import QUICK, QUICK_OF_QUEUES, answer, command_line, in_session
from .states import left_beside
from .tally import Tally
from .writes import outcome_of, silent

COMMAND = "rmqindex scan"
SESSION = "Spark"
IN_COMMITS = "stops in a commit"
OTHERS = "other stops"


class StopTrial:
    """Stops of one kind of write; a context manager, since it keeps files."""

    def __init__(self, write, folder=None, *, commands=None, spark=None, queries=()):
        """Run the write undisturbed, to know what each reader finds before and after it.

        Args:
            write: The kind.
            folder: Where files go; by default where temporary files do.
            commands: When the command line is asked, too, which takes half a second: at the n-th
                steps of those at which a commit is under way, counted from 1; None for all steps.
            spark: A session that is asked, too.
            queries: When it is asked, counted in the same way.
        """
        self.write = write
        self.tally = Tally(write.name)
        self._readers = dict(QUICK_OF_QUEUES if write.queues else QUICK)
        if not write.queues:
            self._readers[COMMAND] = command_line
        self._commands = commands
        self._session = None
        if spark is not None:
            self._session = in_session(spark, "rmqconsumequeue" if write.queues else "rmqindex")
        self._queries = queries
        self._scratch = Path(tempfile.mkdtemp(prefix="rmqindex-stops-", dir=folder))
        self._before = self._scratch / "before"
        self._before.mkdir()
        with silent():
            write.prepare(self._before)
        self._states = {name: [] for name in self._readers}
        folder = self._fresh("undisturbed")
        self._add_states(folder)
        for stage in write.stages or (None,):
            with silent():
                write.run(folder, *(() if stage is None else (stage,)))
            self._add_states(folder)
        shutil.rmtree(folder)
        self._reached = dict.fromkeys(self._states, 0)
        self._marks = None

    def __enter__(self):
        """Return the trial."""
        return self

    def __exit__(self, *_):
        """Remove the files."""
        shutil.rmtree(self._scratch)

    def run(self):
        """Stop the write before each of its steps, ask every reader, and let it go on."""
        folder = self._fresh("stopped")
        committing = 0
        for step in stops(str(folder), partial(outcome_of, self.write.run, folder)):
            is_committing = self._is_committing(folder)
            committing += is_committing
            self.tally.times[IN_COMMITS if is_committing else OTHERS] += 1
            self._ask(folder, step, committing if is_committing else None)
        self._finish(folder)

    def _ask(self, folder, step, committing):
        marks = self._look(folder)
        if marks != self._marks:  # where nothing of the index has changed, neither has an answer
            self._marks = marks
            for name, read in self._readers.items():
                if name != COMMAND or self._commands is None or committing in self._commands:
                    self._judge(name, read, folder, step)
        if committing in self._queries and self._session is not None:
            self._judge(SESSION, self._session, folder, step)

    def _judge(self, name, read, folder, step):
        try:
            found = answer(read, self._path(folder))
            place = self._place(name, found, folder)
        except Exception as error:  # noqa: BLE001  (whatever a reader runs into is a finding)
            text = f"{name}, before step {step}: {type(error).__name__}: {error}"
            self.tally.faults.append(text.replace(str(folder), ""))
            return
        self.tally.found[f"{name}: {place}"] += 1

    def _place(self, name, found, folder):
        """Say which state a reader found.

        Raises:
            AssertionError: None that it may find.
        """
        like = name if name in self._states else next(iter(self._states))
        states = self._states[like]
        if name == SESSION and found is not None:  # its tasks come in any order
            found, states = _sorted(found), [_sorted(state) for state in states]
        if found is None:
            return "old" if states[0] is None and not self._has_begun(like, name) else "refused"
        reached = self._reached[like] if name == like else 0
        later = [place for place in range(reached, len(states)) if states[place] == found]
        if not later:
            assert self.write.in_place, self._told(found, states)
            whole, least = states[-1] or (), len(states[0] or ())
            assert found == whole[: len(found)], self._told(found, states)
            assert len(found) >= least, self._told(found, states)
            assert (folder / self.write.index).is_dir(), "no index, and no refusal"
            return "a beginning"
        if name == like:
            self._reached[like] = later[0]
        if later[0] == 0:
            return "old"
        return "new" if later[0] == len(states) - 1 else "between batches"

    def _has_begun(self, like, name):
        return name == like and self._reached[like] > 0

    def _told(self, found, states):
        counts = [None if state is None else len(state) for state in states]
        return f"{len(found)} rows, which is no state of {counts} rows, or an earlier one"

    def _finish(self, folder):
        """See that the new state is there, and nothing else."""
        for name, read in self._readers.items():
            if answer(read, self._path(folder)) != self._states[name][-1]:
                self.tally.faults.append(f"{name}: another state than the new one at the end")
        left = left_beside(folder / self.write.index, streams=self.write.is_stream)
        if left:
            self.tally.faults.append(f"left behind: {left}")

    def _add_states(self, folder):
        for name, read in self._readers.items():
            self._states[name].append(answer(read, self._path(folder)))

    def _path(self, folder):
        return folder / "store" if self.write.queues else folder / self.write.index

    def _is_committing(self, folder):
        if self.write.queues:
            return is_exchanging(folder / "store")
        return (staging_root(folder / self.write.index) / "journal.json").exists()

    def _look(self, folder):
        """Return what tells one state of the index, and of the journal beside it, from another."""
        index, store = folder / self.write.index, folder / "store"
        queues = (store, store / "consumequeue", store / ".consumequeue.rmqindex")
        marks = []
        for place in queues if self.write.queues else (index, staging_root(index)):
            if place.is_dir():
                for entry in sorted(os.scandir(place), key=lambda entry: entry.name):
                    status = entry.stat()
                    marks.append((entry.path, status.st_ino, status.st_size, status.st_mtime_ns))
        return marks

    def _fresh(self, name):
        folder = self._scratch / name
        shutil.copytree(self._before, folder)
        return folder


def run_stops(write, folder=None, **asked):
    """Stop one kind of write before each of its steps; return the tally."""
    with StopTrial(write, folder, **asked) as trial:
        trial.run()
        return trial.tally


def _sorted(state):
    return None if state is None else tuple(sorted(state))
