"""An object store in memory, whose every request can be lost, be unanswered, or be done twice.

It answers as S3 does since 2020: each request sees all that were answered before it. An object is
stored whole or not at all, and folders are nothing but the beginnings of keys. What is late is a
request that the client has given up and sent again: the first of the two, still under way, may
arrive after others that were sent later.
"""

from __future__ import annotations

import contextlib
import io
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.fs as pafs

from rmqindex.storage import filesystem

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["Late", "ObjectStore", "Request", "RequestError", "reached_by_s3"]

_CHANGES = {"PUT", "COPY", "DELETE"}


class RequestError(OSError):
    """A request that failed, in the words of Arrow."""

    def __init__(self, request: Request) -> None:
        """Word it."""
        super().__init__(f"When {request.what} '{request.key}': AWS Error NETWORK_CONNECTION")


@dataclass(frozen=True)
class Request:
    """A request.

    Attributes:
        number: From 1; those that change something and the others are counted apart.
        what: ``PUT``, ``COPY``, ``DELETE``, ``GET``, ``HEAD`` or ``LIST``.
        key: The object that it is for, or the beginning of keys.
        data: What is stored.
        source: The object that is copied.
    """

    number: int
    what: str
    key: str
    data: bytes = b""
    source: str = ""


@dataclass(frozen=True)
class Late:
    """A request that arrives again.

    Attributes:
        number: Which one, of those that change something.
        before: The one before which it arrives again.
    """

    number: int
    before: int


@dataclass
class ObjectStore:
    """The store.

    Attributes:
        objects: What it holds.
        changes: The requests to change something that were sent.
        reads: The others.
        before: Called before a request is done; may raise.
        after: Called after it was done; may raise, so that it is not answered.
        late: One that arrives again.
    """

    objects: dict[str, bytes] = field(default_factory=dict)
    changes: list[Request] = field(default_factory=list)
    reads: list[Request] = field(default_factory=list)
    before: Callable[[Request], None] = lambda _: None
    after: Callable[[Request], None] = lambda _: None
    late: Late | None = None

    def send(self, what: str, key: str, data: bytes = b"", source: str = "") -> None:
        """Send a request."""
        sent = self.changes if what in _CHANGES else self.reads
        request = Request(len(sent) + 1, what, key, data, source)
        if sent is self.changes and self.late is not None and self.late.before == request.number:
            self.arrive_late()
        sent.append(request)
        self.before(request)
        if sent is self.changes:
            self._do(request)
        self.after(request)

    def arrive_late(self) -> bool:
        """Let the late request arrive again, unless it has; return whether it did."""
        if self.late is None or self.late.number > len(self.changes):
            return False
        late, self.late = self.late, None
        with contextlib.suppress(FileNotFoundError):
            self._do(self.changes[late.number - 1])
        return True

    def _do(self, request: Request) -> None:
        if request.what == "PUT":
            self.objects[request.key] = request.data
        elif request.what == "DELETE":
            self.objects.pop(request.key, None)
        elif request.source not in self.objects:
            raise FileNotFoundError(f"{request.source}: AWS Error NO_SUCH_KEY")
        else:
            self.objects[request.key] = self.objects[request.source]

    def below(self, folder: str) -> list[str]:
        """Return the keys in a folder and its folders."""
        return [key for key in self.objects if key.startswith(f"{folder}/")]


class _Handler(pafs.FileSystemHandler):
    """What Arrow's S3FileSystem asks of a store."""

    def __init__(self, store: ObjectStore) -> None:
        self.store = store

    def __eq__(self, other: object) -> bool:
        return self is other

    def __hash__(self) -> int:
        return id(self)

    def get_type_name(self):
        return "s3"

    def normalize_path(self, path):
        return path

    def get_file_info(self, paths):
        return [self._info(path) for path in paths]

    def _info(self, path):
        self.store.send("HEAD", path)
        if path in self.store.objects:
            return pafs.FileInfo(path, pafs.FileType.File, size=len(self.store.objects[path]))
        is_folder = bool(self.store.below(path))
        return pafs.FileInfo(path, pafs.FileType.Directory if is_folder else pafs.FileType.NotFound)

    def get_file_info_selector(self, selector):
        self.store.send("LIST", selector.base_dir)
        keys = self.store.below(selector.base_dir)
        if not keys and not selector.allow_not_found:
            raise FileNotFoundError(selector.base_dir)
        found = {}
        for key in sorted(keys):
            parts = key.removeprefix(f"{selector.base_dir}/").split("/")
            for depth in range(1, len(parts) if selector.recursive else 2):
                if depth < len(parts):
                    path = "/".join((selector.base_dir, *parts[:depth]))
                    found[path] = pafs.FileInfo(path, pafs.FileType.Directory)
            if len(parts) == 1 or selector.recursive:
                size = len(self.store.objects[key])
                found[key] = pafs.FileInfo(key, pafs.FileType.File, size=size, mtime=0)
        return list(found.values())

    def open_input_file(self, path):
        self.store.send("HEAD", path)
        if path not in self.store.objects:
            raise FileNotFoundError(path)
        return pa.PythonFile(_Object(self.store, path), "r")

    open_input_stream = open_input_file

    def open_output_stream(self, path, _metadata):
        return pa.PythonFile(_Upload(self.store, path), "w")

    def copy_file(self, source, target):
        self.store.send("COPY", target, source=source)

    def delete_file(self, path):
        self.store.send("HEAD", path)
        if path not in self.store.objects:
            raise FileNotFoundError(path)
        self.store.send("DELETE", path)

    def delete_dir(self, path):
        self.store.send("LIST", path)
        keys = self.store.below(path)
        if not keys:
            raise FileNotFoundError(path)
        for key in sorted(keys):  # one request deletes a thousand, but not in one step
            self.store.send("DELETE", key)

    def create_dir(self, path, *_):
        raise AssertionError(f"{path}: no folder is made in an object store")

    delete_dir_contents = delete_root_dir_contents = move = open_append_stream = create_dir


class _Object(io.RawIOBase):
    """An object that is read in ranges, each of which is a request."""

    def __init__(self, store: ObjectStore, key: str) -> None:
        self._store = store
        self._key = key
        self._at = 0
        self._size = len(store.objects[key])

    def readable(self):
        return True

    def seekable(self):
        return True

    def seek(self, offset, whence=0):
        self._at = offset + (0, self._at, self._size)[whence]
        return self._at

    def tell(self):
        return self._at

    def size(self):
        return self._size

    def read(self, size=-1):
        self._store.send("GET", self._key)
        if self._key not in self._store.objects:
            raise FileNotFoundError(self._key)
        stop = self._size if size is None or size < 0 else self._at + size
        data = self._store.objects[self._key][self._at : stop]
        self._at += len(data)
        return data


class _Upload(io.BytesIO):
    """An object that is stored when it is closed."""

    def __init__(self, store: ObjectStore, key: str) -> None:
        super().__init__()
        self._store = store
        self._key = key

    def close(self):
        if not self.closed:
            data = self.getvalue()
            super().close()
            self._store.send("PUT", self._key, data)


@contextlib.contextmanager
def reached_by_s3(store: ObjectStore):
    """Have all that asks S3 ask the store instead."""
    before, found = filesystem._bucket, pafs.PyFileSystem(_Handler(store))
    filesystem._bucket = lambda *_: found
    try:
        yield
    finally:
        filesystem._bucket = before
