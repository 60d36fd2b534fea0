"""``rmqindex info``, ``scan`` and ``sample``: what is in the files."""

from __future__ import annotations

import json
import sys
from dataclasses import asdict
from itertools import islice
from pathlib import Path  # noqa: TC003  (typer reads annotations when it runs)
from typing import TYPE_CHECKING, Annotated, Any

import pyarrow as pa
import typer

from rmqindex.bulk.intact_entries import salvage
from rmqindex.cli.options import (
    BAD,
    BeginOption,
    EndOption,
    EntriesOption,
    JsonOption,
    Mode,
    ModeOption,
    PathArgument,
    SlotsOption,
    ZoneOption,
    app,
    complain,
    layout_of,
    print_json,
    time_of,
    zone_named,
)
from rmqindex.layout import FIRST_POSITION, INT64_MAX, INT64_MIN
from rmqindex.output.describe import describe, total
from rmqindex.output.rows import print_entries
from rmqindex.output.tables import make_console, print_facts
from rmqindex.store.planned_index import plan_index
from rmqindex.store.sample import write_sample_store

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from rmqindex.store.planned_index import PlannedFile

__all__: list[str] = []


@app.command(
    short_help="Say what is in each IndexFile.",
    epilog="Examples:\n\n\b\n"
    "  rmqindex info /data/rocketmq/store\n"
    "  rmqindex info s3://backup/broker-a/store/index --json\n"
    "  rmqindex info store/index/20231114221320000 --time-zone Asia/Shanghai",
)
def info(
    path: PathArgument,
    *,
    as_json: JsonOption = False,
    zone_name: ZoneOption = "UTC",
    max_hash_slot_num: SlotsOption = None,
    max_index_num: EntriesOption = None,
    mode: ModeOption = Mode.FAILFAST,
) -> None:
    """Say what is in each IndexFile: geometry, entries, slots in use, times, offsets, sizes.

    Times and offsets are those of the first and of the last entry, as the header has them; they
    are not minimum and maximum. Load is entries per slot. Only headers and what the geometry
    needs are read.
    """
    layout = layout_of(max_hash_slot_num, max_index_num)
    zone = zone_named(zone_name)
    facts = [describe(each) for each in plan_index(path, layout, mode.value)]
    if as_json:
        print_json(
            {
                "path": path,
                "files": [asdict(file) for file in facts],
                "totals": asdict(total(facts)),
            }
        )
    elif facts:
        print_facts(make_console(), facts, zone, zone_name)
    else:
        typer.echo(f"{path}: no IndexFiles")
    errors = [file.error for file in facts if file.error is not None]
    for error in errors:
        complain(error)
    if errors:
        raise typer.Exit(BAD)


@app.command(
    short_help="Print the entries.",
    epilog="Examples:\n\n\b\n"
    "  rmqindex scan store --limit 20\n"
    "  rmqindex scan store --begin 2023-11-14T22:00 --end 2023-11-14T23:00\n"
    "  rmqindex scan store --json | jq 'select(.slot == 85).phy_offset'\n"
    "  rmqindex scan broken/index/20231114221320000 --salvage --json",
)
def scan(
    path: PathArgument,
    *,
    begin: BeginOption = None,
    end: EndOption = None,
    from_offset: Annotated[
        int | None,
        typer.Option("--from", metavar="OFFSET", min=0, help="Of messages at it or behind."),
    ] = None,
    to_offset: Annotated[
        int | None,
        typer.Option("--to", metavar="OFFSET", min=0, help="Of messages before this offset."),
    ] = None,
    key_hash: Annotated[
        int | None,
        typer.Option("--key-hash", metavar="N", min=0, help="Of this key hash."),
    ] = None,
    limit: Annotated[
        int | None, typer.Option("--limit", metavar="N", min=1, help="At most so many.")
    ] = None,
    salvaged: Annotated[
        bool,
        typer.Option(
            "--salvage",
            help="Read what can be read of damaged files: no slot, link or count is believed.",
        ),
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object a line.")] = False,
    zone_name: ZoneOption = "UTC",
    max_hash_slot_num: SlotsOption = None,
    max_index_num: EntriesOption = None,
    mode: ModeOption = Mode.FAILFAST,
) -> None:
    """Print entries in the order of the files, oldest first.

    Times are those of the entries: whole seconds after the first entry of the file.
    """
    layout = layout_of(max_hash_slot_num, max_index_num)
    zone = zone_named(zone_name)
    ranges = {
        "store_timestamp": (
            INT64_MIN if begin is None else time_of(begin, zone, "--begin", up=True),
            INT64_MAX if end is None else time_of(end, zone, "--end", up=False),
        ),
        "phy_offset": (from_offset or INT64_MIN, INT64_MAX if to_offset is None else to_offset - 1),
    }
    if key_hash is not None:
        ranges["key_hash"] = (key_hash, key_hash)
    files = plan_index(path, layout, "DROPMALFORMED" if salvaged else mode.value)
    rows = islice(_entries(files, ranges, salvaged=salvaged), limit)
    if as_json:
        for row in rows:
            sys.stdout.write(json.dumps(row) + "\n")
    else:
        print_entries(rows, zone, zone_name)


def _entries(
    files: Sequence[PlannedFile],
    ranges: dict[str, tuple[int, int]],
    *,
    salvaged: bool,
) -> Iterator[dict[str, Any]]:
    """Yield the entries that are in all ranges, both ends included."""
    for each in files:
        counted = {"position": (FIRST_POSITION, each.stop - 1)}
        for batch in _salvaged(each) if salvaged else _scanned(each):
            kept = batch
            for name, (low, high) in (counted | ranges).items():
                values = kept[name].to_numpy()
                kept = kept.filter(pa.array((values >= low) & (values <= high)))
            for row in kept.to_pylist():
                yield {"file": each.entry.name, **row}


def _scanned(each: PlannedFile) -> Iterator[pa.RecordBatch]:
    if not each.is_empty:
        with each.open() as file:
            yield from file.scan(stop=each.stop)


def _salvaged(each: PlannedFile) -> Iterator[pa.RecordBatch]:
    if each.is_empty:
        yield from salvage(each.entry.path, each.layout)
        return
    with each.open() as file:
        yield from salvage(file.path, file.layout)
    with each.open():
        pass  # what was salvaged was opened by its path, which still leads to the listed file


@app.command(
    short_help="Write out a small store to try things on.",
    epilog="Example:\n\n\b\n  rmqindex sample store && rmqindex info store",
)
def sample(
    directory: Annotated[
        Path, typer.Argument(metavar="DIR", help="A directory that is new or empty.")
    ],
) -> None:
    """Write out a small broker store to try things on: 430 messages, about 200 KB.

    It was written by Apache RocketMQ 5.3.3's own classes, with 97 slots and 200 entry places a
    file, and has a CommitLog and ConsumeQueues.
    """
    write_sample_store(directory)
    typer.echo(f"Wrote a broker store with five IndexFiles to {directory}")
