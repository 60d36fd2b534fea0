"""Index directories against what RocketMQ's own IndexService and DefaultMessageStore did."""

from __future__ import annotations

import json
import shutil

import pytest

from recorded import ROCKETMQ_CLASSES
from rmqindex import IndexDirectory, IndexHeader, Layout, StoreCheckpoint, sample_store

SERVICE_CASES = json.loads((ROCKETMQ_CLASSES / "service_vectors.json").read_text())
LOAD_CASES = json.loads((ROCKETMQ_CLASSES / "load_cases.json").read_text())
STORE_LAYOUT = Layout(hash_slot_num=97, index_num=200)


def layout_of(case):
    """Return the geometry that a case states."""
    return Layout(case["hash_slot_num"], case["index_num"])


def assert_answers(directory, queries):
    """Assert that every query is answered as the broker answered it."""
    for query in queries:
        answer = directory.query_offset(
            query["topic"], query["key"], query["max_num"], query["begin"], query["end"]
        )
        assert list(answer.phy_offsets) == query["result"], query
        assert answer.index_last_update_timestamp == query["index_last_update_timestamp"]
        assert answer.index_last_update_phy_offset == query["index_last_update_phyoffset"]


def build(directory, message):
    """Index a message of a service case."""
    directory.build_index(
        message["topic"],
        message["uniq_key"],
        message["keys"],
        message["sys_flag"],
        message["commitlog_offset"],
        message["store_timestamp"],
    )


@pytest.mark.parametrize("reopen", [False, True], ids=["at_once", "reopened_for_each_message"])
@pytest.mark.parametrize("case", SERVICE_CASES, ids=[case["name"] for case in SERVICE_CASES])
def test_building_an_index_gives_the_brokers_files_answers_and_checkpoint(case, reopen, tmp_path):
    """The same messages give the same files, early created empty ones included."""
    StoreCheckpoint(physic_msg_timestamp=7).save(tmp_path / "checkpoint")

    def opened():
        return IndexDirectory(
            tmp_path,
            layout_of(case),
            writable=True,
            max_msgs_num_batch=case["max_msgs_num_batch"],
        )

    directory = opened()
    for message in case["messages"]:
        build(directory, message)
        assert len(directory.files) == message["files_after"]
        if reopen:
            directory.close()
            directory = opened()
    assert_answers(directory, case["queries"])
    assert [file.header for file in directory.files[:-1]] == [
        IndexHeader(**file["header"]) for file in case["files"][:-1]
    ]
    directory.close()
    written = [path.read_bytes().hex() for path in sorted((tmp_path / "index").iterdir())]
    assert written == [file["hex"] for file in case["files"]]
    assert directory.index_msg_timestamp == case["checkpoint_index_msg_timestamp"]
    assert StoreCheckpoint.load(tmp_path / "checkpoint") == StoreCheckpoint(
        physic_msg_timestamp=7, index_msg_timestamp=case["checkpoint_index_msg_timestamp"]
    )
    with IndexDirectory(tmp_path, layout_of(case)) as directory:
        assert_answers(directory, case["queries"])


def fill(path, case):
    """Lay out the directory of a load case; return its names and bytes."""
    for entry in case["dir"]:
        if entry["hex"] is None:
            (path / entry["name"]).mkdir()
        else:
            (path / entry["name"]).write_bytes(bytes.fromhex(entry["hex"]))
    return contents(path)


def contents(path):
    """Return the names in a directory with their bytes, None for a sub-directory."""
    return {entry.name: None if entry.is_dir() else entry.read_bytes() for entry in path.iterdir()}


