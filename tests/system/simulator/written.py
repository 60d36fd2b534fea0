"""An index that Spark writes, and the rows that it must hold: each once, whatever is repeated."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from .bytes_of import entries_of
from .judge import Fault

if TYPE_CHECKING:
    from collections.abc import Iterator

    from .draw import Draw
    from .users import Outcome, Place

__all__ = ["Written"]

Row = tuple[int, int, int]
_BEGIN = 1_700_000_000_000


@dataclass
class Written:
    """What was written so far.

    Attributes:
        rows: Every row of the index.
        batches: The batches of the query that writes now, in order.
        query: Its name.
    """

    rows: list[Row] = field(default_factory=list)
    batches: list[list[Row]] = field(default_factory=list)
    query: int = 0

    def draw(self, draw: Draw, place: Place) -> dict[str, Any]:
        """Draw a write: new rows, the last ones again, or all of them by a new query."""
        kind = draw.weighted([(5, "new"), (2, "again"), (1, "all again"), (1, "overwrite")])
        options = {"timeZone": "UTC", "onIndexed": "error"}
        slots, places = place.layout or (16, 20)
        options |= {"maxHashSlotNum": str(slots), "maxIndexNum": str(places)}
        write: dict[str, Any] = {"name": "write", "how": draw.one(["append", "stream", "stream"])}
        if not self.rows or (kind == "again" and not self.batches):
            kind = "new"
        if kind == "overwrite":
            write |= {"how": "overwrite", "rows": self._new(draw)}
        elif kind == "all again":
            options["onIndexed"] = "skip"
            write |= {"rows": self.rows, "query": f"query-{self.query + 1}", "batch": 0}
        elif kind == "again":
            options["onIndexed"] = draw.one(["skip", "error"])
            write |= {"rows": self.batches[-1], "query": f"query-{self.query}"}
            write |= {"batch": len(self.batches) - 1}
        else:
            write |= {"rows": self._new(draw), "query": f"query-{self.query}"}
            write |= {"batch": len(self.batches)}
        write["kind"] = kind
        write["tasks"] = _dealt(write.pop("rows"), draw.number(1, 3))
        if draw.chance(0.2):
            write["doubled"] = 0
        elif kind == "new" and self.rows and draw.chance(0.3):
            write |= {"how": "append", "kill": draw.number(1, 200), "seed": draw.number(0, 2**31)}
        return {**write, "options": options}

    def _new(self, draw: Draw) -> list[Row]:
        """Draw messages behind the last one, some with several keys."""
        rows = []
        last = max((row[1] for row in self.rows), default=0)
        time = _BEGIN + last
        for _ in range(draw.skewed(1, 30)):
            last += draw.number(100, 200)
            time += draw.number(0, 2000)
            codes = draw.some(range(40), 4) or [draw.number(0, 2**31 - 1)]
            rows += [(code, last, time) for code in codes]
        return rows

    def judge(self, step: dict[str, Any], outcome: Outcome, place: Place) -> Iterator[Fault]:
        """Compare the index with what it must hold now."""
        if outcome.status in ("crashed", "hung"):
            yield Fault("crash", outcome.user, outcome.text[-600:])
        rows = [tuple(row) for task in step["tasks"] for row in task]
        if outcome.is_answer:
            if step["kind"] == "overwrite":
                self.rows, self.batches, self.query = rows, [], self.query + 1
            elif step["kind"] == "new":
                self.rows = self.rows + rows
                self.batches.append(rows)
            elif step["kind"] == "all again":
                self.query, self.batches = self.query + 1, [self.rows]
        slots = (place.layout or (16, 20))[0]
        held = Counter(
            (code, offset) for _, _, code, offset, _ in entries_of(f"{place.aside}/written", slots)
        )
        expected = Counter((code, offset) for code, offset, _ in self.rows)
        for rule, differs in (("lost", expected - held), ("doubled", held - expected)):
            if differs:
                what = f"{list(differs.items())[:5]} [{outcome.told()}]"
                yield Fault(rule, outcome.user, f"{step['kind']}: {what}")

    def judge_left(self, step: dict[str, Any], left: Outcome, linked: Outcome) -> Iterator[Fault]:
        """Compare what is found after a kill: all rows of the killed write, or none.

        Args:
            step: The write.
            left: The entries of the index.
            linked: Those of links to its files.
        """
        if not left.is_answer or not linked.is_answer:
            return
        new = [tuple(row) for task in step["tasks"] for row in task]
        old = Counter((code, offset) for code, offset, _ in self.rows)
        both = old + Counter((code, offset) for code, offset, _ in new)
        held, seen = (Counter((row[2], row[3]) for row in one.rows) for one in (left, linked))
        if held == both and held != old:
            self.rows = self.rows + new
        elif held != old:
            what = f"more {held - old}, less {old - held} [{left.told()}]"
            yield Fault("torn", f"scan behind {step['how']}", what)
        if seen != held:
            what = f"more {seen - held}, less {held - seen} [{linked.told()}]"
            yield Fault("torn", f"scan of links behind {step['how']}", what)


def _dealt(rows: list[Row], tasks: int) -> list[list[Row]]:
    """Deal rows to tasks in stretches, the rows of a message to one."""
    parts: list[list[Row]] = [[] for _ in range(tasks)]
    offsets = sorted({row[1] for row in rows})
    for row in rows:
        parts[offsets.index(row[1]) * tasks // len(offsets)].append(row)
    return parts
