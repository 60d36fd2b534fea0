"""One seed: a history, those who use the store meanwhile, and what was wrong.

A session writes down every step that was taken, questions too, so that it can be printed, replayed
and shortened.
"""

from __future__ import annotations

import copy
import functools
import json
import shlex
import shutil
import struct
import time
from collections import Counter
from dataclasses import dataclass, field, replace
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .bounds import bounded
from .draw import Draw
from .history import History, World
from .judge import Fault, Judge, blurred
from .model.broker import Checkpoint
from .model.disk import Disk
from .model.reading import DLEDGER_HEAD
from .model.truth import Entry, Message, Unit
from .questions import question_of
from .schedule import KILLED, together
from .users import READERS, STREAMS, Outcome, Place, ask, let_go, run, write, write_meanwhile
from .writes import (
    Files,
    after_a_start,
    judge_export,
    judge_write,
    judge_writes,
    remedies_of,
    write_of,
)
from .written import Written

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from .model.truth import Truth

__all__ = ["Report", "Script", "Session", "play"]

Step = dict[str, Any]
_LENGTH = 40
#: Beside which nobody is asked: no process outlives a power cut.
_ALONE = {"start", "damage", "visit", "leave", "power"}
#: How many questions and writes follow the last step of the broker, when damages were planted.
_LAST = 20
#: What versions asked for whose broker was killed, though its lock was free.
_AS_DEAD = "--allow-live-store"
#: How many CommitLog files a broker looks at when it starts: ``commitLogRecoverMaxNum``.
_MOST_RECOVERED = 10
#: What a program calls, and the command that does the same.
_COMMANDS = {
    "rebuild_index": ["rebuild", "--replace"],
    "rebuild_index --resume": ["rebuild", "--resume"],
    "rebuild_consume_queues": ["rebuild-queues", "--replace"],
}
#: States of a store that is as it should be once its remedies are typed, where its log is whole.
_MENDABLE = {
    "abort", "index_lags", "queues_lag", "index_expired", "queues_expired", "doubled", "no_index",
    "index_crossed",
}  # fmt: skip
#: What no command mends.
_NOT_MENDED = {"checkpoint_ahead", "property_number", "queue_number", "queue_offset_taken"}
#: Who is asked: more often who has most to answer.
_WEIGHTS = {user: 3 if "lookup" in user or "messages" in user else 2 for user in READERS}
_WEIGHTS |= dict.fromkeys(STREAMS, 5)  # which must be asked twice


@dataclass
class Script:
    """What is to be done, as data."""

    seed: int | str
    config: dict[str, Any]
    steps: list[Step]

    def text(self) -> str:
        """Return it as JSON."""
        return json.dumps(
            {"seed": self.seed, "config": self.config, "steps": self.steps}, ensure_ascii=False
        )

    @classmethod
    def read(cls, text: str) -> Script:
        """Read what :meth:`text` returned."""
        return cls(**json.loads(text))


@dataclass
class Report:
    """What came of a session."""

    script: Script
    faults: list[Fault] = field(default_factory=list)
    steps: Counter[str] = field(default_factory=Counter)
    answers: Counter[tuple[str, str]] = field(default_factory=Counter)
    #: The question that took longest, s.
    slowest: tuple[float, str] = (0.0, "")


