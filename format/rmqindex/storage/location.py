"""Where a file or a directory lies, and how to reach it."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Self, TypeVar
from urllib.parse import quote, unquote

from rmqindex.storage.s3 import S3Settings

if TYPE_CHECKING:
    from collections.abc import Callable

    import pyarrow.fs as pafs

PathLike = str | os.PathLike[str]
T = TypeVar("T")

_URI = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*)://")


@dataclass(frozen=True, slots=True)
class Storage:
    """How to reach files that are not local; picklable, and its text shows no keys.

    Attributes:
        s3: How to connect to S3.
        filesystem: The file system that the paths lie in; None to find it by their URIs.
    """

    s3: S3Settings = field(default_factory=S3Settings)
    filesystem: pafs.FileSystem | None = None

    def at(self, path: PathLike) -> Location:
        """Return the location of a path in this storage."""
        return Location(path, self)


_DEFAULT = Storage()


def path_text(path: str) -> str:
    r"""Return a path as text that UTF-8 can hold, for columns; as terminals show it.

    Args:
        path: A path, or a text with one; what is not UTF-8 in a name is a lone surrogate.

    Returns:
        The text, with each such byte written out, as in ``b\udcffad``.
    """
    return str(path).encode(errors="backslashreplace").decode()


def home_expanded(path: T) -> T | str:
    """Return a path with ``~`` for a home directory, as a shell would have expanded it.

    A shell does not do so in quotes or behind ``=``. A name with ``~`` that is there stays, as do
    URIs; of several paths with commas, each is expanded. What is no path stays, too.
    """
    if isinstance(path, Location) or not isinstance(path, (str, Path)) or "~" not in str(path):
        return path
    parts = [
        each
        if not each.startswith("~") or os.path.lexists(each.partition("/")[0])
        else os.path.expanduser(each)  # noqa: PTH111  (it may be a pattern)
        for each in str(path).split(",")
    ]
    return ",".join(parts)


class Location(str):
    """Where a file or a directory lies: a local path or a URI, with how to reach it; picklable.

    It is its own text, and nothing but the text gets into columns, JSON, logs and errors, so that
    no key does. Two locations are equal if text and storage are; one is equal to plain text that is
    its own. What is cut from one, or added to it, keeps its storage; ``str()`` and formatting give
    plain text, which has none.
    """

    __slots__ = ("_local", "_storage")
    _storage: Storage
    _local: Path | None

    def __new__(cls, path: PathLike, storage: Storage = _DEFAULT) -> Self:
        """Bind the text of a path, as it is, to a storage."""
        location = super().__new__(cls, os.fspath(path))
        location._storage = storage
        if isinstance(path, Path) and path.is_absolute() and storage.filesystem is None:
            location._local = path  # its text is no URI, and need not be parsed again
        return location

    def __eq__(self, other: object) -> bool:
        """Return whether another location is the same place, or a text is this one's."""
        return str.__eq__(self, other) is True and not (
            isinstance(other, Location)
            and self._storage is not other._storage
            and self._storage != other._storage
        )

    def __ne__(self, other: object) -> bool:
        """Return the opposite of ``==``."""
        return not self == other

    __hash__ = str.__hash__

    def __reduce__(self) -> tuple[type[Location], tuple[str] | tuple[str, Storage]]:
        """Pickle the text with the storage, which plans do not repeat where it is the default."""
        text = str(self)
        return Location, ((text,) if self._storage == _DEFAULT else (text, self._storage))

    @classmethod
    def of(cls, path: PathLike, filesystem: pafs.FileSystem | None = None) -> Location:
        """Return the location of a user's path; that of a location itself keeps its storage.

        Args:
            path: A local path, a ``file:`` URI, or a URI that ``pyarrow.fs`` knows.
            filesystem: The file system that the path lies in; None to find it by the URI.

        Raises:
            ValueError: A ``file:`` URI that names another host.
        """
        if isinstance(path, cls) and filesystem is None:
            location = path
        else:
            text = os.fspath(path)
            storage = text.storage if isinstance(text, Location) else _DEFAULT
            if filesystem is not None:
                storage = Storage(storage.s3, filesystem)
            location = cls(text, storage)
        local = location.local
        if local is None or location == str(local):
            return location
        return cls(str(local), location.storage)

    @property
    def storage(self) -> Storage:
        """How to reach it."""
        return self._storage

    @property
    def local(self) -> Path | None:
        """The local path; None for anything that is not read and written as a local file.

        Raises:
            ValueError: A ``file:`` URI that names another host.
        """
        try:
            return self._local
        except AttributeError:  # the first time
            is_local = self._storage.filesystem is None and not self._is_uri
            self._local = _local_path(str(self)) if is_local else None
            return self._local

    @property
    def scheme(self) -> str:
        """The scheme of a URI in lower case; empty for any other text."""
        match = _URI.match(self)
        return "" if match is None else match[1].lower()

    @property
    def base(self) -> str:
        """Its text without the query of a URI."""
        text = str(self)
        return text.partition("?")[0] if self._is_uri else text

    @property
    def name(self) -> str:
        """The last name, unescaped; of a bucket or a host, its own."""
        local = self.local
        if local is not None:
            return local.name
        last = self.base.rstrip("/").rpartition("/")[2]
        return unquote(last) if self._is_uri else last

    @property
    def parent(self) -> Location:
        """The directory that it is in, absolute, with the query of a URI; of a root, itself."""
        local = self.local
        if local is not None:
            return Location(os.path.dirname(local.absolute()), self._storage)  # noqa: PTH120
        folder = self.base.rstrip("/").rpartition("/")[0]
        return self if self._is_uri and folder.endswith(":/") else self._with_base(folder)

    @property
    def absolute(self) -> Location:
        """The same place for processes in other working directories; links are not followed."""
        local = self.local
        return self if local is None else self._with_base(os.path.abspath(local))  # noqa: PTH100

    def child(self, name: str) -> Location:
        """Return the location of a name in the directory.

        Args:
            name: The name, unescaped, or several separated by slashes.
        """
        return self.step(quote(name) if self._is_uri else name)

    def steps(self) -> tuple[Location, list[str]]:
        """Split an absolute location into its root and the names below, escaped in a URI."""
        match = _URI.match(self) if self._is_uri else None
        start = match.end() if match is not None else 0
        root, *names = self.base[start:].rstrip("/").split("/")
        return self._with_base(str(self)[:start] + root or "/"), names

    def step(self, name: str) -> Location:
        """Return the location of a name as :meth:`steps` returns it."""
        local = self.local
        if local is not None:
            return self._storage.at(local / name)
        return self._with_base(f"{self.base.rstrip('/')}/{name}")

    def uri_parts(self) -> tuple[str, str, str, str]:
        """Split a URI into its scheme, its folder, its last name and its query.

        Raises:
            ValueError: It is no URI.
        """
        match = _URI.match(self)
        if match is None:
            raise ValueError(f"path: expected a URI, got {self}")
        rest = self.base[match.end() :]
        folder, _, name = rest.rstrip("/").rpartition("/")
        if not folder:  # the root of a bucket or host has no name of its own
            folder, name = rest, ""
        return self.scheme, folder, name, self._query

    @property
    def _is_uri(self) -> bool:
        return self._storage.filesystem is None and self.scheme not in ("", "file")

    @property
    def _query(self) -> str:
        return str(self)[len(self.base) :]

    def _with_base(self, base: str) -> Location:
        return Location(base + self._query, self._storage)


