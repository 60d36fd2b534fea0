"""Messages whose topic or properties lost bytes to zeros, though their records still parse.

No CRC covers these fields, but where a broker from 5.2.0 on appends one. So a page of zeros there
takes a message's keys away without a trace in the record; the entries that the index has of them
are the trace.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from rmqindex.commitlog.log import CommitLog

__all__ = ["zeroed_messages"]

# Messages that are further apart, bytes, are read by themselves.
_APART = 1 << 20


def zeroed_messages(log: CommitLog, offsets: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return which messages have a byte of 0 in their topic or properties.

    Clients may write one there, so that it proves damage only where something else contradicts the
    message, such as an entry of a key that it does not have.

    Args:
        log: The log.
        offsets: Where the messages start, bytes.

    Returns:
        Their offsets, ascending.

    Raises:
        RmqIndexError: The storage failed.
    """
    wanted = np.unique(offsets)
    found: list[int] = []
    for group in np.split(wanted, np.flatnonzero(np.diff(wanted) > _APART) + 1):
        if not len(group):
            continue
        first, last = int(group[0]), int(group[-1])
        blocks = log.records(first, last + 1, mode="DROPMALFORMED", proves_end=False)
        for records in blocks:
            for row in np.flatnonzero(np.isin(records.phy_offset, group)).tolist():
                topic = records.data[int(records.topic_start[row]) : int(records.topic_stop[row])]
                properties = records.data[
                    int(records.properties_start[row]) : int(records.properties_stop[row])
                ]
                if 0 in bytes(topic) or 0 in bytes(properties):
                    found.append(int(records.phy_offset[row]))
    return np.array(found, np.int64)
