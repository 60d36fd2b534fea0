"""The line of ``MessageStore.dataset()`` beside the codec: one key through DuckDB."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from benchmarks._data import FILE_NAME, TOPIC, key_strings, make_file
from benchmarks._rounds import Goal, compared, interleaved, timed
from rmqindex import IndexFile, Layout, MessageStore, index_key, key_hash

if TYPE_CHECKING:
    from collections.abc import Iterator

    from benchmarks._context import Context
    from benchmarks._rounds import Comparison

__all__ = ["dataset"]

_FILES = 5
_TIMES = 20
_OURS = "dataset()"


def dataset(context: Context) -> Iterator[Comparison]:
    """Look one key up through DuckDB."""
    import duckdb  # noqa: PLC0415  (only these lines need it)

    index, count = context.work / "dataset-index", context.sizes.rows // _FILES
    layout = Layout(count // 4 + 1, count + 4)
    for number in range(_FILES):
        make_file(index / str(int(FILE_NAME) + number), layout, number * count, count)
    files = sorted(index.iterdir())
    key = key_strings(np.array([7], np.uint64))[0].as_py()
    hash_ = key_hash(index_key(TOPIC, key))
    query = f"SELECT phy_offset FROM entries WHERE topic = '{TOPIC}' AND key = '{key}'"
    connection = duckdb.connect()
    connection.register("entries", MessageStore(index, commit_log=None, layout=layout).dataset())

    def ours() -> None:
        for _ in range(_TIMES):
            assert connection.execute(query).fetchall()

    def theirs() -> None:
        for _ in range(_TIMES):
            hits = 0
            for path in files:
                with IndexFile(path, layout) as file:
                    hits += file.lookup([hash_]).num_rows
            assert hits

    against = "IndexFile.lookup of each file in Python"
    times = interleaved({_OURS: timed(ours), against: timed(theirs)}, context.sizes.rounds)
    yield compared(
        times,
        _OURS,
        against,
        work=f"one key through DuckDB, {_FILES} files, warm",
        goal=Goal(3, at_least=False),
        note=f"the times are those of {_TIMES} queries",
    )
