"""A link to what is not there may stand for a disk that is not mounted: nothing is made for it."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

import rmqindex

SAMPLE = rmqindex.sample_store()
NOWHERE = ["../away/index", "index", "lock/x"]


@pytest.fixture
def store(tmp_path, monkeypatch):
    """A copy of the sample, beside which a user types."""
    monkeypatch.chdir(tmp_path)
    shutil.copytree(SAMPLE, "store")
    return Path("store")


@pytest.mark.parametrize("target", NOWHERE)
@pytest.mark.parametrize(
    "command",
    [
        ("verify", "store"),
        ("lookup", "store", "TopicTest", "order-49"),
        ("rebuild", "store"),
        ("rebuild", "store", "--replace"),
        ("relayout", "store", "--slots", "50", "--entries", "100"),
        ("expire", "store"),
    ],
    ids=" ".join,
)
def test_an_index_that_is_a_link_to_nothing_is_refused(run, store, command, target):
    """To a folder that is away, to itself, and through a file."""
    shutil.rmtree(store / "index")
    (store / "index").symlink_to(target)
    code, out, err = run(*command)
    assert (code, out) == (2, "")
    assert f"store/index: expected a folder, got a link to {target}, which is not there" in err
    assert (store / "index").is_symlink()
    assert not Path("away").exists()
    (store / "index").unlink()
    assert run("rebuild", "store")[0] == 0


@pytest.mark.parametrize(
    "command",
    [
        ("verify", "store"),
        ("lookup", "store", "TopicTest", "order-49"),
        ("messages", "store"),
        ("rebuild", "store", "--replace"),
        ("rebuild-queues", "store", "--replace"),
        ("relayout", "store", "--slots", "50", "--entries", "100"),
        ("export", "store", "out"),
    ],
    ids=" ".join,
)
def test_a_log_that_is_a_link_to_nothing_is_no_store_without_one(run, store, command):
    """What an index leads to is away."""
    (store / "commitlog").rename("log")
    (store / "commitlog").symlink_to("away")
    code, out, err = run(*command)
    assert (code, out) == (2, "")
    assert "store/commitlog: expected a folder, got a link to away, which is not there" in err
    (store / "commitlog").unlink()
    (store / "commitlog").symlink_to("../log")
    assert run("verify", "store")[0] == 0


@pytest.mark.usefixtures("store")
@pytest.mark.parametrize(
    "command",
    [
        ("rebuild", "store", "--out", "out"),
        ("rebuild", "store", "--out", "out/index"),
        ("rebuild-queues", "store", "--out", "out"),
        ("export", "store/commitlog", "out"),
    ],
    ids=" ".join,
)
def test_nothing_is_written_where_a_link_leads_to_nothing(run, command):
    """The disk below the mount point would have it."""
    Path("out").symlink_to("away")
    code, _, err = run(*command)
    assert code == 2
    assert "out: expected a folder, got a link to away, which is not there" in err
    assert not Path("away").exists()


def test_a_link_to_itself_beside_a_stores_folders_changes_nothing(run, store):
    """It is no folder of a store, nor a file of one."""
    before = run("lookup", "store", "TopicTest", "order-49")
    for folder in (store, store / "index", store / "consumequeue"):
        (folder / "loop").symlink_to("loop")
    assert run("verify", "store")[0] == 0
    assert run("lookup", "store", "TopicTest", "order-49") == before
    assert run("rebuild", "store", "--replace")[0] == 0
