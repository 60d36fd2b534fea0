"""Listings of directories, heard as the operating system is asked for them."""

from __future__ import annotations

import os
from collections import Counter
from pathlib import Path

__all__ = ["after_listing", "counted_listings"]


class _Names(list):
    """What ``os.scandir`` returned."""

    def __enter__(self):
        """Begin to read it."""
        return iter(self)

    def __exit__(self, *_):
        """End."""

    def close(self):
        """Likewise."""


def _heard(monkeypatch, act):
    """Call a function with each folder of this process that was listed."""
    listdir, scandir = os.listdir, os.scandir

    def heard_names(path="."):
        names = listdir(path)
        if not isinstance(path, int):
            act(Path(os.fsdecode(path)))
        return names

    def heard_entries(path="."):
        with scandir(path) as entries:
            found = _Names(entries)
        if not isinstance(path, int):
            act(Path(os.fsdecode(path)))
        return found

    monkeypatch.setattr(os, "listdir", heard_names)
    monkeypatch.setattr(os, "scandir", heard_entries)


def after_listing(monkeypatch, folder, act):
    """Call a function after each listing of a folder, before anything is done with the names."""
    _heard(monkeypatch, lambda path: act() if path == Path(folder) else None)


def counted_listings(monkeypatch):
    """Return how often each folder was listed, by its path: a counter that goes on."""
    counts = Counter()
    _heard(monkeypatch, lambda path: counts.update([str(path)]))
    return counts
