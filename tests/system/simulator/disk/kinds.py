"""Every kind of write, what readers find of it, and what must hold after a power cut."""

from __future__ import annotations

import contextlib
import io
import os
import shutil
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rmqindex.consumequeue import QueueStaging

from tests.system.faults import writes
from tests.system.faults.readers import QUICK, QUICK_OF_QUEUES, answer
from tests.system.faults.states import errors_in, seen, tree

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["KINDS", "Kind", "refused"]

#: What a reader finds that refuses.
refused = "refused"


@dataclass(frozen=True)
class Kind:
    """A kind of write.

    Attributes:
        name: What it is called.
        prepare: Makes what is there before, in an empty folder.
        run: The write, given the folder and, with stages, how far it goes; again it is harmless,
            and ends in the same state.
        stages: How far it goes at a time; what was written up to each must last once the call
            for it has returned.
        readers: What each reader finds in a folder: ``refused``, or anything that can be compared.
        in_place: Whether any beginning of the rows may be found.
        check: Raises where something is wrong that readers do not see, in a state and at the end.
        loose: The folders in which the names at the end depend on when they were given.
    """

    name: str
    prepare: Callable[[Path], None]
    run: Callable[..., None]
    stages: tuple[Any, ...] = ()
    readers: dict[str, Callable[[Path], Any]] = field(default_factory=dict)
    in_place: bool = False
    check: Callable[[Path], None] = lambda _: None
    loose: tuple[str, ...] = ("store/index",)


def _index_readers(index: str) -> dict[str, Callable[[Path], Any]]:
    readers: dict[str, Callable[[Path], Any]] = {"entries": partial(_entries, index)}
    for name, read in QUICK.items():
        readers[name] = partial(_answer, read, index)
    return readers


def _entries(index, folder):
    return answer(seen, folder / index) or refused if (folder / index).exists() else ()


def _answer(read, index, folder):
    found = answer(read, folder / index)
    return refused if found is None else found


def _sound(index, folder):
    errors = errors_in(folder / index) if (folder / index).exists() else []
    assert not errors, f"the audit finds {errors[0]}"


def _queue_state(folder):
    with QueueStaging(folder / "store"):
        pass  # which first goes back to what was there
    return tree(folder / "store", "consumequeue", "batchconsumequeue")


def _of_index(write):
    return Kind(
        write.name,
        write.prepare,
        write.run,
        write.stages,
        _index_readers(write.index),
        in_place=write.in_place,
        check=partial(_sound, write.index),
    )


def _of_queues(write):
    readers = {name: partial(_answer, read, "store") for name, read in QUICK_OF_QUEUES.items()}
    return Kind(
        write.name,
        write.prepare,
        write.run,
        readers={**readers, "files": _queue_state},
        loose=(),
    )


def in_this_process() -> None:
    """Have tasks run here, one after the other, where their calls are heard."""
    writes.in_tasks = lambda tasks: [task() for task in tasks]


@contextlib.contextmanager
def silent():
    """Keep what commands print; yields it."""
    text = io.StringIO()
    with contextlib.redirect_stdout(text), contextlib.redirect_stderr(text):
        yield text


KINDS = tuple(
    _of_queues(write) if write.queues else _of_index(write)
    for write in (*writes.WRITES, *writes.RECOVERIES)
)
