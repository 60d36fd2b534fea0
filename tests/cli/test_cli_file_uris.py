"""Commands that write take a ``file:`` URI as the local path that it is."""

from __future__ import annotations

import shutil

import pytest

from rmqindex import sample_store


@pytest.mark.parametrize("prefix", ["file://", "file:", "file://localhost"])
@pytest.mark.parametrize(
    "command",
    [
        ("rebuild", "--replace", "--dry-run"),
        ("rebuild-queues", "--replace", "--dry-run"),
        ("recover",),
    ],
)
def test_a_file_uri_is_a_local_path(run, tmp_path, prefix, command):
    """The answer is that for the path."""
    store = shutil.copytree(sample_store(), tmp_path / "a store")
    uri = prefix + str(store).replace(" ", "%20")
    name, *options = command
    assert run(name, uri, *options) == run(name, store, *options)
