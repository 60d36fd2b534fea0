"""The command ``python -m tests.system.broker``; with ``--golden`` it makes golden stores."""

from __future__ import annotations

import argparse
import shutil
import sys
import tempfile
import time
from pathlib import Path

from rmqindex import Layout

from . import VERSIONS
from .campaigns import Kills, LiveAudits
from .golden import keep_store
from .processes import Cluster
from .report import Report
from .round_trip import RoundTrip
from .spark import make_session
from .stories import Stories

# Its files are full within seconds.
_SMALL = Layout(4_999, 20_000)
_PLANTED = 5


def main() -> int:
    """Run the round trip on each version; print what was compared and each difference.

    Returns:
        1 if there was a difference.
    """
    parser = argparse.ArgumentParser(prog="python -m tests.system.broker", description=__doc__)
    parser.add_argument("--messages", type=int, default=1_000, help="how many sendings")
    parser.add_argument("--version", action="append", help="of RocketMQ; may be repeated")
    parser.add_argument("--keep", action="store_true", help="leave the folder with the store")
    parser.add_argument("--golden", type=Path, help="write golden stores there, and nothing else")
    parser.add_argument("--stories", action="store_true", help="tell the stories of an operator")
    parser.add_argument("--live-audits", type=int, help="audit a live store so many times")
    parser.add_argument("--kills", type=int, help="kill a broker under load so many times")
    parser.add_argument("--rate", type=int, default=1_000, help="messages a second, under load")
    arguments = parser.parse_args()
    versions = arguments.version or VERSIONS
    failed = False
    for version in versions:
        work = Path(tempfile.mkdtemp(prefix="rmqindex-broker-"))
        try:
            if arguments.golden is not None:
                with Cluster(version, work) as cluster:
                    keep_store(cluster, arguments.golden / version)
                continue
            if arguments.live_audits is not None:
                report = _audit(version, work, arguments.live_audits, arguments.rate)
            elif arguments.kills is not None:
                report = _kill(version, work, arguments.kills, arguments.rate)
            elif arguments.stories:
                report = _tell(version, work, arguments.messages)
            else:
                report = _run(version, work, arguments.messages)
            failed = failed or bool(report.differences)
        finally:
            if arguments.keep:
                print(f"RocketMQ {version}: {work}")
            else:
                shutil.rmtree(work)
    return 1 if failed else 0


def _run(version: str, work: Path, count: int) -> Report:
    start = time.monotonic()

    def say(text: str) -> None:
        print(f"{time.monotonic() - start:6.1f} s  RocketMQ {version}: {text}", flush=True)

    report = Report()
    session = make_session(work)
    with Cluster(version, work) as cluster:
        RoundTrip(cluster, work, report, session, say).run(count)
    print(f"\nRocketMQ {version}, {time.monotonic() - start:.0f} s:")
    print("\n".join(report.lines()), flush=True)
    return report


def _tell(version: str, work: Path, count: int) -> Report:
    report = Report()
    for kind in ("plain", "dledger"):
        folder = work / kind
        folder.mkdir()
        with Cluster(version, folder) as cluster:
            stories = Stories(cluster, report, lambda text: print(text, flush=True))
            stories.run(count) if kind == "plain" else stories.run_dledger(count)
    print(f"\nRocketMQ {version}:")
    print("\n".join(report.lines()), flush=True)
    return report


def _audit(version: str, work: Path, audits: int, rate: int) -> Report:
    report = Report()
    session = make_session(work)
    for name, layout, part in (("small", _SMALL, audits // 2), ("default", Layout(), audits // 2)):
        folder = work / name
        folder.mkdir()
        with Cluster(version, folder) as cluster:
            LiveAudits(cluster, report, session, _show).run(part, rate, _PLANTED, layout)
    print(f"\nRocketMQ {version}:")
    print("\n".join(report.lines()), flush=True)
    return report


def _kill(version: str, work: Path, kills: int, rate: int) -> Report:
    report = Report()
    with Cluster(version, work) as cluster:
        Kills(cluster, report, _show).run(kills, rate)
    print(f"\nRocketMQ {version}:")
    print("\n".join(report.lines()), flush=True)
    return report


def _show(text: str) -> None:
    print(text, flush=True)


if __name__ == "__main__":
    sys.exit(main())
