"""What a decoder does with bytes: a value, or an error of ours."""

from __future__ import annotations

from typing import NamedTuple

import pyarrow as pa

from rmqindex import RmqIndexError


class Outcome(NamedTuple):
    """A value, or an error of ours."""

    value: object = None
    error: Exception | None = None

    @property
    def is_value(self):
        """Whether it is a value."""
        return self.error is None


def outcome(function, *arguments, refuses=False, **named):
    """Call a decoder; errors that are not ours pass through.

    Args:
        function: The decoder.
        arguments: What it takes.
        refuses: Whether it may refuse its arguments with a ``ValueError``.
        named: What it takes by name.
    """
    try:
        return Outcome(function(*arguments, **named))
    except RmqIndexError as error:
        _shown(error)
        return Outcome(error=error)
    except ValueError as error:
        # Arrow's and Python's own are subclasses: they come from inside, not from a check.
        if not refuses or type(error) is not ValueError:
            raise
        _shown(error)
        return Outcome(error=error)


def table_outcome(function, *arguments, **named):
    """Call what yields batches, and join them, checked by Arrow; None for no batch."""

    def joined():
        batches = list(function(*arguments, **named))
        for batch in batches:
            batch.validate(full=True)
        return pa.Table.from_batches(batches).combine_chunks() if batches else None

    return outcome(joined)


def _shown(error):
    """Show an error as a reader would see it: that must work, too."""
    assert str(error)
