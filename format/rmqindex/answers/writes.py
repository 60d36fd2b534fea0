"""What a write changed, as answers: exports, rebuilds, expiry, relayout, recovery."""

from __future__ import annotations

from dataclasses import asdict
from datetime import UTC
from itertools import cycle
from typing import TYPE_CHECKING

from rmqindex.answers.answer import Answer, Zone
from rmqindex.answers.terminal import print_text
from rmqindex.answers.text import in_flags, one_line, size_text, visible
from rmqindex.errors import counted
from rmqindex.transaction.broker_lock import BrokerLock, BrokerState

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence
    from pathlib import Path

    from rmqindex.answers.answer import Row
    from rmqindex.answers.terminal import Console
    from rmqindex.bulk.losses import Replacement
    from rmqindex.bulk.rebuild import RebuildResult
    from rmqindex.bulk.relayout import RelayoutResult
    from rmqindex.bulk.tags import TagChoice
    from rmqindex.commitlog import MissingPart
    from rmqindex.consumequeue.rebuild import QueueRebuildResult
    from rmqindex.export import ExportResult
    from rmqindex.storage.location import PathLike
    from rmqindex.transaction.directories import FileEntry
    from rmqindex.transaction.jobs import Recovery

_RECOVERED = {
    "undone": "Undid an unfinished write of",
    "finished": "Finished an unfinished write of",
    "removed": "Removed what was left of an unfinished write of",
}
_REFUSED = "Without --dry-run this is refused, unless --allow-loss is given"
# Of commands whose --time-zone is the broker's.
_UTC = Zone("UTC", UTC)


def broker_notes(directory: PathLike) -> list[str]:
    """Return the note of a dry run in a folder of a store on which a broker may run."""
    state = BrokerLock.around(directory).state
    if not state.may_run:
        return []
    runs = "runs" if state is BrokerState.RUNNING else "may run"
    note = (
        f"{directory}: a broker {runs} on the store, so these numbers may change; without "
        "--dry-run this is refused until it has stopped, unless --allow-live-store is given"
    )
    return [note]


def written_answer(line: str) -> Answer:
    """Return one line, of a command that has no other form."""
    return Answer(text=lambda console: console.write(line))


def export_answer(result: ExportResult, missing: Sequence[MissingPart]) -> Answer:
    """Return what an export wrote."""
    return Answer(
        text=lambda console: _print_export(console, result),
        document=lambda: {
            **asdict(result),
            "directory": str(result.directory),
            "left_out": [{"start": start, "stop": stop} for start, stop in result.left_out],
            "missing": [asdict(part) for part in missing],
        },
    )


def _print_export(console: Console, result: ExportResult) -> None:
    if result.unagreed is not None:
        print_text(console, f"Left out {result.unagreed}")
    if not result.files and result.is_resumed:
        state = "lacks messages" if result.left_out else "complete"
        console.write(f"{result.directory}: {state}, nothing new to export")
        return
    more = " more" if result.is_resumed else ""
    print_text(
        console,
        f"Exported {counted(result.row_count, f'{more} row'.strip())} to "
        f"{counted(len(result.files), f'{more} file'.strip())} in {result.directory}, "
        f"{size_text(result.size)}",
    )


def rebuild_answer(directory: Path, result: RebuildResult, notes: Sequence[str]) -> Answer:
    """Return what a rebuild of an index did."""
    tags = result.tags
    return Answer(
        text=lambda console: _print_rebuild(console, directory, result),
        document=lambda: {
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
            "tags_from": None if tags is None else tags.start,
            "tags_changes": [] if tags is None else list(tags.changes),
            "tags_basis": None if tags is None else tags.basis,
            "kept_count": result.kept_count,
            "replaced_count": result.replaced_count,
            "unreadable": [path.name for path in result.unreadable],
            "damaged_count": result.damaged_count,
            "unagreed": None if result.unagreed is None else asdict(result.unagreed),
            "dry_run": result.dry_run,
            "refusal": _refusal(result),
            "replacement": None if result.replacement is None else asdict(result.replacement),
            "missing": [asdict(part) for part in result.missing],
        },
        notes=notes,
    )


