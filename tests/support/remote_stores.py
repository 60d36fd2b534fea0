"""Folders of this machine under URIs, as of a store that ``pyarrow.fs`` reaches."""

from __future__ import annotations

import itertools

import pyarrow.fs as pafs

__all__ = ["under_uri"]

_NUMBERS = itertools.count(1)


def under_uri(monkeypatch, folder, query=""):
    """Have ``pyarrow.fs`` reach a folder by a URI; return that, without a slash at its end.

    Args:
        monkeypatch: Undoes it.
        folder: The folder.
        query: What must come with each URI: ``?region=x``.
    """
    # Connections are kept, so that no folder may have the URI of an earlier one.
    root = f"store://data{next(_NUMBERS)}"
    real = pafs.FileSystem

    class Reached:
        """Stands in for the class that knows the schemes."""

        @staticmethod
        def from_uri(uri):
            """Return a file system, and the path in it."""
            if not uri.startswith(root):
                return real.from_uri(uri)
            assert uri.endswith(query)
            inner = uri.removeprefix(root).removesuffix(query).strip("/")
            return pafs.SubTreeFileSystem(str(folder), pafs.LocalFileSystem()), inner

    monkeypatch.setattr(pafs, "FileSystem", Reached)
    return root
