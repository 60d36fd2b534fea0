"""One key and one message at a time give what many at once give, or nothing."""

from __future__ import annotations

import random
import struct

import pytest

from rmqindex import CommitLog, IndexFile, IndexFileWriter, Layout, RmqIndexError, sample_store
from rmqindex.query.point_lookup import PointFile, PointLog

LAYOUT = Layout(97, 200)
FILES = sorted(path for path in (sample_store() / "index").iterdir() if path.name.isdigit())


def entries_of(file, key_hash, limit=None):
    """Return what the whole lookup finds, as tuples."""
    found = file.lookup([key_hash], limit).drop_columns(["query"])
    return [tuple(row.values()) for row in found.to_pylist()]


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_every_hash_of_the_sample_store_and_its_neighbours(path):
    """Present and absent ones, the first entry's exact time included."""
    point = PointFile(str(path), LAYOUT)
    with IndexFile(path, LAYOUT) as file:
        limit = file.entry_count + 1
        hashes = {h for batch in file.scan(columns=["key_hash"]) for h in batch[0].to_pylist()}
        for hash_ in {*hashes, *(hash_ ^ 1 for hash_ in hashes), 0, 2**31 - 1}:
            assert point.lookup(hash_, limit) == entries_of(file, hash_)
    point.close()


def test_what_is_not_plain_is_left_to_the_whole_lookup(tmp_path):
    """A long chain, a chain that goes on behind the limit, and damage."""
    path = tmp_path / "20240101000000000"
    with IndexFileWriter(path, Layout(3, 1000)) as writer:
        writer.put_many([7] * 300, range(300), [1_700_000_000_000] * 300)
        writer.put_many([8], [300], [1_700_000_000_000])
    point = PointFile(str(path), Layout(3, 1000))
    assert point.lookup(7, 302) is None
    assert [entry.position for entry in point.lookup(8, 302)] == [301]
    assert point.lookup(8, 301) is None
    assert point.lookup(9, 302) == []
    point.close()


def test_any_damaged_byte_gives_the_same_rows_or_none(tmp_path):
    """What the strict lookup refuses is never answered."""
    data = FILES[0].read_bytes()
    chosen = random.Random(5)
    path = tmp_path / FILES[0].name
    with IndexFile(FILES[0], LAYOUT) as file:
        limit = file.entry_count + 1
        hashes = [h for batch in file.scan(columns=["key_hash"]) for h in batch[0].to_pylist()]
    for _ in range(60):
        damaged = bytearray(data)
        # In the slots or the entries: a damaged header is another file.
        place = chosen.randrange(40, 40 + 4 * 97 + 20 * limit)
        damaged[place] ^= 1 << chosen.randrange(8)
        path.write_bytes(damaged)
        point = PointFile(str(path), LAYOUT)
        for hash_ in chosen.sample(hashes, 5):
            try:
                found = point.lookup(hash_, limit)
            except RmqIndexError:
                continue
            if found is not None:
                with IndexFile(path, LAYOUT) as file:
                    assert found == entries_of(file, hash_, limit)
        point.close()


def test_every_message_of_the_sample_store():
    """Topic, keys in the order of their entries, and time; batches are left out."""
    columns = ["phy_offset", "topic", "uniq_key", "keys", "all_uniq_keys", "all_keys", "sys_flag"]
    columns += ["store_timestamp", "tags"]
    plain = 0
    with CommitLog(sample_store()) as log, PointLog(str(sample_store())) as point:
        for batch in log.scan(columns=columns):
            for row in batch.to_pylist():
                found = point.message(row["phy_offset"])
                if found is None:
                    several = max(len(row["all_uniq_keys"]), len(row["all_keys"])) > 1
                    assert several or row["sys_flag"] & 0x80
                    continue
                keys = [row["uniq_key"]] if row["uniq_key"] else []
                keys += [part for part in (row["keys"] or "").split(" ") if part]
                keys += [f"T#{row['tags']}"] if row["tags"] else []
                assert found == (row["topic"], keys, row["store_timestamp"])
                plain += 1
        assert point.message(log.max_offset) is None
        assert point.message(1) is None
        assert point.message(2**62) is None
        assert point.message(-1) is None
        assert not point.is_expired(0)
    assert plain > 400


def test_offsets_before_the_first_file_are_expired(tmp_path):
    """Negative ones never were in a log."""
    folder = tmp_path / "commitlog"
    folder.mkdir()
    last = max((sample_store() / "commitlog").iterdir())
    (folder / last.name).write_bytes(last.read_bytes())
    with PointLog(str(tmp_path)) as point:
        assert point.is_expired(0)
        assert not point.is_expired(-1)
        assert not point.is_expired(int(last.name))
        assert point.message(0) is None


def test_a_file_of_another_kind_is_refused(tmp_path):
    """As everywhere."""
    (tmp_path / "1").write_bytes(struct.pack(">q", 1))
    with pytest.raises(RmqIndexError):
        PointFile(str(tmp_path / "1"), LAYOUT)
