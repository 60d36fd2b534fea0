"""Gone with Spark 5.0: plans that cover each other, and the state of a relation that widens them.

Spark 4.1 to 4.3 keep one plan for all scans of a relation, so that a scan may run with the plan of
another.
So each plan of a ``table()`` must also cover the rows of every earlier one.
Planning processes are short-lived; therefore the earlier queries are kept in a file, one for each
relation, which is created when ``load()`` creates the data source.

If two threads plan one relation at once, Spark stores their plans in any order, and the narrower
one may end up being used for both.
So each plan has a generation number.
The first task that runs with a plan leaves a mark, which proves that Spark has stored the plan.
If a wider plan is made before that mark exists, the older plan is marked as doubtful: it may be
run by a scan that wants more.
A task that finds its own plan doubtful searches for what all plannings until now have asked for,
and raises if its files do not suffice for that.
Tasks on other hosts do not see the marks; so on a cluster a planning is refused while another one
of the relation is under way.
No clock decides.

To delete it: this module and :mod:`.plan_leak_reader`, ``plans_each_scan`` and its callers, the
filter and the option ``relation`` of ``table()``, ``Calls.for_pair_limit`` and ``Wanted.widen``.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import time
import uuid
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from pyspark_rmqindex.log_lines import log_warning
from pyspark_rmqindex.options import wants_plan, wants_pushdown
from pyspark_rmqindex.read.filters import MAX_PAIRS
from pyspark_rmqindex.read.plan_log import state_directory
from pyspark_rmqindex.read.refusals import Calls
from pyspark_rmqindex.spark_version import plans_each_scan
from rmqindex import RmqIndexError
from rmqindex.messagestore import Wanted  # noqa: TC001  (read by from_json)
from rmqindex.storage import RecordKind, from_json, to_json, write_own

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from pyspark_rmqindex.options import ReadOptions

# Always true, and pushable: it makes Spark plan every scan anew instead of reusing an older plan.
BUILT_IN_FILTER = "position >= 1"

_LOCK_WAIT_SECONDS = 600.0
_POLL_SECONDS = 0.005

_MISSING = (
    "the record of this table()'s earlier queries is not at {path}: {error}. Without it, answers "
    "could be incomplete; make a fresh table()"
)
_CLUSTER = "cluster-"
_AT_ONCE = (
    "table(): two of its queries were planned at the same time, so that Spark may have given one "
    "the plan of the other; run the query again, and use one table() or view for each thread"
)
_DOUBTFUL = (
    "table(): this DataFrame was planned and not run before another query of the same table() "
    "asked for more, in other files or at other times, so that Spark may have given it either "
    "plan. Write its query anew, as messages.where(..) or by spark.sql(..), or make a fresh "
    "table(); use one table() or view for each thread"
)


@dataclass(frozen=True, slots=True)
class PlanId:
    """Identifies a plan of a relation, for its tasks."""

    generation: int
    # What the plan's files were chosen by, without keys; None if it has no files.
    ranges: Wanted | None
    listing: str  # Tells the files that were found from others


@dataclass(frozen=True, slots=True)
class _Kept:
    """The content of a relation's file."""

    wanted: Wanted | None
    generation: int
    listing: str = ""

    def __post_init__(self) -> None:
        if self.generation < 0:
            raise ValueError(f"generation: expected 0 or more, got {self.generation}")


# Room for the most pairs allowed, with keys of the greatest length.
_STATE = RecordKind(
    "the queries of a table()",
    lambda fields: from_json(_Kept, fields.values),
    "make a fresh table()",
    limit=1 << 28,
)


def relation_name(master: str) -> str:
    """Return a name for a new relation, which says whether its tasks may run on other hosts."""
    return ("" if master.startswith("local") else _CLUSTER) + uuid.uuid4().hex


def is_on_cluster(options: Mapping[str, str]) -> bool:
    """Return whether the tasks of a relation may run on other hosts than the one that plans."""
    return options.get("relation", "").startswith(_CLUSTER)


