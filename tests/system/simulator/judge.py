"""Whether an outcome is the model's answer, a refusal by name, or says rightly what it lacks."""

from __future__ import annotations

import copy
import re
import unicodedata
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .bytes_of import (
    broker_answer,
    ends_out_of_order,
    entries_of,
    has_crossed_chains,
    java_hash,
)
from .model.reading import DLEDGER_HEAD
from .model.truth import Entry, Message, Unit
from .questions import ABSENT

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from .model.truth import Damage, Truth
    from .users import Outcome

__all__ = ["Fault", "Judge", "blurred"]

_LONG_MAX = 2**63 - 1
_LONG_MIN = -_LONG_MAX - 1
#: The years 1 to 9999, ms.
_SHOWN_TIMES = range(-62_135_596_800_000, 253_402_300_800_000)
#: What an entry's time is counted in, ms.
_SECOND = 1000
_MOST_SHOWN = 6
#: The size of an IndexFile's header, bytes.
_HEADER = 40
#: The least size of what a record has before its body, with the flag how that is packed, bytes.
_BEFORE_BODY = 84
#: How parts of a store may differ in a life without faults, so that each answer is still known.
_USUAL = {
    "abort", "index_lags", "queues_lag", "index_expired", "queues_expired", "doubled", "waiting",
    "no_index", "no_log",
}  # fmt: skip
#: The categories of characters that make a body no text.
_CONTROLS = {"Cc", "Cn", "Co", "Cs"}
#: Who compares the columns topic and key.
_BY_COLUMNS = {"load, filtered", "MessageStore.dataset, of keys"}
#: How an explanation tells of messages without an entry.
_FOUND_IN_LOG = {"not_indexed", "entry_unknown", "rolled_back", "tag_not_indexed"}
#: Those of which a terminal begins a line, or does something else.
_COMMANDS = {"Cc", "Zl", "Zp"}
#: States of a store whose broker is just writing.
_WRITING = {"abort", "waiting", "torn"}
#: What an audit of a store whose broker is stopped must find.
_AUDITED = {"index_lags", "index_leads", "index_stale", "no_index"}


@dataclass(frozen=True)
class Fault:
    """One wrong outcome.

    Attributes:
        rule: What was broken: ``lost``, ``foreign``, ``crash``, ``refused``, ``missed`` ..
        user: Who was asked.
        what: What was expected, and what came.
        step: The number of the step.
        about: The states and damages of the store then.
    """

    rule: str
    user: str
    what: str
    step: int = -1
    about: tuple[str, ...] = ()

    @property
    def kind(self) -> tuple[str, str]:
        """What shrinking keeps."""
        return self.rule, self.user


