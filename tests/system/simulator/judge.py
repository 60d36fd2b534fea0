"""Whether an outcome is the model's answer, a refusal by name, or says rightly what it lacks."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from .bytes_of import broker_answer, java_hash

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from .history import World
    from .model.truth import Damage, Message, Truth
    from .users import Outcome

__all__ = ["Fault", "Judge"]

_LONG_MAX = 2**63 - 1
#: What the model calls a store whose parts contradict each other, though no byte was damaged.
_MOST_SHOWN = 6


@dataclass(frozen=True)
class Fault:
    """One wrong outcome.

    Attributes:
        rule: What was broken: ``lost``, ``foreign``, ``crash``, ``refused``, ``missed`` ..
        user: Who was asked.
        what: What was expected, and what came.
        step: The number of the step.
    """

    rule: str
    user: str
    what: str
    step: int = -1

    @property
    def kind(self) -> tuple[str, str]:
        """What shrinking keeps."""
        return self.rule, self.user


@dataclass
class Judge:
    """Compares outcomes with what the model knows.

    Attributes:
        root: The store, which only the broker's own search is read from.
        world: The store's life until now.
        damages: What was changed since, and not mended.
        answers: How many answers were judged, by user and status.
    """

    root: str
    world: World
    damages: Sequence[Damage] = ()
    answers: Counter[tuple[str, str]] = field(default_factory=Counter)

    def __post_init__(self) -> None:
        """Tell what was damaged."""
        self.truth: Truth = self.world.truth
        self.harm = [damage for damage in self.damages if not damage.is_harmless]
        self.is_sound = not self.harm and not self.truth.states
        self.index_is_hurt = any(damage.file.startswith("index") for damage in self.harm)
        self.log_is_hurt = any(_is_log(damage.file) for damage in self.harm)
        self.queues_are_hurt = any("queue" in damage.file.split("/")[0] for damage in self.harm)
        self.lost_messages = {one for damage in self.harm for one in damage.messages}
        self.hurt_files = {
            damage.file.rpartition("/")[2]
            for damage in self.harm
            if damage.file.startswith("index")
        }

    def judge(self, outcome: Outcome) -> list[Fault]:
        """Return what is wrong with an outcome."""
        self.answers[outcome.user, outcome.status] += 1
        if outcome.status in ("crashed", "hung"):
            return [Fault("crash", outcome.user, f"{outcome.error}: {outcome.told()}")]
        if outcome.status == "refused":
            return self._refused(outcome)
        rules: dict[str, Callable[[Outcome], list[str]]] = {
            "hits": self._hits,
            "entries": self._entries,
            "salvaged": self._salvaged,
            "messages": self._messages,
            "units": self._units,
            "broker": self._broker,
            "usage": self._usage,
            "findings": self._findings,
            "explained": self._explained,
            "entry_stream": self._entry_stream,
            "message_stream": self._message_stream,
        }
        rule = rules.get(outcome.kind)
        if rule is None:
            return []
        faults = []
        for said in rule(outcome):
            name, _, what = said.partition(": ")
            faults.append(Fault(name, outcome.user, f"{what} [{outcome.told()}]"))
        return faults

    # Refusals.

    def _refused(self, outcome: Outcome) -> list[Fault]:
        text = outcome.text
        if not text.strip():
            return [Fault("refused", outcome.user, f"without a word: {outcome.told()}")]
        if "Traceback" in text:
            return [Fault("crash", outcome.user, outcome.told())]
        if self._may_refuse(outcome):
            return []
        return [Fault("refused", outcome.user, outcome.told())]

    def _may_refuse(self, outcome: Outcome) -> bool:
        if outcome.kind.endswith("_stream") and self.truth.once:
            return True  # what it had not read is gone
        if self.harm or self.truth.states:
            return True
        text = outcome.text
        if any(name in text for name in ("axHashSlotNum", "max-hash-slot-num", "Layout(")):
            return not outcome.asked.get("geometry")
        if not self.truth.surely("entries") and outcome.kind not in ("messages", "usage", "units"):
            return True
        return not self.truth.surely("messages")

    # Lookups.

    def _hits(self, outcome: Outcome) -> list[str]:
        question = outcome.asked
        prefix = "T#" if outcome.user == "lookup --tag" else ""
        said = []
        for key in question["keys"]:
            got = [row for row in outcome.rows if (row[0], row[1]) == (question["topic"], key)]
            said += self._hits_of(outcome, question["topic"], prefix + key, got)
        others = [row for row in outcome.rows if row[0] != question["topic"]]
        others += [row for row in outcome.rows if row[1] not in question["keys"]]
        return said + ([f"foreign: of other keys {_some(others)}"] if others else [])

    def _hits_of(self, outcome: Outcome, topic: str, key: str, got: list[Any]) -> list[str]:
        question = outcome.asked
        begin = question.get("begin")
        end = question.get("end")
        first = 0 if begin is None else begin
        last = _LONG_MAX if end is None else end
        messages = {one.offset: one for one in self.truth.possibly("messages")}
        text = f"{topic}#{key}"
        code = java_hash(text)
        sure, may = [], []
        surely = set(self.truth.surely("entries"))
        for entry in self.truth.possibly("entries"):
            if entry.key_hash != code:
                continue
            message = messages.get(entry.offset)
            if message is not None and entry.text != text:
                continue
            time = entry.store_time if message is None else message.store_time
            state = "unverified" if message is None else "verified"
            if not first <= time <= last:
                continue
            row = (entry.file, entry.position, entry.offset, time, state)
            if outcome.user == "load, filtered" and message is None:
                continue  # it has no key, so the filter drops it
            is_sure = entry in surely and (message is None or message not in self.truth.maybe)
            (sure if is_sure else may).append(row)
        rows = [
            (file, position, offset, time, "verified" if state == "verified" else "unverified")
            for _, _, file, position, offset, time, state in got
        ]
        return self._compare(outcome, rows, sure, may, limit=question.get("max_num"))

    def _compare(
        self,
        outcome: Outcome,
        rows: Iterable[Any],
        sure: Iterable[Any],
        may: Iterable[Any],
        *,
        limit: int | None = None,
        hurt: bool | None = None,
    ) -> list[str]:
        """Say which rows are lost, doubled or foreign."""
        got, sure = Counter(rows), Counter(sure)
        foreign = got - sure - Counter(may)
        lost = sure - got
        hurt = (self.index_is_hurt or self.log_is_hurt) if hurt is None else hurt
        said = []
        if foreign and not (hurt and outcome.notes) and not self._may_be_foreign(foreign):
            said.append(f"foreign: {_some(foreign)}, expected {_some(sure)}")
        if limit is not None:
            if lost and got.total() < min(limit, sure.total()):
                said += self._lost(outcome, lost, hurt=hurt)
        elif lost:
            said += self._lost(outcome, lost, hurt=hurt)
        return said

    def _may_be_foreign(self, foreign: Counter[Any]) -> bool:
        """Tell whether rows are of IndexFiles whose bytes were changed, which cannot be seen."""
        return all(row[0] in self.hurt_files for row in foreign if isinstance(row, tuple))

    def _lost(self, outcome: Outcome, lost: Counter[Any], *, hurt: bool) -> list[str]:
        if hurt and outcome.notes:
            return []
        if all(isinstance(row, tuple) and row[0] in self.hurt_files for row in lost):
            return []  # `verify` must find them: a search follows the chain that it is given
        return [f"lost: {_some(lost)}"]

    # Entries.

    def _entries(self, outcome: Outcome) -> list[str]:
        question = outcome.asked
        if question.get("limit") is not None:
            return []
        chosen = [self._chosen(question, which) for which in ("surely", "possibly")]
        sure, may = chosen
        return self._compare(outcome, outcome.rows, sure, [row for row in may if row not in sure])

    def _chosen(self, question: dict[str, Any], which: str) -> list[Any]:
        first, last = _bounds(question, "begin", "end")
        start, stop = _bounds(question, "from", "to")
        return [
            (one.file, one.position, one.key_hash, one.offset, one.store_time)
            for one in getattr(self.truth, which)("entries")
            if first <= one.store_time <= last
            and start <= one.offset
            and (stop == _LONG_MAX or one.offset < stop)
            and question.get("key_hash") in (None, one.key_hash)
        ]

    def _salvaged(self, outcome: Outcome) -> list[str]:
        rows = [(row[0], row[1], row[2], row[3]) for row in outcome.rows]
        sure = [
            (one.file, one.position, one.key_hash, one.offset)
            for one in self.truth.surely("entries")
        ]
        got = Counter(rows)
        lost = [row for row in sure if row not in got and row[0] not in self.hurt_files]
        return [f"lost: {_some(lost)}"] if lost else []

    # Messages.

    def _messages(self, outcome: Outcome) -> list[str]:
        question = outcome.asked
        if "offset" in question or "id" in question:
            return []
        first, last = _bounds(question, "begin", "end")
        start, stop = _bounds(question, "from", "to")

        def is_chosen(one: Message) -> bool:
            return (
                first <= one.store_time <= last
                and start <= one.offset
                and (stop == _LONG_MAX or one.offset < stop)
                and (not question.get("topics") or one.topic in question["topics"])
                and (not question.get("queues") or one.queue_id in question["queues"])
                and (not question.get("tags") or one.tags in question["tags"])
            )

        possible = {one.offset: one for one in self.truth.possibly("messages") if is_chosen(one)}
        sure = [one for one in self.truth.surely("messages") if is_chosen(one)]
        said = []
        got = Counter(row["offset"] for row in outcome.rows)
        doubled = [offset for offset, count in got.items() if count > 1]
        if doubled:
            said.append(f"doubled: {_some(doubled)}")
        foreign = [offset for offset in got if offset not in possible]
        if foreign and not (self.log_is_hurt and outcome.notes):
            said.append(f"foreign: {_some(foreign)}")
        for row in outcome.rows:
            if row["offset"] in possible:
                said += self._fields(row, possible[row["offset"]])
        limit = question.get("limit")
        lost = [one for one in sure if one.offset not in got]
        if limit is not None:
            lost = lost if len(got) < min(limit, len(sure)) else []
        if lost:
            said += self._lost_messages(outcome, lost)
        return said[:4]

    def _lost_messages(self, outcome: Outcome, lost: list[Message]) -> list[str]:
        if not self.log_is_hurt and not outcome.notes:
            return [f"lost: {_some(one.offset for one in lost)}"]
        if not outcome.notes:
            return [f"silence: {_some(one.offset for one in lost)}"]
        return []

    def _fields(self, row: dict[str, Any], message: Message) -> list[str]:
        if message in self.lost_messages:
            return []
        expected = {
            "size": message.size,
            "topic": message.topic,
            "queue_id": message.queue_id,
            "queue_offset": message.queue_offset,
            "store_time": message.store_time,
            "tags": message.tags,
        }
        wrong = {
            name: (row[name], value)
            for name, value in expected.items()
            if name in row and (row[name] or None) != (value or None)
        }
        body = row.get("body", message.body) or b""
        if body != message.body and not message.is_corrupt and not message.inner:
            wrong["body"] = (body[:40], message.body[:40])
        return [f"wrong: message at {message.offset}: {wrong}"] if wrong else []

    def _usage(self, outcome: Outcome) -> list[str]:
        question = outcome.asked
        if question.get("by") not in (None, [], ["topic"]):
            return []
        sure = [one for one in self.truth.surely("messages") if self._is_wanted(question, one)]
        may = [one for one in self.truth.possibly("messages") if self._is_wanted(question, one)]
        got = {row[0]: row[3] for row in outcome.rows}
        least = Counter(one.topic for one in sure)
        most = Counter(one.topic for one in may)
        lost = {
            topic: (got.get(topic, 0), n) for topic, n in least.items() if got.get(topic, 0) < n
        }
        more = {topic: (n, most[topic]) for topic, n in got.items() if n > most[topic]}
        said = [f"foreign: counts {more}"] if more and not outcome.notes else []
        if lost and not outcome.notes:
            said.append(f"{'silence' if self.log_is_hurt else 'lost'}: counts {lost}")
        return said

    def _is_wanted(self, question: dict[str, Any], one: Message) -> bool:
        first, last = _bounds(question, "begin", "end")
        return first <= one.store_time <= last and (
            not question.get("topics") or one.topic in question["topics"]
        )

    # Queues, the broker's search, audits.

    def _units(self, outcome: Outcome) -> list[str]:
        def form(units: Iterable[Any]) -> list[Any]:
            return [
                (one.topic, one.queue_id, one.queue_offset, one.offset, one.size, one.tags_code)
                for one in units
            ]

        sure = form(self.truth.surely("units"))
        may = [row for row in form(self.truth.possibly("units")) if row not in set(sure)]
        if self.queues_are_hurt:
            return []
        return self._compare(outcome, outcome.rows, sure, may, hurt=False)

    def _broker(self, outcome: Outcome) -> list[str]:
        if self.truth.maybe or self.index_is_hurt:
            return []
        question = outcome.asked
        first, last = _bounds(question, "begin", "end")
        said = []
        for key, got in zip(question["keys"], outcome.rows, strict=False):
            text = f"{question['topic']}#{key}"
            most = min(question.get("max_num") or 64, 64)
            expected = broker_answer(
                self.root, self.truth.hash_slot_num, self.truth.index_num, text, most, first, last
            )
            if expected is not None and list(got) != expected:
                said.append(f"wrong: the broker's {expected}, got {list(got)}")
        return said

    def _findings(self, outcome: Outcome) -> list[str]:
        worst = [row for row in outcome.rows if row["severity"] != "info"]
        if self.is_sound and not self.truth.maybe and not self.truth.abort:
            if worst and not self.truth.running:
                return [f"false finding: {_some(_finding(row) for row in worst)}"]
            errors = [row for row in worst if row["severity"] == "error"]
            if errors:
                return [f"false finding: {_some(_finding(row) for row in errors)}"]
        if self.harm and not outcome.asked.get("since") and not worst:
            seen = [damage for damage in self.harm if _is_audited(damage, outcome)]
            if seen:
                return [f"missed: {_some(f'{d.kind} {d.file}:{d.start}-{d.stop}' for d in seen)}"]
        return []

    def _explained(self, outcome: Outcome) -> list[str]:
        question = outcome.asked
        if not self.is_sound or self.truth.maybe or outcome.rows is None:
            return []
        text = f"{question['topic']}#{question['key']}"
        first, last = _bounds(question, "begin", "end")
        expected = broker_answer(
            self.root, self.truth.hash_slot_num, self.truth.index_num, text, 64, first, last
        )
        if expected is None:
            return []
        alive = {one.offset for one in self.truth.messages}
        own = Counter(one.offset for one in self.truth.entries if one.text == text)
        got = [
            hit["phy_offset"]
            for file in outcome.rows["files"]
            for hit in file["hits"]
            if hit["reason"] == "hit"
        ]
        # The broker gives an offset twice for two keys of one hash, of which one is asked for.
        wanted = {
            offset: min(count, own[offset])
            for offset, count in Counter(expected).items()
            if offset in alive and own[offset]
        }
        if len(expected) < 64 and Counter(got) != Counter(wanted):
            return [f"wrong: explain gives {got}, the broker {expected}, own {dict(own)}"]
        return []

    # Streams.

    def _entry_stream(self, outcome: Outcome) -> list[str]:
        got = Counter((row[2], row[3]) for row in outcome.rows)
        sure = Counter((one.key_hash, one.offset) for one in self.truth.surely("entries"))
        lost = sure - got
        if lost and not self.index_is_hurt:
            return [f"lost: by a stream {_some(lost)}"]
        return []

    def _message_stream(self, outcome: Outcome) -> list[str]:
        got = Counter(row[0] for row in outcome.rows)
        sure = Counter(one.offset for one in self.truth.surely("messages"))
        lost = sure - got
        said = []
        if lost and not self.log_is_hurt:
            said.append(f"lost: by a stream {_some(lost)}")
        elif lost and not outcome.notes:
            said.append(f"silence: by a stream {_some(lost)}")
        return said


def _is_log(file: str) -> bool:
    return file.startswith(("commitlog", "dledger"))


def _is_audited(damage: Damage, outcome: Outcome) -> bool:
    """Tell whether an audit must find a damage: it changes an answer."""
    if damage.entries and damage.file.startswith("index"):
        return True
    if damage.messages and _is_log(damage.file):
        return bool(outcome.asked.get("bodies")) or damage.kind in ("lost", "cut", "zeros")
    return False


def _bounds(question: dict[str, Any], first: str, last: str) -> tuple[int, int]:
    begin, end = question.get(first), question.get(last)
    return 0 if begin is None else begin, _LONG_MAX if end is None else end


def _finding(row: dict[str, Any]) -> str:
    name = row["file"].rpartition("/")[2]
    return f"{row['severity']} {row['rule']} {name} {row['byte']} {row['expected']} {row['got']}"


def _some(rows: Iterable[Any]) -> str:
    listed = list(rows)
    more = f" and {len(listed) - _MOST_SHOWN} more" if len(listed) > _MOST_SHOWN else ""
    return f"{len(listed)}: " + "; ".join(str(row) for row in listed[:_MOST_SHOWN]) + more
