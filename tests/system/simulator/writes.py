"""What users write, and whether it lost anything that the log still has."""

from __future__ import annotations

import copy
import csv
import hashlib
import json
import re
import shlex
import shutil
from collections import Counter
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow.parquet

from .bytes_of import entries_of, java_hash, put_entry_of, units_of
from .judge import Fault
from .model import records
from .model.broker import TAGS_SINCE
from .model.disk import Disk
from .model.reading import DLEDGER_HEAD
from .model.truth import Entry
from .questions import ABSENT

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from .draw import Draw
    from .history import World
    from .model.truth import Damage, Message, Truth
    from .users import Outcome

__all__ = [
    "Files",
    "after_a_start",
    "judge_export",
    "judge_write",
    "judge_writes",
    "remedies_of",
    "write_of",
]

#: Folders that only a command that is asked to may change.
_FOLDERS = ("index", "consumequeue", "batchconsumequeue", "commitlog", "checkpoint")
_COMMAND = re.compile(
    r"`(rmqindex [^`]+)`|^\s+(rmqindex \S.*)$|run (rmqindex \S[^`.;]*)", re.MULTILINE
)
_WAITS = re.compile(r"the message at offset (\d+), the CommitLog's last, waits")
_LOSS = "--allow-loss"
#: What can be tried without being done.
_REPLACES = {
    "rebuild --replace",
    "rebuild-queues --replace",
    "rebuild-queues",
    "relayout",
    "expire",
}
#: The size of an IndexFile's header, bytes: what it counts wrongly is still there.
_HEADER = 40
#: What takes away the entries themselves, however short the file is.
_WITHOUT_ENTRIES = {"lost", "cut", "empty", "swapped"}


@dataclass(frozen=True)
class Files:
    """The bytes of a store at one moment, decoded plainly, and its folders."""

    entries: Counter[tuple[int, int]]
    put: Counter[tuple[int, int]]
    units: frozenset[tuple[Any, ...]]
    digests: dict[str, str]
    folders: frozenset[str]

    def without(self, gone: Iterable[tuple[int, int]]) -> Files:
        """Return the same files less entries, each a hash and an offset."""
        left = set(gone)
        entries = Counter({row: n for row, n in self.entries.items() if row not in left})
        return replace(self, entries=entries)

    def changed(self, after: Files) -> set[str]:
        """Return the names of the files that are others, or gone, or new."""
        return {name for name, _ in self.digests.items() ^ after.digests.items()}

    @classmethod
    def of(cls, world: World) -> Files:
        """Read a store."""
        root = Path(world.store)
        rows = entries_of(str(root), world.truth.hash_slot_num)
        begins = {name: time for name, position, _, _, time in rows if position == 1}
        digests, folders = {}, {path.name for path in root.iterdir() if path.is_dir()}
        for folder in _FOLDERS:
            path = root / folder
            for file in sorted(path.rglob("*")) if path.is_dir() else [path]:
                name = str(file.relative_to(root))
                if file.is_dir():
                    folders.add(name)
                elif file.is_file():
                    digests[name] = hashlib.sha256(file.read_bytes()).hexdigest()
        return cls(
            # One whose seconds are negative is damaged, whatever else it has: no broker writes it.
            Counter((code, offset) for name, _, code, offset, time in rows if time >= begins[name]),
            Counter(put_entry_of(str(root), world.truth.hash_slot_num)),
            frozenset(units_of(str(root))),
            digests,
            frozenset(folders),
        )


