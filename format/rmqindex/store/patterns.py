"""Patterns in paths: Hadoop's globs, as in Spark's own sources."""

from __future__ import annotations

import re
from fnmatch import translate
from typing import TYPE_CHECKING, NamedTuple

from rmqindex.store.names import broker_order
from rmqindex.transaction.directories import FileEntry, entries_or_none, exists

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from rmqindex.storage.location import Location

_PATTERN = re.compile(r"[*?\[{]")
_BRACES = re.compile(r"\{([^{}]*)\}")
# What every ext file system has in its root, and nobody else may list.
_LOST_FOUND = "lost+found"
# The most alternatives, which each pair of braces multiplies.
_MOST_ALTERNATIVES = 1000


class Hit(NamedTuple):
    """A path that matches a pattern, with its ``entry`` if it was listed."""

    path: Location
    entry: FileEntry | None = None


def has_pattern(path: Location) -> bool:
    """Return whether a path is a pattern: whether it has ``*``, ``?``, ``[`` or ``{``.

    The query of a URI is no part of it.
    """
    return _PATTERN.search(path.base) is not None


def expand(path: Location) -> Iterator[Hit]:
    """Expand a pattern, in the order of names.

    Args:
        path: An absolute path or a URI.

    Yields:
        The matching paths; hidden names only where the pattern's own part begins as they do, and
        never the ``lost+found`` of a file system.

    Raises:
        ValueError: As :func:`matcher`.
    """
    root, names = path.steps()
    found = [Hit(root)]
    for name in names:
        if not _PATTERN.search(name):
            found = [Hit(each.path.step(name)) for each in found]
            continue
        fits = matcher(name)
        found = [
            Hit(each.path.child(entry.name), entry)
            for each in found
            for entry in sorted(entries_or_none(each.path), key=broker_order)
            if fits(entry.name)
            and (name.startswith((".", "_")) or not is_hidden(entry.name))
            and entry.name != _LOST_FOUND
        ]
    yield from (each for each in found if each.entry is not None or exists(each.path))


def matcher(pattern: str) -> Callable[[str], object]:
    """Compile a Hadoop glob: ``*``, ``?``, ``[abc]``, ``[^abc]`` and ``{a,b}``.

    Raises:
        ValueError: Braces stand for more than a thousand alternatives.
    """
    alternatives = [translate(each.replace("[^", "[!")) for each in _braces(pattern)]
    return re.compile("|".join(alternatives)).match


def is_hidden(name: str) -> bool:
    """Return whether Spark's sources skip a name."""
    return name.startswith((".", "_"))


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
