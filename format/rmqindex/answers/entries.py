"""Entries of an index as answers: scanned, looked up, and explained."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

from rmqindex.answers.answer import NOT_FOUND, Answer, Nothing
from rmqindex.answers.messages import MESSAGE_COLUMNS, message_document, print_message
from rmqindex.answers.terminal import Styled, Table, print_table, print_text, rule, shortened
from rmqindex.answers.text import in_flags
from rmqindex.errors import counted
from rmqindex.indexfile.decoding import ENTRY_SCHEMA
from rmqindex.keys.hashing import index_key

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from rmqindex.answers.answer import Row, Zone
    from rmqindex.answers.terminal import Console
    from rmqindex.explanation import LookupExplanation, Uncovered
    from rmqindex.query.index_directory import QueryOffsetResult

ENTRY_COLUMNS = ("file", *ENTRY_SCHEMA.names)
HIT_COLUMNS = (
    "topic", "key", "path", "name", "position", "phy_offset", "store_timestamp", "state",
)  # fmt: skip
HIT_MESSAGE_COLUMNS = tuple(dict.fromkeys((*HIT_COLUMNS, *MESSAGE_COLUMNS)))
BROKER_COLUMNS = ("topic", "key", "phy_offset")
EXPLANATION_COLUMNS = (
    "topic", "key", "kind", "file", "reason", "text", "position", "phy_offset", "store_timestamp",
    "remedy", "other_topic", "phy_offsets",
)  # fmt: skip

# The columns of a scan with their widths. The links of the slots, which only those read who follow
# chains, are left out where a terminal is too narrow.
_ENTRY_WIDTHS = {
    "file": 17,
    "position": 8,
    "prev_position": 8,
    "slot": 7,
    "key_hash": 10,
    "phy_offset": 14,
    "store_timestamp": 23,
}
_ENTRY_SHAPES = (
    tuple(_ENTRY_WIDTHS),
    ("file", "position", "key_hash", "phy_offset", "store_timestamp"),
)
# Entries of one file that an explanation shows.
_SHOWN_HITS = 8


# The state of a row that stands for a key without entries.
_NO_ENTRY = "no_entry"


@dataclass(frozen=True, slots=True)
class Miss:
    """How a search without an entry goes on.

    Attributes:
        at_other_times: How many entries are outside the range of times; None without a range.
        nearest: A topic and key that differ in case or blanks alone, and how many entries they
            have; None if none is known.
        options: The options of ``explain`` for the same question.
    """

    at_other_times: int | None = None
    nearest: tuple[str, str, int] | None = None
    options: tuple[str, ...] = ()

    def nothing(self, question: Row, zone: Zone) -> Nothing:
        """Say what was not found, and what was."""
        window = zone.window(question["begin"], question["end"])
        others = "" if self.at_other_times is None else f"; {self.at_other_times} at other times"
        asked = question["topic"], question["key"]
        near = ""
        if self.nearest is not None:
            *pair, count = self.nearest
            near = f", but {count} of {index_key(*pair)}"
            near += " at any time" if others else ""  # the range was not asked of them
        text = f"no entry of {index_key(*asked)}{window}{others}{near}"
        return Nothing(text, asked, self.options)

    def document(self, question: Row, zone: Zone) -> Row:
        """Return the same as JSON values."""
        pair = (
            None
            if self.nearest is None
            else dict(zip(("topic", "key"), self.nearest, strict=False))
        )
        return {
            "at_other_times": self.at_other_times,
            "nearest": pair,
            "explain": self.nothing(question, zone).explain(question["path"]),
        }


_FOUND = {"at_other_times": None, "nearest": None, "explain": None}


@dataclass(slots=True)
class Shortfall:
    """The range of store times of a scan, and how many entries were left out for it alone."""

    begin: int | None
    end: int | None
    at_other_times: int = 0


def entries_answer(rows: Iterable[Row], shortfall: Shortfall, zone: Zone) -> Answer:
    """Return entries, which are read one by one as they are written."""
    return Answer(
        text=lambda console: _print_entries(console, rows, zone, shortfall),
        columns=ENTRY_COLUMNS,
        rows=rows,
    )


def _print_entries(console: Console, rows: Iterable[Row], zone: Zone, shortfall: Shortfall) -> None:
    """Print entries as they come, of which there may be millions, and a count."""
    heads = dict(
        zip(
            _ENTRY_WIDTHS,
            ("File", "Position", "Previous", "Slot", "Key hash", "Offset", f"Stored ({zone.name})"),
            strict=True,
        )
    )
    shown = next(filter(lambda names: _line_width(names) <= console.width, _ENTRY_SHAPES), None)
    count = 0
    for row in rows:
        cells = row | {"store_timestamp": zone.format(row["store_timestamp"])}
        if shown is None:
            label = max(map(len, heads.values())) + 2
            lines = [f"{head:<{label}}{cells[name]}" for name, head in heads.items()]
            console.write(("\n" if count else "") + "\n".join(lines))
        else:
            if not count:
                stored = shortened(
                    heads["store_timestamp"], console.width - _line_width(shown[:-1]) - 2
                )
                console.write(_entry_line(shown, heads | {"store_timestamp": stored}))
                console.write(rule(_line_width(shown)))
            console.write(_entry_line(shown, cells))
        count += 1
    if count:
        console.write(f"\n{counted(count, 'entry', 'entries')}")
        return
    window = zone.window(shortfall.begin, shortfall.end)
    others = f"; {shortfall.at_other_times} at other times" if window else ""
    console.write(f"0 entries{window}{others}")


def _line_width(names: Sequence[str]) -> int:
    return sum(_ENTRY_WIDTHS[name] for name in names) + 2 * (len(names) - 1)


def _entry_line(names: Sequence[str], cells: Row) -> str:
    """Return a line with texts of the first and the last column to the left, the rest right."""
    parts = (
        str(cells[name]).ljust(_ENTRY_WIDTHS[name])
        if name in {names[0], names[-1]}
        else str(cells[name]).rjust(_ENTRY_WIDTHS[name])
        for name in names
    )
    return "  ".join(parts).rstrip()


def hits_answer(
    question: Row,
    hits: Sequence[Row],
    messages: Sequence[Row | None] | None,
    miss: Miss | None,
    uncovered: Sequence[Uncovered],
    lacking: Sequence[str],
    zone: Zone,
) -> Answer:
    """Return the entries of a key, and their messages if they were asked for, or what is missed.

    Its rows are the entries; without any, one of the state ``no_entry``.
    """

    def text(console: Console) -> None:
        _print_hits(console, hits, zone)
        for message in messages or ():
            if message is not None:
                console.write()
                print_message(console, message, zone)

    def rows() -> Iterator[Row]:
        if miss is not None:
            yield {"topic": question["topic"], "key": question["key"], "state": _NO_ENTRY}
        for number, hit in enumerate(hits):
            message = messages[number] if messages else None
            document = {} if message is None else message_document(message)
            yield {"topic": question["topic"], "key": question["key"], **hit, **document}

    def document() -> Row:
        documents = [dict(hit) for hit in hits]
        for hit, message in zip(documents, messages or (), strict=False):
            hit["message"] = None if message is None else message_document(message)
        return {
            **question,
            "hits": documents,
            **(_FOUND if miss is None else miss.document(question, zone)),
            "uncovered": [asdict(part) for part in uncovered],
            "lacking": list(lacking),
        }

    return Answer(
        text=text,
        columns=HIT_COLUMNS if messages is None else HIT_MESSAGE_COLUMNS,
        rows=rows(),
        document=document,
        nothing=None if miss is None else (question["path"], miss.nothing(question, zone)),
        exit_code=0 if miss is None else NOT_FOUND,
    )


def _print_hits(console: Console, hits: Sequence[Row], zone: Zone) -> None:
    table = Table()
    table.add_column("File", may_be_cut=True)
    table.add_column("Position", right=True, spare=2)
    table.add_column("Offset", right=True)
    table.add_column(f"Stored ({zone.name})")
    table.add_column("Epoch ms", right=True, spare=1)
    is_judged = any(hit["state"] != "no_log" for hit in hits)
    if is_judged:
        table.add_column("Message")
    for hit in hits:
        table.add_row(
            hit["name"],
            str(hit["position"]),
            str(hit["phy_offset"]),
            zone.format(hit["store_timestamp"]),
            str(hit["store_timestamp"]),
            *((hit["state"],) if is_judged else ()),
        )
    print_table(console, table)
    files = len({hit["path"] for hit in hits})
    print_text(console, f"\n{counted(len(hits), 'entry', 'entries')} in {counted(files, 'file')}")


def broker_answer(
    question: Row,
    result: QueryOffsetResult,
    miss: Miss | None,
    uncovered: Sequence[Uncovered],
    zone: Zone,
) -> Answer:
    """Return what the broker's own search returns."""
    offsets = result.phy_offsets
    return Answer(
        text=lambda console: _print_broker_result(console, result, zone),
        columns=BROKER_COLUMNS,
        rows=[
            {"topic": question["topic"], "key": question["key"], "phy_offset": offset}
            for offset in offsets or (None,)
        ],
        document=lambda: {
            **question,
            **asdict(result),
            **(_FOUND if miss is None else miss.document(question, zone)),
            "uncovered": [asdict(part) for part in uncovered],
        },
        nothing=None if miss is None else (question["path"], miss.nothing(question, zone)),
        exit_code=0 if miss is None else NOT_FOUND,
    )