def write_of(draw: Draw, world: World) -> list[str]:
    """Draw a command that writes; ``STORE`` and ``ASIDE`` stand for the folders."""
    truth = world.truth
    geometry = ["--max-hash-slot-num", str(truth.hash_slot_num)]
    geometry += ["--max-index-num", str(truth.index_num)]
    zone = ["--time-zone", "UTC"]
    # Who finds a damage by a write, rather than by a question.
    hurt = {damage.file.partition("/")[0] for damage in world.damages}
    more = 3 if "index" in hurt else 1
    kind = draw.weighted(
        [
            (4, "rebuild --replace"),
            (3, "rebuild --resume"),
            (1, "rebuild"),
            (1, "rebuild --out"),
            (0 if world.visited else 2 * more, "relayout"),  # a copy has the broker's settings
            (2 * more, "expire"),
            (3, "rebuild-queues --replace"),
            (1, "rebuild-queues"),
            (1, "recover"),
            (4, "export"),
            (1.5, "export --entries"),
        ]
    )
    name, *flags = kind.split()
    argv = [name, "STORE", *flags]
    if name == "rebuild":
        if draw.chance(0.6) or not truth.entries:
            argv += geometry  # else files of the default size might be made
        argv += zone
        if kind == "rebuild --out":
            argv[-2:] = []
            argv = ["rebuild", "STORE", "--out", f"ASIDE/out{draw.number(0, 99)}", *geometry, *zone]
    elif name == "relayout":
        slots, entries = draw.number(2, 64), draw.number(4, 60)
        argv += ["--slots", str(slots), "--entries", str(entries), *geometry, *zone]
    elif name == "rebuild-queues":
        argv += ["--file-size", str(truth.queue_file_size)]
        argv += ["--batch-file-size", str(world.broker.config.batch_units * 46)]
    elif name == "expire":
        if draw.chance(0.3) and truth.messages:
            argv += ["--before", str(draw.one(truth.messages).offset)]
    elif name == "export":
        form = draw.one(["parquet", "jsonl", "jsonl", "jsonl", "csv"])
        folder = "entries" if flags else "messages"
        topic = ["--topic", ABSENT] if not flags and draw.chance(0.1) else []
        folder = "nothing" if topic else folder
        argv += [f"ASIDE/{folder}-{form}", "--format", form, *topic]
    argv += _modes(draw, kind)
    return argv


def _modes(draw: Draw, kind: str) -> list[str]:
    """Draw how a write is made."""
    modes = []
    if kind in _REPLACES and draw.chance(0.15):
        modes.append("--dry-run")
    if kind.startswith("rebuild") and draw.chance(0.15):
        modes += ["--mode", "DROPMALFORMED"]
    return modes


def judge_write(
    world: World, argv: Sequence[str], outcome: Outcome, before: Files, after: Files
) -> list[Fault]:
    """Return what a write did wrong.

    Args:
        world: The store's life, of which the truth is still that before the write.
        argv: What was typed.
        outcome: What came of it.
        before: The files before.
        after: The files after.
    """
    user = " ".join(
        part for part in argv if part in _SHOWN or part == argv[0]
    )  # the command and what it is told to do

    def fault(rule: str, what: str) -> Fault:
        return Fault(rule, user, f"{what} [{outcome.told()}]")

    if outcome.status in ("crashed", "hung"):
        return [fault("crash", outcome.text[-600:])]
    changed = _changed(before, after)
    faults = []
    may_change = _may_change(argv)
    others = [name for name in changed if not name.startswith(may_change)]
    if others:
        faults.append(fault("changed", f"files that it does not write: {others[:5]}"))
    if outcome.status == "refused":
        said = _refused(world, outcome, before, after)
        return faults + [fault(rule, what) for rule, what in said]
    if world.truth.running and changed:
        faults.append(fault("live", f"wrote below a running broker: {changed[:5]}"))
    for rule, what in _said(world, argv, outcome, before, after):
        faults.append(fault(rule, what))
    return faults


def _refused(
    world: World, outcome: Outcome, before: Files, after: Files
) -> Iterable[tuple[str, str]]:
    """Yield what is wrong with a refusal."""
    written = [*_changed(before, after), *sorted(before.folders ^ after.folders)]
    if written:
        yield "half", f"refused, but changed {written[:5]}"
    if "Error: Invalid value: " in outcome.text:
        yield "bad refusal", "no option is named, nor a place of the store"
    if "--allow-live-store" in outcome.text and not world.truth.running:
        yield "refused", "no process has the store's lock"


