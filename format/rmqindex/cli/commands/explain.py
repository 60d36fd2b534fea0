"""``rmqindex explain``: why a key is or is not found."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import click

from rmqindex.answers.entries import explanation_answer
from rmqindex.answers.terminal import progress_bar
from rmqindex.cli.invocation import command
from rmqindex.cli.options import (
    commit_log_option,
    key_argument,
    layout_options,
    option,
    paths_argument,
    rows_options,
    time_options,
    topic_argument,
    zone_option,
)
from rmqindex.explanation import SEARCHES, explain_lookup

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rmqindex.answers.answer import Answer, Form, Zone
    from rmqindex.explanation import Search
    from rmqindex.indexfile.geometry import Layout


@dataclass(frozen=True, slots=True, kw_only=True)
class Explain:
    """Explain why the broker and its tools do or do not find a key, and what to do.

    The files are searched as the broker does it, newest first. With a CommitLog, messages that the
    index lacks are found as well, and the key is tried under the other topics of the store. The
    exit code is 1 if no entry answers.
    """

    path: str = paths_argument()
    topic: str = topic_argument()
    key: str = key_argument()
    times: tuple[int | None, int | None] = time_options()
    search_log: Search = option(
        "--search-log",
        metavar="PARTS",
        type=click.Choice(SEARCHES),
        default="gaps",
        show_default=True,
        help="What of the CommitLog to search: 'gaps' is what the index does not cover, up to 8 "
        "GiB (1 GiB in an object store); 'all' or 'none' of it. With --begin or --end, only log "
        "files of that time.",
    )
    commit_log: str | None = commit_log_option()
    form: Form = rows_options()
    zone: Zone = zone_option()
    layout: Layout | None = layout_options()

    def answers(self) -> Iterator[Answer]:
        """Explain the lookup."""
        with progress_bar("search the CommitLog") as report:
            explained = explain_lookup(
                self.path,
                self.topic,
                self.key,
                *self.times,
                self.commit_log,
                self.layout,
                search_log=self.search_log,
                time_zone=self.zone.info,
                progress=report,
            )
        yield explanation_answer(self.path, explained, self.zone)


explain = command(
    "explain",
    Explain,
    "rmqindex explain store TopicTest order-49",
    "rmqindex explain store TopicTest order-49 --begin 2023-11-14T22:00 --json",
    "rmqindex explain store TopicTest order-49 --search-log all",
    "rmqindex explain 'brokers/*/store' TopicTest order-49 --csv",
    several="store",
    is_search=True,
)