def _print_broker_result(console: Console, result: QueryOffsetResult, zone: Zone) -> None:
    table = Table()
    table.add_column("Offset", right=True)
    for phy_offset in result.phy_offsets:
        table.add_row(str(phy_offset))
    print_table(console, table)
    updated = zone.format(result.index_last_update_timestamp)
    print_text(
        console,
        f"\n{counted(len(result.phy_offsets), 'offset')}; the index was last updated {updated} "
        f"{zone.name} at offset {result.index_last_update_phy_offset}",
    )


def explanation_answer(path: str, explained: LookupExplanation, zone: Zone) -> Answer:
    """Return why a key is or is not found."""
    asked = {"topic": explained.topic, "key": explained.key}
    return Answer(
        text=lambda console: _print_explanation(console, explained, zone),
        columns=EXPLANATION_COLUMNS,
        rows=({**asked, **row} for row in _explanation_rows(explained)),
        document=lambda: {"path": path, **asdict(explained)},
        exit_code=0 if explained.hits else NOT_FOUND,
    )


def _explanation_rows(explained: LookupExplanation) -> Iterator[Row]:
    """Yield a row for each file, each of its entries, and each reason."""
    for file in explained.files:
        yield {"kind": "file", "file": file.name, "reason": file.reason, "text": file.detail}
        for hit in file.hits:
            yield {
                "kind": "entry",
                "file": file.name,
                "reason": hit.reason,
                "text": hit.message,
                "position": hit.position,
                "phy_offset": hit.phy_offset,
                "store_timestamp": hit.store_timestamp,
            }
    for reason in explained.reasons:
        yield {
            "kind": "reason",
            "reason": reason.code,
            "text": reason.sentence,
            "remedy": reason.remedy,
            "other_topic": reason.topic,
            "phy_offsets": list(reason.phy_offsets),
        }


def _print_explanation(console: Console, explained: LookupExplanation, zone: Zone) -> None:
    """Print a row for each file and hit, then each reason with its remedy."""
    table = Table()
    for head in ("File", "Reason", "Offset", f"Stored ({zone.name})", "What the file says"):
        table.add_column(head, right=head == "Offset")
    for file in explained.files:
        table.add_row(file.name, _styled(file.reason), "", "", in_flags(file.detail))
        for hit in file.hits[:_SHOWN_HITS]:
            table.add_row(
                "",
                hit.reason,
                str(hit.phy_offset),
                zone.format(hit.store_timestamp),
                hit.message or "",
                style="dim",
            )
        if len(file.hits) > _SHOWN_HITS:
            more = f"and {len(file.hits) - _SHOWN_HITS} more"
            table.add_row("", more, "", "", "", style="dim")
    if explained.files:
        print_table(console, table)
        print_text(console, "")
    print_text(console, "\n".join(explained.lines()))


def _styled(reason: str) -> Styled:
    return Styled(reason, "green" if reason == "hit" else "yellow")