@pytest.mark.parametrize("writable", [False, True], ids=["read_only", "writable"])
@pytest.mark.parametrize("case", LOAD_CASES, ids=[case["name"] for case in LOAD_CASES])
def test_loading_and_expiring_are_the_brokers(case, writable, tmp_path):
    """The broker's files are loaded, deleted and answered from; read-only the disk stays."""
    before = fill(tmp_path, case)
    with IndexDirectory(
        tmp_path,
        layout_of(case),
        writable=writable,
        last_exit_ok=case["last_exit_ok"],
        index_msg_timestamp=case["checkpoint_index_msg_timestamp"],
    ) as directory:
        assert directory.load_result is case["load_result"]
        assert [file.name for file in directory.files] == case["loaded"]
        assert directory.total_size == case["total_size"]
        assert sorted(contents(tmp_path)) == sorted(case["dir_after_load"] if writable else before)
        assert_answers(directory, case["queries"])
        if "delete_expired_offset" in case:
            directory.delete_expired(case["delete_expired_offset"])
            assert [file.name for file in directory.files] == case["loaded_after_delete"]
            if writable:
                assert sorted(contents(tmp_path)) == sorted(case["dir_after_delete"])
    if not writable:
        assert contents(tmp_path) == before


@pytest.mark.parametrize("layout", [STORE_LAYOUT, None], ids=["layout_given", "layout_inferred"])
def test_the_sample_store_answers_as_the_broker_did(layout):
    """Every query over the sample store gives the broker's offsets."""
    queries = json.loads((ROCKETMQ_CLASSES / "store_queries.json").read_text())["query_offset"]
    with IndexDirectory(sample_store(), layout) as directory:
        assert directory.layout == STORE_LAYOUT
        assert_answers(directory, queries)


def test_the_recovered_store_answers_as_the_broker_did():
    """The index rebuilt after an unclean stop gives the broker's offsets, doubles included."""
    recovered = json.loads((ROCKETMQ_CLASSES / "store_recovered" / "queries.json").read_text())
    with IndexDirectory(ROCKETMQ_CLASSES / "store_recovered" / "index") as directory:
        assert [file.name for file in directory.files] == [
            file["name"] for file in recovered["files"]
        ]
        assert_answers(directory, recovered["queries"])


def test_dispatching_the_log_again_after_a_crash_gives_the_recovered_index(tmp_path):
    """Loading after an unclean stop and indexing the same messages rebuilds the broker's bytes."""
    store = json.loads((ROCKETMQ_CLASSES / "store_messages.json").read_text())
    shutil.copytree(sample_store() / "index", tmp_path / "index")
    recovered = ROCKETMQ_CLASSES / "store_recovered"
    with IndexDirectory(
        tmp_path,
        STORE_LAYOUT,
        writable=True,
        last_exit_ok=False,
        index_msg_timestamp=store["checkpoint"]["index_msg_timestamp"],
    ) as directory:
        assert len(directory.files) == 4
        for message in store["messages"]:
            sent = message["sent"]
            directory.build_index(
                sent["topic"],
                sent["uniq_key"],
                sent["keys"],
                message["sent"]["sys_flag"],
                message["phy_offset"],
                message["decoded"]["store_timestamp"],
            )
    rebuilt = [path.read_bytes() for path in sorted((tmp_path / "index").iterdir())]
    assert rebuilt == [path.read_bytes() for path in sorted((recovered / "index").iterdir())]


def test_indexing_the_stores_messages_gives_the_stores_index(tmp_path):
    """The messages of the sample store, indexed from nothing, give its index byte for byte."""
    store = json.loads((ROCKETMQ_CLASSES / "store_messages.json").read_text())
    with IndexDirectory(tmp_path, STORE_LAYOUT, writable=True) as directory:
        for message in store["messages"]:
            sent = message["sent"]
            directory.build_index(
                sent["topic"],
                sent["uniq_key"],
                sent["keys"],
                sent["sys_flag"],
                message["phy_offset"],
                message["decoded"]["store_timestamp"],
            )
        assert directory.index_msg_timestamp == store["checkpoint"]["index_msg_timestamp"]
    built = [path.read_bytes() for path in sorted(tmp_path.iterdir())]
    index = sample_store() / "index"
    assert built == [path.read_bytes() for path in sorted(index.iterdir())]
