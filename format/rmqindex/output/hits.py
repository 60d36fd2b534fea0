"""An entry that a lookup found, as the outputs write it."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["Hit"]


@dataclass(frozen=True, slots=True)
class Hit:
    """An entry with the searched key hash.

    Attributes:
        path: Its IndexFile.
        name: The name of that file.
        position: Its number in the file, from 1.
        phy_offset: CommitLog offset at which the message starts, bytes.
        store_timestamp: Store time, epoch milliseconds; exact where ``state`` is ``verified``,
            else cut to whole seconds after the file's first entry.
        state: The ``match_state``: ``verified`` where the message has the key.
    """

    path: str
    name: str
    position: int
    phy_offset: int
    store_timestamp: int
    state: str = "no_log"
