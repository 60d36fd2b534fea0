"""Records every call by which this process changes files below a folder.

Calls through ``os``, ``open()`` with what is built on it (``pathlib``, ``shutil``, ``tempfile``,
Arrow's writers to a Python file), and the writes of the files so opened.
Writes through a mapping or by C code of its own are not heard: :meth:`Record.replayed` shows
whether a record is complete, as it must equal what the folder then holds.
"""

from __future__ import annotations

import builtins
import functools
import io
import os
import stat
import threading
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Self

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["Call", "Change", "Node", "Record", "Recorder", "Tree", "error_of", "failing", "tree_of"]

_CHANGES = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC
#: What ``os.sync()`` syncs, where another change has a node.
_EVERYTHING = -1


class Call(NamedTuple):
    """A call that is about to be made.

    Attributes:
        number: The calls that change files are numbered from 1; one that only reads has the number
            of the last of them.
        name: The function, such as ``os.rename``; ``write`` and ``truncate`` are those of a file
            object.
        path: What it changes or reads, below the recorded folder.
        reads: Whether it only reads.
        second: The new name, of a rename or a link.
    """

    number: int
    name: str
    path: str
    reads: bool = False
    second: str | None = None


@dataclass(frozen=True, slots=True)
class Change:
    """What a call changed on the disk.

    Attributes:
        kind: ``entry`` (a name leads to another node, or to none), ``move`` (a rename), ``write``,
            ``size`` or ``sync``.
        node: The directory of the name, or the file that is written, or what is synced.
        name: The name.
        target: The node that the name leads to; None where it is removed.
        to_node: The new directory of a move.
        to_name: The new name of a move.
        offset: Where bytes are written, or the new size.
        data: The bytes.
    """

    kind: str
    node: int
    name: str = ""
    target: int | None = None
    to_node: int = 0
    to_name: str = ""
    offset: int = 0
    data: bytes = b""


@dataclass(slots=True)
class Node:
    """A file, a directory or a symbolic link.

    Attributes:
        kind: ``file``, ``directory`` or ``link``.
        data: The bytes of a file; where a link leads.
        entries: The names in a directory.
    """

    kind: str
    data: bytearray
    entries: dict[str, int]

    def copied(self) -> Node:
        """Return a copy."""
        return Node(self.kind, bytearray(self.data), dict(self.entries))


#: By number; the recorded folder itself is 0.
Tree = dict[int, Node]


class Record(NamedTuple):
    """What was heard.

    Attributes:
        before: What the folder held at first.
        calls: The calls that change files, in order; the n-th has the number n.
        changes: What each of them changed, in the same order; a call that failed changed nothing.
    """

    before: Tree
    calls: list[Call]
    changes: list[tuple[Change, ...]]

    def replayed(self) -> Tree:
        """Return what the folder holds after all calls."""
        tree = {number: node.copied() for number, node in self.before.items()}
        for changes in self.changes:
            for change in changes:
                apply(tree, change)
        return tree


def tree_of(folder: Path) -> dict[str, bytes | str | None]:
    """Return what a folder holds: the bytes of files, where links lead, None for directories."""
    found: dict[str, bytes | str | None] = {}
    for path in sorted(folder.rglob("*")):
        name = str(path.relative_to(folder))
        if path.is_symlink():
            found[name] = str(path.readlink())
        else:
            found[name] = None if path.is_dir() else path.read_bytes()
    return found


def failing(number: int, error: int) -> Callable[[Call], None]:
    """Return what lets the n-th call that changes files fail, for :class:`Recorder`.

    Args:
        number: From 1.
        error: Such as ``errno.EIO``.
    """

    def before(call: Call) -> None:
        if call.number == number and not call.reads:
            raise error_of(call, error)

    return before


def error_of(call: Call, error: int) -> OSError:
    """Return an error as a call raises it: one of a descriptor knows no name."""
    if call.name in _BY_DESCRIPTOR:
        return OSError(error, os.strerror(error))
    return OSError(error, os.strerror(error), call.path)


