"""A rule of the audit, what rules advise, and how the remedies of all findings agree.

No remedy has a command that another finding has refused.
"""

from __future__ import annotations

import re
import shlex
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, TypeVar

import pyarrow as pa

from rmqindex.commitlog.files import folders_of, own_name_advice
from rmqindex.errors import RmqIndexError, truncate_line
from rmqindex.indexfile.geometry import Layout
from rmqindex.layout.columns import required_field
from rmqindex.storage.location import Location
from rmqindex.store.snapshot import layout_beside

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from rmqindex.commitlog.log import CommitLog
    from rmqindex.explanation.commands import Commands

Severity = Literal["error", "warning", "info"]
T = TypeVar("T", pa.Table, pa.RecordBatch)


@dataclass(frozen=True, slots=True)
class AuditRule:
    """One rule of the audit.

    Attributes:
        name: Its name in findings, which does not change between versions.
        severity: ``error``: answers are wrong or missing; ``warning``: the bytes are not what a
            broker writes, or a restart will do harm; ``info``: worth knowing, but normal.
        meaning: What a finding means.
        remedy: What to do about it, with the command to type.
    """

    name: str
    severity: Severity
    meaning: str
    remedy: str


#: The severities, the worst first.
SEVERITIES: tuple[Severity, ...] = ("error", "warning", "info")
#: The columns of :func:`rmqindex.verify`.
FINDING_SCHEMA = pa.schema(
    [
        required_field("file", pa.string()),
        required_field("rule", pa.string()),
        required_field("severity", pa.string()),
        pa.field("byte", pa.int64()),
        required_field("expected", pa.string()),
        required_field("got", pa.string()),
        required_field("remedy", pa.string()),
    ]
)

#: What a rebuild needs, which replaces everything by what the CommitLog's messages give.
WHOLE_LOG = "If the CommitLog is whole, "
# What to do where a rebuild of the queues mends them.
QUEUES = f"{WHOLE_LOG}stop the broker and run `rmqindex rebuild-queues STORE --replace`."
#: What may have to be done before.
TOPICS_IF_WRONG = "Restore `config/topics.json` if it is wrong. "
BEYOND_LOG = (
    "Restore the newest files of the CommitLog if it lost them; if it is whole, or they are gone "
    "for good, stop the broker and run `rmqindex rebuild-queues STORE --replace --allow-loss`, "
    "which drops the units behind its end (`--dry-run` shows how many)."
)
#: What to do where a rebuild of the index mends it.
REBUILD = f"{WHOLE_LOG}stop the broker and run `rmqindex rebuild STORE --replace`."
RESTORE_LOG = (
    "Restore the CommitLog from a replica or a backup, or name another with `--commit-log`; then "
    "run `rmqindex verify STORE` again."
)
#: What to do where the log cannot be read, which need not be damage.
READABLE_LOG = (
    "Make the CommitLog readable, restore it from a replica or a backup, or name another with "
    "`--commit-log`; then run `rmqindex verify STORE` again."
)
#: What to do about all that only a log tells whose files have their own names.
NAMES_FIRST = (
    "Mend the names of the CommitLog's files first; then run `rmqindex verify STORE` again."
)
#: What to do about entries that lead behind the log's end, which a rebuild drops if it is told to.
ENTRIES_BEYOND_LOG = (
    "Restore the newest files of the CommitLog if it lost them; if it is whole, or they are gone "
    "for good, stop the broker and run `rmqindex rebuild STORE --replace --allow-loss`, which "
    "drops the entries behind its end (`--dry-run` shows how many)."
)
#: What to do about files of several geometries where nothing else is damaged.
RELAYOUT = (
    "Stop the broker and run, with the numbers of broker.conf as `--slots` and `--entries`, "
    "`rmqindex relayout STORE`."
)

