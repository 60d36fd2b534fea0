"""What a load of messages reads."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["MessagePlan"]


@dataclass(frozen=True, slots=True)
class MessagePlan:
    """The last plan of a load of messages.

    Attributes:
        columns: The columns to read; others are neither read nor decoded.
        filters: What the options choose, as text.
        files_kept: The number of log files to read.
        files_total: The number of log files in the paths.
        bytes: The size of the parts of these files to read; within them, bodies of messages that
            are not asked for are skipped.
        partitions: The number of tasks.
        lacking: What the CommitLogs lack of the messages to which their stores lead; each is also
            logged as a warning.
    """

    columns: tuple[str, ...]
    filters: tuple[str, ...]
    files_kept: int
    files_total: int
    bytes: int
    partitions: int
    lacking: tuple[str, ...] = ()

    def __str__(self) -> str:
        """Return the plan as one line."""
        filters = f" where {' and '.join(self.filters)}" if self.filters else ""
        return (
            f"reading {', '.join(self.columns)} of the messages in {self.files_kept} of "
            f"{self.files_total} log files ({self.bytes} bytes), {self.partitions} "
            f"partition{'' if self.partitions == 1 else 's'}{filters}"
        )