def _said(
    world: World, argv: Sequence[str], outcome: Outcome, before: Files, after: Files
) -> Iterable[tuple[str, str]]:
    """Yield what a write that was made left wrong."""
    is_dry = "--dry-run" in argv
    if argv[0] == "rebuild-queues" and not is_dry:
        yield from _split(before, after)
        yield from _lost_units(world, argv, before, after)
        yield from _due_anew(world, outcome, before, after)
        yield from _queues_without_newest(world, outcome, after)
    if "--resume" in argv and before != after and _has_stale_entries(world):
        yield "went on", "behind an index of another history of the log"
    if argv[0] in ("rebuild", "relayout", "expire", "recover"):
        yield from _lost_entries(world, argv, before, after)
    if argv[0] == "rebuild" and "--out" not in argv and not is_dry:
        yield from _uncovered(world, argv, outcome, after)
        yield from _unagreed(world, before, after)
    if argv[:1] == ["rebuild"] and "--replace" in argv and not is_dry:
        yield from _differs(world, argv, before, after)


def judge_writes(
    world: World, argv: Sequence[str], outcome: Outcome, before: Files, after: Files
) -> list[Fault]:
    """Return what one of several writes at once lost, as :func:`judge_write` does for one alone."""
    if outcome.status != "answered" or argv[0] == "rebuild-queues":
        return []
    said = _lost_entries(world, argv, before, after)
    return [Fault(rule, f"{argv[0]} beside others", what) for rule, what in said]


#: How a store may be whose index is what a broker makes of its log.
_SOUND = {"queues_lag", "queues_expired", "index_expired"}
_SHOWN = ("--replace", "--resume", "--dry-run", "--allow-loss", "--entries", "--out")


def _may_change(argv: Sequence[str]) -> tuple[str, ...]:
    if "--dry-run" in argv:
        return ("?",)
    return {
        "rebuild": ("?",) if "--out" in argv else ("index", "checkpoint"),
        "relayout": ("index", "checkpoint"),
        "expire": ("index",),
        "rebuild-queues": ("consumequeue", "batchconsumequeue"),
        "recover": ("index", "consumequeue", "batchconsumequeue", "checkpoint"),
    }.get(argv[0], ("?",))


def _changed(before: Files, after: Files) -> list[str]:
    names = before.digests.keys() | after.digests.keys()
    return sorted(name for name in names if before.digests.get(name) != after.digests.get(name))


def _current(world: World, argv: Sequence[str]) -> set[tuple[int, int]]:
    """Return hash and offset of all keys and tags of the messages in the log.

    Those of tags may go where a command says so.
    """
    rows = set()
    for message in world.truth.messages:
        texts = message.texts
        if "--no-index-tags" in argv:
            texts = [f"{message.topic}#{key}" for key in message.keys]
        rows |= {(java_hash(text), message.offset) for text in texts}
    return rows


def _end(truth: Truth) -> int:
    """Return where the log ends for readers: records that a cut left at its end are there still."""
    left = {one.offset: one.size for one in truth.possibly("messages")}
    end, head = truth.log_end, DLEDGER_HEAD if truth.dledger else 0
    while size := left.get(end + head):
        end += head + size
    return end


