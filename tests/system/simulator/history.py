"""A history: steps of a store's life as data, drawn from a seed, run over a fresh directory.

A step is a name and arguments, all of them JSON, so that a history can be printed, replayed and
shortened. A step that makes no sense where it stands does nothing.

    {"name": "put", "topic": "Orders", "queue": 0, "properties": [["KEYS", "a b"]], "body": "00ff"}
    {"name": "dispatch", "most": 3}
    {"name": "kill", "during": {"name": "put", ..}, "after": 4}
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from . import damage
from .draw import Draw
from .life import Life, config_of
from .model.broker import Config, ModelBroker, run
from .model.copies import Copies
from .model.reading import assign
from .model.truth import Truth

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator
    from pathlib import Path

    from .model.truth import Damage

Step = dict[str, Any]
#: Damages that leave entries which are others.
_CARRIED = {"flip", "noise", "number", "zeros"}
#: When the first message is stored, epoch ms: 2023-11-14 22:13:20.
BEGIN = 1_700_000_000_000
#: The fields of a checkpoint, bytes.
CHECKPOINT_SIZE = 48


class World:
    """A store, its broker, and the truth about it."""

    def __init__(self, root: Path, config: dict[str, Any] | None = None) -> None:
        """Begin with a directory for the store and its copies."""
        self.root = root
        settings = dict(config or {})
        settings["version"] = tuple(settings.get("version", (5, 3)))
        settings["batch_topics"] = set(settings.get("batch_topics", ()))
        self.broker = ModelBroker(root / "store", Config(**settings), BEGIN)
        self.copies = Copies(root)
        #: The steps that were taken, each as it was given.
        self.taken: list[Step] = []
        self._damages: list[Damage] = []
        self._marks: dict[Damage, set[str]] = {}
        #: The copy that is used in the place of the store, and what it holds.
        self.visited = ""
        self._copied = Truth()

    @property
    def store(self) -> Path:
        """Where the store is, or the copy of it that is used."""
        return self.places[self.visited or "store"]

    @property
    def truth(self) -> Truth:
        """What the store holds now, or the copy that is used."""
        return self._copied if self.visited else self.broker.truth

    @property
    def damages(self) -> list[Damage]:
        """What was damaged and is not mended."""
        return [] if self.visited else self._damages

    @property
    def places(self) -> dict[str, Path]:
        """The store and its copies, by name."""
        copies = {name: copy.path for name, copy in self.copies.by_name.items()}
        return {"store": self.broker.root, **copies}

    def truth_of(self, name: str) -> Truth:
        """Return what the store or a copy holds."""
        if name == "store":
            return self.broker.truth
        return self.copies.truth_of(self.broker, name)

    def step(self, step: Step) -> Iterator[None]:
        """Take a step; yield after each change of a file."""
        self.taken.append(step)
        arguments = {name: value for name, value in step.items() if name != "name"}
        method = getattr(self, f"_{step['name']}", None)
        if method is None:
            return
        for _ in method(**arguments):
            if self.visited and self.copies.by_name[self.visited].linked:
                self._read_copy()
            yield

    def take(self, step: Step) -> None:
        """Take a whole step at once."""
        run(self.step(step))

    def adopt(self, changed: Collection[str] = ()) -> None:
        """Take the files as they are for the truth, after others have rightly changed some.

        A damaged file that was changed or replaced is damaged no longer, nor is one that was lost
        whose entries are in another file again. A checkpoint is, while a damaged field is there.
        """
        if self.visited:
            self._read_copy()
            return
        self.broker.forget(changed)
        self.broker.refresh()
        self._damages = [
            one
            for one in self._damages
            if self._marks_of(one) & self._marks[one]
            and not (self._has_no_entry(one) and self._is_elsewhere(one))
        ]

    def carry(self) -> None:
        """Take note that files that are laid out anew may have what was changed in the old ones."""
        hurt = [one for one in self.damages if one.file.startswith("index")]
        old = [one for one in hurt if one.kind in _CARRIED]
        for path in sorted((self.broker.root / "index").iterdir()) if old else ():
            name, size = f"index/{path.name}", path.stat().st_size
            new = replace(old[0], file=name, start=0, stop=size, entries=frozenset())
            self._damages.append(new)
            self._marks[new] = self._marks_of(new)

    def _has_no_entry(self, planted: Damage) -> bool:
        """Tell whether a damaged IndexFile is gone, or counts nothing that a lookup could find."""
        path = self.broker.root / planted.file
        is_bare = planted.file.startswith("index") and path.is_file()
        is_bare = is_bare and not any(path.read_bytes()[16:])
        return planted.kind == "lost" or is_bare

    def _is_elsewhere(self, planted: Damage) -> bool:
        """Tell whether all entries of the log's messages that a file had are in others."""
        truth = self.broker.truth
        log = {one.offset: one for one in truth.messages}
        lost = {(one.key_hash, one.offset) for one in planted.entries if truth.message_of(one, log)}
        return bool(lost) and lost <= {(one.key_hash, one.offset) for one in truth.entries}

    def _read_copy(self) -> None:
        if self.visited:
            now = self.truth_of(self.visited)
            assign(self._copied, now)
            self._copied.log_end = now.log_end
            self._copied.has_remains = now.has_remains

    def _marks_of(self, planted: Damage) -> set[str]:
        """Return marks of a damaged file, of which one at least is left while it is not mended."""
        path = self.broker.root / planted.file
        if not path.is_file():
            return {""}
        data = path.read_bytes()
        if planted.file == "checkpoint":  # whose fields are written one by one
            first = planted.start - planted.start % 8
            places = range(first, min(planted.stop, CHECKPOINT_SIZE), 8)
            fields = {f"{at}: {data[at : at + 8].hex()}" for at in places if any(data[at : at + 8])}
            if fields:
                return fields
        return {hashlib.sha256(data).hexdigest()}

    # What steps do

    def _put(self, *, wait: int = 1, dispatch: bool = True, **sent: Any) -> Iterator[None]:
        self.broker.now += wait
        yield from self.broker.put(sent)
        if dispatch:
            yield from self.broker.dispatch()

    def _dispatch(self, most: int | None = None) -> Iterator[None]:
        yield from self.broker.dispatch(most)

    def _flush(self) -> Iterator[None]:
        yield from self.broker.flush()

    def _clock(self, by: int) -> Iterator[None]:
        self.broker.now = max(self.broker.now + by, 1)
        yield

    def _expire_log(self, files: int) -> Iterator[None]:
        yield from self.broker.expire_log(files)

    def _delete_topic(self, topic: str) -> Iterator[None]:
        yield from self.broker.delete_topic(topic)

    def _start(self, **changes: Any) -> Iterator[None]:
        """Start; settings of the broker may have been changed meanwhile."""
        if self.broker.truth.running:
            return
        for name, value in changes.items():
            setattr(self.broker.config, name, tuple(value) if name == "version" else value)
        yield from self.broker.start()

    def _stop(self) -> Iterator[None]:
        yield from self.broker.stop()

    def _kill(self, during: Step | None = None, after: int = 0) -> Iterator[None]:
        """Kill the broker, perhaps within a step after some of its writes."""
        if during is not None:
            arguments = {name: value for name, value in during.items() if name != "name"}
            method = getattr(self, f"_{during['name']}")
            for number, _ in enumerate(method(**arguments)):
                if number >= after:
                    break
                yield
        self.broker.kill()
        self.broker.refresh_killed()
        yield

    def _power(self, seed: int, page: int = 512, loss: int = 50) -> Iterator[None]:
        """Cut the power: of what was not synced, some pages are as before, or zeros."""
        if self.broker.truth.running:
            self.broker.cut_power(f"{seed}/power", page, loss / 100)
        yield

    def _cut(self, messages: int) -> Iterator[None]:
        if not self.broker.config.dledger:  # a group gives up nothing that it agreed on
            yield from self.broker.cut(messages)

    def _isolate(self) -> Iterator[None]:
        self.broker.isolate()
        yield

    def _elect(self, *, noop: bool = False) -> Iterator[None]:
        yield from self.broker.elect(noop=noop)

    def _damage(self, part: str, kind: str, **where: int) -> Iterator[None]:
        planted = damage.plant(self.broker, part, kind, **where)
        if planted is not None:
            if planted.kind == "lost":  # with all that was damaged in it
                planted = self._with_older(planted)
            self._damages.append(planted)
            for one in self._damages:  # one file may be damaged twice
                if one.file == planted.file:
                    self._marks[one] = self._marks_of(one)
        yield

    def _with_older(self, lost: Damage) -> Damage:
        """Forget the damages of a file that is lost; they are of the loss now."""
        older = [one for one in self._damages if one.file == lost.file]
        self._damages = [one for one in self._damages if one.file != lost.file]
        for one in older:
            lost = replace(
                lost,
                messages=lost.messages | one.messages,
                answered=lost.answered | one.answered,
                entries=lost.entries | one.entries,
                units=lost.units | one.units,
                is_harmless=lost.is_harmless and one.is_harmless,
            )
        return lost

    def _lose(self, folder: str) -> Iterator[None]:
        """Lose a folder of a store whose broker does not run."""
        if not self.broker.truth.running:
            self.broker.disk.delete_folder(folder)
            self.broker.refresh()
        yield

    def _link(self, to: str) -> Iterator[None]:
        """Put links to the IndexFiles into a folder."""
        self.copies.link(self.broker, to)
        yield

    def _backup(self, to: str) -> Iterator[None]:
        """Copy the store as it is at this moment."""
        self.copies.begin(self.broker, to, [0.0])
        self.copies.arrive(self.broker, to, 10_000)
        yield

    def _copy(self, to: str, order: list[float]) -> Iterator[None]:
        """Begin a copy whose files arrive one by one."""
        self.copies.begin(self.broker, to, order)
        yield

    def _arrive(self, to: str, files: int) -> Iterator[None]:
        for _ in range(files):
            self.copies.arrive(self.broker, to, 1)
            self._read_copy()
            yield

    def _visit(self, to: str) -> Iterator[None]:
        """Use a copy in the place of the store, while its files may still arrive."""
        if to in self.copies.by_name:
            self.visited, self._copied = to, self.truth_of(to)
        yield

    def _leave(self) -> Iterator[None]:
        """Use the store itself again."""
        self.visited = ""
        yield

    def _restore(self, **parts: str) -> Iterator[None]:
        self.copies.restore(self.broker, parts)
        yield


class History:
    """Settings and steps."""

    def __init__(self, config: dict[str, Any], steps: list[Step], seed: int | str = "") -> None:
        """Keep what is to be done."""
        self.config, self.steps, self.seed = config, steps, seed

    @classmethod
    def of(cls, seed: int | str, length: int = 40) -> History:
        """Draw a history from a seed."""
        draw = Draw(seed)
        config = config_of(draw)
        life = Life(draw, dledger=config["dledger"])
        steps: list[Step] = [{"name": "start"}]
        while len(steps) < length:
            steps += life.steps()
        if draw.chance(0.6):
            steps += life.damages()
        return cls(config, steps, seed)

    def text(self) -> str:
        """Return the history as JSON."""
        return json.dumps({"seed": self.seed, "config": self.config, "steps": self.steps})

    @classmethod
    def read(cls, text: str) -> History:
        """Read what :meth:`text` returned."""
        fields = json.loads(text)
        return cls(fields["config"], fields["steps"], fields["seed"])


def run_history(history: History, root: Path) -> World:
    """Run a whole history over a fresh directory."""
    world = World(root, history.config)
    for step in history.steps:
        world.take(step)
    return world