def _print_rebuild(console: Console, directory: Path, result: RebuildResult) -> None:
    replaced = result.replaced_count
    in_place = f", in place of {counted(replaced, 'entry', 'entries')}" if replaced else ""
    if result.dry_run:
        _print_replacement(console, result.replacement)
    verb = "Would index" if result.dry_run else "Indexed"
    print_text(
        console,
        f"{verb} {counted(result.message_count, 'message')} from {result.start} to "
        f"{result.stop}: {counted(result.entry_count, 'entry', 'entries')} in "
        f"{counted(len(result.files), 'file')} of {directory}{in_place}",
    )
    for line in rebuild_notes(result):
        print_text(console, line)
    _print_checkpoint(console, result.index_msg_timestamp)


def rebuild_notes(result: RebuildResult) -> Iterator[str]:
    """Yield a line for each choice that the rebuild made by itself."""
    if result.kept_count:
        kept = counted(result.kept_count, "entry", "entries")
        yield f"Kept {kept} of messages before {result.start}, where the log begins"
    yield from _loss_notes(result)
    if result.unagreed is not None:
        yield f"Left out {result.unagreed}"
    if result.replacement is not None:
        yield from result.replacement.notes()
    if result.tags is not None and result.tags.basis != "argument":
        yield _tag_note(result.tags)
    if result.layout_basis == "default":
        layout = result.layout
        yield (
            f"With the default geometry, {layout.hash_slot_num:,} slots and {layout.index_num:,} "
            "entry places a file; a broker with other settings needs --max-hash-slot-num and "
            "--max-index-num"
        )


def _loss_notes(result: RebuildResult) -> Iterator[str]:
    """Yield a line for each loss, of a dry run and of the run that it stands for alike."""
    if result.damaged_count:
        damaged = counted(result.damaged_count, "damaged entry", "damaged entries")
        yield (
            f"Left out {damaged} that may be of messages before {result.start}, where the log "
            "begins"
        )
    compared = result.replacement
    for path in result.unreadable:
        if compared is None or path.name not in compared.unreadable:
            yield (
                f"{path.name} could not be read: its entries of messages before {result.start}, "
                "where the log begins, are gone"
            )
    if compared is not None:
        yield from compared.warnings(is_done=not result.dry_run)
    if result.refusal is not None:
        yield _REFUSED


def _tag_note(tags: TagChoice) -> str:
    if tags.basis == "default":
        return (
            "Tags are not indexed, since nothing shows that the broker does; one from 5.4.0 on "
            "does: --index-tags"
        )
    if tags.basis == "store":
        return (
            "Tags are indexed, since the store has the folder rocksdbstore, which brokers make "
            "from 5.4.0 on; an older broker needs --no-index-tags"
        )
    if tags.start is None:
        return "Tags are not indexed, as the existing files show; --index-tags indexes them"
    since = f" from offset {tags.start} on" if tags.start else ""
    turns = [
        f"{verb} at {at}" for at, verb in zip(tags.changes, cycle(("not", "again")), strict=False)
    ]
    since += "".join(f", {turn}" for turn in turns)
    return f"Tags are indexed{since}, as the existing files show; --no-index-tags leaves them out"


def queue_rebuild_answer(
    directory: Path, result: QueueRebuildResult, notes: Sequence[str]
) -> Answer:
    """Return what a rebuild of ConsumeQueues did."""
    return Answer(
        text=lambda console: _print_queue_rebuild(console, directory, result),
        document=lambda: {
            "directory": str(directory),
            "queue_count": result.queue_count,
            "unit_count": result.unit_count,
            "file_count": result.file_count,
            "gaps": _named(result.gaps, "start", "stop"),
            "file_size": result.file_size,
            "batch_file_size": result.batch_file_size,
            "is_default_size": result.is_default_size,
            "default_delay_count": result.default_delay_count,
            "mended_due_count": result.mended_due_count,
            "added_light": list(result.added_light),
            "kept": _named(result.kept),
            "unagreed": None if result.unagreed is None else asdict(result.unagreed),
            "superseded": _named(result.superseded, "units"),
            "doubtful": _named(result.doubtful, "units"),
            "dropped": [dropped._asdict() for dropped in result.dropped],
            "lost": [lost._asdict() for lost in result.lost],
            "stray": [stray._asdict() for stray in result.stray],
            "replaced_count": result.replaced_count,
            "kept_count": result.kept_count,
            "deleted_topics": list(result.deleted_topics),
            "left_out": list(result.left_out),
            "foreign": list(result.foreign),
            "dry_run": result.dry_run,
            "refusal": _refusal(result),
            "missing": [asdict(part) for part in result.missing],
        },
        notes=notes,
    )


