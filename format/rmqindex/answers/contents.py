"""What is in a store and in its files, as answers: usage, consumer groups, fields of a file."""

from __future__ import annotations

from dataclasses import asdict, fields
from typing import TYPE_CHECKING

from rmqindex.answers.answer import NOT_FOUND, Answer, Nothing
from rmqindex.answers.terminal import Table, print_table, print_text, shortened
from rmqindex.answers.text import cell_width, one_line, size_text, visible
from rmqindex.consumequeue.progress import GROUP_STATES, UNKNOWN_ENDS, GroupProgress
from rmqindex.errors import counted
from rmqindex.explanation.wording import listed
from rmqindex.export.items import Field
from rmqindex.keys.messages import tag_key
from rmqindex.query.key_usage import KeyUsageRow
from rmqindex.query.usage import UsageRow

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from rmqindex.answers.answer import Zone
    from rmqindex.answers.terminal import Console
    from rmqindex.commitlog import MissingPart
    from rmqindex.consumequeue import ConsumerProgress
    from rmqindex.export import Dump, Item
    from rmqindex.query import KeyUsage
    from rmqindex.query.usage import FolderUsage, Usage

USAGE_COLUMNS = tuple(field.name for field in fields(UsageRow))
KEY_USAGE_COLUMNS = tuple(field.name for field in fields(KeyUsageRow))
# What the table of keys means.
_CHAINS = (
    "Chain: the entries of the longest chain of the key's slot in a file, which a lookup walks. "
    "Pages: where all chains of the slot lie, 4 KiB each."
)
_UNVERIFIED = (
    "The log lacks the messages of some of these entries, which may be of other keys of the same "
    "hash: --json has unverified_count."
)
GROUP_COLUMNS = tuple(field.name for field in fields(GroupProgress))
DUMP_COLUMNS = ("item", *(field.name for field in fields(Field)))


def usage_answer(
    path: str,
    by: Sequence[str],
    usage: Usage,
    folders: Sequence[FolderUsage],
    missing: Sequence[MissingPart],
    limit: int | None,
    zone: Zone,
    notes: Sequence[str] = (),
) -> Answer:
    """Return the messages and bytes of each group, and the folders of the store."""
    rows = [asdict(row) for row in usage.rows[:limit]]

    def text(console: Console) -> None:
        _print_usage(console, usage, limit, zone)
        if folders:
            _print_folders(console, folders)

    return Answer(
        text=text,
        columns=USAGE_COLUMNS,
        rows=rows,
        document=lambda: {
            "path": path,
            "by": by,
            **asdict(usage),
            "rows": rows,
            "folders": [asdict(folder) for folder in folders],
            "missing": [asdict(part) for part in missing],
        },
        notes=notes,
    )


def key_usage_answer(
    path: str, by: str, usage: KeyUsage, missing: Sequence[MissingPart], notes: Sequence[str]
) -> Answer:
    """Return the hottest keys or tags, and what their chains cost a lookup."""
    rows = [asdict(row) for row in usage.rows]
    return Answer(
        text=lambda console: _print_key_usage(console, by, usage),
        columns=KEY_USAGE_COLUMNS,
        rows=rows,
        document=lambda: {
            "path": path,
            "by": [by],
            **asdict(usage),
            "rows": rows,
            "missing": [asdict(part) for part in missing],
        },
        notes=notes,
    )


def _print_key_usage(console: Console, by: str, usage: KeyUsage) -> None:
    """Print a row for each key, and the sums."""
    has_log, has_index = usage.message_count is not None, usage.entry_count is not None
    table = Table()
    if has_log:
        table.add_column("Topic", may_be_cut=True)
    table.add_column(by.capitalize() if has_log else "Key hash", may_be_cut=has_log)
    heads = ["Messages", "Size", "Share"] if has_log else []
    heads += ["Entries", "Share", "Chain", "Pages"] if has_index else []
    for head in heads:
        table.add_column(head, right=True)
    for row in usage.rows:
        cells = [row.topic or "", _key_text(row, by)] if has_log else [str(row.key_hash)]
        if has_log:
            cells += [str(row.message_count), size_text(row.size or 0), f"{row.size_share:.1%}"]
        if has_index:
            cells += [str(row.entry_count), f"{row.entry_share:.1%}"]
            cells += [str(row.longest_chain), str(row.pages_read)]
        table.add_row(*cells)
    if usage.rows:
        print_table(console, table)
    print_text(console, ("\n" if usage.rows else "") + _sums_text(usage))
    if has_index and usage.rows:
        print_text(console, _CHAINS)
    if any(row.unverified_count for row in usage.rows):
        print_text(console, _UNVERIFIED)


