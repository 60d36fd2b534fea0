"""The interface by which commands write their answers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from rmqindex.times import format_millis

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from datetime import tzinfo
    from pathlib import Path

    from rmqindex.bulk.rebuild import RebuildResult
    from rmqindex.bulk.relayout import RelayoutResult
    from rmqindex.consumequeue.rebuild import QueueRebuildResult
    from rmqindex.output.facts import FileFacts
    from rmqindex.query.explain import LookupExplanation
    from rmqindex.query.index_directory import QueryOffsetResult
    from rmqindex.query.search import Hit
    from rmqindex.transaction.directories import FileEntry

__all__ = ["Output", "Question", "Zone"]


@dataclass(frozen=True, slots=True)
class Question:
    """What a lookup was asked; None where the user set no bound."""

    path: str
    topic: str
    key: str
    begin: int | None
    end: int | None
    max_num: int | None


@dataclass(frozen=True, slots=True)
class Zone:
    """A time zone, under the name that the user gave it."""

    name: str
    info: tzinfo

    def format(self, millis: int) -> str:
        """Return epoch milliseconds as local time."""
        return format_millis(millis, self.info)


class Output(Protocol):
    """Writes answers to standard output, one method for each kind of answer."""

    def files(self, path: str, facts: Sequence[FileFacts]) -> None:
        """Write what the IndexFiles of a path contain."""

    def entries(self, rows: Iterable[dict[str, Any]]) -> None:
        """Write entries one by one: ``file`` and the columns of ``ENTRY_SCHEMA``."""

    def hits(
        self,
        question: Question,
        hits: Sequence[Hit],
        messages: Sequence[dict[str, Any] | None] | None,
    ) -> None:
        """Write the entries that a lookup found, and their messages if they were asked for."""

    def broker_answer(self, question: Question, answer: QueryOffsetResult) -> None:
        """Write what the broker's own search returns."""

    def explanation(self, path: str, explained: LookupExplanation) -> None:
        """Write why a key is or is not found."""

    def messages(self, rows: Sequence[dict[str, Any]]) -> None:
        """Write messages, each with its ``state``."""

    def audit(self, path: str, findings: Sequence[dict[str, Any]], *, has_log: bool) -> None:
        """Write the findings of an audit."""

    def rebuild(self, directory: Path, result: RebuildResult) -> None:
        """Write what a rebuild of an index did."""

    def queue_rebuild(self, directory: Path, result: QueueRebuildResult) -> None:
        """Write what a rebuild of ConsumeQueues did."""

    def expiry(self, path: str, before: int, files: Sequence[FileEntry], *, dry_run: bool) -> None:
        """Write which files were deleted, or would be."""

    def relayout(self, path: str, result: RelayoutResult) -> None:
        """Write what a change of geometry did."""

    def recovery(self, path: Path, *, index: bool, queues: bool) -> None:
        """Write which of the two had an unfinished write that was undone."""
