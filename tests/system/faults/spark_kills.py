"""Kills of real Spark applications: the driver, its JVM, all of it, or one Python worker."""

from __future__ import annotations

import contextlib
import json
import select
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import rmqindex

from . import spark_app
from .families import family_of, kill
from .states import errors_in, left_beside, rows_of, seen
from .tally import Tally

WHO = ("the whole application", "its JVM", "the driver's Python")
# A stream of a hundred batches on a machine that has other work takes minutes.
_LONGEST = 400
# So long a stream may be without a new row, seconds.
_STILL = 120
_DAEMON = "pyspark.daemon"
_SOURCE = "pyspark.sql.streaming.python_streaming_source_runner"
_TASK = "task"
_PLAN = "plan"
_KINDS = {
    "pyspark.worker": _TASK,
    "pyspark.sql.worker.commit_data_source_write": "commit",
    "pyspark.sql.worker.python_streaming_sink_runner": "commit",
}
_WORKER = "a Python worker of a"
# So long an application is let live, seconds, from its first write on.
_LIFE = (0.2, 4.0)
_LIFE_OF_STREAM = (2.0, 15.0)
# So long a write goes on before one of its workers is killed, seconds.
_WRITE = (0.0, 0.6)
# And between two kills of one stream.
_BETWEEN = (0.2, 3.0)


class Application:
    """Applications of one kind of write, one after the other, and where they write; a context."""

    def __init__(self, kind, chance, tally, parent=None):
        """Begin with an empty directory.

        Args:
            kind: A name of ``spark_app.WRITES``.
            chance: Where the moments come from.
            tally: Where it is counted.
            parent: Where files go.
        """
        self.kind = kind
        self.is_stream = kind == "writeStream"
        self.is_done = False
        self._chance = chance
        self._tally = tally
        self._folder = Path(tempfile.mkdtemp(prefix="rmqindex-faults-", dir=parent))
        self._index = self._folder / "index"
        self._written = 0
        self._process = None

    def __enter__(self):
        """Return it."""
        return self

    def __exit__(self, *_):
        """End what runs, and remove the files."""
        self._end()
        shutil.rmtree(self._folder)

    @property
    def lives(self):
        """Whether an application runs."""
        return self._process is not None and self._process.poll() is None

    def start(self):
        """Start an application, and wait until its session is there."""
        script = Path(spark_app.__file__)
        self._process = subprocess.Popen(
            [sys.executable, script, self.kind, self._folder],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=(self._folder / "log").open("ab"),
            start_new_session=True,
        )
        assert self._answer(_LONGEST) is not None, (self._folder / "log").read_text()[-2000:]

    def kill_application(self):
        """Kill a part of the application, or all of it, while it writes."""
        who = self._chance.choice(WHO)
        life = _LIFE_OF_STREAM if self.is_stream else _LIFE
        until = time.monotonic() + self._chance.uniform(*life)
        while (left := until - time.monotonic()) > 0 and not self.is_done:
            self._tell()
            if self._answer(left) is not None:
                self._wrote()
        if self.is_done:
            self._end()
            return
        family = family_of(self._process.pid)
        for process, command in family:
            driver = process.pid == self._process.pid
            if {WHO[0]: True, WHO[1]: command == "java"}.get(who, driver):
                kill(process)
        self._tally.times[who] += 1
        # The rest dies of that in its time; until then its write may still be finished.
        with contextlib.suppress(BrokenPipeError):
            self._process.stdin.close()
        until = time.monotonic() + _LONGEST
        while time.monotonic() < until and not all(process.is_gone for process, _ in family):
            time.sleep(0.05)
        self._end()
        self._judge(who)

    def kill_worker(self):
        """Kill one Python worker while it writes, and wait for the end.

        A task runs again; without its plan or its commit a write may fail, and is then not there.
        """
        self._tell()
        answer = self._answer(self._chance.uniform(*_WRITE))
        who = None
        while answer is None and who is None:
            who = self._kill_one()
            answer = self._answer(0.001)
        self._ended(answer or self._answer(_LONGEST), {who})

    def kill_workers(self, most):
        """Kill Python workers of one stream, one after the other, and wait for its end.

        It may fail, unless only tasks were killed; started again it goes on.
        """
        self._tell()
        killed = set()
        for _ in range(most):
            answer = self._answer(self._chance.uniform(*_BETWEEN))
            if answer is not None:
                break
            who = self._kill_one()
            if who is not None:
                killed.add(who)
                self._judge(who, writing=True)
        self._ended(answer or self._until_still(), killed)

    def _ended(self, answer, killed):
        """Judge how a write ended of which workers were killed, if they were there."""
        who = " and ".join(sorted(filter(None, killed))) or "nothing"
        done = answer is not None and answer["error"] is None
        if answer is None:
            self._tally.faults.append(f"{who} killed: the write does not end")
            self._end()
        elif done:
            self._wrote()
        elif killed <= {None, f"{_WORKER} {_TASK}"}:
            self._tally.faults.append(f"{who} killed: the write failed: {answer['error'][-600:]}")
            self._end()
        else:
            self._tally.found["an error was raised"] += 1
        self._judge(who, wrote=done)

    def _kill_one(self):
        """Kill a worker, of a kind that is chosen first; return which, None if none was there."""
        kinds = {}
        for process, kind in _workers(self._process.pid):
            kinds.setdefault(kind, []).append(process)
        if not kinds:
            return None
        kind = self._chance.choice(sorted(kinds))
        if not kill(self._chance.choice(kinds[kind])):
            return None
        who = f"{_WORKER} {kind}"
        self._tally.times[who] += 1
        return who

    def _until_still(self):
        """Wait for an answer as long as rows come; None where none comes."""
        rows, since = -1, time.monotonic()
        while time.monotonic() - since < _STILL:
            answer = self._answer(1)
            if answer is not None:
                return answer
            found = len(rows_of(seen(self._index)))
            if found != rows:
                rows, since = found, time.monotonic()
        return None

    def finish(self):
        """Write once more, to the end, and see that all is there and nothing else."""
        if not self.lives:
            self.start()
        if not self.is_done:
            self._tell()
            answer = self._until_still() if self.is_stream else self._answer(_LONGEST)
            if answer is None or answer["error"] is not None:
                self._tally.faults.append(f"the next write failed: {answer}")
                return
            self._wrote()
        self._process.stdin.close()
        self._process.wait(_LONGEST)
        place = self._place()
        left = left_beside(self._index, streams=self.is_stream)
        if place != "old":  # nothing is under way
            self._tally.faults.append(f"the next write ends in another state: {place}")
        elif left:
            self._tally.faults.append(f"left behind: {left}")

    def _tell(self):
        with contextlib.suppress(BrokenPipeError):
            self._process.stdin.write(f"{self._written}\n".encode())
            self._process.stdin.flush()

    def _answer(self, seconds):
        """Return what the application says within a time, or None."""
        if not select.select([self._process.stdout], [], [], seconds)[0]:
            return None
        line = self._process.stdout.readline()
        return json.loads(line) if line else None

    def _wrote(self):
        self._written += 1
        self.is_done = self.is_stream

    def _end(self):
        if self._process is not None:
            for process, _ in family_of(self._process.pid):
                kill(process)
            self._process.wait()
            self._process.stdin = None
            self._process.stdout.close()
            self._process = None

    def _judge(self, who, *, wrote=False, writing=False):
        try:
            place = self._place()
            errors = [] if writing else errors_in(self._index)
        except Exception as error:  # noqa: BLE001  (whatever a reader runs into is a finding)
            self._tally.faults.append(f"{who} killed: {type(error).__name__}: {error}")
            return
        if errors:
            self._tally.faults.append(f"{who} killed: the audit finds {errors[0]}")
        if place is None:
            self._tally.faults.append(f"{who} killed: neither the old nor the new rows")
            return
        self._tally.found["new" if wrote else place] += 1
        if place == "new":
            self._written += 1

    def _place(self):
        """Say whether the write that is under way is there; None for neither."""
        found = [row[1] for row in rows_of(seen(self._index))]
        if self.is_stream:
            sample = Path(rmqindex.sample_store()) / "index"
            wanted = [row[1] for row in rows_of(seen(sample))]
            if self.is_done:
                return "old" if found == wanted else None
            return "between batches" if found == wanted[: len(found)] else None
        if found == self._offsets(self._written):
            return "old"
        return "new" if found == self._offsets(self._written + 1) else None

    def _offsets(self, writes):
        """Return the offsets that are indexed after so many writes."""
        size = spark_app.ROWS
        if not writes:
            return []
        start, stop = (writes - 1, writes + 2) if "overwrite" in self.kind else (0, writes)
        return [100 * number for number in range(size * start, size * stop)]


