"""Listings of directories that commits change meanwhile."""

from __future__ import annotations

import pytest

from clock import hurry
from rmqindex import RmqIndexError
from rmqindex.transaction import FileEntry, directories, directory_entries


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