def new_relation_state(options: Mapping[str, str]) -> str | None:
    """Create the state of a new ``table()`` where Spark keeps one plan for all its scans."""
    if plans_each_scan() or not (wants_pushdown(options) and is_of_table(options)):
        return None
    return None if wants_plan(options) else create_state()


def create_state() -> str:
    """Create the state file of a new relation."""
    path = state_directory() / f"relation-{uuid.uuid4().hex}.json"
    write_own(path, json.dumps(to_json(_Kept(None, 0))).encode(), sync=False)
    return str(path)


def drop_state(path: str | None) -> None:
    """Delete the state of a relation whose engine plans each scan by itself, as Sail does.

    Only that it asks for a schema of Arrow tells it from Spark, and comes after the state.
    """
    if path is not None:
        with contextlib.suppress(OSError):  # a small file that nothing reads
            Path(path).unlink(missing_ok=True)


class RelationState:
    """The state of one relation, valid while its lock is held."""

    def __init__(self, wanted: Wanted | None, generation: int, listing: str) -> None:
        """Start from what earlier plannings left."""
        self.wanted = wanted
        self.generation = generation
        self.listing = listing

    def widen(self, wanted: Wanted, calls: Calls | None = None) -> Wanted:
        """Return what this planning and all earlier ones want; saved if the planning succeeds."""
        widened = wanted if self.wanted is None else self.wanted.widen(wanted)
        if widened.pairs is not None and len(widened.pairs) > MAX_PAIRS:
            calls = calls or Calls()
            raise ValueError(calls.for_pair_limit(len(widened.pairs), MAX_PAIRS))
        if widened.key_hashes is not None and len(widened.key_hashes) > MAX_PAIRS:
            # Reading everything is also correct, only slower.
            widened = replace(widened, pairs=None, key_hashes=None)
        if widened != self.wanted:
            self.generation += 1
            self.wanted = widened
        return widened

    def plan_of(self, listing: str) -> PlanId:
        """Return what identifies the plan of this planning, for its tasks."""
        wanted = self.wanted
        assert wanted is not None  # widen() was called
        self.listing = listing
        ranges = None
        if frozenset() not in (wanted.pairs, wanted.key_hashes) and not wanted.phy_offset.is_empty:
            ranges = replace(wanted, pairs=None, key_hashes=None)
        return PlanId(self.generation, ranges, listing)


@contextlib.contextmanager
def locked_state(path: str, *, waits: bool = True) -> Iterator[RelationState]:
    """Lock the state of a relation for one planning.

    A widened state is written when the block ends, but not if it raises, so that a failed query
    is not recorded.
    """
    with _opened(path) as descriptor:
        _lock(descriptor, path, fcntl.LOCK_EX, waits=waits)
        record, size = _read(descriptor, path)
        state = RelationState(record.wanted, record.generation, record.listing)
        yield state
        fresh = json.dumps(to_json(_Kept(state.wanted, state.generation, state.listing))).encode()
        doubtful = _mark(path, record.generation, "doubtful")
        is_wider = 0 < record.generation < state.generation
        try:
            if is_wider and not _mark(path, record.generation, "seen").exists():
                doubtful.touch()
            _overwrite(descriptor, fresh, size)
        except OSError as error:
            doubtful.unlink(missing_ok=True)
            raise ValueError(
                f"the record of this table()'s queries cannot be written to {path}: "
                f"{error.strerror}; make room there, or name another place with spark.local.dir"
            ) from error


@contextlib.contextmanager
def _opened(path: str) -> Iterator[int]:
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_CLOEXEC)
    except OSError as error:
        raise ValueError(_MISSING.format(path=path, error=error.strerror)) from error
    try:
        yield descriptor
    finally:
        os.close(descriptor)  # this releases its lock


def _read(descriptor: int, path: str) -> tuple[_Kept, int]:
    size = min(os.fstat(descriptor).st_size, _STATE.limit + 1)
    text = os.pread(descriptor, size, 0)
    try:
        return _STATE.parse(path, text), len(text)
    except RmqIndexError as error:
        raise ValueError(_MISSING.format(path=path, error="damaged")) from error


