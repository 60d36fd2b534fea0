"""The writer against bytes that RocketMQ's own IndexFile wrote."""

from __future__ import annotations

import gzip
import hashlib
import itertools
import json

import numpy as np
import pytest

from recorded import ROCKETMQ_CLASSES
from rmqindex import IndexFileWriter, IndexHeader, Layout, key_hashes

CASES = json.loads((ROCKETMQ_CLASSES / "vectors.json").read_text())


def put_singly(writer, puts):
    """Put entries one at a time; return which fitted."""
    return [writer.put(put["key"], put["phy_offset"], put["store_timestamp"]) for put in puts]


def put_together(writer, puts):
    """Put entries with one call; return which fitted."""
    fitted = writer.put_many(
        key_hashes([put["key"] for put in puts]),
        [put["phy_offset"] for put in puts],
        [put["store_timestamp"] for put in puts],
    )
    return [place < fitted for place in range(len(puts))]


def put_mixed(writer, puts):
    """Put one entry singly, the next three together, and so on; return which fitted."""
    fitted = []
    for start in range(0, len(puts), 4):
        fitted += put_singly(writer, puts[start : start + 1])
        fitted += put_together(writer, puts[start + 1 : start + 4])
    return fitted


@pytest.mark.parametrize("put_all", [put_singly, put_together, put_mixed])
@pytest.mark.parametrize("case", CASES, ids=[case["name"] for case in CASES])
def test_the_bytes_are_the_brokers(case, put_all, tmp_path):
    """At creation, before the flush and after closing, the file is what the broker's is."""
    path = tmp_path / "20240102030405678"
    layout = Layout(case["hash_slot_num"], case["index_num"])
    writer = IndexFileWriter(path, layout, case["prev_end_phy_offset"], case["prev_end_timestamp"])
    if "file_hex_at_creation" in case:
        assert path.read_bytes().hex() == case["file_hex_at_creation"]
    is_reopen = lambda put: "reopen" in put  # noqa: E731
    for reopen, group in itertools.groupby(case["puts"], is_reopen):
        if reopen:
            writer.close()
            writer = IndexFileWriter(path, layout)
        else:
            puts = list(group)
            assert put_all(writer, puts) == [put["returned_bool"] for put in puts]
    if "file_hex_before_flush" in case:
        assert path.read_bytes().hex() == case["file_hex_before_flush"]
    assert writer.header == IndexHeader(**case["header"])
    writer.close()
    assert path.read_bytes().hex() == case["file_hex"]
    assert writer.header == IndexHeader(**case["header"])
    assert writer.is_write_full is case["is_write_full"]


def test_a_file_of_the_default_size_is_the_brokers(tmp_path):
    """300,000 entries in a default file give the sha256 of the broker's file, and stay sparse."""
    case = json.loads((ROCKETMQ_CLASSES / "default_size" / "default_size.json").read_text())
    recipe = case["recipe_params"]
    places = np.arange(recipe["n"])
    keys = [f"{recipe['key_prefix']}{place % recipe['mod']}" for place in places.tolist()]
    path = tmp_path / case["file"]
    with IndexFileWriter(path, Layout()) as writer:
        writer.put_many(
            key_hashes(keys),
            recipe["phy_offset_0"] + places * recipe["phy_offset_step"],
            recipe["store_timestamp_0"] + places * recipe["store_timestamp_step"],
        )
    assert writer.header == IndexHeader(**case["header"])
    digest = (ROCKETMQ_CLASSES / "default_size" / f"{case['file']}.sha256").read_text().split()[0]
    with path.open("rb") as file:
        assert hashlib.file_digest(file, "sha256").hexdigest() == digest
    used = path.stat().st_blocks * 512
    assert used < 40_000_000 < path.stat().st_size == case["file_size"]


def test_the_golden_default_file_is_what_its_checksum_says():
    """The gzipped file itself is sound, so that the tests which unpack it judge by sound bytes."""
    name = "20231114221320000"
    digest = (ROCKETMQ_CLASSES / "default_size" / f"{name}.sha256").read_text().split()[0]
    with gzip.open(ROCKETMQ_CLASSES / "default_size" / f"{name}.gz") as file:
        assert hashlib.file_digest(file, "sha256").hexdigest() == digest
