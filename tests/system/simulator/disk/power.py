"""What a disk may hold once the power was cut, given the calls that were made until then.

Two models, since file systems keep more than they promise:

- ``ordered``: directory operations persist in the order in which they were made, so that a cut
  leaves a beginning of them. ext4, XFS and btrfs keep metadata like this: ext4 and XFS in one
  journal, in which ``fsync`` of a file or directory persists whatever was entered before its own
  last change ("strictly ordered metadata consistency" in the kernel developers' words), btrfs by
  whole transactions, with names of the synced file on top.
- ``fsync``: what fsync(2) alone promises. "Calling fsync() does not necessarily ensure that the
  entry in the directory containing the file has also reached disk": a name persists only if its
  directory is synced afterwards, and of the names that were changed since, any may be the old
  ones. ALICE calls this a model without ordering.

In both a name is changed as a whole, and a renamed file never loses both names, though it may
keep both; a directory has always one.
In both the bytes of a file that were not synced since they were written may be lost, kept, or any
sectors of them; its size is any that it had since, and what was not written reads as zeros.
A file of an unsynced size may so be empty, or of its full size and all zeros, as delayed
allocation leaves them.
"""

from __future__ import annotations

import hashlib
import itertools
import math
import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from .recorded import Node, resize, write_into

if TYPE_CHECKING:
    import random
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from .recorded import Change, Record, Tree

__all__ = ["MODELS", "Cut", "cuts", "reached", "write_tree"]

MODELS = ("ordered", "fsync")
#: Disks write whole sectors.
_SECTOR = 512
_EVERYTHING = -1
_KEPT, _LOST, _ZERO = range(3)


class Cut(NamedTuple):
    """A state of the disk after a power cut.

    Attributes:
        call: The number of the last call that was made; 0 for none.
        model: One of ``MODELS``.
        tree: What the disk holds.
        what: What was lost, in words.
        mark: A digest of all that can be read of it.
    """

    call: int
    model: str
    tree: Tree
    what: str
    mark: bytes


# Names: which state of the directories persisted.


class _OrderedNames:
    """Directory operations persist in order: a beginning of them is there."""

    def __init__(self, before: Tree) -> None:
        self._now = _names_of(before)
        self._durable = _names_of(before)
        self._waiting: list[Change] = []
        self._touched: list[set[int]] = []

    def hear(self, change: Change) -> None:
        if change.kind == "sync":
            last = max(
                (
                    place
                    for place, nodes in enumerate(self._touched)
                    if change.node in nodes or change.node == _EVERYTHING
                ),
                default=-1,
            )
            for waiting in self._waiting[: last + 1]:
                _rename(self._durable, waiting)
            del self._waiting[: last + 1]
            del self._touched[: last + 1]
        elif change.kind in {"entry", "move"}:
            moved = self._now[change.node].get(change.name)
            nodes = {change.node, change.target, moved}
            if change.kind == "move":
                nodes |= {change.to_node, self._now[change.to_node].get(change.to_name)}
            _rename(self._now, change)
            self._waiting.append(change)
            self._touched.append({node for node in nodes if node is not None})

    def count(self) -> int:
        return len(self._waiting) + 1

    def all(self) -> Iterator[tuple[_Names, str]]:
        names = {node: dict(entries) for node, entries in self._durable.items()}
        yield {node: dict(entries) for node, entries in names.items()}, self._told(0)
        for place, change in enumerate(self._waiting, 1):
            _rename(names, change)
            yield {node: dict(entries) for node, entries in names.items()}, self._told(place)

    def corners(self) -> Iterator[tuple[_Names, str]]:
        yield self._some(0)
        yield self._some(len(self._waiting))

    def drawn(self, chance: random.Random) -> tuple[_Names, str]:
        return self._some(chance.randint(0, len(self._waiting)))

    def _some(self, count: int) -> tuple[_Names, str]:
        names = {node: dict(entries) for node, entries in self._durable.items()}
        for change in self._waiting[:count]:
            _rename(names, change)
        return names, self._told(count)

    def _told(self, count: int) -> str:
        return f"{count} of {len(self._waiting)} unsynced names are there"