class Session:
    """A world, and those who use it."""

    def __init__(self, folder: Path, script: Script) -> None:
        """Begin with an empty folder."""
        let_go()
        self.folder = folder
        self.world = World(folder, script.config)
        self.report = Report(Script(script.seed, script.config, []))
        #: What the last question or write gave.
        self.last: Outcome | None = None
        self.written = Written()
        self._layout: tuple[int, int] | None = None
        aside = folder / "aside"
        aside.mkdir(parents=True, exist_ok=True)
        self.aside = str(aside)

    @property
    def fixed(self) -> Place:
        """Where the store is, with the geometry that the index of Spark's writes keeps."""
        layout = (self.world.broker.config.slots, self.world.broker.config.places)
        self._layout = self._layout or layout
        return Place(str(self.world.store), self.aside, self._layout)

    @property
    def place(self) -> Place:
        """Where the store is, and its geometry as it is now."""
        truth = self.world.truth
        layout = (truth.hash_slot_num, truth.index_num)
        aside = Path(self.aside) / self.world.visited
        aside.mkdir(exist_ok=True)
        return Place(str(self.world.store), str(aside), layout)

    @property
    def shows_geometry(self) -> bool:
        """Whether an IndexFile without damage has entries, by which its geometry is known."""
        hurt = self.judge().hurt_files
        return any(entry.file not in hurt for entry in self.world.truth.surely("entries"))

    def step(self, step: Step) -> None:
        """Take a step of the world or of a user."""
        self.report.script.steps.append(step)
        name = step["name"]
        self.report.steps[name] += 1
        if name == "ask":
            self.ask(step["user"], step["question"])
        elif name == "type":
            self.type(step["line"])
        elif name == "during":
            self._during(step)
        elif name == "write":
            self.write(step)
        elif name == "together":
            self._together(step)
        elif name == "meanwhile":
            self._meanwhile(step)
        elif name == "repair":
            self._repair()
        else:
            self.world.take(step)
        if name == "kill":
            self.world.adopt()  # within a start, no list was kept

    def _during(self, step: Step) -> None:
        """Take a step of the world, and ask between two of its writes."""
        for number, _ in enumerate(self.world.step(step["step"])):
            if number == step["after"]:
                for asked in step["asks"]:
                    self.ask(asked["user"], asked["question"])

    def _together(self, step: Step) -> None:
        """Let users, and the broker's step, take turns call by call."""
        before, was = Files.of(self.world), copy.deepcopy(self.world.truth)
        names = [each["name"] for each in step["users"]]
        works = [functools.partial(self._work, each) for each in step["users"]]
        kills = {int(number): at for number, at in step.get("kills", {}).items()}
        passing: set[Message | Entry | Unit] = set()
        broker = self._passing(step["step"], passing) if step.get("step") else iter(())
        outcomes = together(Draw(step["seed"]), self.place.root, works, broker, kills)
        wrote = [shlex.split(each["line"])[1:] for each in step["users"] if each["name"] == "type"]
        is_killed = any(outcome.status == KILLED for outcome in outcomes)
        if is_killed and wrote:
            self._add(self._after_kill())
        after = Files.of(self.world)
        gone = {one for one in self.world.truth.once - was.once if isinstance(one, Entry)}
        before = before.without((one.key_hash, one.offset) for one in gone)  # by the broker
        if wrote and before != after:
            self._add(
                fault
                for argv, outcome in zip(wrote, outcomes, strict=False)
                if outcome.status != KILLED
                for fault in judge_writes(self.world, argv, outcome, before, after)
            )
            self.world.adopt(before.changed(after))
        between = blurred(was, self.world.truth)
        between.maybe |= passing
        truths = [was, self.world.truth, between]
        for name, outcome in zip(names, outcomes, strict=True):
            self.last = outcome
            if outcome.status == KILLED:
                self.report.steps["killed"] += 1
            elif name == "ask":
                if is_killed and outcome.kind == "findings":  # of what was killed
                    rows = outcome.rows or ()
                    outcome.rows = [row for row in rows if row["rule"] != "unfinished_write"]
                self._add(self._best(outcome, truths, is_alone=not wrote))
            elif outcome.status in ("crashed", "hung"):
                self._add(self.judge().judge(outcome))

    def _passing(self, step: Step, passing: set[Message | Entry | Unit]) -> Iterator[None]:
        """Take a step of the world, and note what is uncertain or comes and goes in between."""
        was = self.world.truth.present()
        for _ in self.world.step(step):
            passing |= self.world.truth.maybe | (self.world.truth.present() - was)
            yield

    def _meanwhile(self, step: Step) -> None:
        """Write, ask in the same process, and try to start a broker before the write is done."""
        if self.world.truth.running or self.world.visited:
            return
        before, is_locked = Files.of(self.world), []
        disk = Disk(Path(self.place.root))

        def meanwhile() -> None:
            if asked := step.get("ask"):
                ask(self.place, asked["user"], asked["question"])
            is_locked.append(disk.lock())

        sizes = self.world.truth.queue_file_size, self.world.broker.config.batch_units * 46
        outcome = write_meanwhile(self.place, step["what"], sizes, meanwhile)
        disk.close()
        after = Files.of(self.world)
        about = self.judge().about
        faults = judge_write(self.world, _COMMANDS[step["what"]], outcome, before, after)
        if any(is_locked) and (outcome.is_answer or before != after):
            what = f"a broker got the lock before the write was done [{step}]"
            faults.append(Fault("unlocked", step["what"], what))
        self._add(replace(fault, about=about) for fault in faults)
        if before != after:
            self.world.adopt(before.changed(after))
        self.last = outcome

    def _repair(self) -> None:
        """Type what ``verify`` says until it finds no error; a whole log has all that it needs."""
        truth, judge = self.world.truth, self.judge()
        is_whole = not judge.log_is_hurt and not judge.has_broken_bodies and bool(truth.messages)
        if truth.running or self.world.visited or not is_whole or not judge.states <= _MENDABLE:
            return
        typed: set[str] = set()
        for _ in range(5):
            outcome = self.ask("verify", {"geometry": True})
            errors = [row for row in outcome.rows or () if row["severity"] == "error"]
            # What was being written when broker or power failed is damage until it starts, and
            # then, where its first bytes lack, until another message is written there.
            is_cut = truth.abort or judge.power_was_cut
            is_cut |= truth.has_remains and any(_is_at_end(row, truth) for row in errors)
            unmended = _NOT_MENDED | ({"log_damaged"} if is_cut else set())
            if not outcome.is_answer or not errors or unmended & {row["rule"] for row in errors}:
                return
            outcome.rows = errors
            lines = remedies_of(outcome, self.place.root)
            left = [line for line in lines if line not in typed and " verify " not in line]
            if not left:
                self._judge_left(errors, typed)
                return
            typed.add(left[0])
            refused = self.type(_with_geometry(left[0], self))
            if _AS_DEAD in refused.text:
                refused = self.type(f"{_with_geometry(left[0], self)} {_AS_DEAD}")
            if "allow-loss" in refused.text:
                return  # it asks first
            if refused.status == "refused":
                more = [line for line in remedies_of(refused, self.place.root) if line not in typed]
                if not more:
                    what = f"`{left[0]}` is refused: {refused.text[:400]}"
                    self._add([Fault("dead end", "verify", what, about=judge.about)])
                    return
                typed.add(more[0])
                again = self.type(_with_geometry(more[0], self))
                if "allow-loss" in again.text:
                    return  # and so does this

    def _judge_left(self, errors: list[dict[str, Any]], typed: set[str]) -> None:
        """Judge the errors for which there is no command, also without a checkpoint's mistake."""
        if any("checkpoint leads" in row["expected"] for row in errors):
            checkpoint, aside = self.world.store / "checkpoint", Path(self.aside) / "checkpoint"
            checkpoint.rename(aside)
            outcome = self.ask("verify", {"geometry": True})
            aside.rename(checkpoint)
            errors = [row for row in outcome.rows or () if row["severity"] == "error"]
        if errors:
            said = [(row["rule"], row["file"].rpartition("/")[2]) for row in errors]
            what = f"errors {said} are left behind {sorted(typed)}"
            self._add([Fault("dead end", "verify", what, about=self.judge().about)])

    def _work(self, step: Step) -> Outcome:
        """Do in a process of its own what a user is to do."""
        if step["name"] == "ask":
            return _asked(self.place, step["user"], step["question"])
        typed = step["line"].replace("STORE", self.place.root).replace("ASIDE", self.place.aside)
        return _typed(shlex.split(typed)[1:])

    def _best(self, outcome: Outcome, truths: list[Truth], *, is_alone: bool) -> list[Fault]:
        """Judge by each truth that there was meanwhile; one of them must agree."""
        if not is_alone and outcome.status == "refused":
            return []  # files that were exchanged meanwhile are refused by name
        found = []
        for truth in truths:
            found = self.judge(truth, is_beside_writers=not is_alone).judge(outcome)
            if not found:
                break
        return found

    def _after_kill(self) -> list[Fault]:
        """Undo what a dead writer left half done."""
        outcome = run(["recover", self.place.root])
        if _AS_DEAD in outcome.text:
            outcome = run(["recover", self.place.root, _AS_DEAD])
        return self.judge().judge(outcome) if outcome.status != "refused" else []

    def ask(self, user: str, question: dict[str, Any]) -> Outcome:
        """Ask someone, and judge the answer."""
        start = time.monotonic()
        outcome = _asked(self.place, user, question)
        self._timed(time.monotonic() - start, outcome)
        self.judged(outcome)
        return outcome

    def type(self, line: str) -> Outcome:
        """Type a command that writes, and judge what it left."""
        typed = line.replace("STORE", self.place.root).replace("ASIDE", self.place.aside)
        argv = shlex.split(typed)[1:]
        before = Files.of(self.world)
        start = time.monotonic()
        outcome = _typed(argv)
        self._timed(time.monotonic() - start, outcome)
        if argv[0] == "relayout" and outcome.is_answer and "--dry-run" not in argv:
            self._relaid(
                int(argv[argv.index("--slots") + 1]), int(argv[argv.index("--entries") + 1])
            )
            self.world.carry()
        after = Files.of(self.world)
        self.report.answers[f"{argv[0]} (writes)", outcome.status] += 1
        shown = shlex.split(line)[1:]
        about = self.judge().about
        faults = judge_write(self.world, shown, outcome, before, after)
        self._add(replace(fault, about=about) for fault in faults)
        is_sure = outcome.is_answer and not self.judge().may_be_incomplete
        if argv[0] == "export" and is_sure and not self.world.visited:
            user = "export --entries" if "--entries" in argv else "export"
            folder = Path(next(part for part in argv if part.startswith(self.place.aside)))
            about = self.judge().about
            self._add(
                Fault(rule, user, f"{what} [{outcome.told()}]", about=about)
                for rule, what in judge_export(self.world, argv, folder, outcome.stderr)
            )
        if before != after:
            self.world.adopt(before.changed(after))
        self.last = outcome
        return outcome

    def _timed(self, seconds: float, outcome: Outcome) -> None:
        if seconds > self.report.slowest[0]:
            self.report.slowest = (seconds, outcome.told())

    def write(self, step: Step) -> Outcome:
        """Write as Spark does, into an index of its own."""
        if "kill" in step:
            return self._killed_write(step)
        outcome = bounded(lambda: write(self.fixed, step), "a write of Spark's", step)
        self._timed(0, outcome)
        self.report.answers[outcome.user, outcome.status] += 1
        self._add(self.written.judge(step, outcome, self.fixed))
        self.last = outcome
        return outcome

    def _killed_write(self, step: Step) -> Outcome:
        """Kill one who writes as Spark does, and read what is left, also through links."""
        folder = Path(self.aside) / "written"
        works = [functools.partial(write, self.fixed, step)]
        (outcome,) = together(Draw(step["seed"]), str(folder), works, iter(()), {0: step["kill"]})
        if outcome.status != KILLED:
            self._add(self.written.judge(step, outcome, self.fixed))
            return outcome
        left = ask(self.fixed, "scan", {"path": str(folder / "index"), "geometry": True})
        links = folder / "links"
        shutil.rmtree(links, ignore_errors=True)
        links.mkdir()
        for name in sorted({row[0] for row in left.rows or ()}):
            (links / name).symlink_to(folder / "index" / name)
        linked = ask(self.fixed, "scan", {"path": str(links), "geometry": True})
        self._add(self.written.judge_left(step, left, linked))
        run(["recover", str(folder)])
        return outcome

    def _relaid(self, slots: int, places: int) -> None:
        """Give the broker the geometry that its index has now."""
        self.world.broker.config.slots, self.world.broker.config.places = slots, places
        self.world.truth.hash_slot_num, self.world.truth.index_num = slots, places

    def judge(self, truth: Truth | None = None, *, is_beside_writers: bool = False) -> Judge:
        """Return who judges answers about the store as it is now."""
        place = self.place.root
        answers = self.report.answers
        taken = {step["name"] for step in self.world.taken}
        return Judge(
            place,
            truth or self.world.truth,
            self.world.damages,
            answers,
            power_was_cut="power" in taken,
            is_copy=bool(self.world.visited),
            is_mixed=bool(self.world.visited)
            and any(step["name"] == "type" for step in self.report.script.steps),
            stepped_back=any(step.get("by", 0) < 0 for step in self.world.taken),
            is_beside_writers=is_beside_writers,
        )

    def judged(self, outcome: Outcome) -> None:
        """Judge an outcome."""
        self.last = outcome
        self._add(self.judge().judge(outcome))
        truth = self.world.truth
        if (
            outcome.user in ("verify", "MessageStore.verify")
            and outcome.is_answer
            and truth.abort
            and not truth.running
            and not self.world.visited
            and not outcome.asked.get("since")
        ):
            rules = {row["rule"] for row in outcome.rows if row["severity"] == "error"}
            if rules - {"index_ends_early"}:
                return
            lost, bare = after_a_start(self.world, self.folder / "restarted")
            about = self.judge().about
            if lost and not rules:
                what = f"the broker will drop {len(lost)} entries: {lost[:5]} [{outcome.told()}]"
                self._add([Fault("missed", outcome.user, what, about=about)])
            # By clocks that stepped back nobody tells from where a broker dispatches again.
            is_sure = not self.world.damages and "disordered" not in truth.states
            is_sure &= self._is_recovered_alike()
            if rules and not bare and is_sure:
                what = f"a start indexes what is said to need a rebuild [{outcome.told()}]"
                self._add([Fault("false finding", outcome.user, what, about=about)])

    def _is_recovered_alike(self) -> bool:
        """Tell whether brokers before and since 5.5 would dispatch again from the same file on.

        Those since then look at ten files, and for one whose first message was dispatched. The
        store tells no version.
        """
        path, files = self.world.store / "checkpoint", self.world.broker.log_files
        data = path.read_bytes() if path.exists() else b""
        noted = Checkpoint(*struct.unpack_from(">6q", data.ljust(48, b"\0")))
        begins = [0, 0]
        times = {one.offset: one.store_time for one in self.world.truth.messages}
        for start in files:
            first = times.get(start + (DLEDGER_HEAD if self.world.truth.dledger else 0))
            if first is None:
                continue
            if first <= noted.least:
                begins[0] = start
            if start <= noted.logics_offset if noted.logics_offset > 0 else first <= noted.logics:
                begins[1] = start
        return begins[0] == begins[1] and len(files) < _MOST_RECOVERED

    def close(self) -> None:
        """Close the files of the broker."""
        self.world.broker.kill()

    def _add(self, faults: Iterable[Fault]) -> None:
        number = len(self.report.script.steps) - 1
        for fault in faults:
            self.report.faults.append(replace(fault, step=number))


