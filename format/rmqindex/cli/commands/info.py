"""``rmqindex info``, ``scan`` and ``sample``: what is in the files."""

from __future__ import annotations

from contextlib import suppress
from itertools import islice
from typing import TYPE_CHECKING, Any

import click
import numpy as np

from rmqindex.bulk.old_entries import salvage_listed
from rmqindex.cli.options import (
    BAD,
    COUNT,
    NUMBER,
    OFFSET,
    PATH,
    argument,
    begin_option,
    choose_output,
    command,
    end_option,
    entries_option,
    layout_of,
    mode_option,
    offset_range_of,
    paths_argument,
    rows_option,
    slots_option,
    time_range_of,
    zone_option,
)
from rmqindex.display.facts import describe
from rmqindex.display.text import complain, write_line
from rmqindex.indexfile.geometry import UnknownLayoutError
from rmqindex.layout import FIRST_POSITION, INT64_MAX, INT64_MIN
from rmqindex.output.interface import Shortfall
from rmqindex.output.notes import complain_of_lacking
from rmqindex.storage.location import Location
from rmqindex.store.sample import write_sample_store
from rmqindex.store.snapshot import IndexSnapshot, layout_beside
from rmqindex.store.store import rebuild_advice

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    import pyarrow as pa

    from rmqindex.indexfile.entries import Mode
    from rmqindex.output.interface import Zone
    from rmqindex.store.snapshot import SnapshotFile

__all__ = ["info", "sample", "scan"]


@command(
    "info",
    "rmqindex info /data/rocketmq/store",
    "rmqindex info s3://backup/broker-a/store/index --json",
    "rmqindex info store/index/20231114221320000 --time-zone Asia/Shanghai",
    several=True,
)
@paths_argument
@rows_option
@zone_option
@slots_option
@entries_option
@mode_option
def info(
    *,
    path: str,
    as_json: bool,
    zone: Zone,
    max_hash_slot_num: int | None,
    max_index_num: int | None,
    mode: Mode,
) -> None:
    """Show what each IndexFile contains: geometry, entries, slots in use, times, offsets, sizes.

    Times and offsets are those of the first and the last entry, as recorded in the header; they
    are not a minimum and a maximum. Load is entries per slot. Only headers, and what is needed to
    infer the geometry, are read.
    """
    layout = layout_of(max_hash_slot_num, max_index_num)
    output = choose_output(as_json, zone)
    files = IndexSnapshot.of(path, layout, mode)
    facts = [describe(planned) for planned in files]
    output.files(path, facts)
    if not facts and (advice := rebuild_advice(Location.of(path))):
        complain(f"{path}: {advice}")
    complain_of_lacking(files)
    errors = [file.error for file in facts if file.error is not None]
    for error in errors:
        complain(error)
    if errors:
        raise click.exceptions.Exit(BAD)


@command(
    "scan",
    "rmqindex scan store --limit 20",
    "rmqindex scan store --begin 2023-11-14T22:00 --end 2023-11-14T23:00",
    "rmqindex scan store --json | jq 'select(.slot == 85).phy_offset'",
    "rmqindex scan broken/index/20231114221320000 --salvage --json",
    several=True,
)
@paths_argument
@begin_option
@end_option
@click.option(
    "--from",
    "from_offset",
    metavar="OFFSET",
    type=OFFSET,
    help="Only messages at this offset or after it.",
)
@click.option(
    "--to",
    "to_offset",
    metavar="OFFSET",
    type=OFFSET,
    help="Only messages before this offset.",
)
@click.option("--key-hash", metavar="N", type=NUMBER, help="Only entries with this key hash.")
@click.option("--limit", metavar="N", type=COUNT, help="Print at most this many entries.")
@click.option(
    "--salvage",
    "salvaged",
    is_flag=True,
    help="Read what can be read of damaged files, trusting no slot, link or count.",
)
@rows_option
@zone_option
@slots_option
@entries_option
@mode_option
def scan(
    *,
    path: str,
    begin: str | None,
    end: str | None,
    from_offset: int | None,
    to_offset: int | None,
    key_hash: int | None,
    limit: int | None,
    salvaged: bool,
    as_json: bool,
    zone: Zone,
    max_hash_slot_num: int | None,
    max_index_num: int | None,
    mode: Mode,
) -> None:
    """Print entries file by file, oldest first.

    Times are those of the entries: whole seconds after the first entry of the file.
    """
    layout = layout_of(max_hash_slot_num, max_index_num)
    shortfall = Shortfall(*time_range_of(begin, end, zone))
    start, stop = offset_range_of(from_offset, to_offset)
    ranges = {
        "phy_offset": (
            INT64_MIN if start is None else start,
            INT64_MAX if stop is None else stop - 1,
        ),
    }
    if key_hash is not None:
        ranges["key_hash"] = (key_hash, key_hash)
    output = choose_output(as_json, zone)
    files = IndexSnapshot.of(path, layout, "DROPMALFORMED" if salvaged else mode)
    if not salvaged:
        complain_of_lacking(files)
    entries = _entries(files, ranges, shortfall, salvaged=salvaged)
    output.entries(islice(entries, limit), shortfall)


def _entries(
    files: Sequence[SnapshotFile],
    ranges: dict[str, tuple[int, int]],
    shortfall: Shortfall,
    *,
    salvaged: bool,
) -> Iterator[dict[str, Any]]:
    """Yield the entries within all ranges and times, and count those of other times.

    All bounds are inclusive.
    """
    begin = INT64_MIN if shortfall.begin is None else shortfall.begin
    end = INT64_MAX if shortfall.end is None else shortfall.end
    for planned in files:
        counted = {} if salvaged else {"position": (FIRST_POSITION, planned.stop - 1)}
        for batch in _salvage_entries(planned) if salvaged else _scan_entries(planned):
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


def _scan_entries(planned: SnapshotFile) -> Iterator[pa.RecordBatch]:
    if not planned.is_empty:
        with planned.open() as file:
            yield from file.scan(stop=planned.stop)


def _salvage_entries(planned: SnapshotFile) -> Iterator[pa.RecordBatch]:
    layout = planned.layout or layout_beside(planned.name_path)
    if planned.is_empty:
        with suppress(UnknownLayoutError):  # a file without entries in an index without any
            yield from salvage_listed(planned.entry.path, layout, planned.header)
        return
    with planned.open() as file:
        yield from salvage_listed(file.path, file.layout, planned.header)
    with planned.open():
        pass  # what was salvaged was opened by its path, which still leads to the listed file


@command("sample", "rmqindex sample store && rmqindex info store")
@argument("directory", "DIR", "A directory that is new or empty.", PATH)
def sample(*, directory: Path) -> None:
    """Create a small broker store for trying things out: 430 messages, about 200 KB.

    It was written by the classes of Apache RocketMQ 5.3.3, with 97 slots and 200 entries per file,
    and contains a CommitLog and ConsumeQueues.
    """
    write_sample_store(directory)
    write_line(f"Wrote a broker store with five IndexFiles to {directory}")