def _lost_entries(
    world: World, argv: Sequence[str], before: Files, after: Files
) -> Iterable[tuple[str, str]]:
    if _LOSS in argv:
        return
    truth = world.truth
    least = truth.log_start
    if argv[0] == "expire" and "--before" in argv:
        least = int(argv[argv.index("--before") + 1])
    lost = set(before.entries) - set(after.entries)
    emptied = {damage.file for damage in world.damages if damage.kind in _WITHOUT_ENTRIES}
    lost |= {
        (entry.key_hash, entry.offset)
        for damage in world.damages
        if damage.file.startswith("index/") and damage.stop <= _HEADER
        if damage.file not in emptied
        if not _is_as_killed(world, damage, before)
        for entry in damage.entries
        if (entry.key_hash, entry.offset) not in after.entries
        and argv[0] != "recover"
        and before.digests.get(damage.file) != after.digests.get(damage.file)
    }
    current = _current(world, argv)
    wrong = sorted(
        (offset, code)
        for code, offset in lost & set(world.broker.texts)  # others are damaged bytes
        if ((code, offset) in current and (argv[0] != "expire" or offset >= least))
        or offset >= max(_end(truth), least)
        or (offset < least and argv[0] != "expire")
    )
    if wrong:
        yield "lost by a write", f"{len(wrong)} of {len(before.entries)} entries: {wrong[:5]}"
    if argv[0] == "relayout":
        differs = before.entries - after.entries
        more = after.entries - before.entries - before.put
        if (differs or more) and "--dry-run" not in argv:
            yield "lost by a write", f"entries before and not after {differs}, the other way {more}"


def _is_as_killed(world: World, damage: Damage, before: Files) -> bool:
    """Tell whether a damaged count is what a kill leaves between an entry and the count.

    The broker that starts then indexes the message again.
    """
    counted = [(one.file, one.position, one.offset) for one in world.truth.entries]
    *_, last = max(counted, default=("", 0, -1))
    lost = Counter((one.key_hash, one.offset) for one in damage.entries)
    return world.truth.abort and lost == before.put and all(at == last for _, at in lost)


def _has_stale_entries(world: World) -> bool:
    """Tell whether entries are of a message that another, with other keys, has replaced."""
    truth = world.truth
    log = {one.offset: one for one in truth.messages if one.keys}
    if world.damages:
        return False
    owners: dict[tuple[str, int], bool] = {}
    for entry in truth.entries:
        if entry.offset in log:
            place = (entry.file, entry.offset)
            owners[place] = owners.get(place, False) or bool(truth.message_of(entry, log))
    return not all(owners.values())


def _differs(
    world: World, argv: Sequence[str], before: Files, after: Files
) -> Iterable[tuple[str, str]]:
    """Say where a rebuild of a sound index gives other entries than the broker."""
    truth = world.truth
    is_known = not world.damages and truth.states <= _SOUND and truth.agreed is None
    # Which tags are indexed cannot be known where versions took turns.
    is_known &= not any("version" in step or "index" in step for step in world.taken)
    if is_known and not {"--from", "--to", _LOSS} & set(argv):
        lost, more = before.entries - after.entries, after.entries - before.entries
        # Of a message that had a part of its own, or that a broker never gets past, or in a file
        # that has not come yet.
        more -= _owed(world) - before.entries
        if lost or more:
            yield "differs", f"entries before and not after {lost}, the other way {more}"


def _owed(world: World) -> Counter[tuple[int, int]]:
    """Return hash and offset of the entries that a broker makes of the messages in the log."""
    return Counter(
        (java_hash(text), one.offset)
        for one in world.truth.messages
        for text, _ in world.broker.texts_of(one)
    )


def _unagreed(world: World, before: Files, after: Files) -> Iterable[tuple[str, str]]:
    """Say which entries were made of messages on which DLedger's group has not agreed."""
    truth = world.truth
    if truth.agreed is None or world.damages:
        return
    known = {one.offset for one in truth.surely("messages")} | {
        offset for _, offset in before.entries
    }
    known |= {one.offset for one in truth.once if hasattr(one, "offset")}
    more = sorted({offset for _, offset in after.entries} - known)
    if more:
        yield "unagreed", f"entries of messages at {more[:5]}, agreed is {truth.agreed}"


