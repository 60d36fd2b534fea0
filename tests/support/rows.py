"""Rows of Arrow batches and of what a data source plans, and times in them."""

from __future__ import annotations

import datetime as dt

_EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)


def rows_of(batches):
    """Return the rows of batches as dictionaries."""
    return [row for batch in batches for row in batch.to_pylist()]


def rows_read(reader, partitions):
    """Return the rows that the tasks of a reader find, as dictionaries."""
    return rows_of(batch for each in partitions for batch in reader.read(each))


def milliseconds(time):
    """Return a naive time of a session in UTC as epoch milliseconds."""
    return (time.replace(tzinfo=dt.UTC) - _EPOCH) // dt.timedelta(milliseconds=1)