def _lock(descriptor: int, path: str, kind: int, *, waits: bool = True) -> None:
    """Take the lock; another planning of the relation may hold it while it reads headers."""
    deadline = time.monotonic() + _LOCK_WAIT_SECONDS
    while True:
        try:
            fcntl.flock(descriptor, kind | fcntl.LOCK_NB)
        except BlockingIOError as error:
            if not waits:
                raise ValueError(_AT_ONCE) from error
            if time.monotonic() > deadline:
                raise ValueError(
                    f"table(): another query of it has been planning for ten minutes, and holds "
                    f"the lock of {path}; end that query, or make a fresh table()"
                ) from error
        else:
            return
        time.sleep(_POLL_SECONDS)


def _overwrite(descriptor: int, data: bytes, size: int) -> None:
    """Replace the content of a file; if the disk is full, it stays unchanged."""
    try:
        os.posix_fallocate(descriptor, 0, len(data))  # noqa: TID251  (the caller names the file)
    except OSError:
        os.ftruncate(descriptor, size)  # noqa: TID251  (the caller names the file)
        raise
    os.pwrite(descriptor, data, 0)  # noqa: TID251  (the caller names the file)
    os.ftruncate(descriptor, len(data))  # noqa: TID251  (the caller names the file)


def wanted_by_all(path: str, plan: PlanId) -> Wanted | None:
    """Return what a task must search for, where its plan may be run by a scan that wants more."""
    if not Path(path).exists():
        return None  # not on the host that plans
    # Leave the mark before checking; a planning does the two in the opposite order, so that one of
    # them always notices the other.
    with contextlib.suppress(OSError):  # without the mark, the next planning is more careful
        _mark(path, plan.generation, "seen").touch()
    if not _mark(path, plan.generation, "doubtful").exists():
        return None
    with _opened(path) as descriptor:
        _lock(descriptor, path, fcntl.LOCK_SH)
        record, _ = _read(descriptor, path)
    wanted, ranges = record.wanted, plan.ranges
    if (
        wanted is None
        or ranges is None
        or record.listing != plan.listing
        or (wanted.time, wanted.position, wanted.stores)
        != (ranges.time, ranges.position, ranges.stores)
    ):
        raise ValueError(_DOUBTFUL)
    return wanted


def _mark(path: str, generation: int, word: str) -> Path:
    return Path(f"{path}.{generation}.{word}")


def is_of_table(given: Mapping[str, str]) -> bool:
    """Return whether ``table()`` made a relation, which then has a filter that is always pushed."""
    return "relation" in {name.lower() for name in given}


def without_pushdown(options: ReadOptions, raw: Mapping[str, str]) -> ReadOptions:
    """Return the options of a scan that gives the rows of a relation with pushdown.

    Spark 4.1 to 4.3 run a scan that pushes no filter with the plan of another scan of the relation,
    and tell nobody. Only ``table()`` makes sure that every scan pushes one; so the plan of any
    other relation has all rows.
    """
    if options.key_columns and options.commit_log is None:
        raise ValueError(
            "option 'pushdown': expected a CommitLog, or pyspark_rmqindex.table(), got "
            "commitLog=none: on Spark 4.1 to 4.3 only table() can push WHERE down, so this "
            "relation is scanned, and an IndexFile stores no texts. Write "
            "pyspark_rmqindex.table(spark, path).createOrReplaceTempView('messages'), or give the "
            "options topic and keys"
        )
    log_warning(
        "option 'pushdown': without effect here, so that all entries are read; on Spark 4.1 to 4.3 "
        "only pyspark_rmqindex.table() pushes WHERE down, and its createOrReplaceTempView() makes "
        "a view of it; the options topic and keys look keys up in SQL alone"
    )
    unverified = options.unverified if "unverified" in raw else "error"
    return replace(
        options,
        pushdown=False,
        key_columns=True,
        log=options.commit_log,
        unverified=unverified if options.key_columns else "keep",
    )
