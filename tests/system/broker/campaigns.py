"""Long trials of a real broker under load: a live store is audited, a killed one led back.

Led only by what ``rmqindex verify`` prints, as an operator is.
"""

from __future__ import annotations

import json
import os
import random
import re
import shlex
import shutil
import subprocess
import sys
import threading
import time
from collections import Counter
from itertools import count as count_from
from typing import TYPE_CHECKING, Any, Self

from rmqindex import IndexFile, Layout

from . import scenario, truth
from .stories import QUOTED
from .writing import STORE_SETTINGS, await_index, make_topics

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from pathlib import Path

    from pyspark.sql import SparkSession

    from .processes import Cluster
    from .report import Report

#: Findings that are true of a live store and no fault.
TRUE_RULES = {"lock_held", "first_entry_late", "time_order", "index_lags"}
#: How the index or the queues of a killed broker are damaged.
DAMAGES = ("index gone", "index cut", "header zeroed", "queues gone")

_BATCH = 25
_SPARK_EVERY = 5
_MOST_COMMANDS = 6
_ASKED = 300
_TIMEOUT = 600
_FIRST_MESSAGES = 2_000
# Nothing in a store tells another geometry once the index is gone.
_KILLED_LAYOUT = Layout()
_HEADER_PAGE = 4096
# The broker is started against the advice, at last.
_UNLED = "nothing obeyed"


class Load(threading.Thread):
    """Sends messages at a rate until it is stopped, or its broker is killed; a context manager."""

    def __init__(self, cluster: Cluster, rate: int, numbers: Iterable[int]) -> None:
        """Take the broker, the messages a second, and the numbers that make keys unique."""
        super().__init__(daemon=True)
        self.sent = 0
        # Not the next one, which is started for the broker's next life.
        self._client = cluster.client
        self._rate = rate
        self._numbers = iter(numbers)
        self._stop_asked = threading.Event()

    def run(self) -> None:
        """Send batches, each as late as the rate wants."""
        start = time.monotonic()
        while not self._stop_asked.is_set():
            members = [
                {
                    "topic": scenario.ORDERS,
                    "keys": f"order-{number} customer-{number % 997}",
                    "tags": "TagA",
                    "body": f"message {number}",
                }
                for number, _ in zip(self._numbers, range(_BATCH), strict=False)
            ]
            batch = {"topic": scenario.ORDERS, "members": members}
            try:
                self._client.ask("send", messages=[batch])
            except RuntimeError:
                return  # the broker was killed
            self.sent += _BATCH
            self._stop_asked.wait(max(0.0, start + self.sent / self._rate - time.monotonic()))

    def await_sent(self, messages: int) -> None:
        """Wait until so many messages have been sent."""
        while self.sent < messages:
            if not self.is_alive():
                raise RuntimeError("the load has ended")
            time.sleep(0.05)

    def __enter__(self) -> Self:
        """Begin to send."""
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        """Stop, and wait until the last batch was sent."""
        self._stop_asked.set()
        self.join()


