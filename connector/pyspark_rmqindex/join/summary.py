"""What the tasks of a ``lookup()`` did, which ``last_plan()`` tells.

Tasks report to the driver by an accumulator, which Spark Connect has not.
"""

from __future__ import annotations

import itertools
import re
from collections import Counter, OrderedDict
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any

from pyspark.accumulators import AccumulatorParam

if TYPE_CHECKING:
    from pyspark.accumulators import Accumulator
    from pyspark.sql import SparkSession

# Lookups of one driver that are kept; older ones can no longer be asked for.
_KEPT = 1000
_NAME = re.compile(r"rmqindex_lookup_(?:auto|probe|scan)_in_\d+_files_(\d+)")


class Tally(AccumulatorParam[Counter[str]]):
    """Adds counts by name."""

    def zero(self, value: Counter[str]) -> Counter[str]:  # noqa: ARG002  (Spark's name)
        """Return no counts."""
        return Counter()

    def addInPlace(self, value1: Counter[str], value2: Counter[str]) -> Counter[str]:  # noqa: N802
        """Add the second counts to the first."""
        value1.update(value2)
        return value1


@dataclass(frozen=True, slots=True)
class LookupSummary:
    """A lookup, and what its tasks have done until now, in all queries on its DataFrame.

    A task that Spark runs twice counts twice.

    Attributes:
        strategy: ``auto``, ``probe`` or ``scan``.
        files_kept: The number of files to search.
        files_total: The number of files in the paths.
        entries: The number of entries in the files to search.
        tasks: How many chunks of keys were looked up, one for most tasks.
        keys: How many rows of keys they had.
        hashes: How many hashes these had, distinct in each chunk.
        probed: How many files were searched by slot, added up over the chunks.
        scanned: How many files were read whole, likewise.
        slots: How many slots were read.
        candidates: How many entries of a wanted hash were found.
        verified: How many of these a message confirmed, of whatever key; 0 without a CommitLog.
        dropped: How many pairs of a row and a candidate were dropped, as a collision of hashes or
            by the option ``unverified``.
    """

    strategy: str
    files_kept: int
    files_total: int
    entries: int
    tasks: int = 0
    keys: int = 0
    hashes: int = 0
    probed: int = 0
    scanned: int = 0
    slots: int = 0
    candidates: int = 0
    verified: int = 0
    dropped: int = 0

    def __str__(self) -> str:
        """Return the summary as one line."""
        return (
            f"looking up by {self.strategy} in {self.files_kept} of {self.files_total} files "
            f"({self.entries} entries); until now {self.keys} keys ({self.hashes} distinct hashes) "
            f"in {self.probed} files probed ({self.slots} slots) and {self.scanned} scanned: "
            f"{self.candidates} candidates, {self.verified} verified, {self.dropped} dropped"
        )

    # What a notebook shows.
    __repr__ = __str__


_numbers = itertools.count(1)
_lookups: OrderedDict[int, tuple[LookupSummary, Accumulator[Counter[str]]]] = OrderedDict()


def register_lookup(
    spark: SparkSession, summary: LookupSummary
) -> tuple[str, Accumulator[Counter[str]] | None]:
    """Remember a lookup of a classic session."""
    name = f"rmqindex_lookup_{summary.strategy}_in_{summary.files_kept}_files"
    if not hasattr(spark, "_jsparkSession"):
        return name, None
    number = next(_numbers)
    tally: Accumulator[Counter[str]] = spark.sparkContext.accumulator(Counter(), Tally())
    _lookups[number] = summary, tally
    while len(_lookups) > _KEPT:
        _lookups.popitem(last=False)
    return f"{name}_{number}", tally


def summary_of(plan: Any) -> list[LookupSummary]:  # noqa: ANN401  (a Java object)
    """Return what the lookups in the plan of a DataFrame have done."""
    summaries = []
    for number in sorted({int(number) for number in _NAME.findall(plan.toString())}):
        if number in _lookups:
            summary, tally = _lookups[number]
            own = {field.name: getattr(summary, field.name) for field in fields(LookupSummary)}
            summaries.append(LookupSummary(**own | dict(tally.value)))
    return summaries
