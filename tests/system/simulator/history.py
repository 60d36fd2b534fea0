"""A history: steps of a store's life as data, drawn from a seed, run over a fresh directory.

A step is a name and arguments, all of them JSON, so that a history can be printed, replayed and
shortened. A step that makes no sense where it stands does nothing.

    {"name": "put", "topic": "Orders", "queue": 0, "properties": [["KEYS", "a b"]], "body": "00ff"}
    {"name": "dispatch", "most": 3}
    {"name": "kill", "during": {"name": "put", ..}, "after": 4}
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from . import damage
from .draw import Draw
from .messages import Senders
from .model.broker import Config, ModelBroker, run
from .model.copies import Copies

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from .model.truth import Damage, Truth

Step = dict[str, Any]
#: When the first message is stored, epoch ms: 2023-11-14 22:13:20.
BEGIN = 1_700_000_000_000


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
        #: What was damaged; those who mend it take it out.
        self.damages: list[Damage] = []

    @property
    def store(self) -> Path:
        """Where the store is."""
        return self.broker.root

    @property
    def truth(self) -> Truth:
        """What the store holds now."""
        return self.broker.truth

    @property
    def places(self) -> dict[str, Path]:
        """The store and its copies, by name."""
        copies = {name: copy.path for name, copy in self.copies.by_name.items()}
        return {"store": self.store, **copies}

    def truth_of(self, name: str) -> Truth:
        """Return what the store or a copy holds."""
        return self.truth if name == "store" else self.copies.truth_of(self.broker, name)

    def step(self, step: Step) -> Iterator[None]:
        """Take a step; yield after each change of a file."""
        self.taken.append(step)
        arguments = {name: value for name, value in step.items() if name != "name"}
        method = getattr(self, f"_{step['name']}", None)
        if method is not None:
            yield from method(**arguments)

    def take(self, step: Step) -> None:
        """Take a whole step at once."""
        run(self.step(step))

    def adopt(self) -> None:
        """Take the files as they are for the truth, after others have rightly changed them."""
        self.broker.refresh()

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
        if self.truth.running:
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
        yield

    def _power(self, seed: int, page: int = 512, loss: int = 50) -> Iterator[None]:
        """Cut the power: of what was not synced, some pages are as before, or zeros."""
        if self.truth.running:
            self.broker.cut_power(f"{seed}/power", page, loss / 100)
        yield

    def _cut(self, messages: int) -> Iterator[None]:
        yield from self.broker.cut(messages)

    def _isolate(self) -> Iterator[None]:
        self.broker.isolate()
        yield

    def _elect(self, *, noop: bool = False) -> Iterator[None]:
        yield from self.broker.elect(noop=noop)

    def _damage(self, part: str, kind: str, **where: int) -> Iterator[None]:
        planted = damage.plant(self.broker, part, kind, **where)
        if planted is not None:
            self.damages.append(planted)
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
        config = {
            "version": draw.one(VERSIONS),
            "log_file_size": draw.one([1024, 2048, 4096, 8192, 16384]),
            "queue_units": draw.number(2, 25),
            "batch_units": draw.number(2, 8),
            "slots": draw.number(2, 64),
            "places": draw.number(4, 40),
            "batch_topics": ["BatchTopic"],
            "dledger": draw.chance(0.12),
        }
        life = Life(draw, dledger=config["dledger"] is True)
        steps: list[Step] = [{"name": "start"}]
        while len(steps) < length:
            steps += life.steps()
        if draw.chance(0.5):
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


VERSIONS = [[4, 9], [5, 3], [5, 4], [5, 5]]


class Life:
    """Draws the steps of a store's life."""

    def __init__(self, draw: Draw, *, dledger: bool) -> None:
        """Begin with a seed's choices."""
        self._draw = draw
        self._senders = Senders(draw.of("messages"))
        self._kinds = [
            (30, self._put),
            (2, self._flush),
            (2, self._clock),
            (1, self._expire),
            (1, self._delete),
            (1, self._restart),
            (1, self._kill),
            (0.7, self._power),
            (0.7, self._cut),
            (0.5, self._backup),
            (0.4, self._restore),
            (0.4, self._copy),
            (0.7, self._arrive),
            *([(2, self._election), (0.7, self._isolate)] if dledger else []),
        ]

    def steps(self) -> list[Step]:
        """Return the next step, or a few that belong together."""
        return self._draw.weighted(self._kinds)()

    def _put(self) -> list[Step]:
        return [
            {
                "name": "put",
                "wait": self._draw.one([0, 1, 7, 400, 1_000, 60_000]),
                "dispatch": self._draw.chance(0.9),
                **sent,
            }
            for sent in self._senders.draw()
        ]

    def _flush(self) -> list[Step]:
        return [{"name": "flush"}]

    def _clock(self) -> list[Step]:
        by = self._draw.one([3_600_000, 90_000, -700, -5_000, -7_200_000])
        return [{"name": "clock", "by": by}]

    def _expire(self) -> list[Step]:
        return [{"name": "expire_log", "files": self._draw.number(1, 2)}]

    def _delete(self) -> list[Step]:
        return [{"name": "delete_topic", "topic": self._draw.one(self._senders.topics)}]

    def _start(self) -> Step:
        changes: dict[str, Any] = {}
        if self._draw.chance(0.4):
            changes["version"] = self._draw.one(VERSIONS)
        if self._draw.chance(0.04):
            changes["dledger"] = True
        if self._draw.chance(0.1):
            changes["index"] = self._draw.chance(0.5)
        return {"name": "start", **changes}

    def _restart(self) -> list[Step]:
        return [{"name": "stop"}, self._start()]

    def _power(self) -> list[Step]:
        power = {
            "name": "power",
            "seed": self._draw.number(0, 2**31),
            "page": self._draw.one([64, 512, 4096]),
            "loss": self._draw.one([5, 50, 100]),
        }
        return [power, self._start()] if self._draw.chance(0.7) else [power]

    def _cut(self) -> list[Step]:
        return [{"name": "cut", "messages": self._draw.skewed(1, 12)}]

    def _backup(self) -> list[Step]:
        return [{"name": "backup", "to": self._draw.one(["monday", "tuesday"])}]

    def _restore(self) -> list[Step]:
        parts = {
            part: self._draw.one(["monday", "tuesday"])
            for part in ("log", "index", "queues", "checkpoint")
            if self._draw.chance(0.8)
        }
        end = {"name": self._draw.one(["stop", "kill"])}
        return [end, {"name": "restore", **parts}, *([self._start()] * self._draw.chance(0.8))]

    def _copy(self) -> list[Step]:
        order = [self._draw.number(0, 99) / 100 for _ in range(self._draw.number(1, 20))]
        return [{"name": "copy", "to": "copy", "order": order}, *self._arrive()]

    def _arrive(self) -> list[Step]:
        return [{"name": "arrive", "to": "copy", "files": self._draw.number(1, 6)}]

    def _isolate(self) -> list[Step]:
        return [{"name": "isolate"}]

    def _election(self) -> list[Step]:
        puts = [put for _ in range(self._draw.number(0, 3)) for put in self._put()]
        return [{"name": "isolate"}, *puts, {"name": "elect", "noop": self._draw.chance(0.5)}]

    def damages(self) -> list[Step]:
        """Return an end of the broker, and damages."""
        end = {"name": self._draw.one(["stop", "kill"])}
        count = self._draw.weighted([(4, 1), (1, 2)])
        return [end, *(self._damage() for _ in range(count))]

    def _damage(self) -> Step:
        return {
            "name": "damage",
            "part": self._draw.one(["log", "log", "index", "index", "queues", "checkpoint"]),
            "kind": self._draw.one(damage.KINDS),
            "number": self._draw.skewed(0, 4),
            "at": self._draw.number(0, 999),
            "size": self._draw.one([1, 4, 8, 20, 64, 512, 4096]),
            "seed": self._draw.number(0, 999),
        }

    def _kill(self) -> list[Step]:
        during = self._put()[0]
        return [
            {"name": "kill", "during": during, "after": self._draw.skewed(0, 60)},
            self._start(),
        ]


def run_history(history: History, root: Path) -> World:
    """Run a whole history over a fresh directory."""
    world = World(root, history.config)
    for step in history.steps:
        world.take(step)
    return world
