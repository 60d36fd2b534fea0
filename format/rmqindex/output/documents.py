"""Answers for machines: one JSON document, or one JSON object a line."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from rmqindex.display.facts import total
from rmqindex.display.text import write_line
from rmqindex.output.messages import message_document

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from pathlib import Path

    from rmqindex.audit import MissingPart
    from rmqindex.bulk.rebuild import RebuildResult
    from rmqindex.bulk.relayout import RelayoutResult
    from rmqindex.consumequeue.rebuild import QueueRebuildResult
    from rmqindex.display.facts import FileFacts
    from rmqindex.explanation import LookupExplanation, Uncovered
    from rmqindex.export import Dump, ExportResult, FolderUsage, Item, Usage
    from rmqindex.output.hits import Hit
    from rmqindex.output.interface import Question, Shortfall
    from rmqindex.query.index_directory import QueryOffsetResult
    from rmqindex.transaction.directories import FileEntry
    from rmqindex.transaction.jobs import Recovery

__all__ = ["JsonOutput", "write_documents"]

_ANSWERS = "rmqindex.json.answers"
_SEVERAL = "rmqindex.json.several"
_SEVERITIES = ("error", "warning", "info")


def write_documents(memory: dict[str, Any]) -> None:
    """Write the answers of a command as one document: several, or of several stores, as a list.

    Args:
        memory: What the outputs of the command shared.
    """
    answers = memory.pop(_ANSWERS, [])
    is_list = memory.pop(_SEVERAL, False) or len(answers) > 1
    if answers:
        write_line(json.dumps({"answers": answers} if is_list else answers[0], indent=2))


class JsonOutput:
    """Writes answers as JSON; implements :class:`~rmqindex.output.interface.Output`."""

    def __init__(self, named: Mapping[str, str], memory: dict[str, Any]) -> None:
        """Put a name into each answer, such as the ``store`` where there are several.

        Args:
            named: The first fields of each answer.
            memory: What the outputs of several stores share: the answers, for
                :func:`write_documents`.
        """
        self._named: dict[str, Any] = dict(named)
        self._memory = memory

    def _write(self, document: dict[str, object]) -> None:
        self._memory.setdefault(_ANSWERS, []).append({**self._named, **document})
        if self._named:
            self._memory[_SEVERAL] = True

    def heading(self, text: str, *, is_first: bool) -> None:
        """Write nothing: each document says what it is about."""

    def files(self, path: str, facts: Sequence[FileFacts]) -> None:
        """Write the facts of each file and their totals."""
        files = [asdict(file) for file in facts]
        self._write({"path": path, "files": files, "totals": asdict(total(facts))})

    def entries(self, rows: Iterable[dict[str, Any]], shortfall: Shortfall) -> None:
        """Write one object a line."""
        for row in rows:
            write_line(json.dumps({**self._named, **row}))

    def hits(
        self,
        question: Question,
        hits: Sequence[Hit],
        messages: Sequence[dict[str, Any] | None] | None,
        at_other_times: int | None,
        uncovered: Sequence[Uncovered],
        lacking: Sequence[str],
    ) -> None:
        """Write the question and its hits, with ``message`` if messages were asked for."""
        documents = [asdict(hit) for hit in hits]
        for document, message in zip(documents, messages or (), strict=False):
            document["message"] = None if message is None else message_document(message)
        self._write(
            {
                **asdict(question),
                "hits": documents,
                "at_other_times": at_other_times,
                "uncovered": [asdict(part) for part in uncovered],
                "lacking": list(lacking),
            }
        )

    def broker_answer(
        self,
        question: Question,
        answer: QueryOffsetResult,
        at_other_times: int | None,
        uncovered: Sequence[Uncovered],
    ) -> None:
        """Write the question and the broker's answer."""
        self._write(
            {
                **asdict(question),
                **asdict(answer),
                "at_other_times": at_other_times,
                "uncovered": [asdict(part) for part in uncovered],
            }
        )

    def explanation(self, path: str, explained: LookupExplanation) -> None:
        """Write every field of an explanation."""
        self._write({"path": path, **asdict(explained)})

    def messages(self, rows: Sequence[dict[str, Any]]) -> None:
        """Write one message, or several as a list."""
        documents = [message_document(row) for row in rows]
        self._write(documents[0] if len(documents) == 1 else {"messages": documents})

    def message_list(
        self,
        path: str,
        rows: Sequence[dict[str, Any]],
        missing: Sequence[MissingPart],
        *,
        whole: bool,
    ) -> None:
        """Write a list of messages."""
        documents = [message_document(row) for row in rows] if whole else list(rows)
        self._write({"path": path, "messages": documents, **_lacking(missing)})

    def export(self, result: ExportResult, missing: Sequence[MissingPart]) -> None:
        """Write the names of the files and the sums."""
        self._write({**asdict(result), "directory": str(result.directory), **_lacking(missing)})

    def usage(
        self,
        path: str,
        by: Sequence[str],
        usage: Usage,
        folders: Sequence[FolderUsage],
        missing: Sequence[MissingPart],
        limit: int | None,
    ) -> None:
        """Write the groups, the sums and the folders."""
        document = asdict(usage)
        document["rows"] = document["rows"][:limit]
        self._write(
            {
                "path": path,
                "by": by,
                **document,
                "folders": [asdict(each) for each in folders],
                **_lacking(missing),
            }
        )

    def dump(self, dump: Dump, items: Iterable[Item]) -> None:
        """Write the items and, where damage ended them, the error."""
        found = [asdict(item) for item in items]
        self._write(
            {
                "path": dump.path,
                "kind": dump.kind,
                "size": dump.size,
                "items": found,
                "error": dump.error,
            }
        )

    def audit(
        self,
        path: str,
        findings: Sequence[dict[str, Any]],
        *,
        has_log: bool,
        since: int | None = None,
    ) -> None:
        """Write the findings and how many of each severity there are."""
        counts = Counter(finding["severity"] for finding in findings)
        totals = {severity: counts[severity] for severity in _SEVERITIES}
        head = {"path": path, "commit_log": has_log, "since": since, "counts": totals}
        self._write({**head, "findings": findings})

    def rebuild(
        self, directory: Path, result: RebuildResult, missing: Sequence[MissingPart]
    ) -> None:
        """Write the names of the files, the counts and the offsets."""
        self._write(
            {
                "directory": str(directory),
                "files": [path.name for path in result.files],
                "entry_count": result.entry_count,
                "message_count": result.message_count,
                "start": result.start,
                "stop": result.stop,
                "index_msg_timestamp": result.index_msg_timestamp,
                "hash_slot_num": result.layout.hash_slot_num,
                "index_num": result.layout.index_num,
                "layout_basis": result.layout_basis,
                "tags_from": None if result.tags is None else result.tags.start,
                "tags_changes": [] if result.tags is None else list(result.tags.changes),
                "tags_basis": None if result.tags is None else result.tags.basis,
                "kept_count": result.kept_count,
                "replaced_count": result.replaced_count,
                "unreadable": [path.name for path in result.unreadable],
                "unagreed": None if result.unagreed is None else asdict(result.unagreed),
                "dry_run": result.dry_run,
                "replacement": None if result.replacement is None else asdict(result.replacement),
                **_lacking(missing),
            }
        )

    def queue_rebuild(
        self, directory: Path, result: QueueRebuildResult, missing: Sequence[MissingPart]
    ) -> None:
        """Write the counts and the gaps."""
        self._write(
            {
                "directory": str(directory),
                "queue_count": result.queue_count,
                "unit_count": result.unit_count,
                "file_count": result.file_count,
                "gaps": [
                    {"topic": topic, "queue_id": queue_id, "start": start, "stop": stop}
                    for topic, queue_id, start, stop in result.gaps
                ],
                "file_size": result.file_size,
                "batch_file_size": result.batch_file_size,
                "is_default_size": result.is_default_size,
                "kept": [{"topic": topic, "queue_id": queue_id} for topic, queue_id in result.kept],
                "unagreed": None if result.unagreed is None else asdict(result.unagreed),
                "superseded": [
                    {"topic": topic, "queue_id": queue_id, "units": units}
                    for topic, queue_id, units in result.superseded
                ],
                "doubtful": [
                    {"topic": topic, "queue_id": queue_id, "units": units}
                    for topic, queue_id, units in result.doubtful
                ],
                "dropped": [each._asdict() for each in result.dropped],
                "lost": [each._asdict() for each in result.lost],
                "replaced_count": result.replaced_count,
                "kept_count": result.kept_count,
                "deleted_topics": list(result.deleted_topics),
                "left_out": list(result.left_out),
                "dry_run": result.dry_run,
                **_lacking(missing),
            }
        )

    def expiry(self, path: str, before: int, files: Sequence[FileEntry], *, dry_run: bool) -> None:
        """Write the names and the size of the files."""
        self._write(
            {
                "path": path,
                "before": before,
                "dry_run": dry_run,
                "files": [file.name for file in files],
                "size": sum(file.size for file in files),
            }
        )

    def relayout(self, path: str, result: RelayoutResult) -> None:
        """Write the names of the new and the old files, and the counts."""
        self._write(
            {
                "path": path,
                "files": [file.name for file in result.files],
                "replaced": list(result.replaced),
                "entry_count": result.entry_count,
                "exact_times": result.exact_times,
                "index_msg_timestamp": result.index_msg_timestamp,
                "dry_run": result.dry_run,
                "replacement": asdict(result.replacement),
            }
        )

    def recovery(self, path: Path, recovered: Mapping[str, Recovery | None]) -> None:
        """Write what was done for each; null for nothing."""
        self._write({"path": str(path), **recovered})


def _lacking(missing: Sequence[MissingPart]) -> dict[str, object]:
    """Return what a CommitLog lacks, as a part of a document."""
    return {"missing": [asdict(part) for part in missing]}
