"""Stores that Hypothesis makes up: every engine finds what was written for each key."""

from __future__ import annotations

import tempfile
from collections import Counter
from pathlib import Path
from typing import NamedTuple

from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from commitlog_encoder import Log, Message, properties_text
from engines import ENGINES, Row, StoreCase, scan, scanned, single_keys
from examples import examples
from rmqindex import IndexFileWriter, Layout, index_key, key_hash

BEGIN = 1_700_000_000_000
# Keys of one hash beside each other, with their topics and as tags: Aa BB, AaAa AaBB, T#Aa T#BB.
KEYS = ["Aa", "BB", "AaAa", "AaBB", "BBBB", "T#Aa", "T#BB", "k"]
TAGS = [None, "Aa", "BB", "t"]
ABSENT = "BBAa"
TOPICS = ["T", "U"]


class Sent(NamedTuple):
    """A message, and how often a broker indexed it: twice, if it was the last before a crash."""

    topic: str
    uniq_key: str | None
    keys: list[str]
    tags: str | None
    times: int

    def entries(self, *, with_tags):
        """Return the keys that one dispatch writes entries of."""
        own = [] if self.uniq_key is None else [self.uniq_key]
        return [*own, *self.keys, *([f"T#{self.tags}"] if with_tags and self.tags else [])]

    @property
    def tags_collide(self):
        """Whether a key has the hash of the tags and another text."""
        tag = f"T#{self.tags}"
        keys = self.entries(with_tags=False)
        return any(key != tag and key_hash(key) == key_hash(tag) for key in keys)


SENT = st.builds(
    Sent,
    st.sampled_from(TOPICS),
    st.none() | st.sampled_from(["id", *KEYS]),
    st.lists(st.sampled_from(KEYS), max_size=5),
    st.sampled_from(TAGS),
    st.sampled_from([1, 1, 1, 2]),
)


def colliding(row, pairs):
    """Return the pairs with the hash of a row."""
    hash_ = key_hash(index_key(row.topic, row.key))
    return [pair for pair in pairs if key_hash(index_key(*pair)) == hash_]


class Made(NamedTuple):
    """A store, the entries written to it, and whether the last one may be ambiguous."""

    case: StoreCase
    rows: list[Row]
    open: set[tuple[str, int]]


def make(root, sent, capacity, *, with_tags):
    """Write a log and an index of small files, with the entries in a broker's order."""
    log, layout = Log(1 << 16), Layout(3, capacity + 1)
    entries, open_places = [], set()
    for number, each in enumerate(sent):
        time = BEGIN + number * 1000
        pairs = [("UNIQ_KEY", each.uniq_key), ("KEYS", " ".join(each.keys)), ("TAGS", each.tags)]
        text = properties_text([(name, value) for name, value in pairs if value])
        offset = log.append(Message(each.topic, properties=text, store_timestamp=time))
        for key in each.entries(with_tags=with_tags) * each.times:
            if each.tags_collide:
                open_places.add(len(entries))
            entries.append((each.topic, key, offset, time))
    log.write_to(root / "commitlog")
    (root / "index").mkdir()
    rows, open_ = [], set()
    for first in range(0, len(entries), capacity):
        name = f"{20231114221320000 + first}"
        with IndexFileWriter(root / "index" / name, layout) as writer:
            for place, (topic, key, offset, time) in enumerate(entries[first : first + capacity]):
                assert writer.put(index_key(topic, key), offset, time)
                rows.append(Row(topic, key, name, place + 1, offset, time, "verified"))
                if first + place in open_places:
                    open_.add((name, place + 1))
    return Made(StoreCase(root, None, (3, capacity + 1)), rows, open_)


def link_to_themselves(path):
    """Let each second entry of a file lead to itself, as puts after kills make them."""
    data = bytearray(path.read_bytes())
    for position in range(1, int.from_bytes(data[36:40], "big"), 2):
        link = 40 + 12 + 20 * position + 16
        data[link : link + 4] = position.to_bytes(4, "big")
    path.write_bytes(data)


@settings(max_examples=examples(24), phases=(Phase.generate,))
@given(
    sent=st.lists(SENT, min_size=1, max_size=12),
    capacity=st.integers(1, 9),
    with_tags=st.booleans(),
    kind=st.sampled_from(["whole", "whole", "slots", "own links", "first file gone"]),
    window=st.none() | st.tuples(st.integers(0, 12), st.integers(0, 12)).map(sorted),
)
def test_every_engine_finds_what_was_written(sent, capacity, with_tags, kind, window):
    """Each entry for its own key alone; where it cannot be known, all say so, and none guesses."""
    pairs = [(topic, key) for topic in TOPICS for key in [*KEYS, "id", "T#t", ABSENT]]
    with tempfile.TemporaryDirectory() as folder:
        made = make(Path(folder) / "store", sent, capacity, with_tags=with_tags)
        if not made.rows:
            return
        case, rows = made.case, made.rows
        files = sorted((case.path / "index").iterdir())
        gone: set[int] = set()  # the messages whose first entries may be gone
        if kind == "slots":
            case = case._replace(mode="DROPMALFORMED")
            data = bytearray(files[-1].read_bytes())
            data[40:52] = bytes(12)
            files[-1].write_bytes(data)
        if kind == "own links":
            link_to_themselves(files[-1])
        if kind == "first file gone" and len(files) > 1:
            files[0].unlink()
            gone = {row.phy_offset for row in rows if row.file == files[0].name}
            rows = [row for row in rows if row.file != files[0].name]
        found = scan(case)
        truth = {(row.file, row.position): row for row in rows}
        assert {(row.file, row.position) for row in found} == set(truth)
        for row in found:
            if row.state == "verified":
                assert row == truth[row.file, row.position]
            else:
                assert row.state == "ambiguous"
                place = (row.file, row.position)
                assert place in made.open or row.phy_offset in gone
        expected = Counter()
        for row in found:
            own = truth[row.file, row.position]
            asked = colliding(own, pairs) if row.state == "ambiguous" else [(own.topic, own.key)]
            expected.update(row._replace(topic=topic, key=key) for topic, key in asked)
        for name, engine in ENGINES.items():
            assert engine(case, pairs) == expected, name
        verified = Counter({row: n for row, n in expected.items() if row.state == "verified"})
        assert scanned(case, pairs) == verified
        assert scan(case, maxPartitionBytes="40") == found
        if window is not None:
            begin, end = (BEGIN + 1000 * bound for bound in window)
            within = single_keys(case, pairs, begin=begin, end=end)
            assert {row: n for row, n in within.items() if row.state == "verified"} == {
                row: n for row, n in verified.items() if begin <= row.store_timestamp <= end
            }


def test_a_message_over_many_small_files_is_one(tmp_path):
    """Entries of one message, indexed twice, fill four files."""
    sent = [Sent("T", "id", ["Aa", "BB", "AaAa", "AaBB", "BBBB"], "t", 2)]
    made = make(tmp_path / "store", sent, 3, with_tags=False)
    assert scan(made.case) == Counter(made.rows)
    pairs = [("T", key) for key in [*KEYS, "id"]]
    for name, engine in ENGINES.items():
        assert engine(made.case, pairs) == Counter(made.rows), name
