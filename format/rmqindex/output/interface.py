"""The interface by which commands write their answers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from rmqindex.times import format_millis

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from datetime import tzinfo
    from pathlib import Path

    from rmqindex.audit import MissingPart
    from rmqindex.bulk.rebuild import RebuildResult
    from rmqindex.bulk.relayout import RelayoutResult
    from rmqindex.consumequeue.rebuild import QueueRebuildResult
    from rmqindex.display.facts import FileFacts
    from rmqindex.explanation import LookupExplanation, Uncovered
    from rmqindex.export import Dump, ExportResult, FolderUsage, Item, Usage
    from rmqindex.output.hits import Hit
    from rmqindex.query.index_directory import QueryOffsetResult
    from rmqindex.transaction.directories import FileEntry
    from rmqindex.transaction.jobs import Recovery

__all__ = ["Output", "Question", "Shortfall", "Zone"]


@dataclass(frozen=True, slots=True)
class Question:
    """What a lookup was asked; None where the user set no bound."""

    path: str
    topic: str
    key: str
    begin: int | None
    end: int | None
    max_num: int | None


@dataclass(slots=True)
class Shortfall:
    """The range of store times of a scan, and how many entries were left out for it alone."""

    begin: int | None
    end: int | None
    at_other_times: int = 0


@dataclass(frozen=True, slots=True)
class Zone:
    """A time zone, under the name that the user gave it."""

    name: str
    info: tzinfo

    def format(self, millis: int) -> str:
        """Return epoch milliseconds as local time."""
        return format_millis(millis, self.info)

    def window(self, begin: int | None, end: int | None) -> str:
        """Return what to say of a range of store times: nothing of one without bounds."""
        low, high = (self._bound(bound) for bound in (begin, end))
        if begin is None and end is None:
            return ""
        if end is None:
            return f" stored at {low} or later ({self.name})"
        if begin is None:
            return f" stored at {high} or earlier ({self.name})"
        return f" stored from {low} to {high} ({self.name})"

    def _bound(self, millis: int | None) -> str:
        text = "-" if millis is None else self.format(millis)
        return f"{millis} ms" if text == "-" else text


class Output(Protocol):
    """Writes answers to standard output, one method for each kind of answer."""

    def heading(self, text: str, *, is_first: bool) -> None:
        """Write what the next of several answers is about."""

    def files(self, path: str, facts: Sequence[FileFacts]) -> None:
        """Write what the IndexFiles of a path contain."""

    def entries(self, rows: Iterable[dict[str, Any]], shortfall: Shortfall) -> None:
        """Write entries one by one: ``file`` and the columns of ``ENTRY_SCHEMA``."""

    def hits(
        self,
        question: Question,
        hits: Sequence[Hit],
        messages: Sequence[dict[str, Any] | None] | None,
        at_other_times: int | None,
        uncovered: Sequence[Uncovered],
        lacking: Sequence[str],
    ) -> None:
        """Write the entries that a lookup found, and their messages if they were asked for.

        Where it found none in a range of times, ``at_other_times`` says how many lie outside.
        ``uncovered`` is what the index lacks, and ``lacking`` what was left out of damaged files;
        an answer for people says both on standard error.
        """

    def broker_answer(
        self,
        question: Question,
        answer: QueryOffsetResult,
        at_other_times: int | None,
        uncovered: Sequence[Uncovered],
    ) -> None:
        """Write what the broker's own search returns; ``at_other_times`` as for :meth:`hits`."""

    def explanation(self, path: str, explained: LookupExplanation) -> None:
        """Write why a key is or is not found."""

    def messages(self, rows: Sequence[dict[str, Any]]) -> None:
        """Write messages, each with its ``state``."""

    def message_list(
        self,
        path: str,
        rows: Sequence[dict[str, Any]],
        missing: Sequence[MissingPart],
        *,
        whole: bool,
    ) -> None:
        """Write messages, the newest first; ``whole`` if they have properties and bodies.

        Here and below, ``missing`` is what the CommitLog lacks, which an answer for people says on
        standard error.
        """

    def export(self, result: ExportResult, missing: Sequence[MissingPart]) -> None:
        """Write what an export wrote."""

    def usage(
        self,
        path: str,
        by: Sequence[str],
        usage: Usage,
        folders: Sequence[FolderUsage],
        missing: Sequence[MissingPart],
        limit: int | None,
    ) -> None:
        """Write the messages and bytes of each group, and what the folders of the store take."""

    def dump(self, dump: Dump, items: Iterable[Item]) -> None:
        """Write what a file is, and the fields of some of its items."""

    def audit(
        self,
        path: str,
        findings: Sequence[dict[str, Any]],
        *,
        has_log: bool,
        since: int | None = None,
    ) -> None:
        """Write the findings of an audit, since epoch milliseconds if not of all times."""

    def rebuild(
        self, directory: Path, result: RebuildResult, missing: Sequence[MissingPart]
    ) -> None:
        """Write what a rebuild of an index did."""

    def queue_rebuild(
        self, directory: Path, result: QueueRebuildResult, missing: Sequence[MissingPart]
    ) -> None:
        """Write what a rebuild of ConsumeQueues did."""

    def expiry(self, path: str, before: int, files: Sequence[FileEntry], *, dry_run: bool) -> None:
        """Write which files were deleted, or would be."""

    def relayout(self, path: str, result: RelayoutResult) -> None:
        """Write what a change of geometry did."""

    def recovery(self, path: Path, recovered: Mapping[str, Recovery | None]) -> None:
        """Write what was done about an unfinished write of each."""