def _asked(place: Place, user: str, question: dict[str, Any]) -> Outcome:
    return bounded(lambda: ask(place, user, question), user, question)


def _typed(argv: list[str]) -> Outcome:
    return bounded(lambda: run(argv), argv[0], {"argv": argv})


def draw_session(seed: int | str, folder: Path, *, most_faults: int = 1) -> Report:
    """Draw a session from a seed, and run it until something is wrong.

    Args:
        seed: The seed.
        folder: An empty folder.
        most_faults: After how many faults to stop.
    """
    draw = Draw(f"{seed}/users")
    history = History.of(seed, draw.number(10, _LENGTH))
    session = Session(folder, Script(seed, history.config, []))
    try:
        _live(draw, session, history, most_faults)
    finally:
        session.close()
    return session.report


def _live(draw: Draw, session: Session, history: History, most_faults: int) -> None:
    followed = draw.of("stream").one([*STREAMS, *[""] * 8])
    for step in history.steps:
        with_users = _with_users(draw, session, step)
        for next_step in chain(with_users, _followed(draw, session, followed)):
            session.step(next_step)
            if len(session.report.faults) >= most_faults:
                return
    for _ in range(_LAST):
        steps = [_question(draw, session)]
        if draw.chance(0.3):
            steps = [
                {"name": "type", "line": shlex.join(["rmqindex", *write_of(draw, session.world)])}
            ]
        elif draw.chance(0.1):
            steps = [{"name": "repair"}]
        for next_step in steps:
            session.step(next_step)
        for next_step in _remedies(draw, session):
            session.step(next_step)
        if len(session.report.faults) >= most_faults:
            return


