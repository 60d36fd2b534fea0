"""Build an index, and look keys up in it, with ``concurrent.futures`` alone.

It makes ``store/index`` in the working directory.
"""

from __future__ import annotations

from concurrent.futures import ProcessPoolExecutor
from functools import partial
from pathlib import Path

import numpy as np

from rmqindex import IndexFile, Layout, index_key_hashes, verify
from rmqindex.bulk import (
    ARRIVAL,
    EntryRows,
    RowStager,
    StagedRows,
    WriteJob,
    WriteOptions,
    commit_staged,
)
from rmqindex.store import list_index_files
from rmqindex.transaction import Owner

INDEX = Path("store/index").absolute()
TOPIC = "TopicTest"
MESSAGES = 500


def hashes_of(keys: list[str]) -> np.ndarray:
    """Hash keys of the topic, as the broker does."""
    return index_key_hashes([TOPIC] * len(keys), keys)


def stage(job: WriteJob, part: int) -> StagedRows:
    """Stage the entries of one part of the log: a message of 200 bytes every 100 ms."""
    number = np.arange(part * MESSAGES, (part + 1) * MESSAGES)
    rows = EntryRows(
        key_hash=hashes_of([f"order-{value % 600}" for value in number.tolist()]),
        phy_offset=number * 200,
        store_timestamp=1_700_000_000_000 + number * 100,
        ordinal=np.zeros(MESSAGES, np.int32),
    )
    stager = RowStager(job, f"part-{part}", ARRIVAL, limit=1_000_000)
    with job.attempt(stager.remove):
        stager.add(rows)
        return stager.stage_files()


def build(pool: ProcessPoolExecutor) -> None:
    """Write four parts, whatever their order, as one commit."""
    job = WriteJob.start(
        WriteOptions(INDEX, Layout(97, 800)), overwrite=False, owner=Owner.current()
    )
    try:
        staged = list(pool.map(partial(stage, job), [2, 0, 3, 1]))
        runs = [run for part in staged for run in part.runs]
        files = [file for part in staged for file in part.files]
        commit_staged(job, runs, files, ARRIVAL)
    finally:
        job.staging.discard()


def find(keys: list[str], path: str) -> list[tuple[str, int]]:
    """Return the keys that one file has, with the offsets of their messages."""
    with IndexFile(path) as file:
        hits = file.lookup(hashes_of(keys)).to_pydict()
    return [
        (keys[query], offset)
        for query, offset in zip(hits["query"], hits["phy_offset"], strict=True)
    ]


def main() -> None:
    """Build, look up, audit."""
    with ProcessPoolExecutor(2) as pool:
        build(pool)
        paths = [entry.path for entry in list_index_files(INDEX)]
        found = [
            hit for hits in pool.map(partial(find, ["order-7", "order-599"]), paths) for hit in hits
        ]
    for key, offset in sorted(found):
        print(key, offset)
    print(len(paths), "files,", set(verify(INDEX)["rule"].to_pylist()))


if __name__ == "__main__":
    main()
