"""``rmqindex groups``: how far consumer groups are."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from rmqindex.answers.contents import groups_answer
from rmqindex.cli.invocation import command
from rmqindex.cli.options import TEXT, argument, option, rows_options, zone_option
from rmqindex.consumequeue import consumer_progress

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rmqindex.answers.answer import Answer, Form, Zone


@dataclass(frozen=True, slots=True, kw_only=True)
class Groups:
    """Show how far consumer groups are: committed offset, the queue's ends, and the lag.

    The offsets are those that the broker wrote last in config/consumerOffset.json; the lag is
    counted as mqadmin consumerProgress does, without a broker. A group that has passed a message
    need not have consumed it: the filter by tag passes the others. The exit code is 1 if no group
    has an offset.
    """

    store: str = argument(
        "STORE...",
        "Store roots that contain config/; a pattern in quotes, or a folder of stores.",
        several=True,
    )
    group: str | None = option(
        "--group", metavar="GROUP", type=TEXT, help="Only this consumer group."
    )
    topic: str | None = option("--topic", metavar="TOPIC", type=TEXT, help="Only this topic.")
    form: Form = rows_options()
    zone: Zone = zone_option()

    def answers(self) -> Iterator[Answer]:
        """Read the committed offsets, then the queues."""
        progress = consumer_progress(self.store, group=self.group, topic=self.topic)
        yield groups_answer(self.store, progress, self.zone, self.group, self.topic)


groups = command(
    "groups",
    Groups,
    "rmqindex groups /data/rocketmq/store",
    "rmqindex groups store --group payments --topic Orders",
    "rmqindex groups 'brokers/*/store' --csv > groups.csv",
    several="store",
    is_search=True,
)