def _key_text(row: KeyUsageRow, by: str) -> str:
    if row.key is None:
        return f"(hash {row.key_hash})"
    return row.key.removeprefix(tag_key("")) if by == "tag" else row.key


def _sums_text(usage: KeyUsage) -> str:
    sums = []
    if usage.message_count is not None:
        sums += [counted(usage.message_count, "message"), size_text(usage.size or 0)]
    if usage.entry_count is not None:
        sums.append(counted(usage.entry_count, "entry", "entries"))
    return ", ".join(sums)


def _print_usage(console: Console, usage: Usage, limit: int | None, zone: Zone) -> None:
    """Print a row for each group, and the sums."""
    shown = usage.rows[:limit]
    table = Table()
    heads = [
        (f"Hour ({zone.name})", any(row.hour is not None for row in shown)),
        ("Topic", any(row.topic is not None for row in shown)),
        ("Queue", any(row.queue_id is not None for row in shown)),
    ]
    for head, is_there in heads:
        if is_there:
            table.add_column(head, right=head == "Queue", may_be_cut=head == "Topic")
    has_entries = usage.entry_count is not None
    for head in ("Messages", "Size", "Share", *(["Entries"] if has_entries else [])):
        table.add_column(head, right=True)
    for row in shown:
        cells = (
            "" if row.hour is None else zone.format(row.hour)[:16],
            row.topic or "",
            str(row.queue_id),
        )
        table.add_row(
            *(cell for cell, (_, is_there) in zip(cells, heads, strict=True) if is_there),
            str(row.message_count),
            size_text(row.size),
            f"{row.size / usage.size:.1%}",
            *([str(row.entry_count)] if has_entries else []),
        )
    if shown:
        print_table(console, table)
    left = len(usage.rows) - len(shown)
    more = f"; {counted(left, 'row')} more" if left else ""
    sums = f"{counted(usage.message_count, 'message')}, {size_text(usage.size)}"
    if usage.entry_count is not None:
        sums += f", {counted(usage.entry_count, 'entry', 'entries')}"
    sums += more
    print_text(console, ("\n" if shown else "") + sums)


def _print_folders(console: Console, folders: Sequence[FolderUsage]) -> None:
    """Print what the folders of a store take."""
    table = Table()
    table.add_column("Folder", may_be_cut=True)
    for head in ("Files", "Size", "On disk"):
        table.add_column(head, right=True)
    for folder in folders:
        table.add_row(
            folder.name,
            str(folder.file_count),
            size_text(folder.size),
            size_text(folder.disk_size),
        )
    print_text(console, "")
    print_table(console, table)


def groups_answer(
    path: str, progress: ConsumerProgress, zone: Zone, group: str | None, topic: str | None
) -> Answer:
    """Return how far consumer groups are in each queue, and the totals by group and topic.

    ``group`` and ``topic`` are what was asked for.
    """
    rows = [asdict(row) for row in progress.rows]
    names = ("group", "topic", "queues", "lag", "expired")
    return Answer(
        text=lambda console: _print_groups(console, progress, zone),
        columns=GROUP_COLUMNS,
        rows=rows,
        document=lambda: {
            "path": path,
            "offsets_path": progress.offsets_path,
            "offsets_timestamp": progress.offsets_timestamp,
            "rows": rows,
            "totals": [dict(zip(names, total, strict=True)) for total in progress.totals()],
            "notes": list(progress.notes),
        },
        nothing=None if rows else (path, Nothing(_no_group(progress, group, topic))),
        notes=progress.notes,
        exit_code=0 if rows else NOT_FOUND,
    )


