"""What a store's CommitLog says must be in its index, found one message at a time."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from rmqindex import CommitLog, IndexDirectory, IndexHeader, Layout, message_keys

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

#: The broker's answer to one question has at most so many messages.
MAX_NUM = 32
HEADER_SIZE = 40
INT64_MAX = 2**63 - 1
UNIQUE, TAGS = "U", "T"

_COLUMNS = ("topic", "uniq_key", "keys", "tags", "sys_flag", "phy_offset")


class Question(NamedTuple):
    """What a broker is asked: a key, of one of the types that it knows (None for a key)."""

    topic: str
    key: str
    index_type: str | None


def rows_of(log: CommitLog, columns: Sequence[str] = _COLUMNS) -> Iterator[dict[str, Any]]:
    """Yield the messages of a CommitLog."""
    for batch in log.scan(columns=columns):
        yield from batch.to_pylist()


def offsets_of(store: Path, *, tags: bool) -> dict[Question, list[int]]:
    """Return each key of each message, with the offsets of its messages in their order.

    Args:
        store: The store.
        tags: Whether its broker indexes tags.
    """
    found: dict[Question, list[int]] = {}
    with CommitLog(store) as log:
        for row in rows_of(log):
            if message_keys(row["topic"], "", None, row["sys_flag"]) == []:
                continue
            asked = []
            if row["uniq_key"] is not None:
                asked.append(Question(row["topic"], row["uniq_key"], UNIQUE))
            parts = (row["keys"] or "").split(" ")
            asked += [Question(row["topic"], part, None) for part in parts if part]
            if tags and row["tags"]:
                asked.append(Question(row["topic"], row["tags"], TAGS))
            for question in dict.fromkeys(asked):
                found.setdefault(question, []).append(row["phy_offset"])
    return found


def entry_count(store: Path, *, tags: bool) -> int:
    """Return how many entries the messages of a store have."""
    with CommitLog(store) as log:
        return sum(
            len(
                message_keys(
                    row["topic"],
                    row["uniq_key"],
                    row["keys"],
                    row["sys_flag"],
                    row["tags"] if tags else None,
                )
            )
            for row in rows_of(log)
        )


def answers(store: Path, layout: Layout, questions: list[Question]) -> dict[Question, list[int]]:
    """Answer as this package's twin of the broker's index does, in the broker's order."""
    with IndexDirectory(store / "index", layout) as index:
        return {
            question: sorted(
                index.query_offset(
                    question.topic, question.key, MAX_NUM, 0, INT64_MAX, question.index_type
                ).phy_offsets
            )
            for question in questions
        }


def indexed_count(store: Path) -> int:
    """Return how many entries the headers of a store's IndexFiles count."""
    return sum(header.entry_count for header in _headers(store))


def indexed_until(store: Path) -> int:
    """Return the offset of the last message that is in a store's index; 0 without any."""
    return max((header.end_phy_offset for header in _headers(store)), default=0)


def _headers(store: Path) -> list[IndexHeader]:
    folder = store / "index"
    if not folder.is_dir():
        return []
    heads = [path.read_bytes()[:HEADER_SIZE] for path in folder.iterdir()]
    # One that was made this moment has no bytes yet.
    return [IndexHeader.from_bytes(head) for head in heads if len(head) == HEADER_SIZE]