@dataclass(frozen=True)
class _Move:
    """A rename: from a version of one name to that of another."""

    node: int
    source: tuple[tuple[int, str], int]
    target: tuple[tuple[int, str], int]


class _SyncedNames:
    """A name persists once its directory is synced; before, any version since then is there."""

    def __init__(self, before: Tree) -> None:
        self._versions: dict[tuple[int, str], list[int | None]] = {}
        self._floor: dict[tuple[int, str], int] = {}
        self._moves: list[_Move] = []
        self._directories: set[int] = set()
        for number, node in before.items():
            if node.kind == "directory":
                self._directories.add(number)
                for name, target in node.entries.items():
                    self._versions[number, name] = [target]
                    self._floor[number, name] = 0

    def hear(self, change: Change) -> None:
        if change.kind == "sync":
            for key, versions in self._versions.items():
                if change.node in {key[0], _EVERYTHING}:
                    self._floor[key] = len(versions) - 1
            self._settle(self._floor)
        elif change.kind == "entry":
            if change.to_name == "directory" and change.target is not None:
                self._directories.add(change.target)
            self._set(change.node, change.name, change.target)
        elif change.kind == "move":
            node = self._versions[change.node, change.name][-1]
            assert node is not None
            target = self._set(change.to_node, change.to_name, node)
            source = self._set(change.node, change.name, None)
            self._moves.append(_Move(node, source, target))

    def _set(self, node: int, name: str, value: int | None) -> tuple[tuple[int, str], int]:
        key = (node, name)
        if key not in self._versions:
            self._versions[key], self._floor[key] = [None], 0
        self._versions[key].append(value)
        return key, len(self._versions[key]) - 1

    def _settle(self, choice: dict[tuple[int, str], int]) -> None:
        """Let no move lose a file: what is gone under its old name is there under the new one."""
        changed = True
        while changed:
            changed = False
            for move in self._moves:
                (source, gone), (target, there) = move.source, move.target
                if choice[source] >= gone and choice[target] < there:
                    choice[target] = there
                    changed = True
                is_directory = move.node in self._directories
                if is_directory and choice[target] >= there and choice[source] < gone:
                    choice[source] = gone
                    changed = True

    def _free(self) -> list[tuple[int, str]]:
        return [key for key, all_ in self._versions.items() if len(all_) - 1 > self._floor[key]]

    def count(self) -> int:
        return math.prod(len(self._versions[key]) - self._floor[key] for key in self._free())

    def all(self) -> Iterator[tuple[_Names, str]]:
        free = self._free()
        ranges = [range(self._floor[key], len(self._versions[key])) for key in free]
        for chosen in itertools.product(*ranges):
            yield self._of(dict(zip(free, chosen, strict=True)))

    def corners(self) -> Iterator[tuple[_Names, str]]:
        """Yield all old, all new, and each alone old or new."""
        free = self._free()
        newest = {key: len(self._versions[key]) - 1 for key in free}
        yield self._of({})
        yield self._of(newest)
        for key in free:
            yield self._of({key: newest[key]})
            yield self._of({**newest, key: self._floor[key]})

    def drawn(self, chance: random.Random) -> tuple[_Names, str]:
        free = self._free()
        return self._of(
            {key: chance.randint(self._floor[key], len(self._versions[key]) - 1) for key in free}
        )

    def _of(self, chosen: dict[tuple[int, str], int]) -> tuple[_Names, str]:
        choice = {**self._floor, **chosen}
        self._settle(choice)
        names: _Names = {node: {} for node in self._directories}
        old = []
        for key, version in choice.items():
            value = self._versions[key][version]
            if value is not None:
                names[key[0]][key[1]] = value
            if version < len(self._versions[key]) - 1:
                old.append(key[1])
        return names, f"old names: {', '.join(sorted(old))}" if old else "all names"


# Contents: what persisted of the bytes of files.


