"""What earlier versions left behind is read by this one: ``tests/data/releases/VERSION``.

Each folder there was written by the version that it is named by, and is never written anew:
``python tests/connector/stream/test_kept_releases.py VERSION`` makes that of a version to be
released, from the sample store.

```text
killed/          an index, and the journal of a write of two that died before its end
queues/          a store whose ConsumeQueues were being exchanged
batches/         an index that a stream wrote, with the ledger of its batches
commit.json      the record of a commit to S3
export/          an export that ended half way, to be gone on with
streams.json     how far two streams had come, as their checkpoints have it
```
"""

from __future__ import annotations

import hashlib
import json
import re
import shutil
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from pyspark.sql.types import IntegerType, LongType, StructType

ROOT = Path(__file__).resolve().parents[3]
sys.path[:0] = [str(ROOT / "tests" / "support")] * (__name__ == "__main__")

from killing import dies_before  # noqa: E402  (the command finds it by the line above)
from pyspark_rmqindex.options import message_stream_options, stream_options  # noqa: E402
from pyspark_rmqindex.schema import full_schema, message_schema  # noqa: E402
from pyspark_rmqindex.stream import writer as writer_module  # noqa: E402
from pyspark_rmqindex.stream.commit import StreamBatch  # noqa: E402
from pyspark_rmqindex.stream.entries import IndexStreamReader  # noqa: E402
from pyspark_rmqindex.stream.messages import MessageStreamReader  # noqa: E402
from pyspark_rmqindex.stream.writer import IndexStreamWriter  # noqa: E402
from record_kinds import RECORD_KINDS  # noqa: E402
from rmqindex import (  # noqa: E402
    IndexFile,
    rebuild_consume_queues,
    sample_store,
)
from rmqindex.cli import main  # noqa: E402
from rmqindex.transaction import effective_listing  # noqa: E402
from rows import rows_read  # noqa: E402

RELEASES = ROOT / "tests" / "data" / "releases"
KEPT = sorted(path.name for path in RELEASES.iterdir()) if RELEASES.is_dir() else []
SCHEMA = (
    StructType()
    .add("key_hash", IntegerType())
    .add("phy_offset", LongType())
    .add("store_timestamp", LongType())
)
OWNER = {"host": "kept", "boot_id": "0" * 8 + "-0000-0000-0000-" + "0" * 12, "machine": "kept"}
QUERY = "2f9d0a3e-54b7-4f0e-9a43-6d5c1b7f8e21"
BATCHES, ROWS = 3, 10
HALF = 400
# Offsets have paths; that of the store is another one on each machine.
STORE = "/data/store"


