"""Processes that die, or stop, before any of the steps with which they change files."""

from __future__ import annotations

import itertools
import multiprocessing
import os
import signal
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable
    from multiprocessing.context import ForkServerContext

# Not fsync: a killed process loses nothing that it wrote.
_STEPS = ("replace", "rename", "link", "unlink", "rmdir", "mkdir", "ftruncate", "pwrite", "open")
_PRELOADED = [
    "hypothesis.strategies",
    "pandas",  # PyArrow imports it to make an array of a list
    "pytest",
    "pyspark_rmqindex.stream.writer",
    "pyspark_rmqindex.write.writer",
    "rmqindex.indexwriter.append_in_place",
    "rmqindex.bulk.rebuild",
    "rmqindex.transaction.local_staging",
]
_OPENED_TO_WRITE = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC


def before_each_step(act: Callable[[int], object]) -> None:
    """Call a function before each call of this process that changes files, with its number."""
    numbers = itertools.count(1)

    def heard(name: str, function: Callable[..., Any]) -> Callable[..., Any]:
        def call(*arguments: Any, **options: Any) -> Any:
            # What is opened to be read changes nothing.
            if name != "open" or arguments[1] & _OPENED_TO_WRITE:
                act(next(numbers))
            return function(*arguments, **options)

        return call

    for name in _STEPS:
        setattr(os, name, heard(name, getattr(os, name)))


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
