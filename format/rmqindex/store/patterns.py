"""Patterns in paths: Hadoop's globs, as in Spark's own sources."""

from __future__ import annotations

import os
import re
from fnmatch import translate
from typing import TYPE_CHECKING, NamedTuple

from rmqindex.storage.location import child_uri, is_remote
from rmqindex.transaction.directories import FileEntry, entries_or_none, exists

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

__all__ = [
    "Hit",
    "broker_order",
    "expand",
    "has_pattern",
    "is_hidden",
    "listed",
    "matcher",
]

_PATTERN = re.compile(r"[*?\[{]")
_REMOTE_PATTERN = re.compile(r"[*\[{]")  # a question mark begins the query of a URI


_BRACES = re.compile(r"\{([^{}]*)\}")
# The most alternatives, which each pair of braces multiplies.
_MOST_ALTERNATIVES = 1000


class Hit(NamedTuple):
    """A path that matches a pattern, with its ``entry`` if it was listed."""

    path: str
    entry: FileEntry | None = None


def has_pattern(path: str) -> bool:
    """Return whether a path is a pattern: whether it has ``*``, ``?``, ``[`` or ``{``."""
    return (_REMOTE_PATTERN if is_remote(path) else _PATTERN).search(path) is not None


def expand(path: str) -> Iterator[Hit]:
    """Expand a pattern, in the order of names.

    Args:
        path: An absolute path or a URI.

    Yields:
        The matching paths; hidden names only where the pattern's own part begins as they do.

    Raises:
        ValueError: As :func:`matcher`.
    """
    base, mark, query = path.partition("?") if is_remote(path) else (path, "", "")
    scheme, separator, rest = base.partition("://") if is_remote(path) else ("", "", base)
    root, *segments = rest.rstrip("/").split("/")
    found = [Hit(f"{scheme}{separator}{root}{mark}{query}" if is_remote(path) else "/")]
    pattern = _REMOTE_PATTERN if is_remote(path) else _PATTERN
    for segment in segments:
        if not pattern.search(segment):
            found = [Hit(_child(each.path, segment)) for each in found]
            continue
        fits = matcher(segment)
        found = [
            Hit(listed(each.path, entry), entry)
            for each in found
            for entry in sorted(entries_or_none(each.path), key=broker_order)
            if fits(entry.name) and (segment.startswith((".", "_")) or not is_hidden(entry.name))
        ]
    yield from (each for each in found if each.entry is not None or exists(each.path))


def matcher(pattern: str) -> Callable[[str], object]:
    """Compile a Hadoop glob: ``*``, ``?``, ``[abc]``, ``[^abc]`` and ``{a,b}``.

    Raises:
        ValueError: Braces stand for more than a thousand alternatives.
    """
    alternatives = [translate(each.replace("[^", "[!")) for each in _braces(pattern)]
    return re.compile("|".join(alternatives)).match


def listed(directory: str, entry: FileEntry) -> str:
    """Return a file's path by its name, wherever a commit keeps its bytes for the moment."""
    child = child_uri if is_remote(directory) else _child
    return child(directory, entry.name)


def broker_order(entry: FileEntry) -> bytes:
    """Return a sort key that orders names as Java compares strings."""
    return entry.name.encode("utf-16-be", "surrogatepass")


def is_hidden(name: str) -> bool:
    """Return whether Spark's sources skip a name."""
    return name.startswith((".", "_"))


def _child(directory: str, name: str) -> str:
    if not is_remote(directory):
        return os.path.join(directory, name)  # noqa: PTH118  (text, as it is listed)
    base, mark, query = directory.partition("?")
    return f"{base.rstrip('/')}/{name}{mark}{query}"


def _braces(pattern: str) -> list[str]:
    """Expand the alternatives in braces."""
    written = [pattern]
    # Parts have no nested braces, so all are expanded after the same number of rounds.
    while (match := _BRACES.search(written[0])) is not None:
        if len(written) * (match[1].count(",") + 1) > _MOST_ALTERNATIVES:
            raise ValueError(
                f"pattern: expected braces with at most {_MOST_ALTERNATIVES} alternatives in all, "
                f"got more: {pattern}"
            )
        written = [part for each in written for part in _first_braces(each)]
    return written


def _first_braces(pattern: str) -> list[str]:
    match = _BRACES.search(pattern)
    assert match is not None, "each alternative has as many braces as the others"
    before, after = pattern[: match.start()], pattern[match.end() :]
    return [f"{before}{part}{after}" for part in match[1].split(",")]
