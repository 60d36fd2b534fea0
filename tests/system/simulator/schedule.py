"""Several who use a store at once: the seed picks who makes the next call that touches a file.

Each is a process of its own, so that locks are what they are in life. It stops before each call
that reads or changes the store, and goes on when it is told to; the broker's steps are a generator
in this process. Nothing waits for a time to pass, but where a process sleeps on a lock, which the
kernel says.
"""

from __future__ import annotations

import functools
import os
import pickle
import select
import signal
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from .disk.recorded import Recorder
from .users.outcome import CRASHED, HUNG, Outcome

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from .draw import Draw

__all__ = ["KILLED", "stops", "together"]

KILLED = "killed"
_END = object()
_STOPPED, _DONE = b"s", b"d"
#: How long all of them may take, s; only to report a hang.
_TIME_LIMIT = 120
#: How often the kernel is asked whether a process sleeps, s, and how often it must say so.
_LOOK, _LOOKS = 0.02, 5


class _Numbers(dict[int, int]):
    """The numbers of files; one that another process has made gets its own when it is met."""

    def __missing__(self, inode: int) -> int:
        """Number a file that was not there."""
        self[inode] = number = -1 - len(self)
        return number


class _Stops(Recorder):
    """Stops before each call, while others change the same folder."""

    def __init__(self, root: str, before: Callable[[Any], object], *, reads: bool) -> None:
        super().__init__(root, before, reads=reads)
        self._numbers = _Numbers()

    def __enter__(self) -> Self:
        """Stop after a read, too: what follows may be read through a mapping, without a call."""
        super().__enter__()
        for name in ("pread", "preadv") if self._reads else ():
            self._patch(os, name, functools.partial(self._read, getattr(os, name)))
        return self

    def _read(self, read: Callable[..., Any], *arguments: Any) -> Any:
        data = read(*arguments)
        self.read("read", self.root)
        return data


class _Process:
    """One user in a process of its own, which stops before each call."""

    def __init__(
        self,
        root: str,
        work: Callable[[], Outcome],
        kill_at: int | None = None,
        *,
        reads: bool = True,
    ) -> None:
        self.kill_at = kill_at
        self.calls = 0
        self.is_stopped = False
        self.outcome: Outcome | None = None
        heard, told = os.pipe()
        waits, self._go = os.pipe()
        self.pid = os.fork()
        if not self.pid:
            os.close(heard)
            os.close(self._go)
            _run(root, work, told, waits, reads=reads)
        os.close(told)
        os.close(waits)
        self._heard = heard

    def go(self) -> None:
        """Let it make one call, or kill it before."""
        self.calls += 1
        self.is_stopped = False
        if self.kill_at is not None and self.calls >= self.kill_at:
            self.kill(KILLED)
        else:
            os.write(self._go, b"g")

    def kill(self, status: str) -> None:
        """End it at once."""
        os.kill(self.pid, signal.SIGKILL)
        self._end(Outcome("", "", {}, status))

    def wait(self) -> bool:
        """Wait until it stops or ends; tell whether it did, and does not sleep on a lock."""
        asleep = 0
        while not select.select([self._heard], [], [], _LOOK)[0]:
            asleep = asleep + 1 if _sleeps(self.pid) else 0
            if asleep >= _LOOKS:
                return False
        kind = os.read(self._heard, 1)
        if kind == _STOPPED:
            self.is_stopped = True
        elif kind == _DONE:
            with os.fdopen(os.dup(self._heard), "rb") as stream:
                self._end(pickle.loads(stream.read()))
        else:
            self._end(Outcome("", "", {}, CRASHED, text="the process ended"))
        return True

    def _end(self, outcome: Outcome) -> None:
        self.outcome = outcome
        os.waitpid(self.pid, 0)
        os.close(self._heard)
        os.close(self._go)


def _run(root: str, work: Callable[[], Outcome], told: int, waits: int, *, reads: bool) -> None:
    """Work in the new process, and stop before each call."""
    write, read = os.write, os.read

    def stop(_: Any) -> None:
        write(told, _STOPPED)
        if not read(waits, 1):
            os._exit(1)

    try:
        with _Stops(root, stop, reads=reads):
            outcome = work()
        data = pickle.dumps(outcome)
    except BaseException as error:  # noqa: BLE001  (the process ends here)
        data = pickle.dumps(
            Outcome("", "", {}, CRASHED, error=type(error).__name__, text=repr(error))
        )
    data = _DONE + data
    while data:
        data = data[write(told, data) :]
    os._exit(0)


def _sleeps(pid: int) -> bool:
    """Tell whether a process waits for something, by the kernel's account."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return False
    return fields[0] == "S"


def together(
    draw: Draw,
    root: str,
    works: Sequence[Callable[[], Outcome]],
    broker: Iterator[None],
    kills: dict[int, int],
) -> list[Outcome]:
    """Run users and a broker's step side by side, and return what came of each user.

    Args:
        draw: Who goes on, and how far.
        root: The store; calls elsewhere are not waited for.
        works: What the users do.
        broker: What the broker does; its steps are taken in this process.
        kills: Before which of its calls a user is killed, by its number.
    """
    sys.stdout.flush()
    deadline = time.monotonic() + _TIME_LIMIT
    processes = [_Process(root, work, kills.get(number)) for number, work in enumerate(works)]
    for process in processes:
        process.wait()
    is_broker_done = False
    while open_ := [one for one in processes if one.outcome is None]:
        ready: list[_Process | None] = [one for one in open_ if one.is_stopped]
        ready += [] if is_broker_done else [None]
        if ready:
            chosen = draw.one(ready)
            steps = draw.skewed(1, 40)
            if chosen is None:
                is_broker_done = any(next(broker, _END) is _END for _ in range(steps))
            else:
                _let_go(chosen, steps)
        elif not _are_heard(open_) and time.monotonic() > deadline:
            for one in open_:
                one.kill(HUNG)
            break
        _are_heard([one for one in open_ if one.outcome is None and not one.is_stopped])
    for _ in broker:
        pass
    return [one.outcome for one in processes if one.outcome is not None]


def stops(root: str, work: Callable[[], Outcome]) -> Iterator[int]:
    """Let one who writes stand still before each call that changes the folder.

    Args:
        root: The folder; calls elsewhere are not stopped.
        work: The write.

    Yields:
        The number of the call, from 1; it is made when the next is asked for.

    Raises:
        AssertionError: The write was refused, failed, or does not end.
    """
    deadline = time.monotonic() + _TIME_LIMIT
    process = _Process(root, work, reads=False)
    try:
        while True:
            while not process.wait():
                assert time.monotonic() < deadline, f"still runs after {_TIME_LIMIT} s"
            if process.outcome is not None:
                break
            yield process.calls + 1
            process.go()
        assert process.outcome.is_answer, process.outcome.text
    finally:
        if process.outcome is None:
            process.kill(KILLED)


def _let_go(process: _Process, steps: int) -> None:
    """Let a process make some calls, or until it ends or sleeps."""
    for _ in range(steps):
        process.go()
        if process.outcome is not None or not process.wait() or process.outcome is not None:
            break


def _are_heard(processes: Sequence[_Process]) -> bool:
    """Wait for each process; tell whether any of them went on."""
    return sum(one.wait() for one in processes) > 0
