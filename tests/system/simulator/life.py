"""A store's life, drawn step by step."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .messages import Senders

if TYPE_CHECKING:
    from .draw import Draw

Step = dict[str, Any]
VERSIONS = [[4, 9], [5, 3], [5, 4], [5, 5]]
BACKUPS = ["monday", "tuesday"]
#: The fields of an IndexFile's header, where and how long; those that are acted on are here twice.
HEADER_FIELDS = [(0, 8), (8, 8), (16, 8), (24, 8), (24, 8), (32, 4), (36, 4), (36, 4)]
DAMAGES = [
    *((3, kind) for kind in ("zeros", "noise", "flip")),
    *((1, kind) for kind in ("lost", "cut", "empty", "swapped", "longer")),
]
#: What is lost at once.
_FOLDERS = [["index"], ["consumequeue", "batchconsumequeue"], ["consumequeue"]]
#: Years beyond the clocks of those who read the store.
FAR = 300_000_000_000


def config_of(draw: Draw) -> dict[str, Any]:
    """Draw a broker's settings."""
    return {
        "version": draw.one(VERSIONS),
        "log_file_size": draw.one([1024, 2048, 4096, 8192, 16384]),
        "queue_units": draw.number(2, 25),
        "batch_units": draw.number(2, 8),
        "slots": draw.number(2, 64),
        "places": draw.number(4, 40),
        "batch_topics": ["BatchTopic"],
        "dledger": draw.chance(0.12),
        "delay": draw.weighted([(4, 0), (1, 2), (1, 3600)]),
    }


