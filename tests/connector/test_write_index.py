"""``write_index`` builds what one broker would have written, however the rows are dealt out."""

from __future__ import annotations

import json
import random
import shutil
from pathlib import Path

import pytest

from pyspark_rmqindex import write_index
from rmqindex import IndexFile, IndexFileWriter, Layout, message_keys

GOLDEN = Path(__file__).parents[1] / "golden"
SERVICES = json.loads((GOLDEN / "service_vectors.json").read_text())
MESSAGES = (
    "phy_offset BIGINT, store_timestamp BIGINT, topic STRING, uniq_key STRING, keys STRING, "
    "sys_flag INT"
)


def indexed_messages(service):
    """Return the messages of a service case that its broker indexed."""
    end = 0
    rows = []
    for message in service["messages"]:
        offset = message["commitlog_offset"]
        keys = message_keys(
            message["topic"], message["uniq_key"], message["keys"], message["sys_flag"]
        )
        if offset >= end and keys:
            end = offset
            rows.append(
                (
                    offset,
                    message["store_timestamp"],
                    message["topic"],
                    message["uniq_key"],
                    message["keys"],
                    message["sys_flag"],
                )
            )
    return rows


def index_bytes(directory):
    """Return the files of an index directory in the order of their names."""
    return [path.read_bytes() for path in sorted(directory.iterdir())]


def without_early_file(files):
    """Drop a trailing file that a broker created before it had an entry for it."""
    return files[:-1] if files and int.from_bytes(files[-1][36:40]) <= 1 else files


def service_layout(service):
    """Return the options that name a case's geometry."""
    return {"maxHashSlotNum": service["hash_slot_num"], "maxIndexNum": service["index_num"]}


class TestBrokersBytes:
    """The files are the broker's."""

    @pytest.mark.parametrize("partitions", [1, 3, 8])
    @pytest.mark.parametrize("service", SERVICES, ids=lambda service: service["name"])
    def test_the_files_of_every_service_case_come_out(self, spark, tmp_path, service, partitions):
        """Shuffled messages in any number of partitions give the golden bytes."""
        rows = indexed_messages(service)
        random.Random(partitions).shuffle(rows)
        df = spark.createDataFrame(rows, MESSAGES).repartition(partitions)
        write_index(df, tmp_path / "index", **service_layout(service))
        expected = [bytes.fromhex(file["hex"]) for file in service["files"]]
        assert index_bytes(tmp_path / "index") == without_early_file(expected)