class LiveAudits:
    """Audits beside a broker that writes: nothing false, and planted damage is found."""

    def __init__(
        self, cluster: Cluster, report: Report, session: SparkSession, say: Callable[[str], None]
    ) -> None:
        """Take what the campaign needs; the broker is not started."""
        self._cluster = cluster
        self._store = cluster.store
        self._report = report
        self._spark = session
        self._say = say
        self._random = random.Random(1)

    def run(self, audits: int, rate: int, planted: int, layout: Layout) -> None:
        """Audit the store of a broker that takes messages all the time.

        Args:
            audits: How many audits; each fifth is one of Spark.
            rate: Messages a second.
            planted: How many times a counted entry is damaged, and mended again.
            layout: The broker's geometry.
        """
        self._cluster.start_broker(
            {
                **STORE_SETTINGS,
                "mappedFileSizeCommitLog": 1 << 22,
                "maxHashSlotNum": layout.hash_slot_num,
                "maxIndexNum": layout.index_num,
            }
        )
        make_topics(self._cluster)
        plants = {audits * (place + 1) // planted - 1 for place in range(planted)}
        with Load(self._cluster, rate, count_from()) as load:
            load.await_sent(_FIRST_MESSAGES)
            start, sent = time.monotonic(), load.sent
            for number in range(audits):
                in_spark = number % _SPARK_EVERY == _SPARK_EVERY - 1
                what = "Spark" if in_spark else "the command"
                found = self._audit(in_spark=in_spark)
                false = [row for row in found if row["rule"] not in TRUE_RULES]
                self._report.compare(f"audits of a live store by {what}", [], false)
                if number in plants:
                    self._plant(number, in_spark=in_spark)
            seconds = time.monotonic() - start
            self._say(
                f"{audits} audits of {layout} in {seconds:.0f} s beside "
                f"{(load.sent - sent) / seconds:.0f} messages a second, "
                f"{len(list((self._store / 'index').iterdir()))} IndexFiles"
            )
        self._cluster.stop_broker()
        rules = {row["rule"] for row in self._audit(in_spark=False)}
        self._report.compare("audits of the stopped store", set(), rules - TRUE_RULES)

    def _audit(self, *, in_spark: bool) -> list[dict[str, Any]]:
        if in_spark:
            load = self._spark.read.format("rmqindex").option("audit", "true")
            rows = load.option("commitLog", "auto").load(str(self._store)).collect()
            return [row.asDict() for row in rows]
        done = _run(["verify", str(self._store), "--json"])
        if done.returncode not in (0, 1):
            return [{"rule": "refused", "got": done.stderr}]
        findings: list[dict[str, Any]] = json.loads(done.stdout)["findings"]
        return findings

    def _plant(self, number: int, *, in_spark: bool) -> None:
        """Damage a field of a counted entry of the file that is written to, and mend it again."""
        path = max((self._store / "index").iterdir())
        with IndexFile(path) as file:
            count, layout = file.header.entry_count, file.layout
        field, size = (("hash", 4), ("offset", 8), ("seconds", 4), ("link", 4))[number % 4]
        within = {"hash": 0, "offset": 4, "seconds": 12, "link": 16}[field]
        place = layout.entry_offset(self._random.randrange(1, max(count, 2))) + within
        descriptor = os.open(path, os.O_RDWR)
        try:
            own = os.pread(descriptor, size, place)
            value = int.from_bytes(own, "big") ^ 0b101
            os.pwrite(descriptor, value.to_bytes(size, "big"), place)
            found = {row["file"] for row in self._audit(in_spark=in_spark) if _is_error(row)}
            os.pwrite(descriptor, own, place)
        finally:
            os.close(descriptor)
        names = {os.path.basename(name) for name in found}  # noqa: PTH119  (of a URI, too)
        self._report.compare("planted damages found", True, path.name in names)


class Kills:
    """A broker is killed under load, and started when the tool has nothing more to say."""

    def __init__(self, cluster: Cluster, report: Report, show: Callable[[str], None]) -> None:
        """Take what the campaign needs; the broker is not started."""
        self._cluster = cluster
        self._store = cluster.store
        self._report = report
        self._show = show
        self._random = random.Random(1)
        self._numbers = count_from()

    def run(self, kills: int, rate: int, damages: Iterable[str] = DAMAGES) -> None:
        """Kill the broker, lead it back, and ask it for what it had.

        Args:
            kills: How many times with nothing damaged.
            rate: Messages a second.
            damages: What is damaged once more each, of ``DAMAGES``.
        """
        settings = {
            **STORE_SETTINGS,
            "mappedFileSizeCommitLog": 1 << 18,
            "mappedFileSizeConsumeQueue": 20 * 2000,
            # So that a broker goes back only a few seconds in the log when it starts.
            "flushConsumeQueueThoroughInterval": 1_000,
        }
        self._cluster.start_broker(settings)
        make_topics(self._cluster)
        for damage in [*[""] * kills, *damages, _UNLED]:
            load = Load(self._cluster, rate, self._numbers)
            load.start()
            load.await_sent(self._random.randrange(6, 10) * rate)
            self._cluster.kill_broker()
            self._cluster.restart_client()
            load.join()
            if damage == _UNLED:
                self._foresee(settings)
                continue
            self._lead_back(damage)
            self._cluster.start_broker(settings)
            self._check(damage)

    def _lead_back(self, damage: str) -> None:
        self._entries = _entries(self._store)
        self._show(f"# killed with {self._entries.total()} entries, {damage or 'nothing'} damaged")
        _damage(self._store, damage)
        for _ in range(_MOST_COMMANDS):
            done = _run(["verify", str(self._store)])
            self._show(done.stdout)
            if done.returncode == 0:
                return
            told = QUOTED.search(done.stdout)
            assert told is not None, done.stdout
            line = told[1] or told[2]
            self._show(f"$ rmqindex {line}")
            mended = _run(shlex.split(line))
            self._show(mended.stdout + mended.stderr)
            assert mended.returncode == 0, mended
        raise AssertionError("the tool goes round in circles")

    def _foresee(self, settings: Mapping[str, object]) -> None:
        """Start the broker against the advice, and compare what it loses with what was said."""
        before = _entries(self._store)
        done = _run(["verify", str(self._store), "--json"])
        findings = json.loads(done.stdout)["findings"]
        told = [row for row in findings if row["rule"] in ("restart_loses", "restart_rebuilds")]
        deleted, again = (sum(int(_numbers(row)[place]) for row in told) for place in (0, 1))
        self._cluster.start_broker(settings)
        after = _entries(self._store)
        lost = sum(count for entry, count in before.items() if entry not in after)
        self._show(f"# started against the advice: {lost} entries lost, {deleted - again} foreseen")
        self._report.compare("losses as foreseen", deleted - again, lost)

    def _check(self, damage: str) -> None:
        after = f"after a kill{' and ' + damage if damage else ''}"
        answers = truth.offsets_of(self._store, tags=False)
        await_index(self._store, max(offset for each in answers.values() for offset in each))
        # A broker that recovers indexes its last message twice.
        lost = Counter(set(self._entries) - set(_entries(self._store)))
        self._report.compare(f"entries kept, {after}", {}, dict(lost))
        self._report.counts[f"entries kept, {after}"] += self._entries.total()
        asked = self._random.sample([*answers], min(_ASKED, len(answers)))
        rows = self._cluster.client.ask(
            "ask", questions=[list(each) for each in asked], maxNum=truth.MAX_NUM
        )
        for question, each in zip(asked, rows, strict=True):
            found = {row["commitLogOffset"] for row in each}
            wanted = answers[question]
            right = found <= set(wanted) and len(found) >= min(len(wanted), truth.MAX_NUM) - 1
            self._report.compare(f"keys answered, {after}", {question: True}, {question: right})


def _numbers(row: dict[str, Any]) -> list[str]:
    """Return how many entries a broker deletes and indexes again, as a finding says."""
    return re.findall(r"deletes (\d+) entries, indexes (\d+) again", row["got"])[0]


def _is_error(row: dict[str, Any]) -> bool:
    return bool(row["severity"] == "error")


def _entries(store: Path) -> Counter[tuple[int, int]]:
    """Return offset and hash of each entry of an index."""
    found: Counter[tuple[int, int]] = Counter()
    for path in sorted((store / "index").iterdir()):
        with IndexFile(path, _KILLED_LAYOUT) as file:
            for batch in file.scan(columns=["phy_offset", "key_hash"]):
                found.update(zip(*(batch[name].to_pylist() for name in (0, 1)), strict=True))
    return found


def _damage(store: Path, damage: str) -> None:
    newest = max((store / "index").iterdir())
    if damage == "index gone":
        shutil.rmtree(store / "index")
    elif damage == "index cut":
        with IndexFile(newest, _KILLED_LAYOUT) as file:
            os.truncate(newest, _KILLED_LAYOUT.entry_offset(file.header.entry_count // 2))
    elif damage == "header zeroed":
        with newest.open("r+b") as file:
            file.write(bytes(_HEADER_PAGE))
    elif damage == "queues gone":
        for folder in ("consumequeue", "batchconsumequeue"):
            shutil.rmtree(store / folder, ignore_errors=True)


def _run(arguments: list[str]) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "rmqindex", *arguments],
        capture_output=True,
        text=True,
        check=False,
        timeout=_TIMEOUT,
    )