def _split(before: Files, after: Files) -> Iterable[tuple[str, str]]:
    """Say which topics have queues of both kinds now, with which no broker starts."""

    def topics(files: Files) -> set[str]:
        plain = {name.split("/")[1] for name in files.digests if name.startswith("consumequeue/")}
        batch = {
            name.split("/")[1] for name in files.digests if name.startswith("batchconsumequeue/")
        }
        return plain & batch

    if topics(after) - topics(before):
        yield "split", f"topics with queues of both kinds: {topics(after)}"


def _lost_units(
    world: World, argv: Sequence[str], before: Files, after: Files
) -> Iterable[tuple[str, str]]:
    if _LOSS in argv:
        return
    truth = world.truth
    # A file that was swapped with that of another queue has units of messages of that one.
    alive = {
        (one.topic, one.queue_id, one.queue_offset, one.offset, one.size) for one in truth.messages
    }
    for one in truth.messages:
        named = dict(one.properties)
        queues = named.get("INNER_MULTI_DISPATCH", "").split(",")
        places = named.get("INNER_MULTI_QUEUE_OFFSET", "").split(",")
        alive |= {
            (queue, 0, records.java_number(place, 64), one.offset, one.size)
            for queue, place in zip(queues, places, strict=False)
        }
    held = {unit[:5] for unit in after.units}  # the tags' code may have been damaged before
    lost = [unit for unit in before.units if unit[:5] not in held and unit[:5] in alive]
    # A record whose flags were damaged makes an inner batch of a message, and batch queues of all.
    batch = world.broker.config.batch_topics | {
        one.topic for damage in world.damages for one in damage.messages
    }
    lost = sorted(unit for unit in lost if unit[0] not in batch)
    if lost:
        yield "lost by a write", f"{len(lost)} of {len(before.units)} units: {lost[:5]}"


def _due_anew(
    world: World, outcome: Outcome, before: Files, after: Files
) -> Iterable[tuple[str, str]]:
    """Say which delayed messages are due at another time than before, where none is damaged."""
    if any(not one.file.startswith("index") for one in world.damages):
        return
    stored = {one.offset: one.store_time for one in world.truth.messages}
    right = {
        unit[:5]: unit[5]
        for unit in before.units
        if unit[0] == records.SCHEDULE
        and (delay := unit[5] - stored.get(unit[3], unit[5] + 1)) >= 0
        and delay % 1000 == 0
    }
    due = {unit[:5]: unit[5] for unit in after.units}
    anew = sorted(unit for unit, code in right.items() if due.get(unit, code) != code)
    said = re.search(r"^(\d+) delayed messages? due as those of", outcome.text, re.MULTILINE)
    if len(anew) > (int(said[1]) if said else 0):
        yield "due anew", f"{len(anew)} delayed messages, such as that of {anew[0]}"


_TAKEN = re.compile(
    r"^(.*), queue ([0-9]+): left out [0-9]+ messages? from offset ([0-9]+) on, since older ones",
    re.MULTILINE,
)


def _queues_without_newest(
    world: World, outcome: Outcome, after: Files
) -> Iterable[tuple[str, str]]:
    """Say which queues end before the newest message that the log has of them.

    Where an older message has its queue offset, a queue has no place for it, and that is said.
    """
    truth = world.truth
    if world.damages or truth.states & {"torn", "no_log"} or truth.agreed is not None:
        return
    newest = {}
    for one in sorted(truth.messages, key=lambda one: one.offset):
        if not records.has_readable_numbers(one.topic, dict(one.properties)):
            continue  # which a rebuild refuses, or leaves out and goes on
        if not one.sys_flag & 4:
            if (
                not one.queue_offset
            ):  # perhaps its topic was made again, and uses no other queue yet
                newest = {key: old for key, old in newest.items() if key[0] != one.topic}
            newest[one.topic, one.queue_id] = one
    held = {unit[:5] for unit in after.units}
    told = {
        (found[1], int(found[2])): int(found[3])
        for found in _TAKEN.finditer("\n".join([outcome.stdout, *outcome.notes]))
    }
    lacking = [
        one.offset
        for (topic, queue_id), one in newest.items()
        if one.kind == "plain"
        and topic not in world.broker.config.batch_topics
        and one.offset < told.get((topic, queue_id), one.offset + 1)
        and (topic, queue_id, one.queue_offset, one.offset, one.size) not in held
    ]
    if lacking:
        yield "uncovered", f"queues lack their newest messages: {lacking[:5]}"


