"""Every engine that says which entries belong to a key, asked alike; none needs a Spark session."""

from __future__ import annotations

import json
import warnings
from collections import Counter
from typing import TYPE_CHECKING, NamedTuple

import pyarrow as pa

from pyspark_rmqindex.files import list_slices, with_logs
from pyspark_rmqindex.join import KeyColumns, LookupTask
from pyspark_rmqindex.options import read_options
from pyspark_rmqindex.read import IndexReader
from pyspark_rmqindex.schema import full_schema
from pyspark_rmqindex.sql import KeyFinder, plan_files_of
from recorded import BROKER_VERSIONS, MESSAGE_KINDS, ROCKETMQ_CLASSES, STORE_KINDS
from rmqindex import (
    CommitLog,
    IncompleteIndexWarning,
    IndexDirectory,
    MessageStore,
    index_key,
    key_hash,
    sample_store,
)
from rmqindex.messagestore import EVERYTHING
from rmqindex.record import inner_messages
from rmqindex.store import IndexSnapshot

if TYPE_CHECKING:
    from pathlib import Path

__all__ = [
    "ENGINES",
    "RECORDED_STORES",
    "Row",
    "StoreCase",
    "Twin",
    "broker_offsets",
    "scan",
    "single_keys",
]

LONG_MAX = 2**63 - 1


class Row(NamedTuple):
    """An entry that was found for a key; ``store_timestamp`` in milliseconds."""

    topic: str
    key: str
    file: str
    position: int
    phy_offset: int
    store_timestamp: int
    state: str


class StoreCase(NamedTuple):
    """A store, its CommitLog where it is elsewhere, and its geometry where it must be told."""

    path: Path
    commit_log: Path | None = None
    layout: tuple[int, int] | None = None
    mode: str = "FAILFAST"

    @property
    def options(self):
        """The options of a load."""
        geometry = zip(("maxHashSlotNum", "maxIndexNum"), self.layout or (), strict=False)
        return {
            "path": str(self.path),
            "commitLog": str(self.commit_log or "auto"),
            "mode": self.mode,
            **{name: str(number) for name, number in geometry},
        }

    @property
    def log(self):
        """What finds the CommitLog."""
        return self.commit_log or self.path

    def files(self):
        """Return the plan of the index."""
        from rmqindex import Layout

        return IndexSnapshot.of(self.path, self.layout and Layout(*self.layout), self.mode)


_SAMPLE = sample_store()
#: The stores that are recorded, each with an index of files.
RECORDED_STORES = {
    "sample": StoreCase(_SAMPLE),
    "sample, indexed twice at its end": StoreCase(
        ROCKETMQ_CLASSES / "store_recovered", _SAMPLE / "commitlog"
    ),
    "message kinds": StoreCase(MESSAGE_KINDS / "store"),
    **{path.name: StoreCase(path / "store") for path in sorted(BROKER_VERSIONS.glob("*.*.*"))},
    **{
        path.name: StoreCase(path / "store")
        for path in sorted(STORE_KINDS.iterdir())
        if (path / "store" / "index").is_dir()
    },
}


def _of_spark(rows, asked=None):
    """Return rows of a load."""
    return Counter(
        Row(
            *(asked or (row["topic"], row["key"])),
            row["file_path"].rpartition("/")[2],
            row["position"],
            row["phy_offset"],
            round(row["store_timestamp"].timestamp() * 1000),
            row["match_state"],
        )
        for row in rows
    )


def _load(case, **more):
    options = read_options({**case.options, **more})
    reader = IndexReader(options, full_schema(keys=True, log=True), {})
    return [
        row
        for partition in reader.partitions()
        for batch in reader.read(partition)
        for row in batch.to_pylist()
    ]


def scan(case, **more):
    """Return all entries of a load, which knows the keys of those that it could verify."""
    return _of_spark(_load(case, **more))


def scanned(case, pairs):
    """``load()`` with a filter on ``topic`` and ``key``: what it could not verify has no key."""
    rows = scan(case)
    wanted = set(pairs)
    return Counter({row: count for row, count in rows.items() if (row.topic, row.key) in wanted})


