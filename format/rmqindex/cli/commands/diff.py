"""``rmqindex diff``: whether two indexes, logs or stores hold the same."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import click

from rmqindex.answers.comparison import comparison_answer
from rmqindex.cli.invocation import command
from rmqindex.cli.options import (
    COUNT,
    argument,
    layout_options,
    mode_option,
    option,
    rows_options,
)
from rmqindex.query.comparison import PARTS, compare_stores

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rmqindex.answers.answer import Answer, Form
    from rmqindex.indexfile.entries import Mode
    from rmqindex.indexfile.geometry import Layout

_PATH = "A store root, an index directory, an IndexFile, a CommitLog or ConsumeQueues, or a URI."


@dataclass(frozen=True, slots=True, kw_only=True)
class Diff:
    """Compare two stores: entries, messages and units of ConsumeQueues, by offset.

    It does not matter what files are called, nor how they are cut and how many slots they have;
    whether IndexFiles are equal byte for byte is told as well. Of an index alone, entries are
    compared, of a log messages, of queues units. A store root that lacks a part has nothing in it.
    The times of entries, whole seconds after the first of their file, agree if one store time makes
    both. The exit code is 0 for the same, 1 for a difference, 2 for an error.
    """

    a: str = argument("A", _PATH)
    b: str = argument("B", _PATH)
    parts: tuple[str, ...] = option(
        "--part",
        metavar="PART",
        type=click.Choice(PARTS),
        multiple=True,
        help="Compare only entries, messages or units. May be repeated.",
    )
    common: bool = option(
        "--common",
        is_flag=True,
        help="Compare only the offsets that both have, where one has expired or goes on.",
    )
    limit: int = option(
        "--limit",
        metavar="N",
        type=COUNT,
        default=20,
        show_default=True,
        help="Print at most this many differences of each part.",
    )
    form: Form = rows_options()
    layout: Layout | None = layout_options()
    mode: Mode = mode_option()

    def answers(self) -> Iterator[Answer]:
        """Compare the parts."""
        found = compare_stores(
            self.a,
            self.b,
            parts=self.parts,
            common=self.common,
            limit=self.limit,
            layouts=(self.layout, self.layout),
            mode=self.mode,
        )
        yield comparison_answer(self.a, self.b, found)


diff = command(
    "diff",
    Diff,
    "rmqindex diff store rebuilt/index",
    "rmqindex diff /data/rocketmq/store s3://backup/broker-a/store --common",
    "rmqindex diff store copy --part messages --json",
)
