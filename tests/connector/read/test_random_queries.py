"""Random files and random predicates: with pushdown and without, the rows are the same."""

from __future__ import annotations

import random

import pytest

from pyspark_rmqindex import table
from rmqindex import IndexFileWriter, Layout, index_key, key_hash

SEED = 20_231_114
ROUNDS = 4
QUERIES = 9
BEGIN = 1_700_000_000_000
# Keys of one hash, keys of one slot, empty and non-ASCII ones.
KEYS = ["Aa", "BB", "a", "b", "", "订单", "x y", "k'1", "C#", "AaBB", "BBAa"]
TOPICS = ["T", "U", "%RETRY%g"]


def sql_text(value):
    """Quote a text for SQL."""
    return "'" + value.replace("\\", "\\\\").replace("'", "\\'") + "'"


def write_files(rng, directory):
    """Write a few small files; return their geometry, and the known pairs with their hashes."""
    hash_slot_num = rng.choice([1, 3, 10])
    pairs = {(topic, key): key_hash(index_key(topic, key)) for topic in TOPICS for key in KEYS}
    offset = 0
    for number in range(rng.randint(1, 4)):
        count = rng.randint(0, 40)
        begin = BEGIN + number * rng.choice([-50_000, 0, 60_000])
        path = directory / f"2023111400000000{number}"
        hashes = rng.choices([*pairs.values(), 7, 2**31 - 1], k=count)
        offsets, times = [], []
        for _ in range(count):
            offset = max(0, offset + rng.choice([-300, 0, 100, 100, 250]))
            offsets.append(offset)
            times.append(begin + rng.choice([0, 1, 999, 1000, 40_000, -5000]))
        with IndexFileWriter(path, Layout(hash_slot_num, 60)) as writer:
            assert writer.put_many(hashes, offsets, times) == count
    return Layout(hash_slot_num, 60), pairs


def random_filters(rng):
    """Return a random conjunction over the columns of an entry."""
    milliseconds = BEGIN + rng.choice([0, 1, 1000, 39_999, 60_000, -50_000, 100_500])
    micros = milliseconds * 1000 + rng.choice([0, 0, 1, 999])
    clauses = [
        f"store_timestamp {rng.choice(['<', '<=', '>', '>=', '='])} timestamp_micros({micros})",
        f"phy_offset {rng.choice(['<', '<=', '>', '>=', '=', '<>'])} {rng.randint(0, 3000)}",
        f"position {rng.choice(['<', '<=', '>', '>=', '='])} {rng.randint(0, 41)}",
        f"position IN ({rng.randint(1, 5)}, {rng.randint(1, 40)})",
        f"(position < {rng.randint(1, 40)} OR phy_offset > {rng.randint(0, 3000)})",
        f"phy_offset BETWEEN {rng.randint(0, 1500)} AND {rng.randint(0, 3000)}",
        "slot % 2 = 0",
        "file_path LIKE '%0'",
    ]
    return rng.sample(clauses, rng.randint(0, 3))


def random_keys(rng):
    """Return clauses that bind both topic and key."""
    topics = rng.sample(TOPICS, rng.randint(1, 2))
    keys = rng.sample([*KEYS, "absent"], rng.randint(1, 5))
    clauses = []
    for name, values in (("topic", topics), ("key", keys)):
        if len(values) == 1:
            clauses.append(f"{name} {rng.choice(['=', '<=>'])} {sql_text(values[0])}")
        else:
            clauses.append(f"{name} IN ({', '.join(map(sql_text, values))})")
    return clauses


def rows_of(df):
    """Return rows in one order."""
    return sorted(map(tuple, df.collect()), key=repr)


@pytest.mark.system
def test_random_queries_give_the_same_rows_with_pushdown_and_without(spark, tmp_path):
    """On tables with keys and without, a fresh one or one that was used before."""
    rng = random.Random(SEED)
    found = 0
    for round_ in range(ROUNDS):
        directory = tmp_path / str(round_)
        directory.mkdir()
        layout, pairs = write_files(rng, directory)
        geometry = {"maxHashSlotNum": layout.hash_slot_num, "maxIndexNum": layout.index_num}
        scan = spark.read.format("rmqindex").options(**geometry).load(str(directory)).cache()
        known = spark.createDataFrame(
            [(*pair, hashed) for pair, hashed in pairs.items()], "topic STRING, key STRING, h INT"
        )
        with_keys = scan.join(known, scan.key_hash == known.h).drop("h").cache()
        shared = table(spark, directory, commitLog="none", **geometry)
        shared_hashes = table(spark, directory, keys=False, **geometry)
        for _ in range(QUERIES):
            where = " AND ".join([*random_keys(rng), *random_filters(rng)])
            right = rows_of(with_keys.where(where).select(shared.columns))
            t = (
                shared
                if rng.random() < 0.7
                else table(spark, directory, commitLog="none", **geometry)
            )
            assert rows_of(t.where(where)) == right, (SEED, round_, where)
            hashes = ", ".join(str(h) for h in rng.sample(sorted(pairs.values()), 2))
            clauses = random_filters(rng) + [f"key_hash IN ({hashes})"] * rng.randint(0, 1)
            where = " AND ".join(clauses) or "true"
            expected = rows_of(scan.where(where))
            t = (
                shared_hashes
                if rng.random() < 0.7
                else table(spark, directory, keys=False, **geometry)
            )
            assert rows_of(t.where(where)) == expected, (SEED, round_, where)
            found += len(right) + len(expected)
    assert found > 100
