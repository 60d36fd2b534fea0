"""Which CommitLog an index belongs to."""

from __future__ import annotations

from pathlib import Path

import pytest

from pyspark_rmqindex.files.logs import absolute_log, find_log, folder_of


def test_auto_is_the_sibling_of_the_index(tmp_path):
    """It must be there, and the directory must be called ``index``."""
    file = tmp_path / "index" / "20240101000000000"
    assert find_log(str(file), "auto") is None
    (tmp_path / "commitlog").mkdir()
    assert find_log(str(file), "auto") == str(tmp_path / "commitlog")
    assert find_log(str(tmp_path / "copies" / file.name), "auto") is None


def test_auto_finds_the_sibling_of_a_uri(tmp_path):
    """With or without a query."""
    (tmp_path / "commitlog").mkdir()
    uri = f"file://{tmp_path}/index/20240101000000000"
    assert find_log(uri, "auto") in {f"file://{tmp_path}/commitlog", str(tmp_path / "commitlog")}


@pytest.mark.parametrize(
    ("path", "folder"),
    [
        ("/data/index/2024", "/data/index"),
        ("/data/index/", "/data"),
        ("s3://bucket/a/index/2024?region=x", "s3://bucket/a/index?region=x"),
    ],
)
def test_the_folder_of_a_path_keeps_the_query(path, folder):
    """A query belongs to the whole URI."""
    assert folder_of(path) == folder


def test_named_logs_become_absolute(tmp_path, monkeypatch):
    """Tasks may run in another directory; URIs and lists are left as they are."""
    monkeypatch.chdir(tmp_path)
    here = Path.cwd()
    assert absolute_log("log") == str(here / "log")
    assert absolute_log("a, b") == f"{here / 'a'},{here / 'b'}"
    assert absolute_log("s3://bucket/log?region=x") == "s3://bucket/log?region=x"
    (tmp_path / "a,b").mkdir()
    assert absolute_log("a,b") == str(here / "a,b")