def _refusal(result: RebuildResult | QueueRebuildResult) -> str | None:
    return None if result.refusal is None else in_flags(str(result.refusal))


def _named(queues: Iterable[tuple[object, ...]], *others: str) -> list[Row]:
    """Return queues as rows."""
    names = ("topic", "queue_id", *others)
    return [dict(zip(names, queue, strict=True)) for queue in queues]


def _print_queue_rebuild(console: Console, directory: Path, result: QueueRebuildResult) -> None:
    replaced = counted(result.replaced_count, "unit")
    print_text(
        console,
        f"{'Would write' if result.dry_run else 'Wrote'} {counted(result.unit_count, 'unit')} "
        f"into {counted(result.queue_count, 'queue')} of {directory}, "
        f"{counted(result.file_count, 'file')}"
        + (f", in place of {replaced}" if result.replaced_count else ""),
    )
    for topic, queue_id, start, stop in result.gaps:
        text = f"no messages of queue offsets {start} to {stop - 1}"
        print_text(console, f"{visible(topic)}, queue {queue_id}: {text}")
    for line in queue_notes(result):
        print_text(console, line)


def queue_notes(result: QueueRebuildResult) -> Iterator[str]:
    """Yield a line for each choice that the rebuild made by itself."""
    for topic, queue_id in result.kept:
        yield f"{visible(topic)}, queue {queue_id}: kept, since all messages have expired"
    if result.kept_count:
        kept = counted(result.kept_count, "more unit")
        yield f"Kept {kept} of the replaced queues, of messages before the CommitLog begins"
    yield from _deletion_notes(result)
    yield from _left_out_notes(result)
    for lost in result.lost:
        goes = "would be" if result.dry_run else "is" if lost.units == 1 else "are"
        yield (
            f"{visible(lost.topic)}, queue {lost.queue_id}: {counted(lost.units, 'unit')} of the "
            f"old queue {goes} lost, from queue offset {lost.queue_offset} on (message at offset "
            f"{lost.phy_offset}), {lost.beyond_log} of them behind the log's end"
        )
    if result.refusal is not None:
        yield _REFUSED
    if result.foreign:
        yield f"Kept what is no queue's: {_topics(result.foreign)}"
    if result.left_out:
        yield f"No queues of {_topics(result.left_out)}"
    if result.deleted_topics:
        yield (
            f"config/topics.json does not have {_topics(result.deleted_topics)}: deleted topics, "
            "whose messages the log still has; --leave-out TOPIC rebuilds no queues of one"
        )
    if result.unagreed is not None:
        yield f"Left out {result.unagreed}"
    yield from _default_notes(result)


def _default_notes(result: QueueRebuildResult) -> Iterator[str]:
    if result.is_default_size:
        yield (
            f"With the default file sizes, {result.file_size} and, of batch queues, "
            f"{result.batch_file_size} bytes; a broker with other settings needs --file-size or "
            "--batch-file-size"
        )
    if result.added_light:
        yield (
            f"Light queues that were not there: {_topics(result.added_light)}; a broker without "
            "enableMultiDispatch, as is the default, has none: --no-multi-dispatch leaves them out"
        )
    if result.mended_due_count:
        yield (
            f"{counted(result.mended_due_count, 'delayed message')} due as those of their level "
            "before and behind, and not as their units say"
        )
    if result.default_delay_count:
        yield (
            f"{counted(result.default_delay_count, 'delayed message')} due by the default levels; "
            "a broker with a messageDelayLevel of its own needs it as --delay-levels"
        )