def command(*words):
    """Run a command of the command line in this process; return its exit code."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "argv", ["rmqindex", *map(str, words)])
        try:
            main()
        except SystemExit as end:
            return end.code or 0
    return 0


def add_batch(directory, number):
    """Index the rows of a batch, as Spark has it done."""
    offsets = np.arange(number * ROWS, (number + 1) * ROWS, dtype=np.int64)
    columns = [
        pa.array((offsets * 7919 % 13).astype(np.int32)),
        pa.array(offsets * 100),
        pa.array(1_700_000_000_000 + offsets * 700),
    ]
    options = {
        "path": str(directory), "timeZone": "UTC", "maxHashSlotNum": "7", "maxIndexNum": "21",
    }  # fmt: skip
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(writer_module, "task_batch", lambda: StreamBatch(QUERY, number))
        writer = IndexStreamWriter(SCHEMA, False, options)
        message = writer.write(iter([pa.record_batch(columns, names=SCHEMA.names)]))
    IndexStreamWriter(SCHEMA, False, options).commit([message], number)


def readers(store, most=100_000):
    """Return the readers of two streams of a store with a limit, by the names of their formats."""
    entries = stream_options({"path": str(store), "maxEntriesPerTrigger": str(most)})
    messages = message_stream_options({"path": str(store), "maxMessagesPerTrigger": str(most)})
    schema = full_schema(keys=entries.has_keys, log=entries.has_log, store=entries.has_store)
    return {
        "rmqindex": IndexStreamReader(entries, schema),
        "rmqcommitlog": MessageStreamReader(messages, message_schema(store=messages.has_store)),
    }


def next_batch(reader, start):
    """Return where a batch ends, and the offsets of its rows."""
    end = json.loads(json.dumps(reader.latestOffset(start, reader.getDefaultReadLimit())))
    return end, [row["phy_offset"] for row in rows_read(reader, reader.partitions(start, end))]


def places(directory):
    """Return the offsets in an index as a reader finds it."""
    found = []
    for _, path in sorted(effective_listing(directory).items()):
        with IndexFile(path) as file:
            found += [offset for batch in file.scan() for offset in batch["phy_offset"].to_pylist()]
    return found


def tree(directory):
    """Return the files below a directory with their SHA-256, but for what a lock is."""
    return {
        path.relative_to(directory).as_posix(): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(directory.rglob("*"))
        if path.is_file() and path.name != "lock"
    }


@pytest.fixture(params=KEPT)
def kept(request, tmp_path):
    """A copy of what a version left, which may be written to."""
    return Path(shutil.copytree(RELEASES / request.param, tmp_path / "kept"))


def test_a_killed_write_is_not_seen_and_undone(kept):
    """The journal tells which files were there before; ``recover`` restores them."""
    before = tree(sample_store() / "index")
    directory = kept / "killed" / "index"
    assert tree(directory) != before
    assert places(directory) == places(sample_store() / "index")
    assert command("recover", directory) == 0
    assert tree(directory) == before
    assert not (kept / "killed" / ".index.rmqindex" / "journal.json").exists()


def test_a_killed_exchange_of_queues_is_undone(kept):
    """The note tells which folders were there before; the next rebuild begins with them."""
    store = kept / "queues"
    assert command("recover", store) == 0
    assert tree(store / "consumequeue") == tree(sample_store() / "consumequeue")
    assert sorted(path.name for path in store.iterdir()) == ["consumequeue"]


def test_a_batch_of_a_stream_is_not_added_again(kept):
    """The ledger tells the last one of each query."""
    directory = kept / "batches" / "index"
    add_batch(directory, BATCHES - 1)
    assert [offset // 100 for offset in places(directory)] == list(range(BATCHES * ROWS))
    add_batch(directory, BATCHES)
    assert [offset // 100 for offset in places(directory)] == list(range((BATCHES + 1) * ROWS))


def test_the_record_of_a_commit_to_s3_is_read(kept):
    """With its new files and those that go."""
    record = RECORD_KINDS["commit"].read(kept / "commit.json")
    assert record.committed
    assert [final for _, final, _ in record.new] == ["20231114221320000"]
    assert list(record.removed) == ["20231114221319000"]


def test_an_export_is_gone_on_with(kept, tmp_path):
    """It ends with the rows that a new one has, each once."""
    asked = ["--format", "jsonl", "--topic", "TopicOrder"]
    log = sample_store() / "commitlog"
    for folder in (kept / "export", tmp_path / "whole"):
        assert command("export", log, folder, *asked) == 0
    rows = [
        "".join(path.read_text() for path in sorted(folder.glob("*.jsonl"))).splitlines()
        for folder in (kept / "export", tmp_path / "whole")
    ]
    assert rows[0] == rows[1]
    assert len(list((kept / "export").glob("*.jsonl"))) == 2


def test_a_stream_goes_on_from_its_checkpoint(kept):
    """Every row once: those before its offset, then those behind it."""
    text = (kept / "streams.json").read_text()
    offsets = json.loads(text.replace(STORE, str(sample_store())))
    for name, reader in readers(sample_store()).items():
        _, everything = next_batch(reader, {})
        _, rest = next_batch(reader, offsets[name])
        assert rest == everything[HALF:]
        assert len(rest) > 0


def keep(version):
    """Write what this version leaves."""
    folder = RELEASES / version
    folder.mkdir(parents=True)  # what is kept is never written anew
    sample = sample_store()
    shutil.copytree(sample / "index", folder / "killed" / "index")
    with dies_before(lambda name, path: name == "unlink" and path.name == "journal.json"):
        command("relayout", folder / "killed" / "index", "--slots", "50", "--entries", "120")
    shutil.copytree(sample / "consumequeue", folder / "queues" / "consumequeue")
    renamed = []

    def is_second(name, path):
        renamed.extend([path] * (name in {"rename", "replace"} and path.name == "consumequeue"))
        return len(renamed) == 2

    with dies_before(is_second):
        rebuild_consume_queues(sample, folder / "queues", file_size=2000, replace=True)
    for number in range(BATCHES):
        add_batch(folder / "batches" / "index", number)
    owner = {"namespace": "pid:[1]", "pid": 1, "start_time": 1, **OWNER}
    fields = {
        "job": "kept", "owner": owner, "new": [["part-0", "20231114221320000", 528]],
        "removed": ["20231114221319000"], "committed": True,
    }  # fmt: skip
    (folder / "commit.json").write_bytes(RECORD_KINDS["commit"].encode("commit.json", fields))
    half = folder / "log"
    half.mkdir()
    shutil.copy(min((sample / "commitlog").iterdir()), half)
    asked = ["--format", "jsonl", "--topic", "TopicOrder"]
    assert command("export", half, folder / "export", *asked) == 0
    shutil.rmtree(half)
    ends = {name: next_batch(reader, {})[0] for name, reader in readers(sample, HALF).items()}
    text = json.dumps(ends, indent=1).replace(str(sample), STORE)
    (folder / "streams.json").write_text(text + "\n")
    # Whose machine it was is nobody's business.
    for path in folder.rglob("owner.json"):
        path.write_text(json.dumps(json.loads(path.read_text()) | OWNER, indent=1) + "\n")


if __name__ == "__main__":
    if not re.fullmatch(r"\d+\.\d+\.\d+", "".join(sys.argv[1:])):
        sys.exit("usage: python tests/connector/stream/test_kept_releases.py X.Y.Z")
    keep(sys.argv[1])
