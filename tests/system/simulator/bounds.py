"""How much of the machine a user may take for one answer: processor time, and memory.

The stores of the simulator are small, so that what takes more is a loop without an end, or reads a
size that some damaged byte says. Both are outcomes like others, and end neither a seed nor a
campaign. Time is the processor's, so that no fault comes of other work on the machine.
"""

from __future__ import annotations

import contextlib
import resource
import signal
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .users.outcome import CRASHED, HUNG, Outcome

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

__all__ = ["CPU_SECONDS", "MEMORY_BYTES", "bounded"]

#: Of all threads together.
CPU_SECONDS = 60
#: Without any processor time, as behind a lock that nobody gives back.
_ASLEEP_SECONDS = 600
#: The growth of what is resident; a scan of a real store may take more.
MEMORY_BYTES = 256 << 20
#: Of addresses, beyond which an allocation fails: so much is never resident before it is noticed.
_MOST_ADDRESSES = 8 << 30
_STATUS = Path("/proc/self/status")
_REFS = Path("/proc/self/clear_refs")
_RESET_PEAK = "5"


class _HungError(BaseException):
    pass


def bounded(work: Callable[[], Outcome], user: str, asked: dict[str, Any]) -> Outcome:
    """Return what comes of asking a user; a hang and too much memory come out as such.

    Args:
        work: Asks.
        user: Who is asked.
        asked: The question.
    """
    _REFS.write_text(_RESET_PEAK)
    before = _kibibytes("VmRSS")
    try:
        with _limited():
            outcome = work()
    except _HungError:
        text = f"no answer in {CPU_SECONDS} s of the processor, or {_ASLEEP_SECONDS} s of the clock"
        return Outcome(user, "", asked, HUNG, error="hang", text=text)
    grown = _kibibytes("VmHWM") - before << 10
    if grown > MEMORY_BYTES:
        outcome.status, outcome.error = CRASHED, "memory"
        outcome.text = f"took {grown >> 20} MiB, expected at most {MEMORY_BYTES >> 20}"
    return outcome


@contextlib.contextmanager
def _limited() -> Iterator[None]:
    def hung(*_: Any) -> None:
        raise _HungError

    limits = {signal.SIGPROF: signal.ITIMER_PROF, signal.SIGALRM: signal.ITIMER_REAL}
    before = {number: signal.signal(number, hung) for number in limits}
    addresses = resource.getrlimit(resource.RLIMIT_AS)
    most = (_kibibytes("VmSize") << 10) + _MOST_ADDRESSES
    if addresses[1] != resource.RLIM_INFINITY:
        most = min(most, addresses[1])
    resource.setrlimit(resource.RLIMIT_AS, (most, addresses[1]))
    signal.setitimer(signal.ITIMER_PROF, CPU_SECONDS)
    signal.setitimer(signal.ITIMER_REAL, _ASLEEP_SECONDS)
    try:
        yield
    finally:
        for number, timer in limits.items():
            signal.setitimer(timer, 0)
            signal.signal(number, before[number])
        resource.setrlimit(resource.RLIMIT_AS, addresses)


def _kibibytes(name: str) -> int:
    """Return a number of this process's status."""
    for line in _STATUS.read_text().splitlines():
        if line.startswith(f"{name}:"):
            return int(line.split()[1])
    raise AssertionError(f"{_STATUS}: expected {name}")