class _Contents:
    """The bytes of files: what is synced, and what was written since."""

    def __init__(self, before: Tree) -> None:
        self._kinds = {number: node.kind for number, node in before.items()}
        self._synced = {number: bytes(node.data) for number, node in before.items()}
        self._now = {number: bytes(node.data) for number, node in before.items()}
        self._since: dict[int, list[Change]] = {}

    def hear(self, change: Change) -> None:
        if change.kind == "entry" and change.to_name:
            assert change.target is not None
            self._kinds[change.target] = change.to_name
            self._synced[change.target] = self._now[change.target] = change.data
        elif change.kind in {"write", "size"}:
            self._since.setdefault(change.node, []).append(change)
            self._now[change.node] = _applied(self._now[change.node], change)
        elif change.kind == "sync":
            synced = [*self._since] if change.node == _EVERYTHING else [change.node]
            for node in synced:
                if self._since.pop(node, None):
                    self._synced[node] = self._now[node]

    def kind(self, node: int) -> str:
        return self._kinds[node]

    def unsynced(self, nodes: Sequence[int]) -> list[int]:
        """Return those of the files that were written since they were synced."""
        return [node for node in nodes if self._since.get(node)]

    def synced(self, node: int) -> bytes:
        """Return the bytes of a file with nothing unsynced."""
        return self._now[node]

    def one(self, node: int, how: int) -> bytes:
        """Return all new bytes, none, or zeros of the new size."""
        if how == _KEPT:
            return self._now[node]
        old = self._synced[node]
        return (
            old if how == _LOST else old[: len(self._now[node])].ljust(len(self._now[node]), b"\0")
        )

    def drawn(self, node: int, chance: random.Random) -> bytes:
        """Return any of what may be there: one of the simple ones, or any sectors."""
        how = chance.choice((_KEPT, _LOST, _ZERO, None, None))
        if how is not None:
            return self.one(node, how)
        versions = [self._synced[node]]
        for change in self._since[node]:
            versions.append(_applied(versions[-1], change))
        if chance.random() < 0.5:  # it was written back until then
            return chance.choice(versions)
        size = len(chance.choice(versions))
        sectors = []
        for start in range(0, size, _SECTOR):
            found = chance.choice(versions)[start : start + _SECTOR]
            sectors.append(found.ljust(_SECTOR, b"\0"))
        return b"".join(sectors)[:size]


# Both together


_Names = dict[int, dict[str, int]]


def cuts(
    record: Record,
    model: str,
    chance: random.Random,
    *,
    most: int,
    calls: Sequence[int] | None = None,
) -> Iterator[Cut]:
    """Yield what the disk may hold after a power cut, each state of a call once.

    Args:
        record: The calls.
        model: One of ``MODELS``.
        chance: What is drawn where there are too many states.
        most: How many states after one call are taken; all where there are no more. Else all the
            corners (all kept, all lost, each name alone lost or kept), and others drawn.
        calls: The numbers of the calls after which the power is cut; by default 0 and all.
    """
    names = {"ordered": _OrderedNames, "fsync": _SyncedNames}[model](record.before)
    contents = _Contents(record.before)
    for number in range(len(record.calls) + 1):
        if number:
            for change in record.changes[number - 1]:
                names.hear(change)
                contents.hear(change)
        if calls is not None and number not in calls:
            continue
        seen: set[bytes] = set()
        for tree, what in _states(names, contents, chance, most):
            mark = _digest(tree)
            if mark not in seen:
                seen.add(mark)
                yield Cut(number, model, tree, what, mark)