class Recorder:
    """Hears the calls of all threads of this process; a context manager, one at a time.

    Attributes:
        calls: The calls so far that change files, in order; the n-th has the number n.
        changes: What each of them changed, in the same order; a call that failed changed nothing.
        before: What the folder held when the context was entered.
    """

    def __init__(
        self,
        root: str | os.PathLike[str],
        before: Callable[[Call], object] | None = None,
        *,
        reads: bool = False,
    ) -> None:
        """Prepare.

        Args:
            root: The folder; calls elsewhere are neither heard nor numbered.
            before: Called before each call, in its thread, while no other call is held up; the
                call fails with what it raises.
            reads: Whether it is also called before calls that only read: opening, listing, and
                reading from a file of the folder.
        """
        self.root = os.path.realpath(root)
        self.calls: list[Call] = []
        self.changes: list[tuple[Change, ...]] = []
        self.before: Tree = {}
        self._hand_over = before
        self._reads = reads
        self._lock = threading.RLock()
        self._numbers: dict[int, int] = {}
        self._next = 0
        self._device = 0
        self._patched: list[tuple[Any, str, Any]] = []
        self._real: dict[str, Callable[..., Any]] = {}

    def __enter__(self) -> Self:
        """Look at the folder, and begin to hear."""
        self._device = os.stat(self.root).st_dev
        self._look(self.root)
        for name, made in _WRAPPERS.items():
            self._patch(os, name, functools.partial(made, self))
        self._real.setdefault("pread", os.pread)
        if self._reads:
            for name in _READING_NAMES:
                self._patch(os, name, functools.partial(_reading_name, name, self))
            for name in _READING_FILES:
                self._patch(os, name, functools.partial(_reading_file, name, self))
        opened = functools.partial(_open_file, self)
        self._real["io.open"] = io.open
        self._patch(io, "open", opened)
        self._patch(builtins, "open", opened)
        return self

    def __exit__(self, *_: object) -> None:
        """Hear no more."""
        for place, name, function in reversed(self._patched):
            setattr(place, name, function)
        self._patched.clear()

    def _patch(self, place: Any, name: str, function: Callable[..., Any]) -> None:
        was = getattr(place, name)
        self._real.setdefault(name, was)
        self._patched.append((place, name, was))
        setattr(place, name, functools.wraps(was)(function))

    def _look(self, path: str) -> int:
        status = os.lstat(path)
        if stat.S_ISLNK(status.st_mode):
            return self._add(status.st_ino, Node("link", bytearray(os.readlink(path).encode()), {}))
        if not stat.S_ISDIR(status.st_mode):
            if status.st_ino in self._numbers:  # another name of it
                return self._numbers[status.st_ino]
            content = bytearray(Path(path).read_bytes())
            return self._add(status.st_ino, Node("file", content, {}))
        node = Node("directory", bytearray(), {})
        number = self._add(status.st_ino, node)
        for name in sorted(os.listdir(path)):
            node.entries[name] = self._look(f"{path}/{name}")
        return number

    def _add(self, inode: int, node: Node) -> int:
        number = self._next
        self._next += 1
        self._numbers[inode] = number
        self.before[number] = node
        return number

    @property
    def record(self) -> Record:
        """What was heard until now."""
        return Record(self.before, self.calls, self.changes)

    def make(
        self, name: str, path: str, call: Callable[[list[Change]], Any], second: str | None = None
    ) -> Any:
        """Number a call, hand over, make it, and keep what it changed."""
        with self._lock:
            heard = Call(len(self.calls) + 1, name, path, second=second)
            self.calls.append(heard)
            changes: list[Change] = []
            self.changes.append(())
        if self._hand_over is not None:
            self._hand_over(heard)
        with self._lock:
            try:
                return call(changes)
            finally:
                self.changes[heard.number - 1] = tuple(changes)

    def read(self, name: str, path: str) -> None:
        """Hand over before a call that only reads."""
        if self._reads and self._hand_over is not None:
            self._hand_over(Call(len(self.calls), name, path, reads=True))

    def real(self, name: str) -> Callable[..., Any]:
        """Return a function as it is without the recorder."""
        return self._real[name]

    def place(self, path: Any, folder: int | None = None, *, follow: bool = False) -> str | None:
        """Return the real path of a name below the folder; None for one elsewhere."""
        if isinstance(path, int):
            return self.place_of(path)
        text = os.fsdecode(path)
        if folder is not None and not os.path.isabs(text):
            text = os.path.join(os.readlink(f"/proc/self/fd/{folder}"), text)
        if follow:
            text = os.path.realpath(text)
        else:
            parent, name = os.path.split(os.path.abspath(text))
            text = os.path.join(os.path.realpath(parent), name)
        return text if text == self.root or text.startswith(self.root + "/") else None

    def place_of(self, descriptor: int) -> str | None:
        """Return the path of an open file below the folder."""
        status = os.fstat(descriptor)
        if status.st_dev != self._device or status.st_ino not in self._numbers:
            return None
        return os.readlink(f"/proc/self/fd/{descriptor}").removesuffix(" (deleted)")

    def node_at(self, path: str, *, follow: bool = False) -> int | None:
        """Return the number of what a path leads to; None where nothing is."""
        try:
            status = os.stat(path) if follow else os.lstat(path)
        except OSError:
            return None
        return self._numbers[status.st_ino]

    def node_of(self, descriptor: int) -> int:
        """Return the number of an open file."""
        return self._numbers[os.fstat(descriptor).st_ino]

    def parent(self, path: str) -> tuple[int, str]:
        """Return the directory of a path, and the name in it."""
        folder, name = os.path.split(path)
        return self._numbers[os.stat(folder).st_ino], name

    def created(self, path: str, kind: str, data: bytes = b"") -> Change:
        """Number what was just created at a path; return the change."""
        number = self._next
        self._next += 1
        self._numbers[os.lstat(path).st_ino] = number
        folder, name = self.parent(path)
        return Change("entry", folder, name, number, to_name=kind, data=data)

    def read_back(self, descriptor: int, start: int, count: int) -> bytes:
        """Return bytes of an open file, which may be open only for writing."""
        reader = self._real["open"](f"/proc/self/fd/{descriptor}", os.O_RDONLY | os.O_CLOEXEC)
        try:
            data: bytes = self._real["pread"](reader, count, start)
        finally:
            os.close(reader)
        assert len(data) == count, f"{count} bytes were written, {len(data)} are there"
        return data

    def forget(self, status: os.stat_result) -> None:
        """Forget a node whose last name was removed: another may get its inode."""
        if status.st_nlink <= 1 or stat.S_ISDIR(status.st_mode):
            self._numbers.pop(status.st_ino, None)