@dataclass
class Judge:
    """Compares outcomes with what the model knows.

    Attributes:
        root: The store, which only the broker's own search is read from.
        truth: What is in the store.
        damages: What was changed since, and not mended.
        answers: How many answers were judged, by user and status.
        power_was_cut: Whether the store has lived through a power cut.
        is_copy: Whether the files of the store may arrive in any order.
        is_mixed: Whether a user has written into such a copy.
        stepped_back: Whether the broker's clock was ever set back.
        is_beside_writers: Whether others wrote while it was asked: an index that one of them made
            and another replaced is in no truth.
    """

    root: str
    truth: Truth
    damages: Sequence[Damage] = ()
    answers: Counter[tuple[str, str]] = field(default_factory=Counter)
    power_was_cut: bool = False
    is_copy: bool = False
    is_mixed: bool = False
    stepped_back: bool = False
    is_beside_writers: bool = False

    def __post_init__(self) -> None:
        """Tell what was damaged."""
        self.harm = [damage for damage in self.damages if not damage.is_harmless]
        self.states = self.truth.states
        if has_crossed_chains(self.root, self.truth.hash_slot_num):
            self.states |= {"index_crossed"}
        #: Whether a power cut left some pages of files as they were before, which no list knows.
        self.is_torn = self.power_was_cut or "torn" in self.states
        #: What a broker is about to write must be read as before or after it, and not be refused.
        usual = _USUAL | ({"torn"} if self.truth.running and not self.truth.has_remains else set())
        self.is_usual = not self.harm and not self.power_was_cut and self.states <= usual
        self.has_broken_bodies = any(one.is_corrupt for one in self.truth.possibly("messages"))
        self.index_is_hurt = any(damage.file.startswith("index") for damage in self.harm)
        self.log_is_hurt = any(_is_log(damage.file) for damage in self.harm)
        #: Whether there may be no log to tell keys by.
        self.has_no_log = self.log_is_hurt or "no_log" in self.states
        self.may_differ = self.log_is_hurt or self.power_was_cut
        self.queues_are_hurt = any("queue" in damage.file.split("/")[0] for damage in self.harm)
        self.hurt_files = {
            damage.file.rpartition("/")[2]
            for damage in self.harm
            if damage.file.startswith("index")
        }
        #: Records that were damaged, but perhaps not where a reader looks.
        self.damaged = {one.offset: one for damage in self.harm for one in damage.messages}
        self.at: dict[int, list[Message]] = {}
        for one in self.truth.possibly("messages"):
            self.at.setdefault(one.offset, []).append(one)
        #: Where messages stood that another has replaced; their entries are left.
        self.replaced = {
            one.offset
            for one in self.truth.once
            if isinstance(one, Message) and one not in self.at.get(one.offset, ())
        }
        self.sure_messages = set(self.truth.surely("messages"))
        self.misnumbered = self.truth.misnumbered()

    @property
    def about(self) -> tuple[str, ...]:
        """What state the store is in, for those who sort faults."""
        running = ["running"] if self.truth.running else []
        running += ["power cut"] if self.power_was_cut else []
        return (*sorted(self.states), *running, *(f"{d.kind} {d.file}" for d in self.harm))

    @property
    def may_be_incomplete(self) -> bool:
        """Whether what is lost cannot be seen in what is left."""
        return bool(self.harm) or self.power_was_cut or self.has_broken_bodies

    def judge(self, outcome: Outcome) -> list[Fault]:
        """Return what is wrong with an outcome."""
        self.answers[outcome.user, outcome.status] += 1
        return [
            Fault(rule, outcome.user, f"{what} [{outcome.told()}]", about=self.about)
            for rule, what in self._said(outcome)
        ]

    def _said(self, outcome: Outcome) -> list[tuple[str, str]]:
        if outcome.status in ("crashed", "hung"):
            return [("crash", f"{outcome.error}: {outcome.text[-400:]}")]
        if outcome.status == "refused" and outcome.kind != "unread":
            return self._refused(outcome)
        rules: dict[str, Callable[[Outcome], list[str]]] = {
            "hits": self._hits,
            "entries": self._entries,
            "counts": self._counts,
            "unread": self._unread,
            "printed": self._printed,
            "salvaged": self._salvaged,
            "messages": self._messages,
            "units": self._units,
            "broker": self._broker,
            "usage": self._usage,
            "key_usage": self._key_usage,
            "compared": self._compared,
            "findings": self._findings,
            "explained": self._explained,
            "entry_stream": self._entry_stream,
            "message_stream": self._message_stream,
        }
        if is_reversed(outcome.asked) and not outcome.code:
            return [("not refused", "times that end before they begin")]
        is_of_nothing = outcome.asked.get("topics") == [ABSENT] and outcome.code == 0
        # Topics are told by the folders of their queues.
        if is_of_nothing and not outcome.notes and any(Path(self.root).glob("consumequeue/*")):
            return [("silence", "of a topic that the store does not have")]
        rule = rules.get(outcome.kind)
        said = rule(outcome) if rule else []
        if outcome.documents > 1:
            said.append(f"documents: {outcome.documents}, which no parser of JSON takes")
        return [(one.partition(": ")[0], one.partition(": ")[2]) for one in said]

    # Refusals.

    def _refused(self, outcome: Outcome) -> list[tuple[str, str]]:
        text = outcome.text
        if not text.strip():
            return [("refused", "without a word")]
        if "Traceback" in text:
            return [("crash", text[-400:])]
        if "No such option" in text:
            return []  # of an older version
        if " at byte " in text and str(Path(self.root).parent) not in text:
            return [("bad refusal", f"a byte of no file: {text[:400]}")]
        if outcome.code is not None and (unknown := _unknown_options(outcome)):
            return [("bad advice", f"{outcome.argv[0]} has no {unknown}: {text[:400]}")]
        return [] if self._may_refuse(outcome) else [("refused", text[:400])]

    def _may_refuse(self, outcome: Outcome) -> bool:
        is_refused = is_reversed(outcome.asked) or outcome.asked.get("input") == "closed"
        if is_refused or not self.is_usual or self.has_broken_bodies or self.truth.has_remains:
            return True
        # A dump shows bytes, also those of a record that is half written; and while a broker runs,
        # the files of a plan may be others than those of the plan before.
        if (
            (outcome.kind == "dumped" and (self.truth.maybe or not self._is_there(outcome)))
            or (outcome.kind == "units" and (not self.truth.units or self._are_gone(outcome)))
            or (outcome.user == "table(), overtaken" and self.truth.running)
            or self._has_expired(outcome)
            or self._is_half_copied(outcome)
        ):
            return True
        if outcome.kind.endswith("_stream") and (self.truth.once or self.is_copy):
            return True  # what it had not read is gone, or came after what it has read
        text = outcome.text
        if any(name in text for name in ("axHashSlotNum", "max-hash-slot-num", "Layout(")):
            return not outcome.asked.get("geometry")
        if not self.truth.surely("entries") and outcome.kind not in ("messages", "usage", "units"):
            return True
        return not self.truth.surely("messages")

    def _is_there(self, outcome: Outcome) -> bool:
        """Tell whether a file that is asked for was not deleted meanwhile."""
        return (Path(self.root) / outcome.asked["file"]).is_file()

    def _are_gone(self, outcome: Outcome) -> bool:
        """Tell whether a file of a plan is gone since, with its topic."""
        gone = {(one.topic, one.queue_id) for one in self.truth.maybe if isinstance(one, Unit)}
        folders = (f"/{topic}/{queue_id}/" for topic, queue_id in gone)
        return "No such file" in outcome.text and any(one in outcome.text for one in folders)

    def _has_expired(self, outcome: Outcome) -> bool:
        """Tell whether an IndexFile of a plan is gone since, and the refusal names it."""
        there = {one.file for one in self.truth.entries}
        gone = {one.file for one in self.truth.once if isinstance(one, Entry)} - there
        named = (f"/index/{name}: the file was removed since it was found" for name in gone)
        return any(text in outcome.text for text in named)

    def _is_half_copied(self, outcome: Outcome) -> bool:
        """Tell whether a copy of a store is refused for the record that its broker was writing.

        No broker holds the copy, so that what lacks at its end may as well be a page that was lost.
        """
        if outcome.user != "diff":
            return False
        copy, head = outcome.argv[2], DLEDGER_HEAD if self.truth.dledger else 0
        size = self.truth.log_file_size
        places = [one.offset - head for one in self.truth.maybe if isinstance(one, Message)]
        return outcome.text.startswith(f"rmqindex: {copy}/") and any(
            f"/{place - place % size:020d}: total_size at byte {place % size}: " in outcome.text
            for place in places
        )

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
        first, last = _bounds(question, "begin", "end")
        text = f"{topic}#{key}"
        code = java_hash(text)
        surely = set(self.truth.surely("entries"))
        sure: list[Any] = []
        may: list[Any] = []
        for entry in self.truth.possibly("entries"):
            if entry.key_hash != code:
                continue
            rows, is_sure = self._rows_of(entry, text)
            is_damaged = entry.offset in self.damaged  # its time, too, may be another one
            # What an earlier message left is looked for by that message's time.
            is_sure &= entry.offset not in self.replaced or first <= entry.store_time <= last
            rows = [row for row in rows if is_damaged or first <= row[3] <= last]
            if outcome.user in _BY_COLUMNS:
                # Others have no key, unless there is no log at all.
                may += [row for row in rows if row[4] != "verified" and self.has_no_log]
                rows = [row for row in rows if row[4] == "verified"]
            (sure if is_sure and entry in surely else may).extend(rows)
        rows = [
            (file, position, offset, self._time_of(offset, time), "verified")
            if state == "verified"
            else (file, position, offset, time, "unverified")
            for _, _, file, position, offset, time, state in got
        ]
        untrue = [row for row in rows if row[4] == "verified" and not self._has(row, text)]
        said = [f"foreign: not of the key {_some(untrue)}"] if untrue else []
        if self.is_beside_writers:
            may += [row for row in rows if row[4] == "verified" and self._has(row, text)]
        return said + self._compare(outcome, rows, sure, may, limit=question.get("max_num"))

    def _time_of(self, offset: int, time: int) -> int:
        """Return the time that a record had before it was damaged."""
        damaged = self.damaged.get(offset)
        return time if damaged is None else damaged.store_time

    def _has(self, row: tuple[Any, ...], text: str) -> bool:
        """Tell whether a message has the key and the time that a row says, damaged or not."""
        if self.may_differ:
            return True
        return any(
            (text in one.texts or text in one.hidden_texts) and one.store_time == row[3]
            for one in self.at.get(row[2], [])
        )

    def _rows_of(self, entry: Entry, text: str) -> tuple[list[Any], bool]:
        """Return the rows that an entry may give for a text, and whether it must give them."""
        place = (entry.file, entry.position, entry.offset)
        messages = self.at.get(entry.offset, [])
        if not messages:
            rows = [(*place, entry.store_time, "unverified")]
            if damaged := self.damaged.get(entry.offset):
                rows.append((*place, damaged.store_time, "verified"))
            return rows, not damaged
        # An entry that an earlier message left is read as one of this message's.
        rows = [
            (*place, one.store_time, "verified")
            for one in messages
            if text in one.texts and (entry.text == text or entry.text not in one.texts)
        ]
        is_sure = len(messages) == 1 and messages[0] in self.sure_messages
        is_sure &= entry.text == text
        # Nor is a key hidden from lookups that another property of its message hides from brokers;
        # only an earlier message can have left an entry of it.
        if entry.offset in self.replaced:
            rows += [
                (*place, one.store_time, "verified") for one in messages if text in one.hidden_texts
            ]
        if not is_sure or not any(
            java_hash(other) == entry.key_hash for one in messages for other in one.texts
        ):
            is_sure = False  # no message confirms that it is another key's
            rows.append((*place, entry.store_time, "unverified"))
        if not self._is_told_apart(entry.offset, entry.key_hash):
            is_sure = False
            rows += [
                (*place, time, "unverified") for time in {entry.store_time, messages[0].store_time}
            ]
        return rows, is_sure

    def _is_told_apart(self, offset: int, code: int) -> bool:
        """Tell whether an entry shows of which of its message's keys of one hash it is.

        That is told by the order of the files, and of the entries of one message.
        """
        messages = self.at.get(offset, ())
        alike = {text for one in messages for text in one.texts if java_hash(text) == code}
        return len(alike) < 2 or not ("disordered" in self.states or offset in self.replaced)

    def _compare(
        self,
        outcome: Outcome,
        rows: Iterable[Any],
        sure: Iterable[Any],
        may: Iterable[Any],
        *,
        limit: int | None = None,
        is_hurt: bool | None = None,
    ) -> list[str]:
        """Say which rows are lost, doubled or foreign."""
        got, sure = Counter(rows), Counter(sure)
        foreign = got - sure - Counter(may)
        lost = sure - got
        if is_hurt is None:
            is_hurt = self.index_is_hurt or self.log_is_hurt or self.power_was_cut
        said = []
        if self.power_was_cut:
            return said  # pages of an index from before look as if they were right
        if foreign and not (is_hurt and outcome.notes) and not self._is_of_hurt_files(foreign):
            said.append(f"foreign: {_some(foreign)}, expected {_some(sure)}")
        is_short = limit is None or got.total() < min(limit, sure.total())
        # What is of damaged IndexFiles must be found by an audit: a search follows its chain.
        is_told = (is_hurt and outcome.notes) or self._is_of_hurt_files(lost)
        if lost and is_short and not is_told:
            said.append(f"lost: {_some(lost)}")
        return said

    def _is_of_hurt_files(self, rows: Iterable[Any]) -> bool:
        return all(isinstance(row, tuple) and row[0] in self.hurt_files for row in rows)

    # Entries.

    def _entries(self, outcome: Outcome) -> list[str]:
        question = outcome.asked
        if lost := self._hidden_by_header(outcome):
            return [f"silence: {_some(lost)}"]
        if question.get("salvage") and self.truth.maybe:
            return []  # also what is being written
        sure = self._chosen(question, self.truth.surely("entries"))
        may = Counter(self._chosen(question, self.truth.possibly("entries"))) - Counter(sure)
        if self.is_beside_writers:
            may += Counter(row for row in outcome.rows if self._is_of_log(row))
        elif question.get("salvage"):
            may += Counter(self._uncounted(outcome))
        # No timestamp shows the times that follow from a record's, which may be damaged.
        rows = set(outcome.rows)
        return self._compare(
            outcome, outcome.rows, _as_shown(sure, rows), _as_shown(may.elements(), rows)
        )

    def _uncounted(self, outcome: Outcome) -> Iterator[Any]:
        """Yield the entries behind a file's counted ones: a killed broker put one there."""
        counted = {(one.file, one.position) for one in self.truth.possibly("entries")}
        for row in outcome.rows:
            name, position = row[:2]
            is_next = (name, position) not in counted and (
                position == 1 or (name, position - 1) in counted
            )
            if is_next and (self._is_of_log(row) or self._is_half_put(row)):
                yield row

    def _is_of_log(self, row: tuple[Any, ...]) -> bool:
        """Tell whether an entry is one that a broker makes of a message in the log."""
        return self._has_hash(row, self.at.get(row[3], []))

    def _is_half_put(self, row: tuple[Any, ...]) -> bool:
        """Tell whether an entry is one whose offset its broker had not put yet when it ended."""
        return row[3] == 0 and self._has_hash(row, self.truth.messages)

    def _has_hash(self, row: tuple[Any, ...], messages: Iterable[Message]) -> bool:
        return any(java_hash(text) == row[2] for one in messages for text in one.texts)

    def _hidden_by_header(self, outcome: Outcome) -> list[Any]:
        """Return entries that a damaged header or a cut hides, and of which nothing is said."""
        got = {(row[0], row[1]) for row in outcome.rows}
        hidden = [
            (entry.file, entry.position)
            for damage in self.harm
            if damage.file.startswith("index/")
            and (damage.stop <= _HEADER or damage.kind in {"cut", "empty"})
            and not self._is_as_a_kill_left(damage)
            for entry in damage.entries
            if (entry.file, entry.position) not in got
        ]
        if outcome.user == "IndexFile.scan":
            return []  # one file by itself says what its header counts
        is_asked_all = not set(outcome.asked) - {"geometry", "mode", "salvage"}
        if not is_asked_all or (outcome.notes and not outcome.asked.get("salvage")):
            return []
        if outcome.asked.get("salvage") and any(d.kind in {"cut", "empty"} for d in self.harm):
            return []
        return hidden

    def _is_as_a_kill_left(self, damage: Damage) -> bool:
        """Tell whether a file of one entry looks as it did before this was counted.

        Its header had the end of the file before: the same, where that ends with this message.
        """
        offsets = {one.offset for one in self.truth.entries}
        return (damage.start, damage.stop) == (_HEADER - 4, _HEADER) and all(
            one.position == 1 and one.offset in offsets for one in damage.entries
        )

    @staticmethod
    def _chosen(question: dict[str, Any], entries: Iterable[Entry]) -> list[Any]:
        first, last = _bounds(question, "begin", "end")
        start, stop = _bounds(question, "from", "to")
        return [
            (one.file, one.position, one.key_hash, one.offset, one.store_time)
            for one in entries
            if first <= one.store_time <= last
            and start <= one.offset
            and (stop == _LONG_MAX or one.offset < stop)
            and question.get("key_hash") in (None, one.key_hash)
        ]

    def _counts(self, outcome: Outcome) -> list[str]:
        """Judge numbers of rows, which add up to that of all entries."""
        least = len(self.truth.surely("entries"))
        most = len(self.truth.possibly("entries"))
        got = sum(outcome.rows)
        if least <= got <= max(most, least) or not self.is_usual or outcome.notes:
            return []
        return [f"miscounted: {got} entries of {least} to {most}"]

    def _unread(self, outcome: Outcome) -> list[str]:
        """Judge the exit code of a scan whose rows nobody took."""
        if outcome.code == 1 and self._chosen(outcome.asked, self.truth.surely("entries")):
            return [] if self.index_is_hurt or self.power_was_cut else ["bad code: 1 is no entry"]
        return []

    @staticmethod
    def _printed(outcome: Outcome) -> list[str]:
        """Judge what a terminal gets."""
        odd = {char for char in outcome.stdout if unicodedata.category(char) in _COMMANDS}
        odd -= {"\n", "\t"}
        return [f"unescaped: {sorted(odd)}"] if odd else []

    def _salvaged(self, outcome: Outcome) -> list[str]:
        got = {row[:4] for row in outcome.rows}
        sure = [
            (one.file, one.position, one.key_hash, one.offset)
            for one in self.truth.surely("entries")
        ]
        lost = [row for row in sure if row not in got and row[0] not in self.hurt_files]
        return [f"lost: {_some(lost)}"] if lost else []

    # Messages.

    def _messages(self, outcome: Outcome) -> list[str]:
        question = outcome.asked
        if "offset" in question or "id" in question:
            return []
        sure = [one for one in self.truth.surely("messages") if _is_chosen(question, one)]
        possible = {offset for offset, some in self.at.items() if any(
            _is_chosen(question, one) for one in some
        )}  # fmt: skip
        said = []
        got = Counter(row["offset"] for row in outcome.rows)
        doubled = [offset for offset, count in got.items() if count > 1]
        if doubled:
            said.append(f"doubled: {_some(doubled)}")
        foreign = [offset for offset in got if offset not in possible]
        if foreign and not self.may_differ:
            said.append(f"foreign: {_some(foreign)}")
        for row in outcome.rows:
            wrong = [_differences(row, one) for one in self.at.get(row["offset"], [])]
            if self.power_was_cut:  # no CRC covers more than the body, and a broken one is null
                is_given = row.get("body") is not None
                wrong = [one if is_given and "body" in one else {} for one in wrong]
            if wrong and all(wrong) and not self._is_changed(row["offset"]):
                said.append(f"wrong: message at {row['offset']}: {wrong[0]}")
            said += self._corrupt(row, outcome)
            if not row.get("is_text", True) and _is_text(row["body"]):
                said.append(f"no text: the body of {row['offset']} is one")
        limit = question.get("limit")
        lost = [one.offset for one in sure if one.offset not in got]
        if limit is not None and len(got) >= min(limit, len(sure)):
            lost = []
        if lost and not outcome.notes:
            said.append(f"{'silence' if self.log_is_hurt else 'lost'}: {_some(lost)}")
        return said[:4]

    def _is_changed(self, offset: int) -> bool:
        """Tell whether bytes of a record were changed."""
        return any(True for one in self.at[offset] for _ in self._changes_of(one))

    def _changes_of(self, one: Message) -> Iterator[tuple[int, int]]:
        """Yield from where to where bytes of a record were changed."""
        for damage in self.harm:
            if _is_log(damage.file):
                at = int(damage.file.rpartition("/")[2]) - one.offset
                start, stop = max(at + damage.start, 0), min(at + damage.stop, one.size)
                if start < stop:
                    yield start, stop

    def _corrupt(self, row: dict[str, Any], outcome: Outcome) -> list[str]:
        """Say that a body whose CRC is wrong was handed out without a word."""
        one = self.damaged.get(row["offset"])
        if one is None or one.inner or outcome.notes or row.get("body") in (None, one.body):
            return []
        if row.get("state") not in (None, "record"):
            return []
        if all(stop <= _BEFORE_BODY for _, stop in self._changes_of(one)):
            return []  # its flags were damaged, which no CRC covers
        if any(_differences(row | {"body": one.body}, one)):
            return []  # more than its body was damaged
        return [f"corrupt: the body of {row['offset']} without a word"]

    def _usage(self, outcome: Outcome) -> list[str]:
        question = outcome.asked
        if question.get("by") not in (None, [], ["topic"]):
            return []
        least = Counter(
            one.topic for one in self.truth.surely("messages") if _is_chosen(question, one)
        )
        most = Counter(
            one.topic for one in self.truth.possibly("messages") if _is_chosen(question, one)
        )
        got = {row[0]: row[3] for row in outcome.rows}
        lost = {
            topic: (got.get(topic, 0), n) for topic, n in least.items() if got.get(topic, 0) < n
        }
        more = {topic: (n, most[topic]) for topic, n in got.items() if n > most[topic]}
        said = [f"foreign: counts {more}"] if more and not self.may_differ else []
        if lost and not outcome.notes:
            said.append(f"{'silence' if self.log_is_hurt else 'lost'}: counts {lost}")
        return said

    def _key_usage(self, outcome: Outcome) -> list[str]:
        """Say which counts are not those of the key's messages, and of its lookup's entries."""
        rows = {(row["topic"], row["key"]): row for row in outcome.rows}
        if len(rows) != len(outcome.rows) and None not in (key for _, key in rows):
            return ["doubled: a key has two rows"]
        if not self.is_usual or self.truth.maybe or self.truth.agreed is not None:
            return []
        surely, by = set(self.truth.surely("entries")), outcome.asked["by"]
        said = []
        for (topic, key), row in rows.items():
            if key is None or row["entry_count"] is None:
                continue
            text, sure, may = f"{topic}#{key}", 0, 0
            for entry in self.truth.possibly("entries"):
                if entry.key_hash != java_hash(text):
                    continue
                found, is_sure = self._rows_of(entry, text)
                may += len(found)
                sure += len(found) if is_sure and entry in surely else 0
            if not sure <= row["entry_count"] <= may:
                said.append(f"wrong: {text} has {row['entry_count']} entries, not {sure} to {may}")
            if row["message_count"] is None or (key.startswith("T#") and by == "key"):
                continue  # which may be tags, and keys that look alike
            having = [
                one
                for one in self.truth.messages
                if one.topic == topic and (key in one.keys if by == "key" else one.tags == key[2:])
            ]
            indexed = [one for one in having if one.sys_flag & 12 != 12]
            inner = any(key in each.keys for one in self.truth.messages for each in one.inner)
            if not inner and not len(indexed) <= row["message_count"] <= len(having):
                said.append(f"wrong: {text} has {row['message_count']} messages, not {len(having)}")
        return said

    def _compared(self, outcome: Outcome) -> list[str]:
        """Say that a copy is taken for another store, into which nobody has written meanwhile."""
        if not outcome.code or self.truth.maybe or self.is_beside_writers:
            return []
        return [f"wrong: a copy differs in {outcome.rows}"]

    # Queues, the broker's search, audits.

    def _units(self, outcome: Outcome) -> list[str]:
        if self.queues_are_hurt or self.is_torn:
            return []
        sure = _unit_rows(self.truth.surely("units"))
        may = Counter(_unit_rows(self.truth.possibly("units"))) - Counter(sure)
        return self._compare(outcome, outcome.rows, sure, may.elements(), is_hurt=False)

    def _broker(self, outcome: Outcome) -> list[str]:
        if self.truth.maybe or self.index_is_hurt or self.power_was_cut:
            return []
        question = outcome.asked
        said = []
        for key, got in zip(question["keys"], outcome.rows, strict=False):
            most = min(question.get("max_num") or 64, 64)
            expected = self._asked_broker(question, f"{question['topic']}#{key}", most)
            if expected is not None and list(got) != expected:
                said.append(f"wrong: the broker's {expected}, got {list(got)}")
        return said

    def _asked_broker(self, question: dict[str, Any], text: str, most: int) -> list[int] | None:
        geometry = (self.truth.hash_slot_num, self.truth.index_num)
        begin, end = _bounds(question, "begin", "end")
        return broker_answer(self.root, *geometry, text, most, max(begin, 0), end)

    def _findings(self, outcome: Outcome) -> list[str]:
        told = worst = [row for row in outcome.rows if row["severity"] != "info"]
        worst = [row for row in worst if row["rule"] not in self._rules_of_its_life()]
        worst = [row for row in worst if not self._is_of_light_numbers(row)]
        worst = [row for row in worst if not self._is_of_lost_tags(row)]
        if self.is_copy and not (Path(self.root) / "checkpoint").exists():  # it comes later
            worst = [row for row in worst if row["rule"] != "checkpoint_missing"]
        if not (self.harm or outcome.asked.get("geometry")):  # which few entries need not tell
            worst = [row for row in worst if row["rule"] != "geometry"]
        errors = [row for row in worst if row["severity"] == "error"]
        said = []
        odd = self.states - {"index_expired", "queues_expired"}
        odd |= {"power"} if self.power_was_cut or self.truth.has_remains else set()
        if not self.harm and not odd and worst:
            said.append(f"false finding: {_some(map(_finding, worst))}")
        elif not self.harm and self.truth.running and odd <= _WRITING and errors:
            said.append(f"false finding: {_some(map(_finding, errors))}")
        if outcome.asked.get("since") or outcome.asked.get("log", "auto") is None:
            return said
        # What is left behind a cut looks as if it were in the log.
        is_hidden = self.power_was_cut or (self.truth.has_remains and "torn" in self.states)
        # Without any entry there is nothing that a damage could hide.
        is_hidden |= any(one.kind != "lost" or not self.index_is_hurt for one in self.harm)
        is_hidden |= bool(self.harm) and "no_index" not in self.states
        audited = set() if is_hidden else self.states & _AUDITED
        if self.truth.agreed is not None and not self._lags():
            audited -= {"index_lags"}  # a group may give up what has no entries
        is_told = self._is_lack_told(outcome, audited, worst)
        if not self.truth.running and audited and self._has_keys() and not is_told:
            said.append(f"missed: {sorted(audited)}")
        seen = [damage for damage in self.harm if self._is_audited(damage)]
        if outcome.user == "audit":  # Spark's own looks at no queue
            seen = [damage for damage in seen if "queue" not in damage.file.partition("/")[0]]
        if seen and not told:
            parts = [f"{damage.kind} {damage.file}:{damage.start}-{damage.stop}" for damage in seen]
            said.append(f"missed: {_some(parts)}")
        return said

    def _is_lack_told(
        self, outcome: Outcome, audited: set[str], worst: list[dict[str, Any]]
    ) -> bool:
        """Tell whether an audit says that something of the index lacks or is wrong."""
        # Whoever writes, or a broker that starts, may be making the entries: that they lack is a
        # remark then.
        rules = {row["rule"] for row in outcome.rows}
        if "index_lags" in rules and (self.is_beside_writers or "lock_held" in rules):
            return True
        # A copy without entries is an error, whatever its age: nobody is about to index it.
        if "no_index" in audited and self.truth.surely("messages"):
            return any(row["severity"] == "error" for row in worst)
        return bool(worst)

    def _rules_of_its_life(self) -> set[str]:
        """Return what an audit finds of a sound store whose clock stepped back, or of its parts."""
        rules = {"file_order"} if self.stepped_back else set()
        # The newest file may have the oldest name, without an entry yet.
        if self.stepped_back and ends_out_of_order(self.root):
            rules |= {"checkpoint_behind"}
        # A log that was restored from an older copy has less than the checkpoint says.
        path = Path(self.root) / "checkpoint"
        data = path.read_bytes() if path.is_file() else b""
        if int.from_bytes(data[40:48], "big", signed=True) >= max(self.truth.log_end, 1):
            rules |= {"log_ends_early"}
        return rules

    def _is_of_light_numbers(self, row: dict[str, Any]) -> bool:
        """Tell whether a finding is of a client's numbers, at which no light queue has the unit."""
        folder, _, name = row["file"].rpartition("/")
        if row["rule"] in {"property_number", "queue_number"} and name.isdecimal():
            return (row["byte"] is not None) and int(name) + row["byte"] in self.misnumbered
        queues = {queue for names in self.misnumbered.values() for queue in names}
        return row["rule"].startswith("queue_") and any(
            f"/consumequeue/{queue}/" in f"{folder}/{name}/" for queue in queues
        )

    def _is_of_lost_tags(self, row: dict[str, Any]) -> bool:
        """Tell whether a finding is of entries of tags, which a rebuild makes where some are left.

        The checkpoint tells that the index ended with them.
        """
        held = {(one.key_hash, one.offset) for one in self.truth.entries}
        gone = (one for one in self.truth.once if isinstance(one, Entry) and one.kind == "tag")
        return row["rule"] == "checkpoint_ahead" and any(
            (one.key_hash, one.offset) not in held for one in gone
        )

    def _lags(self) -> bool:
        """Tell whether a message that no group gives up has no entry."""
        indexed = {one.offset for one in self.truth.entries}
        return any(
            one.keys and one.sys_flag & 12 != 12 and one.offset not in indexed
            for one in self.sure_messages
        )

    def _has_keys(self) -> bool:
        return any(one.keys and one.sys_flag & 12 != 12 for one in self.sure_messages)

    def _is_other_hash(self, damage: Damage) -> bool:
        """Tell whether a damage left another hash of the same slot, whose message has expired.

        Every link is right then, and nothing has the key any longer.
        """
        slots = self.truth.hash_slot_num
        now = {row[:2]: row[2:4] for row in entries_of(self.root, slots)}
        return all(
            one.offset < self.truth.log_start
            and (found := now.get((one.file, one.position))) is not None
            and one.key_hash != found[0]
            and one.key_hash % slots == found[0] % slots
            and found[1] == one.offset
            for one in damage.entries
        )

    def _is_other_time(self, damage: Damage) -> bool:
        """Tell whether a damage left another time, whose message has expired.

        Only two other entries of the message, right before it and behind it, contradict that, and
        not within the second by which a relayout moves entries.
        """
        now = {row[:2]: row[2:] for row in entries_of(self.root, self.truth.hash_slot_num)}
        for one in damage.entries:
            code, offset, time = now.get((one.file, one.position), (-1, -1, -1))
            if one.offset >= self.truth.log_start or (code, offset) != (one.key_hash, one.offset):
                return False
            beside = [now.get((one.file, one.position + step), (-1, -1, -1)) for step in (-1, 1)]
            (_, _, before), (_, _, behind) = beside
            is_one = all(other == offset for _, other, _ in beside)
            if is_one and before == behind and abs(time - before) > _SECOND:
                return False
        return True

    def _is_in_order(self) -> bool:
        """Tell whether IndexFiles begin in the order of their names, as few do after a swap."""
        files = sorted((Path(self.root) / "index").iterdir())
        firsts = [int.from_bytes(file.read_bytes()[16:24], "big", signed=True) for file in files]
        return firsts == sorted(firsts)

    def _is_audited(self, damage: Damage) -> bool:
        """Tell whether an audit must find a damage: it changes an answer."""
        name = damage.file.rpartition("/")[2]
        if damage.file.startswith("index"):
            if damage.kind != "lost":
                is_unseen = self._is_other_hash(damage) or self._is_other_time(damage)
                is_unseen |= damage.kind == "swapped" and self._is_in_order()
                return bool(damage.entries) and not is_unseen
            # That a file was there is seen by the messages whose entries it had, and no other has;
            # whether tags are indexed, nothing tells.
            log = {one.offset: one for one in self.truth.messages}
            held = {(one.key_hash, one.offset) for one in self.truth.entries}
            lost = (one for one in damage.entries if (one.key_hash, one.offset) not in held)
            return any(one.kind == "key" and self.truth.message_of(one, log) for one in lost)
        if "queue" in damage.file.partition("/")[0]:
            return self._is_audited_of_queues(damage)
        if not damage.answered or not _is_log(damage.file):
            return False
        # Where nothing leads behind the cut any longer, the log seems to end there.
        led_to = {one.offset for one in (*self.truth.entries, *self.truth.units)}
        led_to |= {one.offset for one in self.truth.messages}
        if damage.kind == "lost":  # the oldest files look as if they had expired
            return self.truth.log_start <= int(name) <= max(led_to, default=-1)
        return damage.kind in {"cut", "empty"} and max(led_to, default=-1) >= min(
            one.offset for one in damage.messages
        )

    def _is_audited_of_queues(self, damage: Damage) -> bool:
        """Tell whether a queue has lost units of messages that are in the log."""
        ends: dict[tuple[str, int], int] = {}
        for unit in self.truth.units:
            queue = (unit.topic, unit.queue_id)
            ends[queue] = max(ends.get(queue, -1), unit.queue_offset)
        log = {one.offset for one in self.sure_messages}
        # What a queue lacks at its end, or as a whole, a broker may not have put there yet.
        return not (self.log_is_hurt or self.power_was_cut or "abort" in self.states) and any(
            unit.offset in log and unit.queue_offset < ends.get((unit.topic, unit.queue_id), -1)
            for unit in damage.units
        )

    def _explained(self, outcome: Outcome) -> list[str]:
        question = outcome.asked
        told = [row["remedy"] or "" for row in (outcome.rows or {}).get("reasons", ())]
        refused = [line for line in told if line.startswith("rmqindex ") and "--resume" in line]
        if self.truth.running and refused:
            return [f"bad advice: a broker holds the store: {refused}"]
        if not self.is_usual or self.truth.maybe or outcome.rows is None:
            return []
        text = f"{question['topic']}#{question['key']}"
        expected = self._asked_broker(question, text, 64)
        if expected is None or len(expected) >= 64:
            return []
        own = Counter(one.offset for one in self.truth.entries if one.text == text)
        got = [
            hit["phy_offset"]
            for file in outcome.rows["files"]
            for hit in file["hits"]
            if hit["reason"] == "hit" and self._is_told_apart(hit["phy_offset"], java_hash(text))
        ]
        # The broker gives an offset twice for two keys of one hash, of which one is asked for. What
        # an earlier message left it finds by that one's time, and the explanation by the present's.
        if self.replaced.intersection(own):
            return []
        wanted = {
            offset: min(count, own[offset])
            for offset, count in Counter(expected).items()
            if offset in self.at and own[offset] and self._is_told_apart(offset, java_hash(text))
        }
        if Counter(got) != Counter(wanted):
            return [f"wrong: explain gives {got}, the broker {expected}, own {dict(own)}"]
        return self._searched(outcome, text)

    def _searched(self, outcome: Outcome, text: str) -> list[str]:
        """Say which messages of a key a search of the log has missed."""
        first, last = _bounds(outcome.asked, "begin", "end")
        there = {
            one.offset
            for one in self.sure_messages
            if text in one.texts and first <= one.store_time <= last
        }
        codes = {row["code"] for row in outcome.rows["reasons"]}
        if there and "not_in_log" in codes:
            return [f"wrong: not in the log, which has {_some(sorted(there))}"]
        told = {hit["phy_offset"] for file in outcome.rows["files"] for hit in file["hits"]}
        missed = there - told
        if missed and outcome.asked.get("search_log") == "all" and not codes & _FOUND_IN_LOG:
            return [f"missed: of the log {_some(sorted(missed))}, told {sorted(codes)}"]
        return []

    # Streams.

    def _doubled(self, outcome: Outcome) -> list[str]:
        """Say what a stream gave twice; what was there once may have come again."""
        twice = [row for row, count in Counter(outcome.rows).items() if count > 1]
        is_told = bool(self.truth.once) or self.is_copy or self.power_was_cut or outcome.notes
        return [f"doubled: by a stream {_some(twice)}"] if twice and not is_told else []

    def _entry_stream(self, outcome: Outcome) -> list[str]:
        if doubled := self._doubled(outcome):
            return doubled
        got = Counter((row[2], row[3]) for row in outcome.rows)
        sure = Counter((one.key_hash, one.offset) for one in self.truth.surely("entries"))
        lost = sure - got
        # Of files that were swapped, each is sound, and the next one begins elsewhere.
        is_hurt = any(one.kind != "swapped" for one in self.harm if one.file.startswith("index"))
        # Who indexes half a copy, whose own index then arrives under the same names, has a mixture.
        is_hurt |= self.is_mixed
        if lost and not is_hurt and not self.power_was_cut and "dies" not in outcome.asked:
            return [f"lost: by a stream {_some(lost)}"]
        return []

    def _message_stream(self, outcome: Outcome) -> list[str]:
        if doubled := self._doubled(outcome):
            return doubled
        got = {(row[0], row[1], row[3]) for row in outcome.rows}
        sure = {(one.offset, one.topic, one.size) for one in self.truth.surely("messages")}
        lost = sorted(sure - got)
        if self.is_copy:  # one that begins before the log's first files have come starts behind
            start = min(got, default=(self.truth.log_end,))[0]
            lost = [one for one in lost if one[0] >= start]
        # Who resumes behind remains has what was there before, and learns that they are none once
        # the last one that was read is overwritten.
        remains = {
            (one.offset, one.topic, one.size)
            for one in self.truth.maybe
            if isinstance(one, Message) and one.offset >= self.truth.log_end
        }
        if not lost or outcome.notes or self.truth.seems_to_go_on or got & remains:
            return []
        if "dies" in outcome.asked:
            return []  # as it was to do, with a batch that is planned and has not run
        return [f"{'silence' if self.log_is_hurt else 'lost'}: by a stream {_some(lost)}"]


