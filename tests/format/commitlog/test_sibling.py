"""Where the CommitLog of an index is, found with few listings."""

from __future__ import annotations

import shutil
from collections import Counter

import pytest

import rmqindex
from recorded import STORE_KINDS
from rmqindex.store import Store
from rmqindex.transaction import directories


@pytest.mark.parametrize("lost", [False, True])
@pytest.mark.parametrize("kind", ["plain", "dledger"])
def test_each_directory_is_listed_once(tmp_path, monkeypatch, kind, lost):
    """With or without an index; each listing is a request of an object store."""
    path = rmqindex.sample_store() if kind == "plain" else STORE_KINDS / kind / "store"
    shutil.copytree(path, tmp_path / "store")
    if lost:
        shutil.rmtree(tmp_path / "store" / "index")
    listed = Counter()
    plain = directories._local_entries

    def counting(directory):
        listed[str(directory)] += 1
        return plain(directory)

    monkeypatch.setattr(directories, "_local_entries", counting)
    found = Store.open(tmp_path / "store", needs_index=False).log()
    store = tmp_path / "store"
    assert str(found) == str(store if kind == "dledger" else store / "commitlog")
    assert listed[str(tmp_path / "store")] == 1