def _followed(draw: Draw, session: Session, stream: str) -> Iterator[Step]:
    """Run the next batches of the stream that a session follows, if any."""
    if stream and draw.chance(0.5):
        yield _question(draw, session, stream)


def _with_users(draw: Draw, session: Session, step: Step) -> Iterator[Step]:
    if draw.chance(0.1) and step["name"] != "start":
        asks = [_question(draw, session) for _ in range(draw.number(1, 2))]
        yield {"name": "during", "step": step, "after": draw.skewed(0, 15), "asks": asks}
    elif draw.chance(0.06) and step["name"] not in _ALONE:
        yield _several(draw, session, step)
    else:
        yield step
    while draw.chance(0.3):
        yield _question(draw, session)
        yield from _remedies(draw, session)
    if draw.chance(0.08):
        yield session.written.draw(draw, session.fixed)
    if not session.world.truth.running and draw.chance(0.12):
        user = draw.one(["", "MessageStore.lookup", "MessageStore.verify", "lookup", "verify"])
        asked = {"ask": _question(draw, session, user)} if draw.chance(0.8) else {}
        yield {"name": "meanwhile", "what": draw.one(list(_COMMANDS)), **asked}
    if step["name"] == "arrive" and session.world.visited and draw.chance(0.5):
        yield _question(draw, session, "stream of entries")
    if draw.chance(0.05 if session.world.truth.running else 0.5):
        yield {"name": "type", "line": shlex.join(["rmqindex", *write_of(draw, session.world)])}
        yield from _remedies(draw, session)