#: The rule of a file of another geometry than those beside it.
GEOMETRY_DIFFERS = "geometry_differs"
#: The rule of a file that is longer than its geometry.
SURPLUS = "surplus_bytes"
#: The rule of a log's newest file of another size than those before it.
LOG_FILE_SIZE = "log_file_size"
#: The rule of what stands among a log's files and has a name that none of them can have.
LOG_FILE_NAME = "log_file_name"
#: The rule of what stands among a queue's files, or in the place of them, and is none.
QUEUE_FILE_NAME = "queue_file_name"
#: The rule of a log's file that begins with a message of another place than its name says.
LOG_FILE_MISNAMED = "log_file_misnamed"
#: How its finding says where it begins, before the offset.
OWN_START = "one at offset "
_QUEUES = "`rmqindex rebuild-queues STORE --replace"
_OF_QUEUES = re.compile(f"{_QUEUES}(?P<options>[^`]*)`")
_REBUILD = "`rmqindex rebuild STORE"
_REPLACE = f"{_REBUILD} --replace"
# A rebuild that is refused, or not enough, where another finding needs one that replaces.
_CONTINUE = re.compile(f"{_REBUILD}(?: --resume)?`")
# One that is refused where entries lead behind the log's end.
_KEEPING = re.compile(f"(?P<command>{_REPLACE}(?:(?!--allow-loss)[^`])*)`")
# What is advised by what a log tells.
_OF_LOG = re.compile(f"CommitLog|replica|{_QUEUES}|{_REBUILD}|`truncate ")
# Rules that say what leads behind the log's end, and how to go on without what it has lost.
_LEAD_BEHIND = {"stop_barrier", "entry_beyond_log", "queue_beyond_log"}
_CONDITION = re.compile(f"(?P<first>[Ii]){WHOLE_LOG[1:]}(?P<then>.)")
# How a rule says that what it advises needs a store without a broker.
_STOP = re.compile("(?P<first>[Ss])top the broker and (?P<then>.)")
_RUN_REBUILD = re.compile(f"(?P<run>[Rr]un) {_REBUILD}")
_OPTION = re.compile(r" --[a-z-]+(?: [^- ]\S*)?")
_LAYOUT_OPTION = "--max-hash-slot-num"
_MEND_DUE_TIMES = "--mend-due-times"
# In a rule's remedy: a command with what stands for the user's own store or file, or a call.
_TYPED = re.compile(
    r"`rmqindex (?P<name>[a-z-]+) (?P<what>STORE|FILE)(?P<options>[^`]*)`|cover_index\(STORE\)"
)
# The same of a file of the log, whose size begins what the finding expects.
_TRUNCATE = "`truncate -s SIZE FILE`"
_MOVE_OUT = "move FILE out"


def with_one_rebuild(rules: Sequence[AuditRule], values: Mapping[str, str]) -> list[str]:
    """Return the remedies of one store's queues with one command that none of them has refused."""
    options: dict[str, None] = {}
    for rule in rules:
        for command in _OF_QUEUES.finditer(rule.remedy):
            for option in _OPTION.findall(command["options"]):
                name = option.split()[0]
                if name == _MEND_DUE_TIMES:  # what a warning asks for alone
                    continue
                options[f" {name} {values[name]}" if name in values else option] = None
    rebuild = f"{_QUEUES}{''.join(options)}"
    names = {rule.name for rule in rules}
    stop = "stop the broker"
    first = f"restore `config/topics.json`, then {stop}" if "topic_kind" in names else stop
    united = []
    for rule in rules:
        text = rule.remedy
        if "queue_beyond_log" in names:
            text = text.replace(QUEUES, BEYOND_LOG)
        if first != stop:
            text = text.replace(TOPICS_IF_WRONG, "").replace(stop, first)
        alone = f" {_MEND_DUE_TIMES}" if _MEND_DUE_TIMES in text else ""
        united.append(_OF_QUEUES.sub(f"{rebuild}{alone}`", text))
    return united


def with_replacing(remedy: str) -> str:
    """Return a remedy with a rebuild that replaces, where one that continues would be refused."""
    return _CONTINUE.sub(f"{_REPLACE}`", remedy)


