"""Whether two stores hold the same, as an answer."""

from __future__ import annotations

from dataclasses import asdict, fields
from typing import TYPE_CHECKING

from rmqindex.answers.answer import NOT_FOUND, Answer
from rmqindex.answers.terminal import Table, print_table, print_text
from rmqindex.errors import counted
from rmqindex.query.comparison import Difference

if TYPE_CHECKING:
    from rmqindex.answers.terminal import Console
    from rmqindex.query import StoreComparison

DIFFERENCE_COLUMNS = tuple(field.name for field in fields(Difference))
# Queues that are named at most; JSON has all.
_NAMED = 8
_FILES = {
    "equal": "The IndexFiles are equal byte for byte, and so are their names.",
    "equal but for names": "The IndexFiles are equal byte for byte but for their names.",
    "different": "The IndexFiles are not equal byte for byte.",
}


def comparison_answer(a: str, b: str, found: StoreComparison) -> Answer:
    """Return the counts of each part and the first differences; the exit code is 1 if any."""
    rows = [asdict(each) for each in found.differences]
    return Answer(
        text=lambda console: _print(console, found),
        columns=DIFFERENCE_COLUMNS,
        rows=rows,
        document=lambda: {
            "a": a,
            "b": b,
            "same": found.same,
            "files": found.files,
            "parts": [{**asdict(part), "same": part.same} for part in found.parts],
            "differences": rows,
        },
        exit_code=0 if found.same else NOT_FOUND,
    )


def _print(console: Console, found: StoreComparison) -> None:
    table = Table()
    table.add_column("Part")
    for head in ("A", "B", "Only in A", "Only in B", "Differ"):
        table.add_column(head, right=True)
    for part in found.parts:
        numbers = (part.a_count, part.b_count, part.only_a, part.only_b, part.differing)
        table.add_row(part.part, *map(str, numbers))
    print_table(console, table)
    for part in found.parts:
        if part.a_range != part.b_range:
            a, b = (_range_text(each) for each in (part.a_range, part.b_range))
            print_text(console, f"{part.part}: A has {a}, B has {b}")
        if part.left_out:
            queues = counted(len(part.left_out), "queue")
            named = ", ".join(part.left_out[:_NAMED]) + (", .." if part.left_out[_NAMED:] else "")
            print_text(console, f"{part.part}: no offset of {queues} is in both: {named}")
    if found.differences:
        _print_differences(console, found)
    if found.files is not None:
        print_text(console, f"\n{_FILES[found.files]}")
    rest = " but for what is not in both" if any(part.left_out for part in found.parts) else ""
    print_text(console, f"The same{rest}." if found.same else "Different.")


def _range_text(bounds: tuple[int | None, int | None]) -> str:
    first, last = bounds
    return "nothing" if first is None else f"offsets {first} to {last}"


def _print_differences(console: Console, found: StoreComparison) -> None:
    table = Table()
    for head in ("Part", "Difference"):
        table.add_column(head)
    table.add_column("Queue", may_be_cut=True)
    table.add_column("Offset", right=True)
    table.add_column("Key hash", right=True)
    for head in ("A", "B"):
        table.add_column(head, right=True)
    for each in found.differences:
        queue = "" if each.topic is None else f"{each.topic} {each.queue_id}"
        hash_ = "" if each.key_hash is None else str(each.key_hash)
        cells = (queue, str(each.offset), hash_, each.a or "", each.b or "")
        table.add_row(each.part, each.difference, *cells)
    print_text(console, "")
    print_table(console, table)
    total = sum(part.only_a + part.only_b + part.differing for part in found.parts)
    more = total - len(found.differences)
    if more:
        print_text(console, f"{counted(more, 'difference')} more")
