"""What fills a store, and what any of its files holds."""

from __future__ import annotations

import errno
import os
import shutil
import struct
from collections import Counter
from pathlib import Path

import pytest
from tests.system.store_kinds import copy_store

import rmqindex
from recorded import BROKER_VERSIONS
from rmqindex import CommitLog
from rmqindex.commitlog import Selection
from rmqindex.export import dump_file
from rmqindex.query import folder_usage, measure_usage

STORE = rmqindex.sample_store()
GOLDEN = BROKER_VERSIONS / "5.5.0" / "store"


def first(pattern, store=STORE):
    """Return the first file that matches."""
    return min(path for path in store.glob(pattern) if path.is_file())


def items_of(path, start=0):
    """Return the items of a file and what ended them."""
    dump = dump_file(path, start)
    items = list(dump.items)
    return dump, items


def values(item):
    """Return the fields of an item by name."""
    return {field.name: field.value for field in item.fields}


class TestUsage:
    """``measure_usage``."""

    @pytest.mark.parametrize("by", [("topic",), ("queue",), ("hour",), ("topic", "hour"), ()])
    def test_groups_are_those_of_a_count_in_python(self, by):
        """Messages and bytes of each, and in all."""
        with CommitLog(STORE) as log:
            usage = measure_usage(log, by)
            rows = [row for batch in log.scan() for row in batch.to_pylist()]
        counts, sizes = Counter(), Counter()
        for row in rows:
            group = (
                row["topic"] if {"topic", "queue"} & set(by) else None,
                row["queue_id"] if "queue" in by else None,
                row["store_timestamp"] // 3_600_000 * 3_600_000 if "hour" in by else None,
            )
            counts[group] += 1
            sizes[group] += row["size"]
        found = {(row.topic, row.queue_id, row.hour): row for row in usage.rows}
        assert {group: row.message_count for group, row in found.items()} == counts
        assert {group: row.size for group, row in found.items()} == sizes
        assert (usage.message_count, usage.size) == (len(rows), sum(row["size"] for row in rows))

    def test_the_largest_group_comes_first_and_hours_in_order(self):
        """What eats the disk is at the top."""
        with CommitLog(STORE) as log:
            by_topic = measure_usage(log).rows
            by_hour = measure_usage(log, ["hour"]).rows
            none = measure_usage(log, ["topic"], Selection(topics=("nobody",)))
        assert [row.size for row in by_topic] == sorted(
            (row.size for row in by_topic), reverse=True
        )
        assert [row.hour for row in by_hour] == sorted(row.hour for row in by_hour)
        assert (none.rows, none.message_count) == ((), 0)

    def test_folders_hold_all_files(self, tmp_path):
        """Also those that are no part of a store."""
        shutil.copytree(STORE, tmp_path / "store")
        (tmp_path / "store" / "backup" / "old").mkdir(parents=True)
        (tmp_path / "store" / "backup" / "old" / "file").write_bytes(bytes(100_000))
        folders = {folder.name: folder for folder in folder_usage(tmp_path / "store")}
        assert (folders["backup"].file_count, folders["backup"].size) == (1, 100_000)
        assert folders["index"].file_count == 5
        assert folder_usage("s3://bucket/store") == ()

    def test_a_folder_that_cannot_be_listed_is_told(self, tmp_path, monkeypatch):
        """What it takes is not in the sums; one that a broker has deleted meanwhile is nothing."""
        shutil.copytree(STORE, tmp_path / "store")
        scandir = os.scandir

        def refusing(path):
            for name, error in (("index", errno.EACCES), ("commitlog", errno.ENOENT)):
                if Path(path).name == name:
                    raise OSError(error, os.strerror(error), path)
            return scandir(path)

        monkeypatch.setattr(os, "scandir", refusing)
        told = []
        folder_usage(tmp_path / "store", told.append)
        (line,) = told
        why = "cannot be listed: Permission denied; what it takes is not counted"
        assert line == f"{tmp_path / 'store' / 'index'}: {why}"


