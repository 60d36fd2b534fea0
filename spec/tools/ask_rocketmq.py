"""Ask RocketMQ's own classes about a store's files, and write down what they say.

``python spec/tools/ask_rocketmq.py [logs] [queues] [tables] [values] [annexes]`` writes
``tests/data/store_formats`` anew: files that RocketMQ wrote, the same with one thing changed, and
what it says of each.
It needs Java 17 and Maven. Store times and paths of creation differ from run to run.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))
sys.path.insert(0, str(Path(__file__).resolve().parent))

from tests.support.maven import class_path_of, compile_java  # noqa: E402

from asked_logs import ask_about_logs  # noqa: E402
from asked_queues import ask_about_queues  # noqa: E402
from asked_tables import ask_about_tables  # noqa: E402
from asked_values import ask_about_values  # noqa: E402

TARGET = ROOT / "tests" / "data" / "store_formats"
JUDGE = "5.3.3"
# The first version with a sixth field in the checkpoint is 5.5.0.
NEWEST = "5.5.1"
GRPC_CLIENT = "5.0.7"
_JAVA = Path(__file__).parent / "java"
_POM = ROOT / "tests" / "system" / "differential" / "java" / "pom.xml"
_JVM_OPTIONS = (
    "-Xmx1g",
    "-Duser.timezone=UTC",
    "--add-opens=java.base/java.nio=ALL-UNNAMED",
    "--add-opens=java.base/sun.nio.ch=ALL-UNNAMED",
    "--add-opens=java.base/jdk.internal.ref=ALL-UNNAMED",
)


def grpc_ids(work: Path) -> list[dict[str, Any]]:
    """Return ids that a gRPC client made, with the times before and after, epoch milliseconds."""
    class_path = class_path_of(_JAVA / "client-pom.xml", GRPC_CLIENT)
    classes = work / "classes-grpc"
    classes.mkdir()
    compile_java(_JAVA / "GrpcIds.java", class_path, classes)
    joined = os.pathsep.join([str(classes), *class_path])
    done = subprocess.run(
        ["java", "-cp", joined, "GrpcIds"], capture_output=True, text=True, check=True
    )
    lines = [line.split() for line in done.stdout.splitlines()]
    return [
        {"id": text, "created_after": int(before), "created_before": int(after)}
        for text, before, after in lines
    ]


def annexes(work: Path) -> list[dict[str, Any]]:
    """Return an index of tiered storage, and what golden stores hold in RocksDB."""
    class_path = class_path_of(_JAVA / "tiered-pom.xml", JUDGE)
    classes = work / "classes-annexes"
    classes.mkdir()
    compile_java(_JAVA / "AnnexOracle.java", class_path, classes)
    stores = ROOT / "tests" / "data" / "store_kinds"
    databases = []
    for kind, folder in (("rocksdb_index", "rocksdbstore"), ("rocksdb_queue", "consumequeue")):
        databases.append(work / kind)
        shutil.copytree(stores / kind / "store" / folder, databases[-1])
    joined = os.pathsep.join([str(classes), *class_path])
    command = ["java", *_JVM_OPTIONS, "-cp", joined, "AnnexOracle", str(work / "tiered")]
    done = subprocess.run(
        [*command, *map(str, databases)], capture_output=True, text=True, check=True
    )
    told = json.loads(done.stdout)
    return [
        {"name": "tiered_index", **told["tiered"]},
        {"name": "rocksdb_index", "pairs": told["rocksdb-1"]},
        {"name": "rocksdb_queue", "pairs": told["rocksdb-2"]},
    ]


class RocketMQ:
    """The classes of one version, in a process that answers a JSON document a line."""

    def __init__(self, version: str, work: Path) -> None:
        """Compile the driver against the version's jars, and start it."""
        class_path = class_path_of(_POM, version)
        classes = work / f"classes-{version}"
        classes.mkdir()
        compile_java(_JAVA / "StoreOracle.java", class_path, classes)
        self.work = work
        self._count = 0
        joined = os.pathsep.join([str(classes), *class_path])
        self._process = subprocess.Popen(
            ["java", *_JVM_OPTIONS, "-cp", joined, "StoreOracle"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            encoding="utf-8",
        )

    def folder(self) -> Path:
        """Return a new empty folder."""
        self._count += 1
        path = self.work / f"run-{id(self)}-{self._count}"
        path.mkdir()
        return path

    def ask(self, op: str, **question: Any) -> Any:  # noqa: ANN401  (JSON)
        """Ask one question.

        Raises:
            RuntimeError: The classes threw what they do not catch themselves.
        """
        assert self._process.stdin
        assert self._process.stdout
        question.setdefault("root", str(self.folder()))
        self._process.stdin.write(json.dumps({"op": op, **question}) + "\n")
        self._process.stdin.flush()
        answer = json.loads(self._process.stdout.readline())
        if isinstance(answer, dict) and "error" in answer:
            raise RuntimeError(f"{op}: {answer['error']}")
        return answer

    def close(self) -> None:
        """End the process."""
        assert self._process.stdin
        self._process.stdin.close()
        self._process.wait(60)


def main(wanted: list[str]) -> None:
    """Write everything, or only what is about one of these subjects."""
    work = Path(tempfile.mkdtemp(prefix="rocketmq-"))
    judge, newest = RocketMQ(JUDGE, work), RocketMQ(NEWEST, work)
    TARGET.mkdir(parents=True, exist_ok=True)
    questions = {
        "logs": lambda: ask_about_logs(judge),
        "queues": lambda: ask_about_queues(judge),
        "values": lambda: ask_about_values(judge),
        "tables": lambda: ask_about_tables(judge, newest) | {"grpc_ids": grpc_ids(work)},
    }
    questions["annexes"] = lambda: {"annexes": annexes(work)}
    try:
        for subject, ask in questions.items():
            for name, cases in ask().items() if subject in (wanted or questions) else ():
                text = ",\n".join(json.dumps(case) for case in cases)
                (TARGET / f"{name}.json").write_text(f"[\n{text}\n]\n", encoding="ascii")
                print(f"{name}: {len(cases)} cases", flush=True)
    finally:
        judge.close()
        newest.close()
        shutil.rmtree(work, ignore_errors=True)


if __name__ == "__main__":
    main(sys.argv[1:])
