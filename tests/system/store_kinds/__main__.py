"""The command ``python -m tests.system.store_kinds``: makes the golden stores anew."""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from tests.support.maven import class_path_of, compile_java
from tests.support.recorded import STORE_KINDS

from . import KINDS, VERSION

_JAVA = Path(__file__).parent / "java"
# RocksDB notes in its files where they were, and the name of the host.
_WORK = Path("/tmp/rmq")
_HOST = "broker"
_JVM_OPTIONS = (
    "-Xmx512m",
    "--add-opens=java.base/java.nio=ALL-UNNAMED",
    "--add-opens=java.base/sun.nio.ch=ALL-UNNAMED",
)
# RocksDB's logs and options hold paths of the machine, and it opens a database without them.
_DROPPED = ("LOG*", "OPTIONS-*", "LOCK", "compaction", "abort.bak", "*.bak")
# DLedger gives its index 160 MB, whose end is a hole.
_KEPT_BYTES = 4096
_TIMEOUT = 300


def main() -> int:
    """Write the stores of some kinds, or of all."""
    parser = argparse.ArgumentParser(prog="python -m tests.system.store_kinds", description=__doc__)
    parser.add_argument("--kind", action="append", choices=KINDS, help="may be repeated")
    parser.add_argument("--out", type=Path, default=STORE_KINDS, help="where they go")
    arguments = parser.parse_args()
    class_path = class_path_of(_JAVA / "pom.xml", VERSION)
    with tempfile.TemporaryDirectory() as classes:
        compile_java(_JAVA / "Writer.java", class_path, Path(classes))
        for kind in arguments.kind or KINDS:
            _make(kind, arguments.out / kind, os.pathsep.join([classes, *class_path]))
            print(kind, flush=True)
    return 0


def _make(kind: str, target: Path, class_path: str) -> None:
    """Write one store, and keep what tells its kind."""
    shutil.rmtree(_WORK, ignore_errors=True)
    _WORK.mkdir(parents=True)
    store, told = _WORK / "store", _WORK / "told.json"
    runs = []
    for settings in KINDS[kind]:
        command = ["java", *_JVM_OPTIONS, "-cp", class_path, "Writer"]
        command += [str(store), str(told), *settings]
        in_host = ["unshare", "--uts", "sh", "-c", f'hostname {_HOST} && exec "$@"', "sh"]
        subprocess.run([*in_host, *command], check=True, capture_output=True, timeout=_TIMEOUT)
        runs.append(json.loads(told.read_text()))
    last = runs[-1]
    shutil.rmtree(target, ignore_errors=True)
    shutil.copytree(store, target / "store", ignore=shutil.ignore_patterns(*_DROPPED))
    for index in (target / "store").glob("dledger-*/index/*"):
        os.truncate(index, _KEPT_BYTES)
    # Git keeps no empty folders.
    folders = [each for each in (target / "store").rglob("*") if each.is_dir()]
    empty = [str(each.relative_to(target / "store")) for each in folders if not any(each.iterdir())]
    answers = {
        "version": VERSION,
        "settings": [run["settings"] for run in runs],
        "empty_folders": sorted(empty),
        "messages": [message for run in runs for message in run["messages"]],
        "queues": last["queues"],
        "answers": last["answers"],
        "read": last["read"],
    }
    (target / "told.json").write_text(json.dumps(answers, separators=(",", ":")) + "\n")


if __name__ == "__main__":
    sys.exit(main())
