"""Where the CommitLog of an index is, found with few listings."""

from __future__ import annotations

import shutil

import pytest

import rmqindex
from listings import counted_listings
from recorded import STORE_KINDS
from rmqindex.store import Store


@pytest.mark.parametrize("lost", [False, True])
@pytest.mark.parametrize("kind", ["plain", "dledger"])
def test_each_directory_is_listed_once(tmp_path, monkeypatch, kind, lost):
    """With or without an index: looked at twice, to see that no commit fell between."""
    path = rmqindex.sample_store() if kind == "plain" else STORE_KINDS / kind / "store"
    shutil.copytree(path, tmp_path / "store")
    if lost:
        shutil.rmtree(tmp_path / "store" / "index")
    listed = counted_listings(monkeypatch)
    found = Store.open(tmp_path / "store", needs_index=False).log()
    store = tmp_path / "store"
    assert str(found) == str(store if kind == "dledger" else store / "commitlog")
    assert listed[str(tmp_path / "store")] == 2
