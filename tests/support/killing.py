"""Processes that die, or stop, before any of the steps with which they change files."""

from __future__ import annotations

import contextlib
import itertools
import multiprocessing
import os
import signal
from pathlib import Path
from typing import TYPE_CHECKING, Any
from unittest import mock

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from multiprocessing.context import ForkServerContext

# Not fsync: a killed process loses nothing that it wrote.
_STEPS = ("replace", "rename", "link", "unlink", "rmdir", "mkdir", "ftruncate", "pwrite", "open")
_PRELOADED = [
    "hypothesis.strategies",
    "pandas",  # PyArrow imports it to make an array of a list
    "pytest",
    "pyspark_rmqindex.stream.writer",
    "pyspark_rmqindex.write.job",
    "rmqindex.indexwriter.writer",
    "rmqindex.bulk.rebuild",
    "rmqindex.transaction.local_staging",
]
_OPENED_TO_WRITE = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC


class DeadError(BaseException):
    """The process is no more."""


def _heard(act: Callable[[str, Any], object]) -> dict[str, Callable[..., Any]]:
    """Return the calls that change files, before each of which a function is called.

    Args:
        act: Takes the call's name, and its file: a path or a descriptor.
    """

    def heard(name: str, function: Callable[..., Any]) -> Callable[..., Any]:
        def call(*arguments: Any, **options: Any) -> Any:
            # What is opened to be read changes nothing.
            if name != "open" or arguments[1] & _OPENED_TO_WRITE:
                act(name, arguments[0])
            return function(*arguments, **options)

        return call

    return {name: heard(name, getattr(os, name)) for name in _STEPS}


def before_each_step(act: Callable[[int], object]) -> None:
    """Call a function before each call of this process that changes files, with its number."""
    numbers = itertools.count(1)
    for name, call in _heard(lambda *_: act(next(numbers))).items():
        setattr(os, name, call)


def _with_path(act: Callable[[str, Path], object]) -> Callable[[str, Any], None]:
    """Return a function that tells another one the path of a call's file."""

    def told(name: str, file: Any) -> None:
        is_descriptor = isinstance(file, int)
        path = Path(f"/proc/self/fd/{file}").readlink() if is_descriptor else os.fsdecode(file)
        act(name, Path(path))

    return told


@contextlib.contextmanager
def before_each_change(act: Callable[[str, Path], object]) -> Iterator[None]:
    """Call a function before each call of the block that changes files.

    Args:
        act: Takes the call's name, and the path of its file: of two, the first.
    """
    with mock.patch.multiple(os, **_heard(_with_path(act))):
        yield


def kill_when(is_fatal: Callable[[str, Path], bool]) -> None:
    """Have this process killed just before a call that changes files, by its name and file."""

    def die(name: str, path: Path) -> None:
        if is_fatal(name, path):
            os.kill(os.getpid(), signal.SIGKILL)

    for name, call in _heard(_with_path(die)).items():
        setattr(os, name, call)


def script_environment() -> dict[str, str]:
    """Return the environment of a script that imports what is beside this module."""
    return {**os.environ, "PYTHONPATH": str(Path(__file__).parent)}


@contextlib.contextmanager
def dies_before(is_fatal: Callable[[str, Path], bool]) -> Iterator[None]:
    """Have the block end as if its process died: from a call on it changes no file any more.

    Args:
        is_fatal: Tells of a call's name and its file whether it is the one.
    """
    is_dead = False

    def check(name: str, path: Path) -> None:
        nonlocal is_dead
        is_dead = is_dead or is_fatal(name, path)
        if is_dead:
            raise DeadError

    with pytest.raises(DeadError), before_each_change(check):
        yield


def kill_before(fatal: int) -> None:
    """Have this process killed just before its n-th call that changes files."""

    def die(number: int) -> None:
        if number == fatal:
            os.kill(os.getpid(), signal.SIGKILL)

    before_each_step(die)


def fork_server() -> ForkServerContext:
    """Return how to start processes that have already imported what the tests need.

    The server is one for all tests of a process, and so is what it imports: a list that a test
    would give counts only if the test is the first.
    """
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(_PRELOADED)
    return context


def lives(function: Callable[..., object], *arguments: object) -> bool:
    """Run a function in a process of its own; return whether it lived to its end."""
    process = fork_server().Process(target=function, args=arguments)
    process.start()
    process.join(timeout=120)
    assert process.exitcode in (0, -signal.SIGKILL)
    return process.exitcode == 0


def assert_one_turn(seen_as_new: list[bool], *, more_than: int) -> None:
    """Assert that killed processes left the old state up to some step, and the new one from there.

    Args:
        seen_as_new: Whether readers saw the new state, by the step before which each was killed.
        more_than: How many steps there are at least, without the last.
    """
    assert seen_as_new == sorted(seen_as_new), "once the new state is seen it stays"
    assert not seen_as_new[0]
    assert seen_as_new[-1]
    assert len(seen_as_new) > more_than
