"""The plan of a scan, for its log line and for ``last_plan()``.

EXPLAIN cannot show it, since every filter stays with Spark.
"""

from __future__ import annotations

import contextlib
import hashlib
import itertools
import json
import logging
import os
import stat
import time
from dataclasses import astuple, dataclass
from pathlib import Path
from tempfile import gettempdir
from typing import TYPE_CHECKING

from pyspark.sql.types import StringType, StructField

from pyspark_rmqindex.log_lines import log_warning, write_line
from pyspark_rmqindex.messages.reader import MessagePlan
from pyspark_rmqindex.schema import Columns
from rmqindex import RmqIndexError
from rmqindex.storage import RecordKind, from_json, to_json, write_own

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyspark.sql.types import StructType

    from rmqindex.storage import Fields

# Longer lists are cut in the log line.
_SHOWN = 3
# The option that asks for a plan, which does not count when relations are told apart by options;
# and the field and key of the answer.
_ASKING = "lastplan"
_METADATA = "plan"

_SPARK_DIRECTORIES = "SPARK_LOCAL_DIRS"
# How many plans a process saves until it deletes those that nobody asks for any more.
_TIDIED_EVERY = 256
_KEPT_SECONDS = 86_400
_records = itertools.count()


@dataclass(frozen=True, slots=True)
class ScanPlan:
    """The last plan of a relation.

    Attributes:
        pairs: The (topic, key) pairs that are looked up, including those of earlier queries on the
            same ``table()``; None if no keys are looked up.
        key_hashes: The key hashes that are looked up; None if none are.
        filters: What was pushed down, as text.
        files_kept: The number of files to read.
        files_total: The number of files in the paths.
        entries: The number of entries that a scan reads or a lookup searches.
        partitions: The number of tasks.
        lacking: What the indexes lack of their CommitLogs, so that entries may be missing from the
            answer; each is also logged as a warning.
    """

    pairs: tuple[tuple[str, str], ...] | None
    key_hashes: tuple[int, ...] | None
    filters: tuple[str, ...]
    files_kept: int
    files_total: int
    entries: int
    partitions: int
    lacking: tuple[str, ...] = ()

    def __str__(self) -> str:
        """Return the plan as one line."""
        if self.pairs is not None:
            what = f"looking up {_count_text(self.pairs, 'pair')}"
        elif self.key_hashes is not None:
            what = f"looking up {_count_text(self.key_hashes, 'key hash', 'key hashes')}"
        else:
            what = "scanning"
        rest = [text for text in self.filters if not _is_shown(text, self)]
        filters = f" where {' and '.join(rest)}" if rest else ""
        return (
            f"{what} in {self.files_kept} of {self.files_total} files ({self.entries} entries), "
            f"{self.partitions} partition{'' if self.partitions == 1 else 's'}{filters}"
        )

    # What a notebook shows.
    __repr__ = __str__


Plan = ScanPlan | MessagePlan


def _is_shown(filter_: str, plan: ScanPlan) -> bool:
    """Return whether a line can omit a filter: it is shown as a pair, or is always true."""
    column, _, rest = filter_.partition(" ")
    return (
        rest == "IS NOT NULL"
        or filter_ == "position >= 1"
        or (plan.pairs is not None and column in {"topic", "key"})
        or (plan.key_hashes is not None and column == "key_hash")
    )


def _count_text(values: tuple[object, ...], one: str, many: str = "") -> str:
    shown = ", ".join(str(value) for value in values[:_SHOWN])
    more = ", .." if len(values) > _SHOWN else ""
    return f"{len(values)} {one if len(values) == 1 else many or one + 's'} [{shown}{more}]"


def state_directory() -> Path:
    """Return the directory in which planning processes share state, and create it if missing.

    It is Spark's local directory, which Spark deletes with the application.
    If Spark names none, it is a directory that only this user may write to, in the temp directory.
    """
    first = os.environ.get(_SPARK_DIRECTORIES, "").split(",")[0]
    user = os.geteuid()
    directory = Path(first) / "rmqindex" if first else Path(gettempdir()) / f"rmqindex-{user}"
    directory.mkdir(mode=0o700, parents=True, exist_ok=True)
    status = directory.lstat()
    if not stat.S_ISDIR(status.st_mode) or status.st_uid != user or status.st_mode & 0o022:
        raise RmqIndexError(
            f"{directory}: expected a directory that only user {user} can write to, got "
            f"{stat.filemode(status.st_mode)} of user {status.st_uid}; remove it, or name another "
            "place with spark.local.dir"
        )
    return directory


def _record_path(options: Mapping[str, str]) -> Path:
    items = ((name.lower(), value) for name, value in options.items())
    identity = json.dumps(sorted(item for item in items if item[0] != _ASKING))
    digest = hashlib.sha256(identity.encode("utf-8", "surrogatepass")).hexdigest()
    return state_directory() / f"plan-{digest}.json"


def report_plan(options: Mapping[str, str], level: str | None, plan: Plan) -> None:
    """Log a plan, and save it for ``last_plan()``."""
    log_plan(plan, level)
    record_plan(options, plan)


def record_plan(options: Mapping[str, str], plan: Plan) -> None:
    """Save a plan for ``last_plan()``; do nothing if the disk is full or read-only."""
    with contextlib.suppress(OSError, RmqIndexError):
        path = _record_path(options)
        fresh = path.with_suffix(f".{os.getpid()}")
        write_own(fresh, json.dumps(to_json(plan)).encode(), sync=False)
        fresh.replace(path)
        # Spark's own directory goes with the application.
        if not os.environ.get(_SPARK_DIRECTORIES) and next(_records) % _TIDIED_EVERY == 0:
            _forget_old(path.parent)


def _forget_old(directory: Path) -> None:
    """Delete the plans of long ago, of which each ``table()`` leaves one."""
    oldest = time.time() - _KEPT_SECONDS
    for path in directory.glob("plan-*"):
        with contextlib.suppress(FileNotFoundError):  # another process deletes them as well
            if path.stat().st_mtime < oldest:
                path.unlink()


def plan_schema(options: Mapping[str, str]) -> StructType:
    """Return a schema that carries the last plan of a relation with these options, if any.

    A planning process can return nothing else to the driver without a job.
    """
    plan = None
    try:
        path = _record_path(options)
    except RmqIndexError:  # another user's directory, where no plan was written
        pass
    else:
        plan = _PLAN.read(path)
    metadata = {} if plan is None else {_METADATA: json.dumps(to_json(plan))}
    return Columns([StructField(_METADATA, StringType(), metadata=metadata)])


def plan_from_schema(schema: StructType) -> Plan | None:
    """Return the plan that :func:`plan_schema` put into a schema; None if there was none."""
    text = schema[_METADATA].metadata.get(_METADATA)
    if text is None:
        return None
    return _PLAN.parse("the schema of last_plan()", text.encode())


def _plan_of(fields: Fields) -> Plan:
    plan: Plan
    if "columns" in fields.values:
        plan = from_json(MessagePlan, fields.values)
    else:
        plan = from_json(ScanPlan, fields.values)
    if any(number < 0 for number in astuple(plan) if isinstance(number, int)):
        raise ValueError("expected numbers of 0 or more")
    return plan


_PLAN = RecordKind(
    "the plan of a scan",
    _plan_of,
    "run the query again",
    limit=1 << 28,
)


def log_plan(plan: Plan | str, level: str | None) -> None:
    """Log a plan at the level INFO, and what an answer lacks as warnings."""
    write_line(logging.INFO, str(plan), level)
    for text in () if isinstance(plan, str) else plan.lacking:
        log_warning(text)