def _unknown_options(outcome: Outcome) -> list[str]:
    """Return the options that a command's refusal names and the command does not have."""
    text = re.sub(r"`[^`]*`|rmqindex \w+ [^;\n]*", " ", outcome.text)
    named = set(re.findall(r"(?<![\w-])--[a-z][a-z-]+", text))
    return sorted(named - outcome.options) if outcome.options else []


def blurred(before: Truth, after: Truth) -> Truth:
    """Return what may be answered while a store goes from one truth to another."""
    truth = copy.copy(after)
    truth.maybe = {*before.maybe, *after.maybe}
    truth.has_remains = before.has_remains or after.has_remains
    for kind in ("messages", "entries", "units"):
        old, new = getattr(before, kind), getattr(after, kind)
        both = dict.fromkeys([*old, *new])
        setattr(truth, kind, list(both))
        truth.maybe |= set(both) - (set(old) & set(new))
    return truth


def _is_chosen(question: dict[str, Any], one: Message) -> bool:
    first, last = _bounds(question, "begin", "end")
    start, stop = _bounds(question, "from", "to")
    return (
        first <= one.store_time <= last
        and start <= one.offset
        and (stop == _LONG_MAX or one.offset < stop)
        and (not question.get("topics") or one.topic in question["topics"])
        and (not question.get("queues") or one.queue_id in question["queues"])
        and (not question.get("tags") or one.tags in question["tags"])
    )