def _several(draw: Draw, session: Session, step: Step) -> Step:
    """Return users who take turns with the broker, or with each other while it is stopped."""
    # Whoever restores a store, starts it, or removes a folder of it, writes it alone.
    names = {step["name"], step.get("during", {}).get("name")}
    is_alone = session.world.truth.running or not names.isdisjoint({"restore", "lose", "start"})
    is_writing = not is_alone and draw.chance(0.7)
    users = [_question(draw, session) for _ in range(draw.number(1, 2))]
    several: Step = {"name": "together", "seed": draw.number(0, 2**31), "step": step}
    if is_writing:
        lines = [write_of(draw, session.world) for _ in range(draw.number(1, 2))]
        lines = [
            argv for argv in lines if argv[0] != "relayout"
        ]  # the broker's settings would differ
        users = [
            *({"name": "type", "line": shlex.join(["rmqindex", *argv])} for argv in lines),
            *users,
        ]
        if draw.chance(0.5):
            several["kills"] = {"0": draw.skewed(1, 400)}
    elif session.world.truth.running and draw.chance(0.5):
        users[0] = _question(draw, session, draw.one(["verify", "audit", "MessageStore.verify"]))
    return {**several, "users": users}


def _is_at_end(row: dict[str, Any], truth: Truth) -> bool:
    """Tell whether a finding is of the place at which a broker writes the next message."""
    name, byte = row["file"].rpartition("/")[2], row["byte"]
    return row["rule"] == "log_damaged" and byte is not None and int(name) + byte == truth.log_end