class TestDump:
    """``dump_file``."""

    @pytest.mark.parametrize(
        ("pattern", "kind"),
        [
            ("index/*", "IndexFile"),
            ("commitlog/*", "CommitLog"),
            ("consumequeue/*/*/*", "ConsumeQueue"),
            ("batchconsumequeue/*/*/*", "batch ConsumeQueue"),
            ("checkpoint", "checkpoint"),
        ],
    )
    def test_the_files_of_a_broker_are_recognised_and_end_without_damage(self, pattern, kind):
        """Fields follow one another and lie inside the file."""
        path = first(pattern, GOLDEN)
        dump, items = items_of(path)
        assert (dump.kind, dump.error, dump.size) == (kind, None, path.stat().st_size)
        end = 0
        for item in items:
            for field in item.fields:
                assert field.byte >= end
                end = field.byte + field.size
            assert item.fields[0].byte == item.byte
        assert end <= dump.size

    def test_records_are_those_of_a_scan(self):
        """Offsets, topics and bodies, by their own bytes in the file."""
        path = first("commitlog/*")
        data = path.read_bytes()
        _, items = items_of(path)
        records = [item for item in items if item.name == "record"]
        with CommitLog(path) as log:
            rows = [row for batch in log.scan() for row in batch.to_pylist()]
        assert len(records) == len(rows)
        for item, row in zip(records, rows, strict=True):
            fields = values(item)
            assert (item.byte, fields["topic"]) == (row["phy_offset"], row["topic"])
            assert fields["store_timestamp"] == row["store_timestamp"]
            assert (fields["born_host"], fields["store_host"]) == (
                row["born_host"],
                row["store_host"],
            )
            topic = next(field for field in item.fields if field.name == "topic")
            assert data[topic.byte : topic.byte + topic.size].decode() == row["topic"]

    def test_entries_are_those_of_a_scan(self):
        """By their own bytes."""
        path = first("index/*")
        _, items = items_of(path)
        with rmqindex.IndexFile(path) as file:
            rows = [row for batch in file.scan() for row in batch.to_pylist()]
        entries = [item for item in items if item.name.startswith("entry ")]
        assert [values(item)["key_hash"] for item in entries] == [row["key_hash"] for row in rows]
        slots = [item for item in items if item.name.startswith("slot ")]
        assert len(slots) == values(items[0])["hash_slot_count"]

    def test_an_offset_begins_with_the_item_that_holds_it(self):
        """Whatever came before is left out."""
        for pattern in ("commitlog/*", "consumequeue/*/*/*", "index/*"):
            path = first(pattern)
            _, items = items_of(path)
            middle = items[len(items) // 2]
            inside = middle.fields[-1].byte
            assert items_of(path, inside)[1][0] == middle

    def test_damage_ends_the_items_and_is_named(self, tmp_path):
        """What comes before is shown."""
        path = tmp_path / f"{0:020d}"
        data = bytearray(first("commitlog/*").read_bytes())
        _, items = items_of(first("commitlog/*"))
        place = items[5].byte
        data[place + 4] ^= 0xFF
        path.write_bytes(data)
        dump, found = items_of(path)
        assert found[:5] == items[:5]
        assert found[5].name == "damaged record"
        assert f"magic_code at byte {place + 4}: expected" in dump.error

    def test_a_blank_of_dledger_is_an_item(self, tmp_path):
        """It fills a file up to its end, or stands for what was before a snapshot."""
        file = min((copy_store("dledger", tmp_path) / "dledger-n0" / "data").iterdir())
        data = bytearray(file.read_bytes())
        _, items = items_of(file)
        heads = [item for item in items if item.name == "entry head"]
        second, last = heads[1].byte, heads[-1].byte
        data[:8] = struct.pack(">ii", -1, second)
        data[last:] = struct.pack(">ii", -1, len(data) - last) + bytes(len(data) - last - 8)
        file.write_bytes(data)
        dump, found = items_of(file)
        assert (dump.kind, dump.error) == ("CommitLog of DLedger", None)
        blanks = [(item.byte, values(item)) for item in found if item.name == "blank entry"]
        assert blanks == [
            (0, {"magic": -1, "size": second}),
            (last, {"magic": -1, "size": len(data) - last}),
        ]
        between = [item for item in items if second <= item.byte < last]
        assert found[1:-1] == between

    def test_a_blank_of_dledger_in_the_middle_is_damage(self, tmp_path):
        """Only the first bytes of a file may be blank where others follow."""
        file = min((copy_store("dledger", tmp_path) / "dledger-n0" / "data").iterdir())
        data = bytearray(file.read_bytes())
        _, items = items_of(file)
        at = [item.byte for item in items if item.name == "entry head"][1]
        data[at : at + 8] = struct.pack(">ii", -1, 48)
        file.write_bytes(data)
        dump, _ = items_of(file)
        left = len(data) - at
        assert f"size at byte {at + 4}: expected {left}, up to the end of the file" in dump.error

    @pytest.mark.parametrize("is_alone", [False, True], ids=["with a log", "alone"])
    @pytest.mark.parametrize("name", ["checkpoint", "checkpoint.bak", "currterm"])
    def test_the_texts_of_dledger_are_no_files_of_the_store(self, tmp_path, name, is_alone):
        """Its checkpoint is another one than the store's of that name."""
        folder = copy_store("dledger", tmp_path) / "dledger-n0"
        if is_alone:  # as after a start without an election
            shutil.rmtree(folder)
            folder.mkdir()
        text = "committedIndex=3\nendIndex=4\n"
        (folder / name).write_text(text)
        dump, items = items_of(folder / name)
        assert (dump.kind, dump.error) == ("text of DLedger", None)
        assert [field.value for item in items for field in item.fields] == text.split()

    @pytest.mark.parametrize(
        ("name", "data", "said"),
        [
            ("checkpoint", bytes(17), "checkpoint at byte 17: expected 40 bytes, got 17"),
            ("topics.json", b'{"a": 1,}', "JSON at byte 8: expected a JSON document"),
            ("20231114221320000", bytes(32) + b"\0\0\0\1\0\0\0\x63", "at byte"),
        ],
    )
    def test_other_damage_is_named(self, tmp_path, name, data, said):
        """With its byte."""
        (tmp_path / name).write_bytes(data)
        dump, _ = items_of(tmp_path / name)
        assert said in dump.error

    @pytest.mark.parametrize(
        ("name", "data"), [("abort", b"4711"), ("lock", b"lock"), ("lock", b"")]
    )
    def test_what_tells_of_a_broker_is_recognised_and_shown_as_text(self, tmp_path, name, data):
        """RocketMQ writes its process into the one, and the word into the other once it runs."""
        (tmp_path / name).write_bytes(data)
        dump, items = items_of(tmp_path / name)
        assert dump.kind.startswith(f"{name} file, ")
        assert [values(item)["text"] for item in items] == [data.decode()] * bool(data)

    def test_any_other_file_is_shown_as_hex(self, tmp_path):
        """And an empty one as nothing."""
        (tmp_path / "notes").write_bytes(b"hello\0")
        (tmp_path / "nothing").touch()
        dump, items = items_of(tmp_path / "notes")
        assert (dump.kind, values(items[0])["hex"]) == (
            "file of an unknown kind",
            "68 65 6c 6c 6f 00",
        )
        assert items_of(tmp_path / "nothing")[0].kind == "empty file"

    def test_any_changed_byte_ends_in_items_or_an_error(self, tmp_path):
        """Never in another exception."""
        for pattern in ("index/*", "consumequeue/*/*/*", "checkpoint"):
            data = first(pattern).read_bytes()
            path = tmp_path / first(pattern).name
            for place in range(0, min(len(data), 600), 37):
                path.write_bytes(data[:place] + bytes([data[place] ^ 0x81]) + data[place + 1 :])
                items_of(path)
                path.write_bytes(data[:place])
                items_of(path)