#: The methods whose results may be paths.
_CUTS = (
    "__add__",
    "__getitem__",
    "lstrip",
    "partition",
    "removeprefix",
    "removesuffix",
    "replace",
    "rpartition",
    "rsplit",
    "rstrip",
    "split",
    "strip",
)


def _keeping(name: str) -> Callable[..., object]:
    """Return a method of texts whose results can be reached where the location can."""
    cut = getattr(str, name)

    def method(self: Location, *arguments: object, **options: object) -> object:
        result = cut(self, *arguments, **options)
        storage = self._storage
        if storage is _DEFAULT or result is NotImplemented or storage == _DEFAULT:
            return result
        if isinstance(result, str):
            return Location(result, storage)
        return type(result)(Location(part, storage) for part in result)

    return method


for _name in _CUTS:
    setattr(Location, _name, _keeping(_name))


def _local_path(text: str) -> Path:
    """Return the local path of a path or of a ``file:`` URI."""
    if not text.lower().startswith("file:"):
        return Path(text)
    rest = text[len("file:") :]
    if rest.startswith("//"):
        host, _, rest = rest[2:].partition("/")
        if host not in ("", "localhost"):
            raise ValueError(f"path: expected a file URI of this machine, got {text}")
        rest = "/" + rest
    return Path(unquote(rest))