def _no_group(progress: ConsumerProgress, group: str | None, topic: str | None) -> str:
    """Say which groups and topics there are where what was asked for is not among them."""
    path, known = progress.offsets_path, progress.known
    groups = {each for each, _ in known}
    if group is not None and groups and group not in groups:
        return f"no consumer group {visible(group)} in {path}, which has {_names(sorted(groups))}"
    of_group = [name for each, name in known if group in (None, each)]
    if topic is not None and of_group and topic not in of_group:
        whose = "no consumer group" if group is None else f"the consumer group {visible(group)}"
        has = "has an offset" if group is None else "has no offset"
        return f"{whose} {has} of the topic {visible(topic)} in {path}, only of {_names(of_group)}"
    return f"no consumer group in {path}"


def _names(names: Iterable[str]) -> str:
    return listed(map(visible, dict.fromkeys(names)))


def _print_groups(console: Console, progress: ConsumerProgress, zone: Zone) -> None:
    """Print a row for each queue, the totals, and what the states mean."""
    table = Table()
    for head in ("Group", "Topic"):
        table.add_column(head, may_be_cut=True)
    for head in ("Queue", "Committed", "Least", "End", "Lag"):
        table.add_column(head, right=True)
    table.add_column("State")
    for row in progress.rows:
        numbers = (row.committed_offset, row.min_offset, row.max_offset, row.lag)
        table.add_row(
            row.group,
            row.topic,
            str(row.queue_id),
            *("-" if number is None else str(number) for number in numbers),
            row.state,
        )
    print_table(console, table)
    totals = Table()
    for head in ("Group", "Topic"):
        totals.add_column(head, may_be_cut=True)
    for head in ("Queues", "Lag", "of it expired"):
        totals.add_column(head, right=True)
    for group, topic, *sums in progress.totals():
        totals.add_row(group, topic, *("-" if each is None else str(each) for each in sums))
    print_text(console, "")
    print_table(console, totals)
    strange = {row.state: GROUP_STATES[row.state] for row in progress.rows}
    for state in ("at_end", "behind"):
        strange.pop(state, None)
    lines = [f"{state}: {meaning}" for state, meaning in strange.items()]
    written = f"{zone.format(progress.offsets_timestamp)} ({zone.name})"
    *notes, total = _lag_lines(progress)
    print_text(console, "\n".join(["", *lines, *notes, f"{total}; offsets of {written}"]))


def _lag_lines(progress: ConsumerProgress) -> list[str]:
    """Return the lag of all groups, and before it what takes something off it unseen."""
    lags = [row.lag or 0 for row in progress.rows]
    lines = []
    negative = [lag for lag in lags if lag < 0]
    if negative:
        lines.append(
            "A negative lag is added as it is, as mqadmin consumerProgress does: without "
            f"{counted(len(negative), 'such queue')}, the lag is {sum(lags) - sum(negative)}."
        )
    total = f"{counted(len({row.group for row in progress.rows}), 'group')}, lag {sum(lags)}"
    unknown = sum(row.state in UNKNOWN_ENDS for row in progress.rows)
    if unknown:
        total += f", not known of {counted(unknown, 'queue')}"
    return [*lines, total]


def dump_answer(dump: Dump, items: Iterable[Item]) -> Answer:
    """Return what a file is, and the fields of some of its items."""
    return Answer(
        text=lambda console: _print_items(console, dump, items),
        columns=DUMP_COLUMNS,
        rows=({"item": item.name, **asdict(field)} for item in items for field in item.fields),
        document=lambda: {
            "path": dump.path,
            "kind": dump.kind,
            "size": dump.size,
            "items": [asdict(item) for item in items],
            "error": dump.error,
        },
    )


def _print_items(console: Console, dump: Dump, items: Iterable[Item]) -> None:
    """Print items as they come; a value that does not fit has its own line."""
    console.write(f"{dump.path}\n{dump.kind}, {counted(dump.size, 'byte')}")
    for item in items:
        console.write()
        console.write(f"{item.name}, byte {item.byte}")
        for field in item.fields:
            note = f"  {field.note}" if field.note else ""
            place = f"{field.byte:>10}  {field.size:>4}  "
            value = f"{field.value}{note}"
            line = one_line(f"{place}{field.name:<27}  {value}")
            if cell_width(line) > console.width:
                console.write(one_line(f"{place}{field.name}"))
                line = one_line(f"{'':{len(place)}}{value}")
            console.write(shortened(line, console.width) if console.is_terminal else line)
