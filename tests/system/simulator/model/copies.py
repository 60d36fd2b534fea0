"""Copies of a store: whole, file by file in any order, or put together of several."""

from __future__ import annotations

import shutil
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from .disk import Disk
from .reading import read_truth

if TYPE_CHECKING:
    from pathlib import Path

    from .broker import ModelBroker
    from .truth import Message, Truth

#: What a restore takes from one backup or another.
PARTS = {
    "log": ("commitlog", "dledger-n0"),
    "index": ("index",),
    "queues": ("consumequeue", "batchconsumequeue"),
    "checkpoint": ("checkpoint", "abort"),
}


@dataclass
class Copy:
    """A copy, and which messages the log had when it was begun."""

    path: Path
    alive: dict[int, Message]
    end: int
    #: Slots and places of its IndexFiles, which a relayout of the store does not change.
    geometry: tuple[int, int]
    #: The files that have not arrived yet.
    missing: list[str] = field(default_factory=list)
    #: Whether it has links to the IndexFiles, and nothing else.
    linked: bool = False


class Copies:
    """The copies of one store, beside it."""

    def __init__(self, folder: Path) -> None:
        """Begin without any."""
        self.folder = folder
        self.by_name: dict[str, Copy] = {}

    def begin(self, broker: ModelBroker, name: str, order: list[float]) -> Copy:
        """Begin a copy of which no file has arrived.

        Args:
            broker: The store.
            name: The copy's folder.
            order: Numbers by which the files are sorted, used again and again.
        """
        path = self.folder / name
        shutil.rmtree(path, ignore_errors=True)
        path.mkdir(parents=True)
        names = sorted(
            file.relative_to(broker.root).as_posix()
            for file in broker.root.rglob("*")
            if file.is_file() and file.name != "lock"
        )
        ranks = {each: order[place % len(order)] for place, each in enumerate(names)}
        names.sort(key=lambda each: (ranks[each], each))
        geometry = (broker.config.slots, broker.config.places)
        copy = self.by_name[name] = Copy(path, dict(broker.alive), broker.end, geometry, names)
        return copy

    def arrive(self, broker: ModelBroker, name: str, files: int) -> None:
        """Let the next files of a copy arrive, each as it is now."""
        copy = self.by_name.get(name)
        for _ in range(files):
            if copy is None or not copy.missing:
                break
            each = copy.missing.pop(0)
            source = broker.root / each
            if source.is_file():
                (copy.path / each).parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(source, copy.path / each)
        if copy is not None:
            copy.alive |= broker.alive
            copy.end = max(copy.end, broker.end)

    def link(self, broker: ModelBroker, name: str) -> None:
        """Make a folder with links to the IndexFiles, and the log beside them."""
        path = self.folder / name
        shutil.rmtree(path, ignore_errors=True)
        (path / "index").mkdir(parents=True)
        for file in sorted((broker.root / "index").glob("*")):
            (path / "index" / file.name).symlink_to(file)
        geometry = (broker.config.slots, broker.config.places)
        self.by_name[name] = Copy(path, {}, 0, geometry, linked=True)

    def restore(self, broker: ModelBroker, parts: dict[str, str]) -> bool:
        """Put the store together from copies; tell whether they are there.

        Args:
            broker: The store, which must not run.
            parts: The name of a copy for each of :data:`PARTS`; a part without one stays as it is.
        """
        copies = {name: copy for name, copy in self.by_name.items() if not copy.linked}
        chosen = {part: copies[name] for part, name in parts.items() if name in copies}
        if broker.truth.running or not chosen:
            return False
        for part, copy in chosen.items():
            for name in PARTS[part]:
                _take(copy.path / name, broker.root / name)
        if "log" in chosen:
            broker.alive, broker.end = dict(chosen["log"].alive), chosen["log"].end
        if "index" in chosen:
            broker.config.slots, broker.config.places = chosen["index"].geometry
        broker.refresh()
        return True

    def truth_of(self, broker: ModelBroker, name: str) -> Truth:
        """Return what a copy holds."""
        copy = self.by_name[name]
        disk = Disk(copy.path)
        config = broker.config
        if not copy.linked:
            config = replace(config, slots=copy.geometry[0], places=copy.geometry[1])
        written = (broker.known, broker.heads, broker.texts, broker.made)
        return read_truth(disk, config, *written, copy.alive, {})


def _take(source: Path, target: Path) -> None:
    if target.is_dir():
        shutil.rmtree(target)
    else:
        target.unlink(missing_ok=True)
    if source.is_dir():
        shutil.copytree(source, target)
    elif source.is_file():
        shutil.copyfile(source, target)
