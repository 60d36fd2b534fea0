"""The lines beside the Rust rewrite of RocketMQ: building a file, and looking keys up."""

from __future__ import annotations

import contextlib
import filecmp
import shutil
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from benchmarks._data import (
    FILE_NAME,
    KEY_LENGTH,
    TOPIC,
    key_bytes,
    key_strings,
    offsets,
    timestamps,
)
from benchmarks._format_lines import seconds_to_write, without_waiting_for_the_disk
from benchmarks._rounds import Comparison, Goal, compared, interleaved, timed
from rmqindex import IndexFile, Layout, index_key_hashes

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from benchmarks._context import Context

__all__ = ["rust"]

_SOURCE = Path(__file__).parent / "rust"
_CRATE = "rocketmq-store-local 1.0.0"
_NANOS = 1e9
_MAX_NUM = 64


def rust(context: Context) -> Iterator[Comparison]:
    """Build a file and look keys up, beside the drivers of the published crate."""
    program = _compile(context.work.parent)
    yield _build(context, program)
    yield _look_up(context, program)


def _compile(work: Path) -> Path:
    """Return the program, compiled from a copy, since Cargo writes beside its source."""
    folder = work / "rust"
    shutil.copytree(_SOURCE, folder, dirs_exist_ok=True)
    subprocess.run(["cargo", "build", "--quiet", "--release"], cwd=folder, check=True)
    return folder / "target" / "release" / "rmqindex-benchmark"


@contextlib.contextmanager
def _started(program: Path, *order: object) -> Iterator[Callable[[], tuple[float, int]]]:
    """Start the program, and yield what has it do a round: seconds, and entries put or found."""
    with subprocess.Popen(
        [program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        said, heard = process.stdin, process.stdout
        said.write("\t".join(map(str, order)) + "\n")
        assert heard.readline() == "ready\n", "the Rust program failed; see above"

        def run() -> tuple[float, int]:
            said.write("\n")
            nanos, count = heard.readline().split()
            return int(nanos) / _NANOS, int(count)

        yield run


def _build(context: Context, program: Path) -> Comparison:
    count = context.sizes.build
    layout = Layout() if count < Layout().capacity else context.sizes.layout
    numbers = np.arange(count, dtype=np.uint64)
    keys, phy_offsets, times = key_strings(numbers), offsets(numbers), timestamps(numbers)
    folder = context.work / "rust-build"
    folder.mkdir(exist_ok=True)
    path, theirs_path = folder / FILE_NAME, folder / "theirs"
    inputs = [folder / name for name in ("keys", "offsets", "times")]
    for values, to in zip((key_bytes(numbers), phy_offsets, times), inputs, strict=True):
        values.tofile(to)

    def ours() -> float:
        with without_waiting_for_the_disk():
            return seconds_to_write(path, layout, keys, phy_offsets, times)

    text, *longs = inputs
    where = (layout.hash_slot_num, layout.index_num, TOPIC, text, KEY_LENGTH)
    with _started(program, "build", *where, *longs, theirs_path) as run:

        def theirs() -> float:
            seconds, put = run()
            assert put == count, f"{put} entries, not {count}"
            return seconds

        ours()
        assert filecmp.cmp(path, theirs_path, shallow=False), "the files differ"
        theirs_path.unlink()
        measured = interleaved({"rmqindex": ours, _CRATE: theirs}, context.sizes.rounds)
    for made in (path, *inputs):
        made.unlink()
    return compared(
        measured,
        "rmqindex",
        _CRATE,
        work=f"build a file from {count:,} topics and keys",
        goal=Goal(1.5),
        rows=count,
        note=f"rmqindex until the bytes are in the page cache, {_CRATE} in plain memory; "
        "both made the same bytes",
    )


def _look_up(context: Context, program: Path) -> Comparison:
    layout, count = context.sizes.layout, context.sizes.lookup
    numbers = np.random.default_rng(1).choice(context.sizes.rows, count, replace=False)
    numbers = numbers.astype(np.uint64)
    keys, path = key_strings(numbers), context.index_file
    text = context.work / "rust-keys"
    key_bytes(numbers).tofile(text)
    where = (layout.hash_slot_num, layout.index_num, TOPIC, text, KEY_LENGTH)
    with IndexFile(path) as file, _started(program, "select", *where, path, _MAX_NUM) as run:
        found = file.lookup(index_key_hashes(TOPIC, keys)).num_rows

        def theirs() -> float:
            seconds, hits = run()
            assert hits == found, f"{hits} hits, not {found}"
            return seconds

        measured = interleaved(
            {
                "rmqindex": timed(lambda: file.lookup(index_key_hashes(TOPIC, keys))),
                _CRATE: theirs,
            },
            context.sizes.rounds,
            warm_ups=2,
        )
    text.unlink()
    return compared(
        measured,
        "rmqindex",
        _CRATE,
        work=f"look up {count:,} keys in {context.sizes.rows:,} entries",
        goal=Goal(6),
        rows=count,
        note=f"rmqindex in the page cache, {_CRATE} in plain memory; both found {found:,} entries",
    )
