"""Answers for people: tables and sentences."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rmqindex.display.sizes import size_text
from rmqindex.display.terminal import make_console, print_text
from rmqindex.display.text import counted, visible, write_line
from rmqindex.keys.hashing import index_key
from rmqindex.output.explanation import print_explanation
from rmqindex.output.lists import (
    print_folders,
    print_items,
    print_message_list,
    print_usage,
)
from rmqindex.output.messages import print_message
from rmqindex.output.notes import queue_notes, rebuild_notes
from rmqindex.output.tables import (
    print_broker_answer,
    print_entries,
    print_facts,
    print_hits,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from pathlib import Path

    from rmqindex.audit import MissingPart
    from rmqindex.bulk.rebuild import RebuildResult
    from rmqindex.bulk.relayout import RelayoutResult
    from rmqindex.bulk.replacement import Replacement
    from rmqindex.consumequeue.rebuild import QueueRebuildResult
    from rmqindex.display.facts import FileFacts
    from rmqindex.explanation import LookupExplanation, Uncovered
    from rmqindex.export import Dump, ExportResult, FolderUsage, Item, Usage
    from rmqindex.output.hits import Hit
    from rmqindex.output.interface import Question, Shortfall, Zone
    from rmqindex.query.index_directory import QueryOffsetResult
    from rmqindex.transaction.directories import FileEntry
    from rmqindex.transaction.jobs import Recovery

__all__ = ["ConsoleOutput"]

_RECOVERED = {
    "undone": "Undid an unfinished write of",
    "finished": "Finished an unfinished write of",
    "removed": "Removed what was left of an unfinished write of",
}


class ConsoleOutput:
    """Writes answers as tables; implements :class:`~rmqindex.output.interface.Output`."""

    def __init__(self, zone: Zone, complain_of_none: Callable[[str, str], None]) -> None:
        """Show times in a zone.

        Args:
            zone: The zone.
            complain_of_none: Called with a path and what to say where it has no answer.
        """
        self._zone = zone
        self._complain_of_none = complain_of_none

    def heading(self, text: str, *, is_first: bool) -> None:
        """Write a line, with an empty one before the second and below."""
        print_text(make_console(), f"{'' if is_first else chr(10)}{text}\n")

    def files(self, path: str, facts: Sequence[FileFacts]) -> None:
        """Write a table of the files and their totals."""
        if facts:
            print_facts(make_console(), facts, self._zone)
        else:
            write_line(f"{path}: no IndexFiles")

    def entries(self, rows: Iterable[dict[str, Any]], shortfall: Shortfall) -> None:
        """Write a row for each entry as it comes."""
        print_entries(rows, self._zone, shortfall)

    def hits(
        self,
        question: Question,
        hits: Sequence[Hit],
        messages: Sequence[dict[str, Any] | None] | None,
        at_other_times: int | None,
        uncovered: Sequence[Uncovered],
        lacking: Sequence[str],
    ) -> None:
        """Write a table of the hits, then the messages that the log still has."""
        if not hits:
            self._complain_of_no_entry(question, at_other_times)
            return
        console = make_console()
        print_hits(console, hits, self._zone)
        for message in messages or ():
            if message is not None:
                write_line()
                print_message(console, message, self._zone)

    def broker_answer(
        self,
        question: Question,
        answer: QueryOffsetResult,
        at_other_times: int | None,
        uncovered: Sequence[Uncovered],
    ) -> None:
        """Write the offsets and when the index was last updated."""
        if answer.phy_offsets:
            print_broker_answer(make_console(), answer, self._zone)
        else:
            self._complain_of_no_entry(question, at_other_times)

    def explanation(self, path: str, explained: LookupExplanation) -> None:
        """Write a row for each file and hit, then the reasons and what to do."""
        print_explanation(make_console(), explained, self._zone)

    def messages(self, rows: Sequence[dict[str, Any]]) -> None:
        """Write the fields, the properties and the body of each message."""
        console = make_console()
        for number, row in enumerate(rows):
            if number:
                write_line()
            print_message(console, row, self._zone)

    def message_list(
        self,
        path: str,
        rows: Sequence[dict[str, Any]],
        missing: Sequence[MissingPart],
        *,
        whole: bool,
    ) -> None:
        """Write a table, or the whole messages one below the other."""
        if not rows:
            self._complain_of_none(path, "no message matches")
        elif whole:
            self.messages(rows)
        else:
            print_message_list(make_console(), rows, self._zone)

    def export(self, result: ExportResult, missing: Sequence[MissingPart]) -> None:
        """Write how much was written, and where it is."""
        if result.unagreed is not None:
            self._say(f"Left out {result.unagreed}")
        if not result.files and result.is_resumed:
            write_line(f"{result.directory}: complete, nothing new to export")
            return
        more = " more" if result.is_resumed else ""
        self._say(
            f"Exported {counted(result.row_count, f'{more} row'.strip())} to "
            f"{counted(len(result.files), f'{more} file'.strip())} in {result.directory}, "
            f"{size_text(result.size)}"
        )

    def usage(
        self,
        path: str,
        by: Sequence[str],
        usage: Usage,
        folders: Sequence[FolderUsage],
        missing: Sequence[MissingPart],
        limit: int | None,
    ) -> None:
        """Write a table of the groups and one of the folders."""
        console = make_console()
        print_usage(console, usage, limit, self._zone)
        if folders:
            print_folders(console, folders)

    def dump(self, dump: Dump, items: Iterable[Item]) -> None:
        """Write a line for each field."""
        write_line(f"{dump.path}\n{dump.kind}, {counted(dump.size, 'byte')}")
        write_line()
        print_items(make_console(), items)

    def audit(
        self,
        path: str,
        findings: Sequence[dict[str, Any]],
        *,
        has_log: bool,
        since: int | None = None,
    ) -> None:
        """Write one table for each file, what the rules mean, and what to do."""
        from rmqindex.output.findings import print_findings  # noqa: PLC0415  (needs the audit)

        zone = self._zone
        shown = None if since is None else f"{zone.format(since)} {zone.name}"
        print_findings(make_console(), findings, has_log=has_log, since=shown)

    def rebuild(
        self, directory: Path, result: RebuildResult, missing: Sequence[MissingPart]
    ) -> None:
        """Write how much was indexed, and what was taken where nobody chose."""
        replaced = result.replaced_count
        in_place = f", in place of {counted(replaced, 'entry', 'entries')}" if replaced else ""
        if result.dry_run:
            self._say_dry_run(result.replacement)
        verb = "Would index" if result.dry_run else "Indexed"
        self._say(
            f"{verb} {counted(result.message_count, 'message')} from {result.start} to "
            f"{result.stop}: {counted(result.entry_count, 'entry', 'entries')} in "
            f"{counted(len(result.files), 'file')} of {directory}{in_place}"
        )
        for line in rebuild_notes(result):
            self._say(line)
        self._checkpoint(result.index_msg_timestamp)

    def queue_rebuild(
        self, directory: Path, result: QueueRebuildResult, missing: Sequence[MissingPart]
    ) -> None:
        """Write how much was written, and a line for each gap."""
        replaced = counted(result.replaced_count, "unit")
        self._say(
            f"{'Would write' if result.dry_run else 'Wrote'} {counted(result.unit_count, 'unit')} "
            f"into {counted(result.queue_count, 'queue')} of {directory}, "
            f"{counted(result.file_count, 'file')}"
            + (f", in place of {replaced}" if result.replaced_count else "")
        )
        for topic, queue_id, start, stop in result.gaps:
            self._say(
                f"{visible(topic)}, queue {queue_id}: no messages of queue offsets {start} to "
                f"{stop - 1}"
            )
        for line in queue_notes(result):
            self._say(line)

    def expiry(self, path: str, before: int, files: Sequence[FileEntry], *, dry_run: bool) -> None:
        """Write the name of each file and the sum of their sizes."""
        for file in files:
            write_line(file.name)
        verb = "would go" if dry_run else "gone"
        size = sum(file.size for file in files)
        self._say(
            f"{counted(len(files), 'file')} {verb}, {size_text(size)}; offsets before {before}"
        )

    def relayout(self, path: str, result: RelayoutResult) -> None:
        """Write how many entries and files there are now."""
        if result.dry_run:
            self._say_dry_run(result.replacement)
        verb = "Would write" if result.dry_run else "Wrote"
        self._say(
            f"{verb} {counted(result.entry_count, 'entry', 'entries')} into "
            f"{counted(len(result.files), 'file')} in place of {len(result.replaced)}; "
            f"{result.exact_times} with their exact times"
        )
        self._checkpoint(result.index_msg_timestamp)

    def recovery(self, path: Path, recovered: Mapping[str, Recovery | None]) -> None:
        """Write what was done."""
        for done, words in _RECOVERED.items():
            names = [name for name, each in recovered.items() if each == done]
            if names:
                write_line(f"{words}: {', '.join(names)}")
        if not any(recovered.values()):
            write_line("Nothing to undo")

    def _say_dry_run(self, replacement: Replacement | None) -> None:
        """Write which files would go and come, with their entries."""
        if replacement is None:
            return
        for verb, files in (("go", replacement.removed), ("come", replacement.added)):
            for file in files:
                count = counted(file.entry_count, "entry", "entries")
                write_line(f"{file.name} would {verb}: {count}, {size_text(file.size)}")
        for line in replacement.warnings():
            self._say(line)

    def _complain_of_no_entry(self, question: Question, at_other_times: int | None) -> None:
        window = self._zone.window(question.begin, question.end)
        others = "" if at_other_times is None else f"; {at_other_times} at other times"
        key = index_key(question.topic, question.key)
        self._complain_of_none(question.path, f"no entry of {key}{window}{others}")

    def _say(self, sentence: str) -> None:
        print_text(make_console(), sentence)

    def _checkpoint(self, index_msg_timestamp: int | None) -> None:
        if index_msg_timestamp is not None:
            self._say(
                f"The checkpoint covers files that end by {self._zone.format(index_msg_timestamp)} "
                f"{self._zone.name}: a broker that starts after a crash keeps them"
            )
