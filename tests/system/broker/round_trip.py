"""A store's whole life: written, followed, lost, rebuilt, served again, laid out anew, expired."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

from tests.support.trees import files_of

from rmqindex import CommitLog, Layout, explain_lookup

from . import scenario, spark, truth
from .processes import BROKER_NAME
from .writing import (
    BATCH_QUEUE_FILE_SIZE,
    CHUNK,
    LAYOUT,
    QUEUE_FILE_SIZE,
    Sent,
    await_delivered,
    await_index,
    consume,
    make_topics,
    settings_of,
    settle,
)

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from pyspark.sql import SparkSession

    from .processes import Cluster
    from .report import Report
    from .truth import Question

# Its first file ends well within the first file of the CommitLog, which expires.
LARGER = Layout(499, 300)
_EXPIRING: dict[str, object] = {
    "fileReservedTime": 72,
    "deleteWhen": ";".join(f"{hour:02d}" for hour in range(24)),
    "cleanResourceInterval": 500,
}
_DAYS_AGO = 10 * 24 * 3600
# The broker looks for expired files a minute after its start.
_EXPIRY_SECONDS = 400
_ROUNDS_SECONDS = 1.5
_POLL_SECONDS = 0.2
# Between chunks of messages, so that several queries see the store grow.
_PAUSE_SECONDS = 1
_LOOKED_AT = 40
_EXPLAINED = 300
_ERROR = "error"


class RoundTrip:
    """The steps, in their order; each compares, and goes on where something differs."""

    def __init__(
        self,
        cluster: Cluster,
        work: Path,
        report: Report,
        session: SparkSession,
        say: Callable[[str], None],
    ) -> None:
        """Take what the steps need."""
        self._cluster = cluster
        self._store = cluster.store
        self._work = work
        self._report = report
        self._spark = session
        self._say = say
        self._tags = scenario.has_tags(cluster.version)
        self._sent = Sent()
        self._layout = LAYOUT
        self._questions: list[Question] = []
        self._answers: dict[Question, list[int]] = {}
        self._pulled: list[Any] = []

    def run(self, count: int) -> None:
        """Go through all steps.

        Args:
            count: How many sendings at first.
        """
        self._cluster.start_broker(settings_of(LAYOUT))
        make_topics(self._cluster)
        self._write(count)
        self._ask_first()
        self._kill()
        self._rebuild_queues()
        self._rebuild()
        self._serve_again()
        self._lay_out_anew()
        self._expire()

    def _write(self, count: int) -> None:
        self._say("messages are written while Spark reads")
        specs = scenario.messages(self._cluster.version, count)
        first, rest = specs[:CHUNK], specs[CHUNK:]
        self._sent.send(self._cluster, first)
        consume(self._cluster)
        settle(self._cluster, self._sent.specs, tags=self._tags)
        live = spark.LiveReader(self._spark, self._store, self._options())
        with ThreadPoolExecutor(1) as pool:
            sending = pool.submit(self._sent.send, self._cluster, rest, _PAUSE_SECONDS)
            while True:
                self._look_while_written(live)
                if sending.done():
                    break
            sending.result()
        settle(self._cluster, self._sent.specs, tags=self._tags)
        self._look_while_written(live)
        messages, entries = live.finish()
        log = self._offsets()
        self._report.counts["messages sent"] = sum(
            len(spec.get("members", [spec])) for spec in self._sent.specs
        )
        self._report.counts["messages in the CommitLog"] = len(log)
        self._report.compare("streams of the CommitLog", log, messages)
        self._report.compare(
            "streams of the index", truth.entry_count(self._store, tags=self._tags), len(entries)
        )
        self._report.compare(
            "streams of the index, entry by entry", len(entries), len(set(entries))
        )

    def _offsets(self) -> list[int]:
        with CommitLog(self._store) as log:
            return [row["phy_offset"] for row in truth.rows_of(log, ["phy_offset"])]

    def _look_while_written(self, live: spark.LiveReader) -> None:
        """Look for keys whose messages a producer has been told of, and at every entry."""
        wanted = self._plain_keys()
        picked = sorted(wanted)[:: 1 + len(wanted) // _LOOKED_AT]
        await_index(self._store, max(max(wanted[pair]) for pair in picked))
        found = live.look_up(picked)
        for pair in picked:
            missing = wanted[pair] - found[pair]
            self._report.compare("keys looked up while the broker writes", set(), missing)
        states = live.states()
        self._report.compare(
            "scans while the broker writes, each entry compared", {"verified"}, set(states)
        )

    def _plain_keys(self) -> dict[tuple[str, str], set[int]]:
        """Return keys of messages that are where the producer was told."""
        return {
            pair: {offset for offset in ids if isinstance(offset, int)}
            for pair, ids in self._sent.findable().items()
            if pair[0] in {scenario.ORDERS, scenario.BODIES, scenario.LIGHT}
        }

    def _ask_first(self) -> None:
        self._say("every key is asked for, of the broker's own index")
        self._questions = [*truth.offsets_of(self._store, tags=self._tags)]
        self._report.counts["keys in the CommitLog"] = len(self._questions)
        self._answers = self._ask("by the broker's own index")
        self._compare_with_log(self._answers)
        self._show("by the broker's own index")
        self._pulled = self._pull()

    def _ask(self, whose: str, since: int = 0) -> dict[Question, list[int]]:
        """Ask the broker for every key, and compare with the twin on the same files.

        Args:
            whose: Index, for the report.
            since: The offset before which messages are gone; the twin knows only the index.
        """
        rows = self._cluster.client.ask(
            "ask", questions=[list(each) for each in self._questions], maxNum=truth.MAX_NUM
        )
        found = {
            question: [row["commitLogOffset"] for row in each]
            for question, each in zip(self._questions, rows, strict=True)
        }
        twin = {
            question: [offset for offset in offsets if offset >= since]
            for question, offsets in truth.answers(
                self._store, self._layout, self._questions
            ).items()
        }
        self._report.compare(f"keys answered {whose}, as its twin here answers", twin, found)
        return found

    def _compare_with_log(self, found: dict[Question, list[int]]) -> None:
        """Compare answers with the messages: none is missing, and more are of the same hash."""
        wanted = truth.offsets_of(self._store, tags=self._tags)
        for question, offsets in wanted.items():
            if len(found[question]) < truth.MAX_NUM:
                self._report.compare(
                    "keys of which no message is missing", set(), {*offsets} - {*found[question]}
                )
            more = {*found[question]} - {*offsets}
            self._report.counts["messages of another key with the same hash"] += len(more)

    def _show(self, whose: str) -> None:
        """Ask as an administrator does, whose client leaves out what only has the same hash."""
        wanted = self._sent.findable()
        rows = self._cluster.client.ask(
            "query", questions=[list(pair) for pair in wanted], maxNum=truth.MAX_NUM
        )
        found = {
            pair: {self._name(row, wanted[pair]) for row in each}
            for pair, each in zip(wanted, rows, strict=True)
        }
        self._report.compare(f"keys shown to an administrator {whose}", wanted, found)

    @staticmethod
    def _name(row: dict[str, Any], wanted: set[int | str]) -> int | str:
        offset: int = row["commitLogOffset"]
        name: str = row.get("uniqKey", "")
        return name if name in wanted else offset

    def _pull(self) -> Any:
        queues = [
            (each["topic"], queue)
            for each in scenario.topics(self._cluster.version)
            for queue in range(each["queues"])
        ]
        return self._cluster.client.ask("pull", broker=BROKER_NAME, questions=queues)

    def _kill(self) -> None:
        self._say("the broker is killed, and its files are compared with ours")
        self._cluster.client.ask("stop")
        await_delivered(self._store)
        self._cluster.kill_broker()
        # What a start would lose depends on the moment of the kill; kills are judged by starts.
        self._verify("of the killed broker", foretold="restart_loses")
        own = files_of(self._store / "index")
        _run("rebuild", self._store, "--out", self._work / "rebuilt", *self._rebuild_options())
        self._report.compare(
            "IndexFiles rebuilt, byte for byte the broker's own",
            dict(enumerate(own.values())),
            dict(enumerate(files_of(self._work / "rebuilt").values())),
        )
        spark.rebuild(
            self._spark,
            self._store,
            self._work / "written" / "index",
            indexTags=self._tags,
            **self._options(),
        )
        self._report.compare(
            "IndexFiles built by Spark, byte for byte the broker's own",
            dict(enumerate(own.values())),
            dict(enumerate(files_of(self._work / "written" / "index").values())),
        )

    def _rebuild_queues(self) -> None:
        own = {name: files_of(self._store / name) for name in ("consumequeue", "batchconsumequeue")}
        _run(
            "rebuild-queues",
            self._store,
            *("--replace", "--allow-live-store"),
            *("--file-size", QUEUE_FILE_SIZE, "--batch-file-size", BATCH_QUEUE_FILE_SIZE),
        )
        for name, files in own.items():
            self._report.compare(
                "ConsumeQueue files rebuilt, byte for byte the broker's own",
                files,
                files_of(self._store / name),
            )

    def _rebuild(self) -> None:
        self._say("the index is lost, and rebuilt")
        shutil.rmtree(self._store / "index")
        options = (*self._rebuild_options(), "--checkpoint", "--allow-live-store")
        _run("rebuild", self._store, *options)
        self._verify("rebuilt")
        self._look_up_every_key("keys looked up by Spark in the rebuilt index")
        self._explain()

    def _serve_again(self) -> None:
        self._say("the broker starts, and every key is asked for again")
        names = {path.name for path in (self._store / "index").iterdir()}
        self._cluster.start_broker(settings_of(LAYOUT))
        kept = {path.name for path in (self._store / "index").iterdir()}
        self._report.compare(
            "rebuilt IndexFiles kept by the broker",
            dict.fromkeys(names, True),
            {name: name in kept for name in names},
        )
        found = self._ask("by the rebuilt index")
        self._compare_answers("keys answered by the rebuilt index as before", found)
        self._show("by the rebuilt index")
        self._report.compare(
            "rounds of pulls from rebuilt ConsumeQueues", self._pulled, self._pull()
        )
        self._say("and it goes on writing")
        more = scenario.messages(self._cluster.version, CHUNK, first=len(self._sent.specs))
        more = [spec for spec in more if spec["topic"] != scenario.RETRIES]
        self._sent.send(self._cluster, more)
        settle(self._cluster, self._sent.specs, tags=self._tags, repeated=True)
        self._questions = [*truth.offsets_of(self._store, tags=self._tags)]
        self._answers = self._ask("by the index that the broker went on with")
        self._compare_with_log(self._answers)
        self._show("by the index that the broker went on with")
        self._cluster.stop_broker()
        self._verify("of the stopped broker")

    def _compare_answers(self, what: str, found: dict[Question, list[int]]) -> None:
        """Compare with the answers before, but for what a broker indexes again after a crash.

        That is its last message: each of its keys has two entries then.
        """
        last = max(offset for offsets in self._answers.values() for offset in offsets)
        for question, before in self._answers.items():
            now = found[question]
            self._report.counts["entries of a message that was indexed again"] += max(
                0, now.count(last) - before.count(last)
            )
            self._report.compare(what, sorted({*before}), sorted({*now}))

    def _lay_out_anew(self) -> None:
        self._say("a larger geometry takes the index's place")
        sizes = ("--slots", LARGER.hash_slot_num, "--entries", LARGER.index_num)
        _run("relayout", self._store, *sizes)
        self._layout = LARGER
        self._verify("in a larger geometry")

    def _expire(self) -> None:
        log = sorted((self._store / "commitlog").iterdir())
        old = log[: len(log) // 2]
        past = time.time() - _DAYS_AGO
        for path in old:
            os.utime(path, (past, past))
        first = int(log[len(old)].name)
        told = _run("expire", self._store, "--dry-run", "--allow-loss", "--before", first)
        before = {path.name for path in (self._store / "index").iterdir()}
        self._cluster.start_broker({**settings_of(LARGER), **_EXPIRING})
        self._say("every key is asked for a third time, until the first files expire")
        found = self._ask("by the larger geometry")
        self._compare_answers("keys answered by the larger geometry as before", found)
        self._show("by the larger geometry")
        self._look_up_every_key("keys looked up by Spark in the larger geometry")
        deadline = time.monotonic() + _EXPIRY_SECONDS
        last = [old[-1], *(self._store / "index" / name for name in told["files"][-1:])]
        while any(path.exists() for path in last) and time.monotonic() < deadline:
            time.sleep(_POLL_SECONDS)
        # What goes too far would go in the next rounds.
        time.sleep(_ROUNDS_SECONDS)
        gone = before - {path.name for path in (self._store / "index").iterdir()}
        self._report.counts["CommitLog files expired"] = sum(not path.exists() for path in old)
        self._report.compare("expiries, the files named beforehand", {*told["files"]}, gone)
        self._report.counts["IndexFiles expired"] = len(gone)
        left = self._ask("after the expiry", first)
        for question, offsets in found.items():
            rest = [offset for offset in offsets if offset >= first]
            self._report.compare("keys answered after the expiry", rest, left[question])
        self._cluster.stop_broker()
        self._verify("after the expiry")

    def _look_up_every_key(self, what: str) -> None:
        wanted = {
            (each.topic, f"T#{each.key}" if each.index_type == truth.TAGS else each.key): offsets
            for each, offsets in truth.offsets_of(self._store, tags=self._tags).items()
        }
        found = spark.look_up_all(self._spark, self._store, wanted, **self._options())
        distinct = {pair: sorted({*offsets}) for pair, offsets in found.items()}
        self._report.compare(what, wanted, distinct)

    def _explain(self) -> None:
        """Ask why, for keys that the producers named."""
        wanted = self._plain_keys()
        for topic, key in sorted(wanted)[:: 1 + len(wanted) // _EXPLAINED]:
            explained = explain_lookup(
                self._store, topic, key, commit_log=self._store, layout=self._layout
            )
            found = {hit.phy_offset for hit in explained.hits}
            self._report.compare("keys explained", wanted[topic, key], found)

    def _verify(self, which: str, foretold: str = "") -> None:
        told = _run("verify", self._store, *self._geometry(), codes=(0, 1))
        errors = [each for each in told["findings"] if each["severity"] == _ERROR]
        errors = [each for each in errors if each["rule"] != foretold]
        self._report.compare("audits without an error", [], errors)
        rules = sorted({each["rule"] for each in told["findings"]})
        self._report.remarks.append(f"the index {which}: {', '.join(rules) or 'no finding'}")

    def _options(self) -> dict[str, int]:
        return {
            "maxHashSlotNum": self._layout.hash_slot_num,
            "maxIndexNum": self._layout.index_num,
        }

    def _geometry(self) -> tuple[object, ...]:
        sizes = ("--max-hash-slot-num", self._layout.hash_slot_num)
        return (*sizes, "--max-index-num", self._layout.index_num)

    def _rebuild_options(self) -> tuple[object, ...]:
        return (*self._geometry(), *(["--index-tags"] if self._tags else []))


def _run(*arguments: object, codes: tuple[int, ...] = (0,)) -> Any:
    """Run ``rmqindex`` and return what it prints for machines."""
    done = subprocess.run(
        [sys.executable, "-m", "rmqindex", *map(str, arguments), "--json"],
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    if done.returncode not in codes:
        raise RuntimeError(f"rmqindex {arguments[0]} ended with {done.returncode}:\n{done.stderr}")
    return json.loads(done.stdout)
