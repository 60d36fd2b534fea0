"""Listings of directories that commits change meanwhile."""

from __future__ import annotations

from pathlib import Path

import pytest

from appends import append_of
from clock import hurry
from killing import dies_before
from rmqindex import IndexFileWriter, Layout, RmqIndexError
from rmqindex.transaction import (
    FileEntry,
    LocalStaging,
    directories,
    directory_entries,
    staging_root,
)
from rmqindex.transaction.directories import unfinished_append


def test_a_file_that_a_commit_moves_after_it_was_listed_is_listed_where_it_is(
    tmp_path, monkeypatch
):
    """What a commit had set aside is gone with its end, and not left out of the list."""
    (tmp_path / "100").write_bytes(b"now")
    places = iter([tmp_path / "gone" / "100", tmp_path / "100"])
    monkeypatch.setattr(directories, "effective_listing", lambda _: {"100": next(places)})
    assert directory_entries(tmp_path) == [FileEntry(str(tmp_path / "100"), "100", 3)]


def test_a_file_that_is_listed_and_not_there_is_an_error(tmp_path, monkeypatch):
    """Where it is never found, the listing is refused by name."""
    hurry(monkeypatch, least=3600)
    monkeypatch.setattr(directories, "effective_listing", lambda _: {"100": tmp_path / "100"})
    with pytest.raises(RmqIndexError, match=r"expected one reading .* 100 was listed"):
        directory_entries(tmp_path)


LAYOUT = Layout(7, 12)
NAME = "20250102030405678"


@pytest.fixture
def appended(tmp_path):
    """Return an index directory with a commit that died while it appended to the only file."""
    directory = tmp_path / "store" / "index"
    directory.mkdir(parents=True)
    with IndexFileWriter(directory / NAME, LAYOUT) as writer:
        writer.put_many([1, 2], [100, 200], [1_700_000_000_000] * 2)
    staging = LocalStaging.at(directory, "stream-test-0")
    append = append_of(directory / NAME, LAYOUT, [3], [300], [1_700_000_001_000])
    with dies_before(lambda _, path: path.name == "journal.json"), staging.exclusive(create=True):
        staging.commit([], [], append=append, ledger={"done": 1})
    append.close()
    return directory


def test_an_unfinished_append_is_told_whatever_leads_to_the_file(appended, tmp_path, monkeypatch):
    """Links to it, to its directory or to the store, from within it, and relative paths."""
    (tmp_path / "link").symlink_to(appended)
    (tmp_path / "beside").symlink_to(appended.parent)
    (appended / "below").mkdir()
    (tmp_path / "links").mkdir()
    (tmp_path / "links" / NAME).symlink_to(appended / NAME)
    (tmp_path / "another name").symlink_to(Path("links") / NAME)
    for start, path in (
        (tmp_path, f"link/{NAME}"),
        (tmp_path, f"beside/index/{NAME}"),
        (tmp_path, f"beside/../store/index/{NAME}"),
        (tmp_path, f"store/index/below/../{NAME}"),
        (tmp_path, f"links/{NAME}"),
        (tmp_path, "another name"),
        (tmp_path, tmp_path / "another name"),
        (appended.parent, f"./index/./{NAME}"),
        (appended, NAME),
        (appended / "below", f"../{NAME}"),
    ):
        monkeypatch.chdir(start)
        assert unfinished_append(path) is not None, path
    with LocalStaging.at(appended, "stream-test-0").exclusive(create=True):
        assert unfinished_append(appended / NAME) is None


def test_a_staging_root_that_cannot_be_searched_is_an_error(appended):
    """What cannot be read is not taken for no journal."""
    staging_root(appended).rename(kept := appended.parent / "kept")
    staging_root(appended).symlink_to(staging_root(appended).name)  # a loop
    with pytest.raises((RmqIndexError, OSError)):
        unfinished_append(appended / NAME)
    staging_root(appended).unlink()
    kept.rename(staging_root(appended))
    assert unfinished_append(appended / NAME) is not None
