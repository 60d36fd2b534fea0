"""``rmqindex info``, ``scan`` and ``sample``: what is in the files."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING

import numpy as np

from rmqindex.answers.entries import Shortfall, entries_answer
from rmqindex.answers.files import describe, files_answer
from rmqindex.answers.text import complain_of_lacking
from rmqindex.answers.writes import written_answer
from rmqindex.bulk.salvaging import salvage_listed
from rmqindex.cli.invocation import command
from rmqindex.cli.options import (
    COUNT,
    NUMBER,
    PATH,
    argument,
    layout_options,
    mode_option,
    offset_options,
    option,
    paths_argument,
    rows_options,
    time_options,
    zone_option,
)
from rmqindex.layout.index_file import FIRST_POSITION, INT64_MAX, INT64_MIN
from rmqindex.storage.location import Location
from rmqindex.store.sample import write_sample_store
from rmqindex.store.snapshot import IndexSnapshot, layout_beside
from rmqindex.store.store import rebuild_advice

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    import pyarrow as pa

    from rmqindex.answers.answer import Answer, Form, Row, Zone
    from rmqindex.indexfile.entries import Mode
    from rmqindex.indexfile.geometry import Layout
    from rmqindex.store.snapshot import SnapshotFile


@dataclass(frozen=True, slots=True, kw_only=True)
class Info:
    """Show what each IndexFile contains: geometry, entries, slots in use, times, offsets, sizes.

    Times and offsets are those of the first and the last entry, as recorded in the header; they
    are not a minimum and a maximum. Load is entries per slot. Only headers, and what is needed to
    infer the geometry, are read.
    """

    path: str = paths_argument()
    form: Form = rows_options()
    zone: Zone = zone_option()
    layout: Layout | None = layout_options()
    mode: Mode = mode_option()

    def answers(self) -> Iterator[Answer]:
        """Describe the files."""
        files = IndexSnapshot.of(self.path, self.layout, self.mode)
        facts = [describe(planned) for planned in files]
        notes = [planned.lacking for planned in files if planned.lacking is not None]
        if not facts and (advice := rebuild_advice(Location.of(self.path))):
            notes.insert(0, f"{self.path}: {advice}")
        yield files_answer(self.path, facts, self.zone, notes)


info = command(
    "info",
    Info,
    "rmqindex info /data/rocketmq/store",
    "rmqindex info s3://backup/broker-a/store/index --json",
    "rmqindex info store/index/20231114221320000 --time-zone Asia/Shanghai",
    several="store",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Scan:
    """Print entries file by file, oldest first.

    Times are those of the entries: whole seconds after the first entry of the file.
    """

    path: str = paths_argument()
    times: tuple[int | None, int | None] = time_options()
    offsets: tuple[int | None, int | None] = offset_options(
        "Only messages at this offset or after it.", "Only messages before this offset."
    )
    key_hash: int | None = option(
        "--key-hash", metavar="N", type=NUMBER, help="Only entries with this key hash."
    )
    limit: int | None = option(
        "--limit", metavar="N", type=COUNT, help="Print at most this many entries."
    )
    salvaged: bool = option(
        "--salvage",
        is_flag=True,
        help="Read what can be read of damaged files, trusting no slot, link or count.",
    )
    form: Form = rows_options()
    zone: Zone = zone_option()
    layout: Layout | None = layout_options()
    mode: Mode = mode_option()

    def answers(self) -> Iterator[Answer]:
        """Read the entries as they are written."""
        start, stop = self.offsets
        ranges = {
            "phy_offset": (
                INT64_MIN if start is None else start,
                INT64_MAX if stop is None else stop - 1,
            ),
        }
        if self.key_hash is not None:
            ranges["key_hash"] = (self.key_hash, self.key_hash)
        files = IndexSnapshot.of(
            self.path, self.layout, "DROPMALFORMED" if self.salvaged else self.mode
        )
        if not self.salvaged:
            complain_of_lacking(files)
        shortfall = Shortfall(*self.times)
        entries = scan_entries(files, ranges, shortfall, salvaged=self.salvaged)
        yield entries_answer(islice(entries, self.limit), shortfall, self.zone)


scan = command(
    "scan",
    Scan,
    "rmqindex scan store --limit 20",
    "rmqindex scan store --begin 2023-11-14T22:00 --end 2023-11-14T23:00",
    "rmqindex scan store --json | jq 'select(.slot == 85).phy_offset'",
    "rmqindex scan broken/index/20231114221320000 --salvage --json",
    several="store",
)


def scan_entries(
    files: Sequence[SnapshotFile],
    ranges: dict[str, tuple[int, int]],
    shortfall: Shortfall,
    *,
    salvaged: bool,
) -> Iterator[Row]:
    """Yield the entries within all ranges and times, and count those of other times.

    All bounds are inclusive.
    """
    begin = INT64_MIN if shortfall.begin is None else shortfall.begin
    end = INT64_MAX if shortfall.end is None else shortfall.end
    for planned in files:
        counted = {} if salvaged else {"position": (FIRST_POSITION, planned.stop - 1)}
        for batch in _salvage_entries(planned) if salvaged else _read_entries(planned):
            # NumPy's arrays, since Arrow loads its compute functions for a filter.
            columns = {name: batch[name].to_numpy() for name in batch.schema.names}
            kept = np.ones(len(batch), bool)
            for name, (low, high) in (counted | ranges).items():
                kept &= (columns[name] >= low) & (columns[name] <= high)
            times = columns["store_timestamp"]
            within = (times >= begin) & (times <= end)
            shortfall.at_other_times += int((kept & ~within).sum())
            rows = [values[kept & within].tolist() for values in columns.values()]
            for row in zip(*rows, strict=True):
                yield {"file": planned.entry.name, **dict(zip(columns, row, strict=True))}


def _read_entries(planned: SnapshotFile) -> Iterator[pa.RecordBatch]:
    if not planned.is_empty:
        with planned.open() as file:
            yield from file.scan(stop=planned.stop)


def _salvage_entries(planned: SnapshotFile) -> Iterator[pa.RecordBatch]:
    layout = planned.layout or layout_beside(planned.name_path)
    if planned.is_empty:
        yield from salvage_listed(planned.entry.path, layout, planned.header)
        return
    with planned.open() as file:
        yield from salvage_listed(file.path, file.layout, planned.header)
    with planned.open():
        pass  # what was salvaged was opened by its path, which still leads to the listed file


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """Create a small broker store for trying things out: 430 messages, about 200 KB.

    It was written by the classes of Apache RocketMQ 5.3.3, with 97 slots and 200 entries per file,
    and contains a CommitLog and ConsumeQueues.
    """

    directory: Path = argument("DIR", "A directory that is new or empty.", PATH)

    def answers(self) -> Iterator[Answer]:
        """Write the store."""
        write_sample_store(self.directory)
        yield written_answer(f"Wrote a broker store with five IndexFiles to {self.directory}")


sample = command("sample", Sample, "rmqindex sample store && rmqindex info store")