def apply(tree: Tree, change: Change) -> None:
    """Apply one change to a tree."""
    match change.kind:
        case "entry":
            if change.to_name:
                tree[_known(change.target)] = Node(change.to_name, bytearray(change.data), {})
            entries = tree[change.node].entries
            if change.target is None:
                del entries[change.name]
            else:
                entries[change.name] = change.target
        case "move":
            tree[change.to_node].entries[change.to_name] = tree[change.node].entries.pop(
                change.name
            )
        case "write":
            write_into(tree[change.node].data, change.offset, change.data)
        case "size":
            resize(tree[change.node].data, change.offset)


def write_into(content: bytearray, offset: int, data: bytes) -> None:
    """Write bytes, with zeros before them where they lie behind the end."""
    if len(content) < offset:
        resize(content, offset)
    content[offset : offset + len(data)] = data


def resize(content: bytearray, size: int) -> None:
    """Cut bytes, or add zeros."""
    if size < len(content):
        del content[size:]
    else:
        content.extend(bytes(size - len(content)))


def _known(number: int | None) -> int:
    assert number is not None
    return number


# The functions that take the place of those in os: each gets the recorder first.


def _open(
    recorder: Recorder, path: Any, flags: int, mode: int = 0o777, *, dir_fd: int | None = None
) -> int:
    real = recorder.real("open")
    follow = not flags & (os.O_NOFOLLOW | os.O_EXCL)
    place = recorder.place(path, dir_fd, follow=follow)
    changes_files = flags & _CHANGES and not flags & os.O_PATH
    if place is None:
        return real(path, flags, mode, dir_fd=dir_fd)
    if not changes_files:
        recorder.read("os.open", place)
        return real(path, flags, mode, dir_fd=dir_fd)

    def call(changes: list[Change]) -> int:
        was = recorder.node_at(place)
        size = os.lstat(place).st_size if was is not None else 0
        descriptor: int = real(path, flags, mode, dir_fd=dir_fd)
        if was is None:
            changes.append(recorder.created(place, "file"))
        elif flags & os.O_TRUNC and size:
            changes.append(Change("size", was))
        return descriptor

    return recorder.make("os.open", place, call)


