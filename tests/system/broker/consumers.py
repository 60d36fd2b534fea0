"""Groups consume what a broker has; how far they are is read from its store, and compared."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from rmqindex import CommitLog, MessageStore
from rmqindex.consumequeue import MessagePlace
from rmqindex.explanation import consumption_of
from rmqindex.storage import Location

from . import scenario, truth
from .writing import LAYOUT, Sent, make_topics, settings_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from .processes import Cluster
    from .report import Report

# The broker's and the group's offset, by topic and queue.
Progress = dict[tuple[str, int], tuple[int, int]]

#: By group, the topic and the tags that it asks for.
GROUPS = {
    scenario.GROUP: (scenario.RETRIES, "*"),
    "readers": (scenario.ORDERS, "*"),
    "pickers": (scenario.ORDERS, "TagA"),
    "waiters": (scenario.DELAYED, "*"),
    "payers": (scenario.TRANSACTIONS, "*"),
}
_SECONDS = 300
_QUIET_SECONDS = 1.0


class Consumers:
    """Some groups consume all, then more is sent, then the broker is stopped."""

    def __init__(self, cluster: Cluster, report: Report, show: Callable[[str], None]) -> None:
        """Take what the comparison needs; the broker is not started."""
        self._cluster = cluster
        self._report = report
        self._show = show

    def run(self, count: int, *, light: bool) -> None:
        """Consume, stop, send more, stop the broker, and compare.

        Args:
            count: How many sendings; half of them are consumed.
            light: Whether the broker has light queues, and so another file of offsets.
        """
        flag = str(light).lower()
        settings = {**settings_of(LAYOUT), "enableLmq": flag, "enableMultiDispatch": flag}
        self._cluster.start_broker(settings)
        make_topics(self._cluster)
        sent = Sent()
        specs = scenario.messages(self._cluster.version, count)
        if not light:
            specs = [each for each in specs if each["topic"] != scenario.LIGHT]
        sent.send(self._cluster, specs[: count // 2])
        for group, (topic, tags) in GROUPS.items():
            self._cluster.client.ask(
                "consume", group=group, topic=topic, tags=tags, most=scenario.MOST_RECONSUME_TIMES
            )
        self._settle(lambda shown: all(lag(each) == 0 for each in shown.values()))
        self._cluster.client.ask("stop")
        sent.send(self._cluster, specs[count // 2 :])
        shown = self._settle(lambda shown: any(lag(each) for each in shown.values()))
        self._cluster.stop_broker()
        self._compare(shown)

    def _settle(self, is_right: Callable[[dict[str, Progress]], bool]) -> dict[str, Progress]:
        """Wait until the groups' offsets are right, and do not change any more."""
        deadline = time.monotonic() + _SECONDS
        before: dict[str, Progress] = {}
        while time.monotonic() < deadline:
            time.sleep(_QUIET_SECONDS)
            shown = {group: self._shown(group) for group in GROUPS}
            if shown == before and is_right(shown):
                return shown
            before = shown
        raise RuntimeError(f"the groups did not settle: {before}")

    def _shown(self, group: str) -> Progress:
        rows = self._cluster.client.ask("progress", group=group)
        return {(topic, queue): (end, committed) for topic, queue, end, committed in rows}

    def _compare(self, shown: dict[str, Progress]) -> None:
        store = MessageStore(self._cluster.store)
        for group, expected in shown.items():
            rows = store.consumer_groups(group).to_pylist()
            found = {
                (row["topic"], row["queue_id"]): (row["max_offset"], row["committed_offset"] or 0)
                for row in rows
            }
            # A queue that never had a message, and of which the group knows nothing, has no row.
            wanted = {
                queue: each for queue, each in expected.items() if queue in found or any(each)
            }
            self._report.compare("offsets of groups in queues", wanted, found)
            total = sum(row["lag"] for row in rows)
            self._report.compare("totals of groups", lag(expected), total)
            self._show(
                f"{group}: {len(found)} queues, lag {total}, as mqadmin shows it {lag(expected)}"
            )
        self._compare_messages(shown)

    def _compare_messages(self, shown: dict[str, Progress]) -> None:
        """Compare how many messages of each topic are in their queues, and were passed."""
        names = list(MessagePlace._fields)
        with CommitLog(self._cluster.store) as log:
            rows = [*truth.rows_of(log, names)]
        for group, (topic, _) in GROUPS.items():
            places = [MessagePlace(**row) for row in rows if row["topic"] == topic]
            told = consumption_of(Location.of(self._cluster.store), places)
            assert told is not None
            kept = [state for state in told.states if state != "no_unit"]
            self._report.compare("messages in their queues", ["in_queue"] * len(kept), kept)
            passed = sum(mine for (name, _), (_, mine) in shown[group].items() if name == topic)
            self._report.compare("messages passed", passed, told.groups()["passed"].get(group, 0))


def lag(progress: Progress) -> int:
    """Return what mqadmin calls the total difference of a group."""
    return sum(end - committed for end, committed in progress.values())