def _differences(row: dict[str, Any], message: Message) -> dict[str, Any]:
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
    if row.get("state") == "bad_crc":  # it is said that this is not the body
        body = message.body
    if body != message.body and not message.is_corrupt and not message.inner:
        wrong["body"] = (body[:40], message.body[:40])
    return wrong


def _is_text(body: bytes) -> bool:
    """Tell whether bytes are UTF-8 that anybody can read."""
    try:
        text = body.decode()
    except UnicodeDecodeError:
        return False
    return all(char in "\n\r\t" or unicodedata.category(char) not in _CONTROLS for char in text)


def _unit_rows(units: Iterable[Any]) -> list[Any]:
    return [
        (one.topic, one.queue_id, one.queue_offset, one.offset, one.size, one.tags_code)
        for one in units
    ]


def _is_log(file: str) -> bool:
    return file.startswith(("commitlog", "dledger"))


def _bounds(question: dict[str, Any], first: str, last: str) -> tuple[int, int]:
    begin, end = question.get(first), question.get(last)
    return _LONG_MIN if begin is None else begin, _LONG_MAX if end is None else end


def _as_shown(entries: Iterable[Any], rows: set[Any]) -> list[Any]:
    """Leave out the times that no timestamp can be, where a row has none."""
    return [
        (*one[:4], None) if (*one[:4], None) in rows and one[4] not in _SHOWN_TIMES else one
        for one in entries
    ]


def is_reversed(question: dict[str, Any]) -> bool:
    """Tell whether a question asks for times that end before they begin."""
    begin, end = question.get("begin"), question.get("end")
    return begin is not None and end is not None and begin > end


def _finding(row: dict[str, Any]) -> str:
    name = row["file"].rpartition("/")[2]
    return f"{row['severity']} {row['rule']} {name} {row['byte']} {row['expected']} {row['got']}"


def _some(rows: Iterable[Any]) -> str:
    listed = list(rows)
    more = f" and {len(listed) - _MOST_SHOWN} more" if len(listed) > _MOST_SHOWN else ""
    return f"{len(listed)}: " + "; ".join(str(row) for row in listed[:_MOST_SHOWN]) + more