class Life:
    """Draws the steps of one store's life; which kinds of them are frequent is drawn first."""

    def __init__(self, draw: Draw, *, dledger: bool) -> None:
        """Begin with a seed's choices."""
        self._draw = draw
        self._senders = Senders(draw.of("messages"))
        #: The last messages that were sent.
        self._sent: list[Step] = []
        calm = [
            (2, self._flush),
            (2, self._clock),
            (1, self._expire),
            (1, self._delete),
            (2, self._restart),
            (0.5, self._backup),
            (0.5, self._copy),
            (0.7, self._arrive),
            (0.2, self._link),
        ]
        rough = [
            (1.5, self._kill),
            (1, self._power),
            (1, self._cut),
            (1.5, self._resend),
            (0.5, self._restore),
            *([(2, self._election), (0.7, self._isolate)] if dledger else []),
        ]
        often = [(4, 0), (4, 1), (1, 4)]
        kinds = calm + (rough if draw.chance(0.65) else [])
        self._kinds = [(weight * draw.weighted(often), kind) for weight, kind in kinds]
        self._kinds += [(30, self._put), (0.7, self._starts), (0.3, self._dispatch)]

    def steps(self) -> list[Step]:
        """Return the next step, or a few that belong together."""
        return self._draw.weighted(self._kinds)()

    def _put(self) -> list[Step]:
        puts = [
            {
                "name": "put",
                "wait": self._draw.one([0, 1, 7, 400, 1_000, 60_000]),
                "dispatch": self._draw.chance(0.9),
                **sent,
            }
            for sent in self._senders.draw()
        ]
        self._sent = [*self._sent, *puts][-6:]
        return puts

    def _dispatch(self) -> list[Step]:
        return [{"name": "dispatch", "most": self._draw.number(1, 4)}]

    def _flush(self) -> list[Step]:
        return [{"name": "flush"}]

    def _clock(self) -> list[Step]:
        if self._draw.chance(0.2):
            puts = [put for _ in range(self._draw.number(1, 6)) for put in self._put()]
            return [{"name": "clock", "by": FAR}, *puts, {"name": "clock", "by": -FAR}]
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
        if self._draw.chance(0.05):
            changes["delay"] = self._draw.one([0, 2, 7])
        return {"name": "start", **changes}

    def _starts(self) -> list[Step]:
        return [{"name": "start", "index": True}]

    def _maybe_started(self) -> list[Step]:
        return [*self._pause(), *([self._start()] if self._draw.chance(0.7) else [])]

    def _restart(self) -> list[Step]:
        return [{"name": "stop"}, *self._maybe_started()]

    def _kill(self) -> list[Step]:
        within = self._draw.weighted(
            [
                (8, self._put()[0]),
                (1, {"name": "dispatch"}),
                (1, {"name": "flush"}),
                (1, {"name": "stop"}),
                (1, {"name": "expire_log", "files": 2}),
                (1, {"name": "delete_topic", "topic": self._senders.topics[0]}),
            ]
        )
        kill = {"name": "kill", "during": within, "after": self._draw.skewed(0, 60)}
        if self._draw.chance(0.15):  # and once more while it recovers
            again = {"name": "kill", "during": self._start(), "after": self._draw.skewed(0, 40)}
            return [kill, again, *self._maybe_started()]
        return [kill, *self._maybe_started()]

    def _power(self) -> list[Step]:
        power = {
            "name": "power",
            "seed": self._draw.number(0, 2**31),
            "page": self._draw.one([64, 512, 4096]),
            "loss": self._draw.one([5, 50, 100]),
        }
        return [power, *self._maybe_started()]

    def _cut(self) -> list[Step]:
        return [{"name": "cut", "messages": self._draw.skewed(1, 12)}]

    def _resend(self) -> list[Step]:
        """Lose the last messages, and store others of the same sizes in their place."""
        last = [put for put in self._sent if not put.get("parts")][-self._draw.number(1, 4) :]
        lost = self._draw.one(
            [
                [{"name": "cut", "messages": len(last)}],
                [{"name": "cut", "messages": len(last)}],
                [*self._power()[:1], self._start()],
            ]
        )
        again = self._senders.again(last)
        return [*lost, *again[: self._draw.number(0, 4)], *self._put()]

    def _backup(self) -> list[Step]:
        return [{"name": "backup", "to": self._draw.one(BACKUPS)}]

    def _restore(self) -> list[Step]:
        parts = {
            part: self._draw.one(BACKUPS)
            for part in ("log", "index", "queues", "checkpoint")
            if self._draw.chance(0.8)
        }
        end = {"name": self._draw.one(["stop", "kill"])}
        return [end, {"name": "restore", **parts}, *self._maybe_started()]

    def _copy(self) -> list[Step]:
        order = [self._draw.number(0, 99) / 100 for _ in range(self._draw.number(1, 20))]
        copy = [{"name": "copy", "to": "copy", "order": order}, *self._arrive()]
        if self._draw.chance(0.5):
            return copy
        arrivals = [step for _ in range(self._draw.number(2, 6)) for step in self._arrive()]
        rest = [{"name": "arrive", "to": "copy", "files": 1000}] if self._draw.chance(0.5) else []
        return [*copy, {"name": "visit", "to": "copy"}, *arrivals, *rest, {"name": "leave"}]

    def _arrive(self) -> list[Step]:
        return [{"name": "arrive", "to": "copy", "files": self._draw.number(1, 6)}]

    def _link(self) -> list[Step]:
        visit = {"name": "visit", "to": "linked"}
        return [{"name": "link", "to": "linked"}, visit, *self._pause(), {"name": "leave"}]

    def _pause(self) -> list[Step]:
        """Give others time."""
        return [{"name": "clock", "by": 1000}] * self._draw.number(0, 3)

    def _isolate(self) -> list[Step]:
        return [{"name": "isolate"}]

    def _election(self) -> list[Step]:
        puts = [put for _ in range(self._draw.number(0, 3)) for put in self._put()]
        again = self._senders.again(puts) if self._draw.chance(0.5) else []
        elect = {"name": "elect", "noop": self._draw.chance(0.5)}
        return [{"name": "isolate"}, *puts, elect, *again]

    def damages(self) -> list[Step]:
        """Return an end of the broker, and damages."""
        end = {"name": self._draw.weighted([(3, "stop"), (1, "kill")])}
        count = self._draw.weighted([(5, 1), (1, 2)])
        if self._draw.chance(0.2):
            folders = self._draw.one(_FOLDERS)
            return [end, *({"name": "lose", "folder": folder} for folder in folders)]
        return [end, *(self._damage() for _ in range(count))]

    def _damage(self) -> Step:
        part = self._draw.one(["log", "log", "index", "index", "queues", "checkpoint"])
        at = self._draw.number(0, 999)
        size = self._draw.one([1, 4, 8, 20, 64, 512, 4096])
        kind = self._draw.weighted(DAMAGES)
        number = self._draw.skewed(0, 4)
        if part == "index" and self._draw.chance(0.5):
            byte, size = self._draw.one(HEADER_FIELDS)
            at = -1 - byte
            kind = self._draw.one([kind, "number"])
            number = self._draw.number(0, 4)
        return {
            "name": "damage",
            "part": part,
            "kind": kind,
            "number": number,
            "at": at,
            "size": size,
            "seed": self._draw.number(0, 999),
        }