def by_options(case, pairs):
    """``load()`` with the options ``topic`` and ``keys``, which reads as ``table()`` does."""
    rows = Counter()
    for topic, keys in by_topic(pairs).items():
        rows += _of_spark(_load(case, topic=topic, keys=json.dumps(keys)))
    return rows


def joined(case, pairs, strategy="auto"):
    """``lookup()`` of a DataFrame of keys."""
    options = read_options(case.options)
    slices = with_logs(list_slices(options).slices, options.commit_log)
    task = LookupTask(
        tuple(slices), options, KeyColumns(0, 1), full_schema(keys=False, log=True), "inner",
        strategy,
    )  # fmt: skip
    topics, keys = zip(*pairs, strict=True)
    batch = pa.record_batch({"topic": list(topics), "key": list(keys)})
    return _of_spark(row for found in task([batch]) for row in found.to_pylist())


def called(case, pairs):
    """``rmq_lookup``, a call for each key."""
    options = read_options(case.options)
    schema = full_schema(keys=True, log=True)
    slices = plan_files_of(options)
    finder = KeyFinder(options, schema)
    rows = Counter()
    try:
        for topic, key in pairs:
            found = finder.rows(slices, topic, key, EVERYTHING)
            rows += _of_spark(dict(zip(schema.names, row, strict=True)) for row in found)
        finder.ensure_same()
    finally:
        finder.close()
    return rows


def _store(case):
    from rmqindex import Layout

    return MessageStore(
        case.path,
        commit_log=case.commit_log or "auto",
        layout=case.layout and Layout(*case.layout),
        mode=case.mode,
    )


def _of_store(table):
    return Counter(
        Row(
            row["topic"],
            row["key"],
            row["file"],
            row["position"],
            row["phy_offset"],
            round(row["store_timestamp"].timestamp() * 1000),
            row["match_state"],
        )
        for row in table.to_pylist()
    )


def many_keys(case, pairs):
    """``MessageStore.lookup`` of all keys of a topic."""
    rows = Counter()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", IncompleteIndexWarning)
        for topic, keys in by_topic(pairs).items():
            rows += _of_store(_store(case).lookup(topic, keys))
    return rows


def single_keys(case, pairs, **window):
    """``MessageStore.lookup`` of one key, also in a range of times."""
    rows = Counter()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", IncompleteIndexWarning)
        for topic, key in pairs:
            rows += _of_store(_store(case).lookup(topic, key, **window))
    return rows


#: The engines that find the same entries for a key.
ENGINES = {
    "load with keys": by_options,
    "lookup() by slots": lambda case, pairs: joined(case, pairs, "probe"),
    "lookup() by scan": lambda case, pairs: joined(case, pairs, "scan"),
    "rmq_lookup": called,
    "MessageStore, many keys": many_keys,
    "MessageStore, one key": single_keys,
}


def command(run, case, pairs, tmp_path):
    """``rmqindex lookup --json`` of the keys of a topic; those that a line can hold."""
    rows = Counter()
    for topic, keys in by_topic(pairs).items():
        listed = tmp_path / "keys"
        listed.write_bytes("\n".join(keys).encode())
        more = ["--commit-log", case.commit_log] if case.commit_log else []
        if case.layout:
            more += ["--slots", case.layout[0], "--entries", case.layout[1]]
        _, out, err = run(
            "lookup", case.path, topic, "--keys-file", listed, "--json", "--mode", case.mode, *more
        )
        document = json.loads(out)
        answers = document.get("answers", [document])
        assert len(answers) == len(keys), err
        rows += Counter(
            Row(
                answer["topic"],
                answer["key"],
                hit["name"],
                hit["position"],
                hit["phy_offset"],
                hit["store_timestamp"],
                hit["state"],
            )
            for answer in answers
            for hit in answer["hits"]
        )
    return rows


def broker_offsets(case, pair):
    """Return what ``IndexDirectory.query_offset`` answers: candidates, at most 64."""
    from rmqindex import Layout

    index = case.path / "index" if (case.path / "index").is_dir() else case.path
    with IndexDirectory(index, case.layout and Layout(*case.layout)) as directory:
        return directory.query_offset(*pair, 64, 0, LONG_MAX).phy_offsets