def _mkdir(recorder: Recorder, path: Any, mode: int = 0o777, *, dir_fd: int | None = None) -> None:
    place = recorder.place(path, dir_fd)
    if place is None:
        return recorder.real("mkdir")(path, mode, dir_fd=dir_fd)

    def call(changes: list[Change]) -> None:
        recorder.real("mkdir")(path, mode, dir_fd=dir_fd)
        changes.append(recorder.created(place, "directory"))

    return recorder.make("os.mkdir", place, call)


def _symlink(
    recorder: Recorder,
    source: Any,
    path: Any,
    target_is_directory: bool = False,
    *,
    dir_fd: int | None = None,
) -> None:
    place = recorder.place(path, dir_fd)
    if place is None:
        return recorder.real("symlink")(source, path, target_is_directory, dir_fd=dir_fd)

    def call(changes: list[Change]) -> None:
        recorder.real("symlink")(source, path, target_is_directory, dir_fd=dir_fd)
        changes.append(recorder.created(place, "link", os.fsencode(source)))

    return recorder.make("os.symlink", place, call)


def _link(
    recorder: Recorder,
    source: Any,
    path: Any,
    *,
    src_dir_fd: int | None = None,
    dst_dir_fd: int | None = None,
    follow_symlinks: bool = True,
) -> None:
    options = {
        "src_dir_fd": src_dir_fd,
        "dst_dir_fd": dst_dir_fd,
        "follow_symlinks": follow_symlinks,
    }
    old, new = recorder.place(source, src_dir_fd), recorder.place(path, dst_dir_fd)
    if new is None:
        return recorder.real("link")(source, path, **options)
    assert old is not None, f"{source}: linked into the recorded folder from elsewhere"

    def call(changes: list[Change]) -> None:
        recorder.real("link")(source, path, **options)
        folder, name = recorder.parent(new)
        changes.append(Change("entry", folder, name, recorder.node_at(new)))

    return recorder.make("os.link", old, call, second=new)


def _rename(
    function: str,
    recorder: Recorder,
    source: Any,
    path: Any,
    *,
    src_dir_fd: int | None = None,
    dst_dir_fd: int | None = None,
) -> None:
    real = recorder.real(function)
    old, new = recorder.place(source, src_dir_fd), recorder.place(path, dst_dir_fd)
    if old is None and new is None:
        return real(source, path, src_dir_fd=src_dir_fd, dst_dir_fd=dst_dir_fd)
    assert old is not None, f"{source}: moved into the recorded folder from elsewhere"
    assert new is not None, f"{path}: moved out of the recorded folder"

    def call(changes: list[Change]) -> None:
        replaced = os.lstat(new) if os.path.lexists(new) else None
        is_same = replaced is not None and os.path.samestat(replaced, os.lstat(old))
        places = (*recorder.parent(old), *recorder.parent(new))
        real(source, path, src_dir_fd=src_dir_fd, dst_dir_fd=dst_dir_fd)
        if is_same:  # rename(2): two names of one file both stay
            return
        if replaced is not None:
            recorder.forget(replaced)
        changes.append(Change("move", places[0], places[1], None, places[2], places[3]))

    return recorder.make(f"os.{function}", old, call, second=new)


