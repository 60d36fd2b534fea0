"""Times of the command line: the options that take them, and the zone that they are in."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from rmqindex.answers.answer import Zone
from rmqindex.times import (
    is_day,
    is_relative,
    moment_now,
    parse_micros,
    parse_since,
    system_zone,
    to_milliseconds,
    zone_of,
)

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import tzinfo

    Values = Mapping[str, Any]

_BEGIN = click.Option(
    ["--begin"],
    metavar="TIME",
    help="Only messages stored at this time or later: epoch milliseconds, ISO 8601 in the time "
    "zone of --time-zone, now, yesterday, 'today 9:30', or an age such as -2h. Of a local time "
    "that occurs twice, the first is meant; one that a clock change skips moves forward by as "
    "much.",
)
_SINCE = click.Option(
    ["--since"],
    metavar="TIME",
    help="As --begin, or only messages stored in the last 90s, 30m, 2h, 1d or 1w.",
)
_END = click.Option(
    ["--end"],
    metavar="TIME",
    help="Only messages stored at this time or earlier; a day, such as yesterday or 2024-01-31, "
    "stands for all of it.",
)


#: The options of a range of times.
RANGE = (_BEGIN, _SINCE, _END)


def time_range_of(values: Values) -> tuple[int | None, int | None]:
    """Return ``--begin`` or ``--since``, and ``--end``, as epoch milliseconds, both inclusive."""
    end, zone, now = values["end"], values["zone"], moment_now()
    option, begin = "--begin", values["begin"]
    if values["since"] is not None:
        if begin is not None:
            raise click.UsageError("--begin and --since: give one of them")
        option, begin = "--since", values["since"]
    low = _micros_of(begin, zone, option, now)
    high = _micros_of(end, zone, "--end", now)
    first = None if low is None else to_milliseconds(low, up=True)
    last = None if high is None else to_milliseconds(high, up=False)
    if low is not None and high is not None and low > high:
        raise click.BadParameter(f"{begin!r} is after --end {end!r}", param_hint=option)
    if first is not None and last is not None and first > last:
        raise click.BadParameter(
            f"there is no whole millisecond from {begin!r} to --end {end!r}", param_hint=option
        )
    return first, last


def words_of(values: Values) -> dict[str, str]:
    """Return the options of a range whose times are relative, as they were typed."""
    words = {}
    for name, option in (("begin", "--begin"), ("begin", "--since"), ("end", "--end")):
        text = values[option.removeprefix("--")]
        if text is not None and is_relative(text):
            words[name] = f"{option} {text}" + (f" ({values['zone'].name})" if is_day(text) else "")
    return words


def since_of(values: Values) -> int | None:
    """Return ``--since`` as epoch milliseconds, rounded up."""
    micros = _micros_of(values["since"], values["zone"], "--since", moment_now())
    return None if micros is None else to_milliseconds(micros, up=True)


def _micros_of(text: str | None, zone: Zone, option: str, now: int) -> int | None:
    if text is None:
        return None
    try:
        if option == "--since":
            return parse_since(text, zone.info, now)
        return parse_micros(text, zone.info, now, is_end=option == "--end")
    except ValueError as error:
        raise click.BadParameter(str(error), param_hint=option) from error


def _zone(name: str) -> Zone:
    try:
        return Zone(name, zone_of(name))
    except ValueError as error:
        raise click.BadParameter(str(error), param_hint="--time-zone") from error


def parse_zone(_ctx: click.Context, _param: click.Parameter, text: str | None) -> Zone:
    """Return the zone of an option, or the system's."""
    if text is not None:
        return _zone(text)
    try:
        return Zone(*system_zone())
    except ValueError as error:
        raise click.BadParameter(f"needed. {error}", param_hint="--time-zone") from error


def parse_local_zone(ctx: click.Context, param: click.Parameter, text: str | None) -> tzinfo | None:
    """Return the zone of an option; None for the system's, which must be known, too."""
    zone = parse_zone(ctx, param, text)
    return None if text is None else zone.info
