"""What lookups, listings and queries ask of an object store: requests and bytes, counted there."""

from __future__ import annotations

import statistics
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from tests.support.s3_server import ACCESS_KEY, SECRET_KEY, S3Server, by_kind

from benchmarks._data import FILE_NAME, TOPIC, key_strings, make_file
from pyspark_rmqindex import table
from pyspark_rmqindex.files import list_slices
from pyspark_rmqindex.options import read_options
from rmqindex import IndexFile, Layout, index_key, key_hash
from rmqindex.storage import S3Settings, Storage
from rmqindex.store import list_index_files

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from benchmarks._context import Context
    from benchmarks._rounds import Comparison
    from rmqindex.storage import Location

__all__ = ["requests"]

_SMALL = Layout(1_000, 4_000)
_KEYS = 100
_ABSENT = "absent"
_KINDS = ("HEAD", "GET", "LIST", "bytes")


class Row(NamedTuple):
    """What one piece of work asks for: how many of each kind, as a table shows it."""

    work: str
    asked: dict[str, str]


def requests(context: Context) -> Iterator[Comparison]:
    """Count, and write the table of the growth page."""
    server = S3Server()
    server.start()
    try:
        rows = [
            *_one_file(context, server),
            *_listings(context, server),
            *_queries(context, server),
        ]
    finally:
        server.stop()
    context.output.mkdir(parents=True, exist_ok=True)
    (context.output / "requests.inc").write_text(_table(rows))
    yield from ()


def _one_file(context: Context, server: S3Server) -> Iterator[Row]:
    full = context.sizes.request_layout
    local = context.work / "requests-one"
    make_file(local / FILE_NAME, full, 0, full.capacity)
    file = _storage(server).at(f"{server.put(local, 'one')}/{FILE_NAME}")
    numbers = np.random.default_rng(6).choice(full.capacity, _KEYS, replace=False)
    hashes = [
        key_hash(index_key(TOPIC, key))
        for key in key_strings(numbers.astype(np.uint64)).to_pylist()
    ]

    def look_up(layout: Layout | None) -> Callable[[int], None]:
        def run(number: int) -> None:
            with IndexFile(file, layout) as opened:
                assert opened.lookup([hashes[number]]).num_rows

        return run

    def prove(_: int) -> None:
        with IndexFile(file) as opened:
            assert opened.layout == full

    yield _counted(server, "open a file and prove its geometry", prove)
    keys = f"mean (most) of {_KEYS} keys"
    yield _counted(server, f"look up a key, geometry given: {keys}", look_up(full), _KEYS)
    yield _counted(server, f"look up a key, geometry to prove: {keys}", look_up(None), _KEYS)


def _listings(context: Context, server: S3Server) -> Iterator[Row]:
    # A listing opens no file.
    local = context.work / "requests-list"
    local.mkdir(exist_ok=True)
    for count in context.sizes.request_listings:
        for number in range(count):
            (local / str(int(FILE_NAME) + number)).touch()
        directory = _storage(server).at(server.put(local, f"list-{count}"))

        def list_files(_: int, directory: Location = directory, count: int = count) -> None:
            assert len(list_index_files(directory)) == count

        yield _counted(server, f"list a directory of {count:,} files", list_files)


def _queries(context: Context, server: S3Server) -> Iterator[Row]:
    geometry = {"maxHashSlotNum": _SMALL.hash_slot_num, "maxIndexNum": _SMALL.index_num}
    for count in context.sizes.request_files:
        local = context.work / f"requests-{count}"
        for number in range(count):
            first = number * _SMALL.capacity
            make_file(local / str(int(FILE_NAME) + number), _SMALL, first, _SMALL.capacity)
        uri = server.put(local, f"files-{count}")
        for given, known in (("given", geometry), ("to prove", {})):
            options = {**server.options, **{name: str(number) for name, number in known.items()}}

            def plan(_: int, options: dict[str, str] = options, uri: str = uri) -> None:
                list_slices(read_options({"path": uri, **options}))

            def query(_: int, options: dict[str, str] = options, uri: str = uri) -> None:
                df = table(context.spark, uri, **options)
                df.where(f"topic = '{TOPIC}' AND key = '{_ABSENT}'").collect()

            yield _counted(server, f"plan {count:,} files, geometry {given}", plan)
            work = f"one key through table(), {count:,} files, geometry {given}"
            yield _counted(server, work, query)


def _storage(server: S3Server) -> Storage:
    settings = S3Settings(
        endpoint=server.endpoint, access_key=ACCESS_KEY, secret_key=SECRET_KEY, region="us-east-1"
    )
    return Storage(settings)


def _counted(server: S3Server, work: str, run: Callable[[int], None], times: int = 1) -> Row:
    counts: dict[str, list[int]] = {kind: [] for kind in _KINDS}
    for number in range(times):
        with server.counted() as seen:
            run(number)
        for kind, count in by_kind(seen).items():
            counts[kind].append(count)
    return Row(work, {kind: _shown(found) for kind, found in counts.items()})


def _shown(counts: list[int]) -> str:
    if len(counts) == 1:
        return f"{counts[0]:,}"
    return f"{statistics.mean(counts):,.1f} ({max(counts):,})"


def _table(rows: list[Row]) -> str:
    lines = ["| work | HEAD | GET | LIST | bytes |", "|---|--:|--:|--:|--:|"]
    lines += [
        f"| {' | '.join([row.work, *(row.asked[kind] for kind in _KINDS)])} |" for row in rows
    ]
    return "\n".join([*lines, ""])
