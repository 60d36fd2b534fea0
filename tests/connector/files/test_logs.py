"""Which CommitLog an index belongs to."""

from __future__ import annotations

from pathlib import Path

from pyspark_rmqindex.files.stores import absolute_log, find_log
from rmqindex.storage import Location


def test_auto_is_the_sibling_of_the_index(tmp_path):
    """It must be there, and the directory must be called ``index``."""
    file = tmp_path / "index" / "20240101000000000"
    assert find_log(Location.of(file), "auto") is None
    (tmp_path / "commitlog").mkdir()
    assert find_log(Location.of(file), "auto") == str(tmp_path / "commitlog")
    assert find_log(Location.of(tmp_path / "copies" / file.name), "auto") is None


def test_auto_finds_the_sibling_of_a_uri(tmp_path):
    """With or without a query."""
    (tmp_path / "commitlog").mkdir()
    uri = f"file://{tmp_path}/index/20240101000000000"
    assert find_log(Location.of(uri), "auto") in {
        f"file://{tmp_path}/commitlog",
        str(tmp_path / "commitlog"),
    }


def test_named_logs_become_absolute(tmp_path, monkeypatch):
    """Tasks may run in another directory; URIs and lists are left as they are."""
    monkeypatch.chdir(tmp_path)
    here = Path.cwd()
    uri = Location("s3://bucket/log?region=x")
    assert absolute_log(Location("log")) == str(here / "log")
    assert absolute_log(Location("a, b")) == f"{here / 'a'},{here / 'b'}"
    assert absolute_log(uri) == uri
    (tmp_path / "a,b").mkdir()
    assert absolute_log(Location("a,b")) == str(here / "a,b")