def _uncovered(
    world: World, argv: Sequence[str], outcome: Outcome, after: Files
) -> Iterable[tuple[str, str]]:
    """Say which messages of the log have no entries after a rebuild of all of it."""
    if {"--from", "--to"} & set(argv):
        return
    lacking = []
    for message in world.truth.surely("messages"):
        if message.sys_flag & records.ROLLBACK == records.ROLLBACK:
            continue
        texts = [f"{message.topic}#{key}" for key in message.keys]
        lacking += [
            (message.offset, text)
            for text in texts
            if (java_hash(text), message.offset) not in after.entries
        ]
    if lacking and "--resume" not in argv and not (outcome.stderr.strip() or outcome.notes):
        yield "uncovered", f"{len(lacking)} keys have no entry: {lacking[:4]}"


def after_a_start(world: World, folder: Path) -> tuple[list[tuple[int, int]], list[int]]:
    """Start the broker of a copy.

    Args:
        world: A store whose broker was killed; it stays as it is.
        folder: A folder that is not there yet.

    Returns:
        The entries that it throws away, as hash and offset, and the offsets of messages that have
        keys and no entry then.
    """
    shutil.copytree(world.store, folder)
    broker = copy.deepcopy(world.broker)
    broker.root, broker.disk = folder, Disk(folder)
    # That the index is switched off is nowhere in the store, nor that tags are no longer indexed.
    broker.config.index = True
    broker.config.version = max(broker.config.version, TAGS_SINCE)
    # Only a light queue tells that they are switched on, so that a broker reads their numbers.
    broker.config.light = any(folder.glob("consumequeue/%LMQ%*"))
    try:
        for _ in broker.start():
            pass
        log = {one.offset for one in broker.truth.messages}
        left = {(one.key_hash, one.offset) for one in broker.truth.entries}
        indexed = {offset for _, offset in left}
        bare = [
            one.offset
            for one in broker.truth.messages
            if one.keys and one.sys_flag & 12 != 12 and one.offset not in indexed
        ]
    finally:
        broker.kill()
        shutil.rmtree(folder)
    had = {
        (one.key_hash, one.offset)
        for one in world.truth.entries
        # That its version indexes no tags is nowhere in the store, either.
        if one.offset in log and (one.kind == "key" or broker.truth.tags)
    }
    return sorted(had - left), bare


def exported(path: Path) -> list[dict[str, Any]]:
    """Return the rows of an export."""
    rows: list[dict[str, Any]] = []
    for file in sorted(path.rglob("*")):
        if file.name.startswith((".", "_")) or not file.is_file():
            continue
        if file.suffix == ".parquet":
            rows += pyarrow.parquet.read_table(file).to_pylist()
        elif file.suffix == ".csv":
            with file.open(newline="", encoding="utf-8") as stream:
                rows += csv.DictReader(stream)
        elif file.suffix in {".jsonl", ".json", ".ndjson"}:
            rows += [json.loads(line) for line in file.read_text("utf-8").split("\n") if line]
    return rows


def judge_export(
    world: World, argv: Sequence[str], folder: Path, said: str
) -> Iterable[tuple[str, str]]:
    """Say what an export of a store without damage lacks and does not say, or has twice."""
    rows = exported(folder)
    if ABSENT in argv:
        if rows or not said.strip():
            yield "silence", "of a topic that the store does not have"
    elif "--entries" in argv:
        yield from _exported_entries(world.truth, rows)
    else:
        yield from _exported_messages(world.truth, rows, said)


