"""An operator mends a real broker's store by what is printed, and the broker serves it again."""

from __future__ import annotations

import re
import shlex
import shutil
import subprocess
import sys
from typing import TYPE_CHECKING, NamedTuple

from tests.support.trees import files_of

from . import scenario, truth
from .processes import free_port
from .writing import LAYOUT, Sent, await_delivered, make_topics, settings_of, settle

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from .processes import Cluster
    from .report import Report
    from .truth import Question

GEOMETRY = f"--max-hash-slot-num {LAYOUT.hash_slot_num} --max-index-num {LAYOUT.index_num}"
_CUT_BYTES = 3000
_DLEDGER_SETTINGS: dict[str, object] = {
    "enableDLegerCommitLog": "true",
    "dLegerGroup": "broker-a",
    "dLegerSelfId": "n0",
}
_TIMEOUT = 300
#: A command that an output tells to type.
QUOTED = re.compile(r"['`]rmqindex ([^'`]*)['`]|^ {4}rmqindex (.*)$", re.MULTILINE)


class Printed(NamedTuple):
    """What a command ended with and printed, on both outputs."""

    code: int
    text: str

    @property
    def quoted(self) -> str:
        """The command that the text says to type."""
        found = QUOTED.search(self.text)
        assert found is not None, self.text
        return found[1] or found[2]


class Stories:
    """Each begins with a broker that has written, and ends with one that answers every key."""

    def __init__(self, cluster: Cluster, report: Report, show: Callable[[str], None]) -> None:
        """Take what the stories need.

        Args:
            cluster: Its broker is not started.
            report: Of what was compared.
            show: Takes what is typed and printed.
        """
        self._cluster = cluster
        self._store = cluster.store
        self._report = report
        self._show = show
        self._tags = scenario.has_tags(cluster.version)
        self._settings: Mapping[str, object] = settings_of(LAYOUT)
        self._answers: dict[Question, list[int]] = {}

    def run(self, count: int) -> None:
        """Tell all stories of a plain broker, one after the other.

        Args:
            count: How many sendings at first.
        """
        self._write(count)
        self.lose_index()
        self.lose_oldest_file()
        self.cut_a_file()
        self.mistake_topic()

    def run_dledger(self, count: int) -> None:
        """Tell the story of a DLedger broker that is alone in its group.

        Args:
            count: How many sendings at first.
        """
        peers = f"n0-127.0.0.1:{free_port()}"
        self._settings = {**self._settings, **_DLEDGER_SETTINGS, "dLegerPeers": peers}
        self._write(count)
        self.lose_index()

    def lose_index(self) -> None:
        """The broker is killed, and its index is gone, whose files had tags."""
        self._show("# The broker is killed (kill -9), and its index is lost")
        self._answers = self._ask([*truth.offsets_of(self._store, tags=self._tags)])
        await_delivered(self._store)
        self._cluster.kill_broker()
        own = files_of(self._store / "index")
        shutil.rmtree(self._store / "index")
        command = self._type(f"info {self._store}", 2).quoted
        told = self._type(command)
        self._flag(told, "--max-hash-slot-num")
        # This broker has other settings than the default.
        refused = self._type(f"{command} {GEOMETRY}", 2)
        self._type(f"{command} {GEOMETRY} {self._flag(refused, '--replace')}")
        self._report.compare(
            "IndexFiles rebuilt in a story, byte for byte the broker's own",
            dict(enumerate(own.values())),
            dict(enumerate(files_of(self._store / "index").values())),
        )
        self._serve("the index was lost")

    def lose_oldest_file(self) -> None:
        """A broker that was stopped lacks its oldest IndexFile."""
        self._show("# The broker is stopped, and its oldest IndexFile is gone")
        self._cluster.stop_broker()
        min((self._store / "index").iterdir()).unlink()
        told = self._type(f"verify {self._store}", 1)
        self._type(told.quoted)
        self._serve("the oldest file was gone")

    def cut_a_file(self) -> None:
        """A broker that was stopped has an IndexFile that is too short."""
        self._show(f"# The broker is stopped, and an IndexFile has only {_CUT_BYTES} bytes")
        self._cluster.stop_broker()
        path = sorted((self._store / "index").iterdir())[1]
        path.write_bytes(path.read_bytes()[:_CUT_BYTES])
        topic, key = self._a_key()
        refused = self._type(f"lookup {self._store} {topic} {key}", 2)
        mode = self._flag(refused, "--mode DROPMALFORMED")
        self._type(f"lookup {self._store} {topic} {key} {mode}")
        told = self._type(f"verify {self._store}", 1)
        self._type(told.quoted)
        self._serve("a file was cut")

    def mistake_topic(self) -> None:
        """A key is asked for under a topic that differs in case."""
        self._show("# A key is asked for under another spelling of its topic")
        topic, key = self._a_key()
        self._type(f"lookup {self._store} {topic.lower()} {key}", 1)
        told = self._type(f"explain {self._store} {topic.lower()} {key}", 1)
        assert told.quoted == f"lookup {self._store} {topic} {key}"
        found = self._type(told.quoted)
        for offset in self._answers[truth.Question(topic, key, None)]:
            self._report.compare("keys under the right topic", True, str(offset) in found.text)

    def _write(self, count: int) -> None:
        self._cluster.start_broker(self._settings)
        make_topics(self._cluster)
        sent = Sent()
        specs = scenario.messages(self._cluster.version, count)
        sent.send(self._cluster, [each for each in specs if each["topic"] != scenario.RETRIES])
        settle(self._cluster, sent.specs, tags=self._tags)
        self._cluster.client.ask("stop")

    def _a_key(self) -> tuple[str, str]:
        return next(
            (each.topic, each.key)
            for each in self._answers
            if each.topic == scenario.ORDERS and each.index_type is None
        )

    def _ask(self, questions: list[Question]) -> dict[Question, list[int]]:
        rows = self._cluster.client.ask(
            "ask", questions=[list(each) for each in questions], maxNum=truth.MAX_NUM
        )
        return {
            question: sorted({row["commitLogOffset"] for row in each})
            for question, each in zip(questions, rows, strict=True)
        }

    def _serve(self, after: str) -> None:
        """Start the broker on the mended store, and ask it for every key."""
        names = {path.name for path in (self._store / "index").iterdir()}
        self._cluster.start_broker(self._settings)
        kept = {path.name for path in (self._store / "index").iterdir()}
        self._report.compare(
            f"IndexFiles kept by the broker, after {after}",
            dict.fromkeys(names, True),
            {name: name in kept for name in names},
        )
        found = self._ask([*self._answers])
        self._report.compare(f"keys answered as before, after {after}", self._answers, found)
        self._show(
            f"# The broker started: {len(names & kept)} of {len(names)} IndexFiles kept, "
            f"{sum(found[each] == self._answers[each] for each in found)} of {len(found)} keys "
            "answered as before\n"
        )

    def _type(self, line: str, code: int = 0) -> Printed:
        """Run ``rmqindex`` with a line as it was typed; it must end with a code."""
        self._show(f"$ rmqindex {line}")
        done = subprocess.run(
            [sys.executable, "-m", "rmqindex", *shlex.split(line)],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
            timeout=_TIMEOUT,
        )
        self._show(done.stdout.rstrip("\n"))
        assert done.returncode == code, (line, done.returncode, done.stdout)
        return Printed(done.returncode, done.stdout)

    @staticmethod
    def _flag(printed: Printed, flag: str) -> str:
        """Return a flag that the text must name."""
        assert flag in printed.text, printed.text
        return flag
