"""The lines of one key in a store that stays open, beside the broker's own classes."""

from __future__ import annotations

import shutil
import time
from functools import partial
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from benchmarks._broker import start_broker
from benchmarks._data import TOPIC, key_strings
from benchmarks._log_data import make_store
from benchmarks._rounds import Comparison, Goal, interleaved
from rmqindex import Layout, MessageStore, rebuild_index

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from benchmarks._context import Context

__all__ = ["warm"]

_NANOS = 1e9
_MAX_NUM = 64
_TIMES = 20
_MESSAGE_SIZE = 200
_MESSAGES, _UNINDEXED = 1 << 14, 140_000
# Two entries a message, in five files.
_LAYOUT = Layout(1_640, 6_560)
_OURS = "MessageStore.lookup"


class _Case(NamedTuple):
    """A store, the key that is looked up in it, and what that may cost."""

    work: str
    root: Path
    layout: Layout
    goal: Goal
    messages: int = 0


def warm(context: Context) -> Iterator[Comparison]:
    """Look one key up in stores that are open: ours in CPU of the process, theirs in time."""
    broker = start_broker(context.work.parent)
    for case in _cases(context):
        store = MessageStore(case.root)
        file_size = case.messages * _MESSAGE_SIZE or 1 << 20
        layout = (case.layout.hash_slot_num, case.layout.index_num)
        # A store that loads may index what is not indexed: the broker's is a copy.
        copy = _copy(case) if case.messages else case.root
        loaded = broker.load(str(copy), file_size, *layout)
        contenders = {_OURS: partial(_ours, store)}
        contenders["IndexService.queryOffset"] = partial(_theirs, broker.queryOffset, loaded)
        if case.messages:
            theirs = partial(_theirs, broker.queryMessage, loaded)
            contenders["DefaultMessageStore.queryMessage"] = theirs
        hits = store.lookup(TOPIC, _key()).num_rows
        times = interleaved(
            {name: partial(run, hits) for name, run in contenders.items()}, context.sizes.rounds
        )
        ours = median(times.pop(_OURS))
        for name, seconds in times.items():
            work = f"MessageStore.lookup of a key, {case.work}, warm"
            yield Comparison(work, name, 1000 * ours, case.goal, ours, median(seconds))


def _copy(case: _Case) -> Path:
    target = case.root.with_suffix(".theirs")
    shutil.rmtree(target, ignore_errors=True)
    return Path(shutil.copytree(case.root, target))


def _key() -> str:
    """Return the unique key of a message that is in each of the stores."""
    return str(key_strings(np.array([7], np.uint64))[0])


def _ours(store: MessageStore, hits: int) -> float:
    """Return the mean CPU seconds of a lookup."""
    start = time.process_time()
    for _ in range(_TIMES):
        assert store.lookup(TOPIC, _key()).num_rows == hits
    return (time.process_time() - start) / _TIMES


def _theirs(query: Callable[..., Any], loaded: object, hits: int) -> float:
    """Return the mean seconds of a query; no more than the most messages are answered."""
    nanos, found = query(loaded, TOPIC, _key(), _MAX_NUM, _TIMES)
    assert found == _TIMES * min(hits, _MAX_NUM), f"{found / _TIMES} hits, not {hits}"
    return nanos / _NANOS / _TIMES


def _cases(context: Context) -> Iterator[_Case]:
    few = Goal(3, at_least=False, unit="ms of CPU")
    root = _store(context.work / "warm", _MESSAGES)
    yield _Case("5 files", root, _LAYOUT, few, _MESSAGES)
    messages = _MESSAGES + _UNINDEXED
    root = _store(context.work / "warm-ahead", messages)
    work = f"5 files and {_UNINDEXED:,} unindexed messages"
    yield _Case(work, root, _LAYOUT, few, messages)
    files, root = context.sizes.growth_files[-1], context.work / "warm-files"
    context.many_files(root / "index", files)
    many = Goal(100, at_least=False, unit="ms of CPU")
    yield _Case(f"{files:,} full files", root, context.sizes.layout, many)
    shutil.rmtree(root)


def _store(path: Path, messages: int) -> Path:
    """Make a store of which the first messages alone are indexed."""
    if not path.exists():
        part = make_store(path.with_suffix(".all"), messages, _MESSAGE_SIZE)
        shutil.rmtree(part / "index")
        rebuild_index(part, part / "index", _LAYOUT, stop=_MESSAGES * _MESSAGE_SIZE)
        part.rename(path)
    return path