def _workers(pid):
    """Return the Python workers below a process, with what they are of."""
    commands = {}
    for process, _ in family_of(pid):
        with contextlib.suppress(OSError, IndexError):
            words = Path(f"/proc/{process.pid}/cmdline").read_text().split("\0")
            stat = Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()
            commands[process.pid] = (process, words, int(stat[1]))
    found = []
    for process, words, parent in commands.values():
        if _SOURCE in words:
            found.append((process, _PLAN))
        # A daemon's children have its command line.
        elif _DAEMON in words and parent in commands and _DAEMON in commands[parent][1]:
            module = words[words.index(_DAEMON) + 1]
            found.append((process, _KINDS.get(module, _PLAN)))
    return found


def run_applications(kind, kills, chance, parent=None):
    """Kill applications of one kind, several in one directory; return the tally."""

    def kill(application, _left):
        application.start()
        application.kill_application()

    return _run(kind, kills, chance, parent, kill)


def run_workers(kind, kills, chance, parent=None):
    """Kill Python workers of one kind of write; return the tally."""

    def kill(application, left):
        if not application.lives:
            application.start()
        if application.is_stream:
            application.kill_workers(left)
        else:
            application.kill_worker()

    return _run(kind, kills, chance, parent, kill)


def _run(kind, kills, chance, parent, kill):
    """Kill until there were enough kills or a fault, in new applications as they are needed."""
    tally = Tally(f"{kind}, in Spark")
    while tally.times.total() < kills and not tally.faults:
        with Application(kind, chance, tally, parent) as application:
            while tally.times.total() < kills and not application.is_done:
                kill(application, kills - tally.times.total())
            application.finish()
    return tally
