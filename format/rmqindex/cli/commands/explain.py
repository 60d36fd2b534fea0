"""``rmqindex explain``: why a key is or is not found."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from rmqindex.cli.options import (
    NOT_FOUND,
    begin_option,
    choose_output,
    command,
    commit_log_option,
    end_option,
    entries_option,
    key_argument,
    layout_of,
    paths_argument,
    rows_option,
    slots_option,
    time_range_of,
    topic_argument,
    zone_option,
)
from rmqindex.display.terminal import progress_bar
from rmqindex.explanation import SEARCHES, explain_lookup

if TYPE_CHECKING:
    from rmqindex.explanation import Search
    from rmqindex.output.interface import Zone

__all__ = ["explain"]


@command(
    "explain",
    "rmqindex explain store TopicTest order-49",
    "rmqindex explain store TopicTest order-49 --begin 2023-11-14T22:00 --json",
    "rmqindex explain store TopicTest order-49 --search-log all",
    "rmqindex explain 'brokers/*/store' TopicTest order-49 --csv",
    several=True,
    is_search=True,
)
@paths_argument
@topic_argument
@key_argument
@begin_option
@end_option
@click.option(
    "--search-log",
    metavar="PARTS",
    type=click.Choice(SEARCHES),
    default="gaps",
    show_default=True,
    help="What of the CommitLog to search: 'gaps' is what the index does not cover, up to 8 GiB (1 "
    "GiB in an object store); 'all' or 'none' of it. With --begin or --end, only log files of that "
    "time.",
)
@commit_log_option
@rows_option
@zone_option
@slots_option
@entries_option
def explain(
    *,
    path: str,
    topic: str,
    key: str,
    begin: str | None,
    end: str | None,
    search_log: Search,
    commit_log: str | None,
    as_json: bool,
    zone: Zone,
    max_hash_slot_num: int | None,
    max_index_num: int | None,
) -> None:
    """Explain why the broker and its tools do or do not find a key, and what to do.

    The files are searched as the broker does it, newest first. With a CommitLog, messages that the
    index lacks are found as well, and the key is tried under the other topics of the store. The
    exit code is 1 if no entry answers.
    """
    begin_time, end_time = time_range_of(begin, end, zone)
    layout = layout_of(max_hash_slot_num, max_index_num)
    with progress_bar("search the CommitLog") as report:
        explained = explain_lookup(
            path,
            topic,
            key,
            begin_time,
            end_time,
            commit_log,
            layout,
            search_log=search_log,
            time_zone=zone.info,
            progress=report,
        )
    choose_output(as_json, zone).explanation(path, explained)
    if not explained.hits:
        raise click.exceptions.Exit(NOT_FOUND)