def _exported_entries(truth: Truth, rows: list[dict[str, Any]]) -> Iterable[tuple[str, str]]:
    got = Counter((int(row["key_hash"]), int(row["phy_offset"])) for row in rows)
    most = _most_exported(truth)
    if ghosts := [row for row in got if row not in most]:
        yield "ghosts", f"by an export: {ghosts[:5]}"
    more = {row: count for row, count in got.items() if count > most[row] > 0}
    if more:
        yield "doubled", f"by an export: {list(more.items())[:5]}"
    if lost := Counter((one.key_hash, one.offset) for one in truth.surely("entries")) - got:
        yield "lost", f"by an export: {list(lost)[:5]}"


def _exported_messages(
    truth: Truth, rows: list[dict[str, Any]], said: str
) -> Iterable[tuple[str, str]]:
    keys = Counter(
        (int(row["phy_offset"]), row["topic"], int(row["size"]), row["uniq_key"] or None)
        for row in rows
    )
    waits = set()
    if "abort" in truth.states:  # a kill may have left a record that its broker takes as whole
        last = max((one.offset for one in truth.messages), default=-1)
        waits = {last} & {int(offset) for offset in _WAITS.findall(said)}
    surely = (one for one in truth.surely("messages") if one.offset not in waits)
    lost = Counter(map(_told, surely)) - keys
    known = set(map(_told, truth.possibly("messages")))
    if truth.seems_to_go_on:  # and whoever resumes behind has what was there before
        lost, known = Counter(), known | set(keys)
    ghosts = [row for row in keys if row not in known and row[0] >= truth.log_start]
    if ghosts:
        yield "ghosts", f"by an export: {ghosts[:5]}"
    if any(count > 1 for count in keys.values()):
        yield "doubled", f"by an export: {[row for row, n in keys.items() if n > 1][:5]}"
    if lost:
        yield "lost", f"by an export: {list(lost)[:5]}"


def _most_exported(truth: Truth) -> Counter[tuple[int, int]]:
    """Return how often an export that goes on may have each entry, as hash and offset.

    It keeps what it has of files that expired, and the entries of one message may be in two files.
    A file that was made anew is no such file: the index does not begin behind it.
    """
    there = Counter((one.key_hash, one.offset) for one in truth.possibly("entries"))
    names = {one.file for one in truth.entries}
    begin = min((one.offset for one in truth.entries), default=truth.log_start)
    files: dict[str, list[Entry]] = {}
    for one in truth.once:
        if isinstance(one, Entry) and one.file not in names:
            files.setdefault(one.file, []).append(one)
    expired = [file for file in files.values() if max(one.offset for one in file) <= begin]
    there.update((one.key_hash, one.offset) for file in expired for one in file)
    gone = Counter((one.key_hash, one.offset) for file in files.values() for one in file)
    return there + Counter({row: count for row, count in gone.items() if row not in there})


def _told(one: Message) -> tuple[int, str, int, str | None]:
    """Return by what an exported message is known."""
    return one.offset, one.topic, one.size, dict(one.properties).get("UNIQ_KEY") or None


def remedies_of(outcome: Outcome, root: str) -> list[str]:
    """Return the commands that an answer or a refusal prints, as they can be typed.

    Args:
        outcome: The answer.
        root: The store, for which ``STORE`` stands.
    """
    text = "\n".join([outcome.text, outcome.stdout, outcome.stderr, *outcome.notes])
    if outcome.kind == "findings" and outcome.rows:
        text = "\n".join(row["remedy"] for row in outcome.rows if row["severity"] != "info")
    found = {}
    for match in _COMMAND.finditer(text):
        line = next(group for group in match.groups() if group).strip()
        try:
            parts = shlex.split(line)
        except ValueError:
            continue
        if any(part.isupper() and part.isalpha() for part in parts):
            continue  # a placeholder, of a text that is not about one store
        found[line.replace(root, "STORE")] = None
    return list(found)
