"""The options by which ``messages``, ``usage`` and ``export`` choose messages."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from rmqindex.cli.options import (
    NUMBER,
    TEXT,
    begin_option,
    end_option,
    from_option,
    offset_range_of,
    time_range_of,
    to_option,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from rmqindex.commitlog.selection import Selection
    from rmqindex.output.interface import Zone

__all__ = ["selection_of", "selection_options"]

_OPTIONS = (
    click.option(
        "--topic",
        "topics",
        metavar="TOPIC",
        type=TEXT,
        multiple=True,
        help="Only messages of this topic. May be repeated.",
    ),
    click.option(
        "--queue",
        "queue_ids",
        metavar="N",
        type=NUMBER,
        multiple=True,
        help="Only messages of this queue. May be repeated.",
    ),
    click.option(
        "--tag",
        "tags",
        metavar="TAG",
        type=TEXT,
        multiple=True,
        help="Only messages with this tag. May be repeated.",
    ),
    begin_option,
    end_option,
    from_option,
    to_option,
)


def selection_options(function: Callable[..., None]) -> Callable[..., None]:
    """Add the options to a command, which passes what it gets to :func:`selection_of`."""
    for option in reversed(_OPTIONS):
        function = option(function)
    return function


def selection_of(zone: Zone, options: Mapping[str, Any]) -> Selection:
    """Return what the options choose."""
    from rmqindex.commitlog.selection import Selection  # noqa: PLC0415  (help needs no Arrow)

    begin, end = time_range_of(options["begin"], options["end"], zone)
    start, stop = offset_range_of(options["from_offset"], options["to_offset"])
    return Selection(
        topics=options["topics"],
        queue_ids=options["queue_ids"],
        tags=options["tags"],
        begin=begin,
        end=end,
        start=start,
        stop=stop,
    )
