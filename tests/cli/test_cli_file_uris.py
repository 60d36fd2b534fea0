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
        ("relayout", "--slots", "50", "--entries", "200"),
        ("cat", "0"),
    ],
)
def test_a_file_uri_is_a_local_path(run, tmp_path, prefix, command):
    """The answer is that for the path."""
    store = tmp_path / "a store"
    uri = prefix + str(store).replace(" ", "%20")
    name, *options = command
    answers = []
    for given in (uri, store):
        shutil.copytree(sample_store(), store)
        answers.append(run(name, given, *options))
        shutil.rmtree(store)
    assert answers[0] == answers[1]
    assert answers[0][0] == 0


def test_what_is_written_may_be_named_by_a_file_uri(run, tmp_path):
    """An index, and the exports of several stores, are where the URI says."""
    stores = [shutil.copytree(sample_store(), tmp_path / name) for name in ("a", "b")]
    assert run("rebuild", stores[0], "--out", f"file://{tmp_path}/index")[0] == 0
    assert run("export", *stores, f"file://{tmp_path}/exports")[0] == 0
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a", "b", "exports", "index"]
    assert len(list((tmp_path / "exports").iterdir())) == 2


@pytest.mark.parametrize(
    "command", [("rebuild", "STORE", "--out", "URI"), ("sample", "URI"), ("recover", "URI")]
)
def test_no_folder_is_made_by_the_name_of_a_remote_one(run, tmp_path, monkeypatch, command):
    """What only a local path can be is refused, before anything is written."""
    monkeypatch.chdir(tmp_path)
    given = {"STORE": sample_store(), "URI": "s3://bucket/store"}
    code, _, err = run(*[given.get(each, each) for each in command])
    assert code == 2
    assert "expected a local path, got s3://bucket/store" in err
    assert not list(tmp_path.iterdir())