def _remove(function: str, recorder: Recorder, path: Any, *, dir_fd: int | None = None) -> None:
    real = recorder.real(function)
    place = recorder.place(path, dir_fd)
    if place is None:
        return real(path, dir_fd=dir_fd)

    def call(changes: list[Change]) -> None:
        status = os.lstat(place) if os.path.lexists(place) else None
        real(path, dir_fd=dir_fd)
        assert status is not None
        recorder.forget(status)
        changes.append(Change("entry", *recorder.parent(place)))

    return recorder.make(f"os.{function}", place, call)


def _truncate(recorder: Recorder, path: Any, length: int) -> None:
    place = recorder.place(path, follow=True)
    if place is None:
        return recorder.real("truncate")(path, length)

    def call(changes: list[Change]) -> None:
        recorder.real("truncate")(path, length)
        node = recorder.node_of(path) if isinstance(path, int) else recorder.node_at(place)
        changes.append(Change("size", _known(node), offset=length))

    return recorder.make("os.truncate", place, call)


def _sync_file(function: str, recorder: Recorder, file: Any) -> None:
    descriptor = file if isinstance(file, int) else file.fileno()
    place = recorder.place_of(descriptor)
    if place is None:
        return recorder.real(function)(file)

    def call(changes: list[Change]) -> None:
        recorder.real(function)(file)
        changes.append(Change("sync", recorder.node_of(descriptor)))

    return recorder.make(f"os.{function}", place, call)


def _sync_all(recorder: Recorder) -> None:
    def call(changes: list[Change]) -> None:
        recorder.real("sync")()
        changes.append(Change("sync", _EVERYTHING))

    return recorder.make("os.sync", recorder.root, call)


def _written(
    recorder: Recorder,
    name: str,
    descriptor: int,
    real: Callable[[], int],
    start: int | None = None,
) -> int:
    """Make a call that returns how many bytes it wrote to a file, at its position or elsewhere."""
    place = recorder.place_of(descriptor)
    if place is None:
        return real()

    def call(changes: list[Change]) -> int:
        count = real()
        first = os.lseek(descriptor, 0, os.SEEK_CUR) - count if start is None else start
        data = recorder.read_back(descriptor, first, count)
        changes.append(Change("write", recorder.node_of(descriptor), offset=first, data=data))
        return count

    written: int = recorder.make(name, place, call)
    return written


def _write(recorder: Recorder, file: int, data: Any) -> int:
    return _written(recorder, "os.write", file, lambda: recorder.real("write")(file, data))


def _writev(recorder: Recorder, file: int, buffers: Any) -> int:
    return _written(recorder, "os.writev", file, lambda: recorder.real("writev")(file, buffers))


def _pwrite(recorder: Recorder, file: int, data: Any, offset: int) -> int:
    real = recorder.real("pwrite")
    return _written(recorder, "os.pwrite", file, lambda: real(file, data, offset), offset)


def _pwritev(recorder: Recorder, file: int, buffers: Any, offset: int, flags: int = 0) -> int:
    real = recorder.real("pwritev")
    return _written(
        recorder, "os.pwritev", file, lambda: real(file, buffers, offset, flags), offset
    )


def _sendfile(recorder: Recorder, target: int, *arguments: Any, **options: Any) -> int:
    real = recorder.real("sendfile")
    return _written(recorder, "os.sendfile", target, lambda: real(target, *arguments, **options))


def _copy_file_range(
    recorder: Recorder,
    source: int,
    target: int,
    count: int,
    offset_src: int | None = None,
    offset_dst: int | None = None,
) -> int:
    real = recorder.real("copy_file_range")
    return _written(
        recorder,
        "os.copy_file_range",
        target,
        lambda: real(source, target, count, offset_src, offset_dst),
        offset_dst,
    )


def _ftruncate(recorder: Recorder, file: int, length: int) -> None:
    return _resized(
        recorder, "os.ftruncate", file, lambda: recorder.real("ftruncate")(file, length)
    )


def _posix_fallocate(recorder: Recorder, file: int, offset: int, length: int) -> None:
    real = recorder.real("posix_fallocate")
    return _resized(recorder, "os.posix_fallocate", file, lambda: real(file, offset, length))


