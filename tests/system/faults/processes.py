"""Processes that are killed at a moment, or stopped: the driver of a write, its tasks, or all."""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import pickle
import signal
import sys
import time
from pathlib import Path
from typing import NamedTuple

from .steps import Steps

_MOST_FAILURES = 4
_LONGEST = 120
_POLL_SECONDS = 0.0005

WHO = ("driver and tasks", "driver", "task")


class Outcome(NamedTuple):
    """What became of a process.

    Attributes:
        killed: Whether it, or its task, was there to be killed.
        exitcode: As ``multiprocessing`` gives it.
        seconds: From its start to its end or kill.
        steps: How many calls of it changed files; 0 where it was killed.
        error: What it wrote to its standard error.
    """

    killed: bool
    exitcode: int
    seconds: float
    steps: int
    error: str


class Moment(NamedTuple):
    """When a process is killed, and what of it.

    Attributes:
        who: One of ``WHO``; only a process that is there is killed.
        seconds: From its beginning; None where it is a step.
        step: Before which of the calls that change files, from 1; never for a task alone.
    """

    who: str
    seconds: float | None = None
    step: int | None = None


def run(function, *arguments, log, moment=None):
    """Run a function in a process of its own, and kill it, or a part of it, at a moment.

    Args:
        function: What another process can import.
        *arguments: Its arguments.
        log: A file for what it prints.
        moment: When; None for not at all.
    """
    process, told = _started(_main, log, moment, function, *arguments)
    start = time.monotonic()
    killed = False
    if moment is not None and moment.seconds is not None:
        killed = _kill_at(process, start + moment.seconds, moment.who)
    process.join(timeout=_LONGEST)
    assert process.exitcode is not None, f"{function}: still runs after {_LONGEST} s"
    seconds = time.monotonic() - start
    steps = _heard(told) if told.poll() else None
    if moment is not None and moment.step is not None:
        killed = process.exitcode == -signal.SIGKILL
    if killed and moment.who == "driver":
        # Its tasks go on for a moment without it, as they would on other hosts.
        time.sleep(_POLL_SECONDS * 4)
        _kill(process.pid, "driver and tasks")
    error = Path(log).read_text(errors="replace")
    return Outcome(killed, process.exitcode, seconds, steps or 0, error)


def stops(function, *arguments, log):
    """Run a function in a process of its own that stops before each of its steps.

    Yields:
        The number of the step, while the process stands still; it goes on when the next is asked
        for.

    Raises:
        AssertionError: The function failed, or neither stopped nor ended.
    """
    process, _ = _started(_main_with_stops, log, function, *arguments)
    try:
        step = 0
        while _is_stopped(process):
            step += 1
            yield step
            os.kill(process.pid, signal.SIGCONT)
        process.join()
        assert not process.exitcode, Path(log).read_text(errors="replace")[-2000:]
    finally:
        if process.exitcode is None:
            _kill(process.pid, "driver and tasks")
            process.join()


def _started(main, log, *arguments):
    """Start a process; return it, and where it is heard, once its function is about to begin."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload([__name__.replace("processes", "writes")])
    told, tell = context.Pipe(duplex=False)
    process = context.Process(target=main, args=(tell, log, *arguments))
    process.start()
    tell.close()
    _heard(told)
    return process, told


def _is_stopped(process):
    """Wait until a process has stopped, or ended; say whether it has stopped."""
    until = time.monotonic() + _LONGEST
    stat = Path(f"/proc/{process.pid}/stat")
    while process.is_alive():
        with contextlib.suppress(OSError):  # it has just ended
            if stat.read_text().rpartition(")")[2].split()[0] == "T":
                return True
        assert time.monotonic() < until, f"still runs after {_LONGEST} s"
        time.sleep(_POLL_SECONDS)
    return False


def _heard(connection):
    """Return what a process says, or None if it died first."""
    try:
        return connection.recv()
    except EOFError:
        return None


def _kill_at(process, until, who):
    """Kill a process when its time has come; a task as soon as there is one."""
    while process.is_alive():
        left = until - time.monotonic()
        if left > 0:
            time.sleep(min(left, _POLL_SECONDS))
            continue
        killed = _kill(process.pid, who)
        if killed or who != "task":
            return killed
    return False


def _kill(pid, who):
    if who == "driver and tasks":
        return _sent(os.killpg, pid)
    if who == "driver":
        return _sent(os.kill, pid)
    try:
        children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    except OSError:
        return False
    return any(_sent(os.kill, int(child)) for child in children[:1])


def _sent(kill, pid):
    try:
        kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        return False
    return True


def _main(tell, log, moment, function, *arguments):
    def before(step):
        if moment is not None and step == moment.step:
            _kill(os.getpid(), moment.who)

    steps = _begin(tell, log, before)
    function(*arguments)
    tell.send(steps.count)


def _main_with_stops(tell, log, function, *arguments):
    _begin(tell, log, lambda _: os.kill(os.getpid(), signal.SIGSTOP))
    function(*arguments)


def _begin(tell, log, before):
    os.setpgid(0, 0)
    output = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    os.dup2(output, 1)
    os.dup2(output, 2)
    tell.send(None)
    return Steps(before)


def in_tasks(functions):
    """Run functions in processes of their own, and those that die again, as Spark does.

    Returns:
        What they returned, in their order.
    """
    return [_in_task(function) for function in functions]


def _in_task(function):
    for _ in range(_MOST_FAILURES):
        reader, writer = os.pipe()
        pid = os.fork()
        if not pid:
            _answer(function, writer)
        os.close(writer)
        with os.fdopen(reader, "rb") as answer:
            data = answer.read()
        os.waitpid(pid, 0)
        if data:
            value = pickle.loads(data)
            if isinstance(value, BaseException):
                raise value
            return value
    raise RuntimeError(f"a task died {_MOST_FAILURES} times")


def _answer(function, writer):
    try:
        try:
            data = pickle.dumps(function())
        except BaseException as error:  # noqa: BLE001  (the driver raises it)
            data = pickle.dumps(error)
        with os.fdopen(writer, "wb") as answer:
            answer.write(data)
    finally:
        sys.stderr.flush()
        os._exit(0)