def with_agreeing_remedies(findings: pa.Table, *, has_log: bool) -> pa.Table:
    """Return the findings of all parts of an audit with remedies that none of them has refused.

    Args:
        findings: What was found, with the columns of ``FINDING_SCHEMA``.
        has_log: Whether a CommitLog was compared, and so is whole if no finding says otherwise.
    """
    remedies = _with_names_first(findings)
    severities = findings["severity"].to_pylist()
    errors = {each for each, of in zip(remedies, severities, strict=True) if of == "error"}
    # What has to be replaced cannot be continued, and one rebuild does for all.
    replaces = any(f"{_REPLACE}{after}" in each for each in errors for after in ("`", " --max"))
    rules = {*findings["rule"].to_pylist()}
    differs = GEOMETRY_DIFFERS in rules
    rebuilds = has_log and (replaces or (differs and any(map(_CONTINUE.search, errors))))
    replaces |= differs or SURPLUS in rules  # a file that no rebuild writes on
    is_damaged = any(each.startswith((RESTORE_LOG, READABLE_LOG)) for each in errors)
    is_short = ENTRIES_BEYOND_LOG in errors
    needs_log = is_damaged or is_short or "log_damaged" in rules

    def agreed(remedy: str) -> str:
        if rebuilds and remedy == RELAYOUT:
            remedy = REBUILD  # which lays out anew, too, and is not refused for a damaged file
        if replaces:
            remedy = with_replacing(remedy)
        if is_short and not is_damaged and remedy.startswith(WHOLE_LOG):
            remedy = remedy.replace(REBUILD, ENTRIES_BEYOND_LOG)
            remedy = _KEEPING.sub(r"\g<command> --allow-loss`", remedy)
        if needs_log:
            remedy = remedy.replace("; else restore it first", "")
        elif has_log and remedy.startswith(WHOLE_LOG):
            remedy, _, without_log = remedy.partition("; without ")
            remedy += "." if without_log else ""
        return remedy if not needs_log and not has_log else _CONDITION.sub(settled, remedy)

    def settled(condition: re.Match[str]) -> str:
        """Return what stands in place of the condition that the log is whole, which is known."""
        if needs_log:
            first = _as_first("r", condition["first"])
            return f"{first}estore the CommitLog first; then {condition['then']}"
        return _as_first(condition["then"], condition["first"])

    column = pa.array(map(agreed, remedies), pa.string())
    return findings.set_column(
        FINDING_SCHEMA.get_field_index("remedy"), FINDING_SCHEMA.field("remedy"), column
    )


def _with_names_first(findings: pa.Table) -> list[str]:
    """Return the remedies of findings, which wait for the names of the log's files if one is wrong.

    Until then its messages pass for lost, and a rebuild would drop what leads to them.
    """
    rows = findings.to_pylist()
    if LOG_FILE_MISNAMED not in findings["rule"].to_pylist():
        return [row["remedy"] for row in rows]
    return [
        NAMES_FIRST
        if row["rule"] not in (LOG_FILE_MISNAMED, "log_unreadable")
        and _OF_LOG.search(row["remedy"])
        else row["remedy"]
        for row in rows
    ]


def with_broker_stopped(findings: T, *, may_run: bool) -> T:
    """Return findings whose remedies say to stop the broker only if one may run."""
    if may_run:
        return findings

    def shortened(remedy: str) -> str:
        return _STOP.sub(lambda at: _as_first(at["then"], at["first"]), remedy)

    place = FINDING_SCHEMA.get_field_index("remedy")
    column = pa.array(map(shortened, findings["remedy"].to_pylist()), pa.string())
    return findings.set_column(place, FINDING_SCHEMA.field(place), column)


def _as_first(letter: str, replaced: str) -> str:
    """Return a letter as it stands where another one stood: as the first of a sentence, or not."""
    return letter.upper() if replaced.isupper() else letter


