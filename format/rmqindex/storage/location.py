"""Paths and URIs: their parents, names and children."""

from __future__ import annotations

import os
import re
from pathlib import Path
from urllib.parse import quote, unquote

__all__ = [
    "PathLike",
    "child_uri",
    "is_remote",
    "last_name",
    "local_path",
    "parent",
    "place_in",
    "split_uri",
]


PathLike = str | os.PathLike[str]

_URI = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*)://")


def is_remote(path: PathLike) -> bool:
    """Return whether a path is a URI of anything but local files."""
    match = _URI.match(os.fspath(path))
    return match is not None and match[1].lower() != "file"


def child_uri(directory: str, name: str) -> str:
    """Return the URI of a name in a directory, with the query of the directory's URI.

    Args:
        directory: The URI of the directory.
        name: The name, unescaped, or several separated by slashes.
    """
    base, mark, query = directory.partition("?")
    return f"{base.rstrip('/')}/{quote(name)}{mark}{query}"


def local_path(path: PathLike) -> Path:
    """Return the local path of a path or of a ``file:`` URI.

    Raises:
        ValueError: A ``file:`` URI that names another host.
    """
    text = os.fspath(path)
    if not text.lower().startswith("file:"):
        return Path(text)
    rest = text[len("file:") :]
    if rest.startswith("//"):
        host, _, rest = rest[2:].partition("/")
        if host not in ("", "localhost"):
            raise ValueError(f"path: expected a file URI of this machine, got {text}")
        rest = "/" + rest
    return Path(unquote(rest))


def split_uri(uri: str) -> tuple[str, str, str, str]:
    """Split a URI into its scheme, its folder, its last name and its query."""
    match = _URI.match(uri)
    if match is None:
        raise ValueError(f"path: expected a URI, got {uri}")
    scheme = match[1].lower()
    rest, mark, query = uri[match.end() :].partition("?")
    folder, _, name = rest.rstrip("/").rpartition("/")
    if not folder:  # the root of a bucket or host has no name of its own
        folder, name = rest, ""
    return scheme, folder, name, mark + query


def last_name(path: str) -> str:
    """Return the last part of a path."""
    base = path.partition("?")[0] if is_remote(path) else path
    return base.rstrip("/").rpartition("/")[2]


def parent(path: str) -> str:
    """Return the parent directory of a path or a URI, with the query of the URI."""
    if not is_remote(path):
        return str(Path(path).absolute().parent)
    base, mark, query = path.partition("?")
    return base.rstrip("/").rpartition("/")[0] + mark + query


def place_in(directory: str, name: str) -> str:
    """Return the path or the URI of a name in a directory."""
    if is_remote(directory):
        return child_uri(directory, name)
    return str(Path(directory) / name)