def _resized(recorder: Recorder, name: str, descriptor: int, real: Callable[[], Any]) -> Any:
    place = recorder.place_of(descriptor)
    if place is None:
        return real()

    def call(changes: list[Change]) -> Any:
        result = real()
        size = os.fstat(descriptor).st_size
        changes.append(Change("size", recorder.node_of(descriptor), offset=size))
        return result

    return recorder.make(name, place, call)


def _reading_name(name: str, recorder: Recorder, path: Any = ".", **options: Any) -> Any:
    place = recorder.place(path)
    if place is not None:
        recorder.read(f"os.{name}", place)
    return recorder.real(name)(path, **options)


def _reading_file(name: str, recorder: Recorder, file: int, *arguments: Any) -> Any:
    place = recorder.place_of(file)
    if place is not None:
        recorder.read(f"os.{name}", place)
    return recorder.real(name)(file, *arguments)


_WRAPPERS: dict[str, Callable[..., Any]] = {
    "open": _open,
    "mkdir": _mkdir,
    "symlink": _symlink,
    "link": _link,
    "rename": functools.partial(_rename, "rename"),
    "replace": functools.partial(_rename, "replace"),
    "unlink": functools.partial(_remove, "unlink"),
    "remove": functools.partial(_remove, "remove"),
    "rmdir": functools.partial(_remove, "rmdir"),
    "truncate": _truncate,
    "ftruncate": _ftruncate,
    "posix_fallocate": _posix_fallocate,
    "write": _write,
    "writev": _writev,
    "pwrite": _pwrite,
    "pwritev": _pwritev,
    "sendfile": _sendfile,
    "copy_file_range": _copy_file_range,
    "fsync": functools.partial(_sync_file, "fsync"),
    "fdatasync": functools.partial(_sync_file, "fdatasync"),
    "sync": _sync_all,
}
_READING_NAMES = ("listdir", "scandir")
_READING_FILES = ("pread", "preadv", "read", "readv")
#: The calls that know only a descriptor, and raise errors without a name.
_BY_DESCRIPTOR = frozenset(
    {
        "write",
        "truncate",
        "os.ftruncate",
        "os.posix_fallocate",
        "os.write",
        "os.writev",
        "os.pwrite",
        "os.pwritev",
        "os.sendfile",
        "os.copy_file_range",
        "os.fsync",
        "os.fdatasync",
        "os.sync",
    }
)


# The open() that takes the place of Python's


class _RecordedFile(io.FileIO):
    """A file whose own writes are heard."""

    recorder: Recorder

    def write(self, data: Any, /) -> int:
        """Write, and have it recorded."""
        write = super().write
        return _written(self.recorder, "write", self.fileno(), lambda: write(data))

    def truncate(self, size: int | None = None, /) -> int:
        """Cut or lengthen, and have it recorded."""
        truncate = super().truncate
        length: int = _resized(self.recorder, "truncate", self.fileno(), lambda: truncate(size))
        return length


def _open_file(
    recorder: Recorder,
    file: Any,
    mode: str = "r",
    buffering: int = -1,
    encoding: str | None = None,
    errors: str | None = None,
    newline: str | None = None,
    closefd: bool = True,
    opener: Callable[[Any, int], int] | None = None,
) -> Any:
    """Open a file as ``open()`` does; what is below the folder is heard."""
    if opener is None and not isinstance(file, int):
        opener = _opened_by_os
    if not set(mode) & set("wax+"):
        return recorder.real("io.open")(
            file, mode, buffering, encoding, errors, newline, closefd, opener
        )
    raw = _RecordedFile(file, mode.replace("b", "").replace("t", ""), closefd, opener)
    raw.recorder = recorder
    try:
        if buffering == 0:
            return raw
        size = buffering if buffering > 1 else io.DEFAULT_BUFFER_SIZE
        buffered = io.BufferedRandom(raw, size) if "+" in mode else io.BufferedWriter(raw, size)
        if "b" in mode:
            return buffered
        text = io.TextIOWrapper(buffered, encoding, errors, newline, buffering == 1)
        text.mode = mode
    except BaseException:
        raw.close()
        raise
    return text


def _opened_by_os(path: Any, flags: int) -> int:
    return os.open(path, flags, 0o666)