def _remedies(draw: Draw, session: Session) -> Iterator[Step]:
    """Type what was printed, a few in a row."""
    for _ in range(3):
        lines = session.last and remedies_of(session.last, session.place.root)
        last = session.report.script.steps[-1]
        is_dead = not session.world.truth.running and last["name"] == "type"
        if is_dead and session.last and _AS_DEAD in session.last.text:
            lines = [f"{last['line']} {_AS_DEAD}"]
        if not lines or not draw.chance(0.4):
            return
        yield {"name": "type", "line": _with_geometry(draw.one(lines), session)}


def _with_geometry(line: str, session: Session) -> str:
    """Give a rebuild the numbers of broker.conf, where no file has them."""
    slots, places = session.place.layout or (16, 20)
    if " rebuild " not in line:
        return line
    if "--max-hash-slot-num" not in line and not session.shows_geometry:
        line += " --max-hash-slot-num 5000000 --max-index-num 20000000"
    return line.replace("5000000", str(slots)).replace("20000000", str(places))


def _question(draw: Draw, session: Session, user: str = "") -> Step:
    truth = session.world.truth
    if not user:
        user = draw.weighted([(weight, user) for user, weight in _WEIGHTS.items()])
        if truth.abort and not truth.running and draw.chance(0.15):
            user = "verify"  # only here does it say what the next start will delete
    question = question_of(draw, truth, session.place.root, user)
    return {"name": "ask", "user": user, "question": question}


def play(script: Script, folder: Path) -> Report:
    """Run a script over an empty folder."""
    shutil.rmtree(folder, ignore_errors=True)
    session = Session(folder, script)
    try:
        for step in script.steps:
            session.step(step)
    finally:
        session.close()
    return session.report