def _left_out_notes(result: QueueRebuildResult) -> Iterator[str]:
    for dropped in result.dropped:
        yield (
            f"{visible(dropped.topic)}, queue {dropped.queue_id}: left out "
            f"{counted(dropped.units, 'message')} from offset {dropped.phy_offset} on, since older "
            f"ones have the queue offsets from {dropped.queue_offset} on"
        )
    for stray in result.stray:
        yield (
            f"{visible(stray.topic)}, queue {stray.queue_id}: left out "
            f"{counted(stray.units, 'unit')} of the old queue, from queue offset "
            f"{stray.queue_offset} on, since no message of the queue is where they lead (offset "
            f"{stray.phy_offset} for the first), or others lead there, too"
        )


def _deletion_notes(result: QueueRebuildResult) -> Iterator[str]:
    for topic, queue_id, count in result.superseded:
        yield (
            f"{visible(topic)}, queue {queue_id}: left out {counted(count, 'unit')} of older "
            "messages, since queue offsets that fall back to 0 show that the topic was deleted and "
            "made again"
        )
    for topic, queue_id, count in result.doubtful:
        yield (
            f"{visible(topic)}, queue {queue_id}: {counted(count, 'unit')} of a queue that was not "
            "there; if the topic was deleted and made again since, move this queue's folder out of "
            "the store before the broker starts"
        )


def _topics(names: Sequence[str]) -> str:
    return ", ".join(map(one_line, names))


def expiry_answer(
    path: str, before: int, files: Sequence[FileEntry], *, dry_run: bool, notes: Sequence[str]
) -> Answer:
    """Return which files were deleted, or would be."""
    size = sum(file.size for file in files)

    def text(console: Console) -> None:
        for file in files:
            console.write(file.name)
        if not files:
            print_text(console, f"No file to delete: offsets before {before}")
            return
        verb = "would go" if dry_run else "gone"
        count = counted(len(files), "file")
        print_text(console, f"{count} {verb}, {size_text(size)}; offsets before {before}")

    return Answer(
        text=text,
        document=lambda: {
            "path": path,
            "before": before,
            "dry_run": dry_run,
            "files": [file.name for file in files],
            "size": size,
        },
        notes=notes,
    )


def relayout_answer(path: str, result: RelayoutResult, notes: Sequence[str]) -> Answer:
    """Return what a change of geometry did."""

    def text(console: Console) -> None:
        if result.dry_run:
            _print_replacement(console, result.replacement)
        verb = "Would write" if result.dry_run else "Wrote"
        print_text(
            console,
            f"{verb} {counted(result.entry_count, 'entry', 'entries')} into "
            f"{counted(len(result.files), 'file')} in place of {len(result.replaced)}; "
            f"{result.exact_times} with their exact times",
        )
        _print_checkpoint(console, result.index_msg_timestamp)

    return Answer(
        text=text,
        document=lambda: {
            "path": path,
            "files": [file.name for file in result.files],
            "replaced": list(result.replaced),
            "entry_count": result.entry_count,
            "exact_times": result.exact_times,
            "index_msg_timestamp": result.index_msg_timestamp,
            "dry_run": result.dry_run,
            "replacement": asdict(result.replacement),
        },
        notes=notes,
    )


def recovery_answer(path: Path, recovered: Mapping[str, Recovery | None]) -> Answer:
    """Return how each unfinished write was undone or finished."""

    def text(console: Console) -> None:
        for outcome, words in _RECOVERED.items():
            names = [name for name, recovery in recovered.items() if recovery == outcome]
            if names:
                console.write(f"{words}: {', '.join(names)}")
        if not any(recovered.values()):
            console.write("Nothing to undo")

    return Answer(text=text, document=lambda: {"path": str(path), **recovered})


def _print_replacement(console: Console, replacement: Replacement | None) -> None:
    """Print which files would go and come, with their entries."""
    if replacement is None:
        return
    for verb, files in (("go", replacement.removed), ("come", replacement.added)):
        for file in files:
            count = counted(file.entry_count, "entry", "entries")
            console.write(f"{file.name} would {verb}: {count}, {size_text(file.size)}")


def _print_checkpoint(console: Console, index_msg_timestamp: int | None) -> None:
    if index_msg_timestamp is not None:
        print_text(
            console,
            f"The checkpoint covers files that end by {_UTC.format(index_msg_timestamp)} "
            f"{_UTC.name}: a broker that starts after a crash keeps them",
        )
