"""Exports of a room that are imported when they are first used.

Importing all modules of a room for one of its names would double the start-up of a command.
A room lists its exports once, as imports for type checkers, and the list is read from its source::

    if TYPE_CHECKING:
        from rmqindex.keys.hashing import index_key as index_key
    else:
        __getattr__, __dir__, __all__ = lazy_exports(__name__)
"""

from __future__ import annotations

import re
import sys
from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

_EXPORT = re.compile(rb"^    from (\S+) import \(?\s*(\w+) as \2\b", re.MULTILINE)


def lazy_exports(
    package: str,
) -> tuple[Callable[[str], object], Callable[[], list[str]], list[str]]:
    """Return ``__getattr__``, ``__dir__`` and ``__all__`` of a package.

    Args:
        package: The package's name.
    """
    room: Any = sys.modules[package]
    # The loader reads from zip archives, too.
    source = room.__spec__.loader.get_data(room.__spec__.origin)
    homes = {name.decode(): home.decode() for home, name in _EXPORT.findall(source)}
    names = sorted(homes)

    def get(name: str) -> object:
        if name not in homes:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        value: object = getattr(import_module(homes[name]), name)
        setattr(room, name, value)
        return value

    return get, names.copy, names
