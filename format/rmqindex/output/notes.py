"""What a rebuild took where nobody chose, and how to choose."""

from __future__ import annotations

from itertools import cycle
from typing import TYPE_CHECKING

from rmqindex.display.text import complain, counted, one_line, visible

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from rmqindex.audit import MissingPart
    from rmqindex.bulk.rebuild import RebuildResult
    from rmqindex.bulk.tags import TagChoice
    from rmqindex.consumequeue.rebuild import QueueRebuildResult
    from rmqindex.store.snapshot import SnapshotFile

__all__ = ["complain_of_lacking", "complain_of_missing", "queue_notes", "rebuild_notes"]


def complain_of_lacking(files: Iterable[SnapshotFile]) -> None:
    """Say on standard error what of damaged IndexFiles an answer lacks."""
    for planned in files:
        if planned.lacking is not None:
            complain(planned.lacking)


def complain_of_missing(
    missing: Iterable[MissingPart], what: str = "the answer", *, is_read: bool = True
) -> None:
    """Say on standard error what a log lacks, and what is made of it lacks too.

    Args:
        missing: The parts.
        what: What is made of the log.
        is_read: Whether the log is read up to its end, which raises or says that it lacks its end.
    """
    for part in missing:
        if part.part != "end" or not is_read:
            complain(part.text(what))


def rebuild_notes(result: RebuildResult) -> Iterator[str]:
    """Yield a line for each choice that the rebuild of an index made by itself."""
    if result.kept_count:
        kept = counted(result.kept_count, "entry", "entries")
        yield f"Kept {kept} of messages before {result.start}, where the log begins"
    for path in result.unreadable:
        yield (
            f"{path.name} could not be read: its entries of messages before {result.start}, where "
            "the log begins, are gone"
        )
    if result.unagreed is not None:
        yield f"Left out {result.unagreed}"
    if result.tags is not None and result.tags.basis != "argument":
        yield _of_tags(result.tags)
    if result.layout_basis == "default":
        layout = result.layout
        yield (
            f"With the default geometry, {layout.hash_slot_num:,} slots and {layout.index_num:,} "
            "entry places a file; a broker with other settings needs --max-hash-slot-num and "
            "--max-index-num"
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


def queue_notes(result: QueueRebuildResult) -> Iterator[str]:
    """Yield a line for each choice that the rebuild of ConsumeQueues made by itself."""
    for topic, queue_id in result.kept:
        yield f"{visible(topic)}, queue {queue_id}: kept as it was, since all messages have expired"
    if result.kept_count:
        kept = counted(result.kept_count, "more unit")
        yield f"Kept {kept} of the replaced queues, of messages before the CommitLog begins"
    yield from _deletion_notes(result)
    for dropped in result.dropped:
        yield (
            f"{visible(dropped.topic)}, queue {dropped.queue_id}: left out "
            f"{counted(dropped.units, 'message')} from offset {dropped.phy_offset} on, since older "
            f"ones have the queue offsets from {dropped.queue_offset} on"
        )
    for lost in result.lost:
        yield (
            f"{visible(lost.topic)}, queue {lost.queue_id}: {counted(lost.units, 'unit')} of the "
            f"old queue {'would be' if result.dry_run else 'are'} lost, from queue offset "
            f"{lost.queue_offset} on (message at offset {lost.phy_offset}), {lost.beyond_log} of "
            "them behind the log's end"
        )
    if result.dry_run and (result.lost or result.dropped):
        yield "Without --dry-run this is refused, unless --allow-loss is given"
    if result.left_out:
        yield f"No queues of {_topics(result.left_out)}"
    if result.deleted_topics:
        yield (
            f"config/topics.json does not have {_topics(result.deleted_topics)}: deleted topics, "
            "whose messages the log still has; --leave-out TOPIC rebuilds no queues of one"
        )
    if result.unagreed is not None:
        yield f"Left out {result.unagreed}"
    if result.is_default_size:
        yield (
            f"With the default file sizes, {result.file_size} and, of batch queues, "
            f"{result.batch_file_size} bytes; a broker with other settings needs --file-size or "
            "--batch-file-size"
        )


def _topics(names: Sequence[str]) -> str:
    return ", ".join(map(one_line, names))


def _of_tags(tags: TagChoice) -> str:
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
