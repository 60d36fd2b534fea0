"""Answers as CSV: a line of names, then a line for each row."""

from __future__ import annotations

import csv
import json
import sys
from dataclasses import asdict, fields
from typing import TYPE_CHECKING, Any

from rmqindex.audit.rules import FINDING_SCHEMA
from rmqindex.display.facts import FileFacts
from rmqindex.export.items import Field
from rmqindex.export.usage import UsageRow
from rmqindex.indexfile.decoding import ENTRY_SCHEMA
from rmqindex.output.documents import JsonOutput
from rmqindex.output.hits import Hit
from rmqindex.output.messages import COLUMNS, LISTED, message_document

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from rmqindex.audit import MissingPart
    from rmqindex.explanation import LookupExplanation, Uncovered
    from rmqindex.export import Dump, FolderUsage, Item, Usage
    from rmqindex.output.interface import Question, Shortfall
    from rmqindex.query.index_directory import QueryOffsetResult

__all__ = ["CSV_COLUMNS", "CsvOutput"]

_NAMES = "rmqindex.csv.names"
# Python quotes the characters of a line's end, and, before 3.13, no other line break.
_LINE_END = "\r\n"
# A body is in one of two columns.
_MESSAGE = (*COLUMNS, "body_base64", "inner_messages", "message_state")
_HIT = ("topic", "key", *(field.name for field in fields(Hit)))

#: The columns of each command, whatever its answer; several stores have a first one, too.
CSV_COLUMNS: dict[str, tuple[str, ...]] = {
    "info": tuple(field.name for field in fields(FileFacts)),
    "scan": ("file", *ENTRY_SCHEMA.names),
    "lookup": _HIT,
    "lookup --message": tuple(dict.fromkeys((*_HIT, *_MESSAGE))),
    "lookup --broker": ("topic", "key", "phy_offset"),
    "explain": (
        "topic", "key", "kind", "file", "reason", "text", "position", "phy_offset",
        "store_timestamp", "remedy", "other_topic", "phy_offsets",
    ),
    "cat": _MESSAGE,
    "messages": LISTED,
    "messages --body": _MESSAGE,
    "usage": tuple(field.name for field in fields(UsageRow)),
    "dump": ("item", *(field.name for field in fields(Field))),
    "verify": (*FINDING_SCHEMA.names,),
}  # fmt: skip


class CsvOutput(JsonOutput):
    """Writes answers that are rows as CSV, with the names that JSON has; no other has the option.

    Lists and objects are JSON texts, what is unknown is empty.
    """

    def __init__(self, named: Mapping[str, str], memory: dict[str, Any]) -> None:
        """Put a name into each line, such as the ``store`` where there are several.

        Args:
            named: The first columns of each line.
            memory: What the outputs of several stores share: the names of the columns.
        """
        super().__init__(named, memory)

    def files(self, path: str, facts: Sequence[FileFacts]) -> None:
        """Write a line for each file."""
        self._write_rows([asdict(file) for file in facts], "info")

    def entries(self, rows: Iterable[dict[str, Any]], shortfall: Shortfall) -> None:
        """Write a line for each entry."""
        self._write_rows(rows, "scan")

    def hits(
        self,
        question: Question,
        hits: Sequence[Hit],
        messages: Sequence[dict[str, Any] | None] | None,
        at_other_times: int | None,
        uncovered: Sequence[Uncovered],
        lacking: Sequence[str],
    ) -> None:
        """Write a line for each hit, with its message's columns if they were asked for."""
        asked = {"topic": question.topic, "key": question.key}
        rows = [{**asked, **asdict(hit)} for hit in hits]
        for row, message in zip(rows, messages or (), strict=False):
            if message is not None:
                row.update(message_document(message))
        self._write_rows(rows, "lookup" if messages is None else "lookup --message")

    def broker_answer(
        self,
        question: Question,
        answer: QueryOffsetResult,
        at_other_times: int | None,
        uncovered: Sequence[Uncovered],
    ) -> None:
        """Write a line for each offset."""
        rows = [
            {"topic": question.topic, "key": question.key, "phy_offset": offset}
            for offset in answer.phy_offsets
        ]
        self._write_rows(rows, "lookup --broker")

    def explanation(self, path: str, explained: LookupExplanation) -> None:
        """Write a line for each file, each of its entries, and each reason."""
        rows: list[dict[str, Any]] = []
        for file in explained.files:
            head = {"kind": "file", "file": file.name}
            rows.append({**head, "reason": file.reason, "text": file.detail})
            rows += [
                {
                    **head,
                    "kind": "entry",
                    "reason": hit.reason,
                    "text": hit.message,
                    "position": hit.position,
                    "phy_offset": hit.phy_offset,
                    "store_timestamp": hit.store_timestamp,
                }
                for hit in file.hits
            ]
        rows += [
            {
                "kind": "reason",
                "reason": reason.code,
                "text": reason.sentence,
                "remedy": reason.remedy,
                "other_topic": reason.topic,
                "phy_offsets": list(reason.phy_offsets),
            }
            for reason in explained.reasons
        ]
        asked = {"topic": explained.topic, "key": explained.key}
        self._write_rows([{**asked, **row} for row in rows], "explain")

    def messages(self, rows: Sequence[dict[str, Any]]) -> None:
        """Write a line for each message."""
        self._write_rows([message_document(row) for row in rows], "cat")

    def audit(
        self,
        path: str,
        findings: Sequence[dict[str, Any]],
        *,
        has_log: bool,
        since: int | None = None,
    ) -> None:
        """Write a line for each finding."""
        self._write_rows(findings, "verify")

    def message_list(
        self,
        path: str,
        rows: Sequence[dict[str, Any]],
        missing: Sequence[MissingPart],
        *,
        whole: bool,
    ) -> None:
        """Write a line for each message."""
        if whole:
            self.messages(rows)
        else:
            self._write_rows(rows, "messages")

    def usage(
        self,
        path: str,
        by: Sequence[str],
        usage: Usage,
        folders: Sequence[FolderUsage],
        missing: Sequence[MissingPart],
        limit: int | None,
    ) -> None:
        """Write a line for each group."""
        self._write_rows([asdict(row) for row in usage.rows[:limit]], "usage")

    def dump(self, dump: Dump, items: Iterable[Item]) -> None:
        """Write a line for each field."""
        rows = ({"item": item.name, **asdict(field)} for item in items for field in item.fields)
        self._write_rows(rows, "dump")

    def _write_rows(self, rows: Iterable[dict[str, Any]], command: str) -> None:
        """Write rows under the names of a command, which are written once, also without rows."""
        names = [*self._named, *CSV_COLUMNS[command]]
        writer = csv.DictWriter(_Lines(), names, restval="", lineterminator=_LINE_END)
        if self._memory.get(_NAMES) != names:
            self._memory[_NAMES] = names
            writer.writeheader()
        for row in rows:
            named = {**self._named, **row}
            writer.writerow({name: _cell(value) for name, value in named.items()})


class _Lines:
    """Standard output, to which each row is written with a line feed."""

    def write(self, row: str) -> int:
        """Write a row that has its end."""
        return sys.stdout.write(f"{row.removesuffix(_LINE_END)}\n")


def _cell(value: object) -> object:
    return json.dumps(value, ensure_ascii=False) if isinstance(value, (dict, list)) else value