def by_topic(pairs):
    """Return the keys of each topic."""
    keys = {}
    for topic, key in pairs:
        keys.setdefault(topic, []).append(key)
    return keys


class Twin:
    """Whose each entry is, slowly and plainly: all entries of a message, one key after the other.

    Attributes:
        entries: File, position, hash, offset and time of each entry of the index.
        keys: The keys that each message may have entries of, in their order.
        owners: The pair that each entry belongs to, by file and position; None where no message is.
    """

    def __init__(self, case):
        """Read the whole index and the whole log."""
        self.entries = []
        for planned in case.files():
            if planned.is_empty:
                continue
            with planned.open() as file:
                self.entries += [
                    (planned.entry.name, row["position"], row["key_hash"], row["phy_offset"],
                     row["store_timestamp"])
                    for batch in file.scan()
                    for row in batch.to_pylist()
                ]  # fmt: skip
        self.messages = {}
        with CommitLog(case.log) as log:
            columns = [
                "topic", "all_uniq_keys", "all_keys", "tags", "sys_flag", "body", "phy_offset",
                "store_timestamp",
            ]  # fmt: skip
            for batch in log.scan(columns=columns):
                self.messages |= {row["phy_offset"]: row for row in batch.to_pylist()}
        self.owners = {}
        for (offset, hash_), places in self._groups().items():
            message = self.messages.get(offset)
            for number, place in enumerate(places):
                self.owners[place] = message and self._owner(message, hash_, len(places), number)

    def keys_of(self, message):
        """Return the keys that a broker indexes, the tags, and those of members."""
        uniq, texts = message["all_uniq_keys"], message["all_keys"]
        own = [*uniq[-1:], *(part for part in (texts[-1:] or [""])[0].split(" ") if part)]
        tags = [f"T#{message['tags']}"] if message["tags"] else []
        members = [*uniq[:-1], *(part for text in texts[:-1] for part in text.split(" ") if part)]
        if message["sys_flag"] & 0x80:
            for inner in inner_messages(message["body"], message["sys_flag"], decompress=False):
                members += [inner.property("UNIQ_KEY")] if inner.property("UNIQ_KEY") else []
                members += [part for part in (inner.property("KEYS") or "").split(" ") if part]
        return own, tags, [key for key in dict.fromkeys(members) if key not in own]

    def pairs(self):
        """Return all topics and keys of the log, and some that are nowhere."""
        found = {
            (message["topic"], key): None
            for message in self.messages.values()
            for part in self.keys_of(message)
            for key in part
            if key and "\n" not in key
        }
        topics = dict.fromkeys(topic for topic, _ in found)
        others = [(topic, key) for topic in topics for key in ("Aa", "BB", "absent")]
        return list(dict.fromkeys([*found, *others]))

    def expected(self, pairs):
        """Return the rows of lookups: a key's own entries, and those that nobody can confirm."""
        rows = Counter()
        own, open_ = {}, {}
        for file, position, hash_, offset, time in self.entries:
            owner = self.owners[file, position]
            if owner is not None:
                time = self.messages[offset]["store_timestamp"]  # noqa: PLW2901
                own.setdefault(owner, []).append((file, position, offset, time, "verified"))
            else:
                open_.setdefault(hash_, []).append((file, position, offset, time, "unverified"))
        for pair in pairs:
            hash_ = key_hash(index_key(*pair))
            rows.update(Row(*pair, *found) for found in own.get(pair, []))
            rows.update(Row(*pair, *found) for found in open_.get(hash_, []))
        return rows

    def _groups(self):
        groups = {}
        for file, position, hash_, offset, _ in self.entries:
            groups.setdefault((offset, hash_), []).append((file, position))
        return groups

    def _owner(self, message, hash_, count, number):
        own, tags, members = (
            [key for key in part if key_hash(index_key(message["topic"], key)) == hash_]
            for part in self.keys_of(message)
        )
        fitting = {
            keys[number % len(keys)]
            for keys in (own, own + tags, own + members, own + tags + members)
            if keys and count % len(keys) == 0
        }
        (key,) = fitting
        return message["topic"], key