def with_one_end(findings: pa.Table, log: CommitLog) -> pa.Table:
    """Let the finding that a log lost its end advise what those advise which lead behind it.

    Damage in that place, such as zeros before other bytes, is another finding, and needs the log.
    """
    rules, remedies = (findings[name].to_pylist() for name in ("rule", "remedy"))
    advised = [each for rule, each in zip(rules, remedies, strict=True) if rule in _LEAD_BEHIND]
    error = None
    if advised and log.max_offset:
        with suppress(RmqIndexError):
            error = log.end_error(log.max_offset)
    if error is None:
        return findings
    lost = (str(error.path), "log_damaged", error.byte, str(error.got))
    columns = (findings[name].to_pylist() for name in ("file", "rule", "byte", "got"))
    changed = [
        advised[0] if place == lost else remedy
        for place, remedy in zip(zip(*columns, strict=True), remedies, strict=True)
    ]
    place = FINDING_SCHEMA.get_field_index("remedy")
    return findings.set_column(place, FINDING_SCHEMA.field(place), pa.array(changed, pa.string()))


def typed_findings(findings: pa.Table, commands: Commands) -> list[dict[str, Any]]:
    """Return the rows of findings with paths and commands as the user of a shell types them."""
    rows: list[dict[str, Any]] = findings.to_pylist()
    rebuilds = [
        row["remedy"] for row in rows if row["severity"] == "error" and _REBUILD in row["remedy"]
    ]
    differing = [row["file"] for row in rows if row["rule"] == GEOMETRY_DIFFERS]
    needs_numbers = commands.layout is None and bool(rebuilds)
    needs_numbers &= (
        bool(differing)
        or any(_LAYOUT_OPTION in each for each in rebuilds)
        or not commands.shows_geometry
    )
    numbers = None
    if needs_numbers:
        numbers = next(filter(None, map(_layout_beside, differing)), Layout())
    for row in rows:
        row["file"] = commands.shown(row["file"])
        row["remedy"] = _typed(row["remedy"], row["file"], commands, numbers)
        is_misnamed = row["rule"] == LOG_FILE_MISNAMED
        row["remedy"] = _with_name(row, commands) if is_misnamed else _with_size(row)
        row["remedy"] = row["remedy"].replace(_MOVE_OUT, f"move {row['file']} out")
    return rows


def _typed(remedy: str, file: str, commands: Commands, numbers: Layout | None) -> str:
    """Return the remedy of a finding in a file, with the geometry that a rebuild is to be told."""

    def typed(match: re.Match[str]) -> str:
        name = match["name"]
        if name is None:
            return f"cover_index({commands.shown(commands.store.root)!r})"
        options = shlex.split(match["options"])
        if name == "rebuild" and numbers is not None:
            if _LAYOUT_OPTION in options:  # the defaults, each with its value
                at = options.index(_LAYOUT_OPTION)
                del options[at : at + 4]
            options += [_LAYOUT_OPTION, str(numbers.hash_slot_num)]
            options += ["--max-index-num", str(numbers.index_num)]
        if name == "relayout" and (beside := commands.layout or _layout_beside(file)):
            options += ["--slots", str(beside.hash_slot_num)]
            options += ["--entries", str(beside.index_num)]
        if match["what"] == "FILE":
            return f"`{commands.of_file(name, file, *options)}`"
        return f"`{commands.of_store(name, *options)}`"

    if numbers is not None and "broker.conf" not in remedy:
        which = "with the numbers of broker.conf if it has others"
        remedy = _RUN_REBUILD.sub(rf"\g<run>, {which}, {_REBUILD}", remedy)
    return _TYPED.sub(typed, remedy)


def _with_size(row: Mapping[str, str]) -> str:
    """Return the remedy of a finding with the command that gives a file the expected size."""
    size, _, _ = row["expected"].partition(" ")
    return row["remedy"].replace(_TRUNCATE, f"`{truncate_line(size, row['file'])}`")


def _with_name(row: Mapping[str, str], commands: Commands) -> str:
    """Return the remedy of a file of the log with the command that gives it its own name."""
    start = int(row["got"].removeprefix(OWN_START))
    where = commands.log or commands.named
    advice = own_name_advice(Location.of(row["file"]), start, folders_of(where) if where else ())
    return f"While no broker runs, {advice}."


def _layout_beside(file: str) -> Layout | None:
    """Return the geometry that the files beside a file show, if they can be listed."""
    try:
        return layout_beside(Location.of(file))
    except RmqIndexError:
        return None