def _states(
    names: _OrderedNames | _SyncedNames, contents: _Contents, chance: random.Random, most: int
) -> Iterator[tuple[Tree, str]]:
    if names.count() > most:
        some = [*names.corners()]
        if len(some) > most:
            some = [*some[:2], *chance.sample(some[2:], most - 2)]
    else:
        some = [*names.all()]
    total = 0
    for found, what in some:
        for tree, told in _fillings(found, contents, max(3, most // len(some)), chance):
            total += 1
            yield tree, f"{what}; {told}"
    while total < most and names.count() > most:
        total += 1
        found, what = names.drawn(chance)
        nodes = _reachable(found, contents)
        free = contents.unsynced(nodes)
        data = {node: contents.drawn(node, chance) for node in free}
        yield _tree(found, nodes, contents, data), f"{what}; {_told(free, data, contents)}"


def _fillings(
    names: _Names, contents: _Contents, most: int, chance: random.Random
) -> Iterator[tuple[Tree, str]]:
    """Yield a tree for what may be in the files of a state of the directories."""
    nodes = _reachable(names, contents)
    free = contents.unsynced(nodes)
    simple = [{node: contents.one(node, how) for node in free} for how in (_KEPT, _LOST, _ZERO)]
    if 3 ** len(free) <= most:
        simple = [
            {node: contents.one(node, how) for node, how in zip(free, chosen, strict=True)}
            for chosen in itertools.product((_KEPT, _LOST, _ZERO), repeat=len(free))
        ]
    drawn = ({node: contents.drawn(node, chance) for node in free} for _ in range(most))
    for data in simple if not free else itertools.chain(simple, drawn):
        yield _tree(names, nodes, contents, data), _told(free, data, contents)


def _told(free: list[int], data: dict[int, bytes], contents: _Contents) -> str:
    lost = [
        f"file {node} has {len(data[node])} of {len(contents.one(node, _KEPT))} bytes"
        for node in free
        if data[node] != contents.one(node, _KEPT)
    ]
    return ", ".join(lost) or "all bytes"


def _reachable(names: _Names, contents: _Contents) -> list[int]:
    found, waiting = [], [0]
    known = {0}
    while waiting:
        node = waiting.pop()
        found.append(node)
        if contents.kind(node) == "directory":
            for inner in names.get(node, {}).values():
                if inner not in known:
                    known.add(inner)
                    waiting.append(inner)
    return found


def _tree(names: _Names, nodes: Sequence[int], contents: _Contents, data: dict[int, bytes]) -> Tree:
    tree = {}
    for node in nodes:
        kind = contents.kind(node)
        content = data[node] if node in data else contents.synced(node)
        tree[node] = Node(kind, bytearray(content), names.get(node, {}))
    return tree


def _digest(tree: Tree) -> bytes:
    """Return a digest of what can be read: names, bytes, and which names are of one file."""
    mark = hashlib.blake2b(digest_size=16)
    order: dict[int, int] = {}
    for path, number in reached(tree):
        place = order.setdefault(number, len(order))
        node = tree[number]
        mark.update(f"{path}\0{place}\0{node.kind}\0{len(node.data)}\0".encode())
        if place == len(order) - 1:
            mark.update(node.data)
    return mark.digest()


def reached(tree: Tree) -> Iterator[tuple[str, int]]:
    """Yield the paths below the folder and their nodes, a directory before what it holds."""
    places = [("", 0)]
    while places:
        path, number = places.pop()
        for name, inner in sorted(tree[number].entries.items()):
            yield f"{path}{name}", inner
            if tree[inner].kind == "directory":
                places.append((f"{path}{name}/", inner))


def write_tree(tree: Tree, folder: Path) -> None:
    """Make what a tree holds, in a new folder."""
    folder.mkdir()
    made: dict[int, Path] = {}
    for name, number in reached(tree):
        node, path = tree[number], folder / name
        if node.kind == "directory":
            path.mkdir()
        elif node.kind == "link":
            path.symlink_to(node.data.decode())
        elif number in made:
            os.link(made[number], path)
        else:
            made[number] = path
            path.write_bytes(node.data)


def _names_of(before: Tree) -> _Names:
    return {
        number: dict(node.entries) for number, node in before.items() if node.kind == "directory"
    }


def _rename(names: _Names, change: Change) -> None:
    if change.kind == "entry" and change.to_name == "directory" and change.target is not None:
        names[change.target] = {}
    if change.kind == "move":
        names[change.to_node][change.to_name] = names[change.node].pop(change.name)
    elif change.target is None:
        del names[change.node][change.name]
    else:
        names[change.node][change.name] = change.target


def _applied(content: bytes, change: Change) -> bytes:
    changed = bytearray(content)
    if change.kind == "write":
        write_into(changed, change.offset, change.data)
    else:
        resize(changed, change.offset)
    return bytes(changed)
