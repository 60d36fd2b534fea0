"""The campaign: ``python -m tests.system.simulator --seeds 1000 --first 1``."""

from __future__ import annotations

import faulthandler
import importlib
import importlib.util
import json
import multiprocessing
import os
import pkgutil
import queue
import shutil
import subprocess
import sys
import tempfile
import time
from argparse import ArgumentParser, Namespace
from collections import Counter
from dataclasses import asdict, dataclass, field
from pathlib import Path
from random import SystemRandom
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable

_MOST_SEEDS = 2**32
#: After which a seed's process is ended, whatever it does.
_MOST_SECONDS = 3600
#: How often it is asked whether the processes live.
_LOOK_SECONDS = 10
_HERE = Path(__file__).parent
#: In memory where that is possible: a seed writes a few hundred small files.
_FAST = Path("/dev/shm")


@dataclass
class Found:
    """What came of one seed."""

    seed: int
    faults: list[Any] = field(default_factory=list)
    script: str = ""
    steps: Counter[str] = field(default_factory=Counter)
    answers: Counter[tuple[str, str]] = field(default_factory=Counter)
    seconds: float = 0.0
    slowest: tuple[float, str] = (0.0, "")
    lines: dict[str, set[int]] = field(default_factory=dict)


def main() -> int:
    """Run seeds; print the first one and the commit, each fault, and how far it reached.

    Returns:
        1 if anything was wrong.
    """
    parser = ArgumentParser(prog="python -m tests.system.simulator", description=__doc__)
    parser.add_argument("--seeds", type=int, default=1000, help="how many")
    parser.add_argument("--first", type=int, help="the first one; by default a new one")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--tree", type=Path, help="judge the packages of another checkout")
    parser.add_argument("--shrink", action="store_true", help="shorten the first of each kind")
    parser.add_argument("--script", type=int, metavar="SEED", help="print a seed's history")
    parser.add_argument("--play", type=Path, nargs="+", help="play scripts that were printed")
    parser.add_argument("--folder", type=Path, help="where to play them, kept afterwards")
    parser.add_argument("--coverage", action="store_true", help="count the lines reached")
    parser.add_argument("--keep", type=Path, help="a folder for the scripts of failed seeds")
    parser.add_argument("--log", type=Path, help="a file to which each fault is added, as JSON")
    parser.add_argument("--until", type=int, default=1, help="faults after which a seed ends")
    parser.add_argument("--stop", action="store_true", help="end after the first seed with faults")
    parser.add_argument("--shown", type=int, default=2, help="faults shown of each kind")
    parser.add_argument(
        "--power", action="store_true", help="then cut the power after every call of every write"
    )
    arguments = parser.parse_args()
    if arguments.coverage and importlib.util.find_spec("coverage") is None:
        parser.error("--coverage needs the package coverage, which is not installed")
    _settle(arguments.tree)
    if arguments.script is not None:
        return _print_script(arguments.script, arguments.until)
    if arguments.play is not None:
        return _play(arguments)
    failed = _campaign(arguments)
    if arguments.power:
        from .disk.__main__ import main as cut_power

        failed |= cut_power(["--jobs", str(arguments.jobs)])
    return failed


def _settle(tree: Path | None) -> None:
    """Make everything that an answer depends on the same in each run, and choose the packages."""
    os.environ.update(TZ="UTC", COLUMNS="200", OPENBLAS_NUM_THREADS="1")
    os.environ.pop("RMQINDEX_TIME_ZONE", None)
    time.tzset()
    support = str(_HERE.parents[1] / "support")
    sys.path[:0] = [support]
    if tree is not None:
        sys.path[:0] = [str(tree / "format"), str(tree / "connector")]
    import rmqindex

    load_packages()
    assert tree is None or Path(rmqindex.__file__).is_relative_to(tree)


def load_packages() -> None:
    """Import everything, so that processes that are forked later need not."""
    names = ("rmqindex", "pyspark_rmqindex", "pyspark_rmqcommitlog", "pyspark_rmqconsumequeue")
    for name in names:
        package = importlib.import_module(name)
        for module in pkgutil.walk_packages(package.__path__, f"{name}."):
            if not module.name.endswith("__main__"):
                importlib.import_module(module.name)
    for name in ("pandas", "pyarrow.parquet", "pyarrow.csv", "pyarrow.compute", "pyarrow.dataset"):
        importlib.import_module(name)


def run_seed(seed: int, folder: Path, *, until: int = 1) -> Found:
    """Run one seed in an empty folder."""
    from .session import draw_session

    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    start = time.monotonic()
    report = draw_session(seed, folder, most_faults=until)
    found = Found(seed, report.faults, report.script.text() if report.faults else "")
    found.steps, found.answers = report.steps, report.answers
    found.seconds = time.monotonic() - start
    found.slowest = report.slowest
    shutil.rmtree(folder, ignore_errors=True)
    return found


def _base() -> Path:
    return Path(tempfile.mkdtemp(prefix="simulator-", dir=_FAST if _FAST.is_dir() else None))


def _work(arguments: Namespace, base: Path, seeds: Any, founds: Any, is_failed: Any) -> None:
    folder = base / str(os.getpid())
    measured = _Coverage() if arguments.coverage else None
    while (seed := seeds.get()) is not None and not (arguments.stop and is_failed.is_set()):
        founds.put((os.getpid(), seed))
        faulthandler.dump_traceback_later(_MOST_SECONDS, exit=True)
        try:
            found = run_seed(seed, folder, until=arguments.until)
        except Exception as error:  # noqa: BLE001  (of the simulator, and told as such)
            import traceback

            from .judge import Fault

            found = Found(seed, [Fault("simulator", type(error).__name__, traceback.format_exc())])
        if measured is not None:
            found.lines = measured.lines()
        faulthandler.cancel_dump_traceback_later()
        founds.put((os.getpid(), found))
        if found.faults:
            is_failed.set()
    founds.put((os.getpid(), None))


class _Coverage:
    """Which lines of the packages ran."""

    def __init__(self) -> None:
        import coverage

        packages = ["rmqindex", "pyspark_rmqindex"]
        self._coverage = coverage.Coverage(source_pkgs=packages, data_file=None)
        self._coverage.start()

    def lines(self) -> dict[str, set[int]]:
        """Return the lines of each file since the last call."""
        self._coverage.stop()
        data = self._coverage.get_data()
        found = {name: set(data.lines(name) or ()) for name in data.measured_files()}
        self._coverage.erase()
        self._coverage.start()
        return found


def _campaign(arguments: Namespace) -> int:
    first = arguments.first
    first = SystemRandom().randrange(_MOST_SEEDS) if first is None else first
    print(f"seeds {first} to {first + arguments.seeds - 1}, commit {_commit(arguments.tree)}")
    sys.stdout.flush()
    base = _base()
    kinds: Counter[tuple[str, str]] = Counter()
    steps: Counter[str] = Counter()
    answers: Counter[tuple[str, str]] = Counter()
    lines: dict[str, set[int]] = {}
    start, slow, slowest, count, failed = time.monotonic(), 0.0, (0.0, ""), 0, set()
    try:
        for found in _all(arguments, first, base):
            count += 1
            steps += found.steps
            answers += found.answers
            slow, slowest = max(slow, found.seconds), max(slowest, found.slowest)
            for name, numbers in found.lines.items():
                lines.setdefault(name, set()).update(numbers)
            if found.faults:
                failed.add(found.seed)
                _keep(arguments.keep, found)
                _log(arguments.log, found)
            for fault in found.faults:
                kinds[fault.kind] += 1
                if kinds[fault.kind] <= arguments.shown:
                    _show(arguments, found, fault, base, is_first=kinds[fault.kind] == 1)
    finally:
        shutil.rmtree(base, ignore_errors=True)
    print()
    print(f"{count} seeds in {time.monotonic() - start:.0f} s, {len(failed)} with faults")
    _table("steps", steps)
    _table("answers", Counter({f"{u}: {s}": n for (u, s), n in answers.items()}))
    print(f"{answers.total()} answers judged, the slowest seed took {slow:.1f} s")
    if lines:
        _print_lines(lines)
    for kind, number in kinds.most_common():
        print(f"{number:6} {kind[0]}: {kind[1]}")
    return 1 if kinds else 0


def _all(arguments: Namespace, first: int, base: Path) -> Iterable[Found]:
    context = multiprocessing.get_context("fork")
    seeds: Any = context.Queue()
    founds: Any = context.Queue()
    is_failed = context.Event()
    for seed in range(first, first + arguments.seeds):
        seeds.put(seed)
    workers = []
    for _ in range(arguments.jobs):
        seeds.put(None)
        given = (arguments, base, seeds, founds, is_failed)
        workers.append(context.Process(target=_work, args=given))
        workers[-1].start()
    running, at = {worker.pid: worker for worker in workers}, {}
    while running:
        try:
            pid, found = founds.get(timeout=_LOOK_SECONDS)
        except queue.Empty:
            dead = [pid for pid, worker in running.items() if not worker.is_alive()]
            for pid in dead if founds.empty() else []:
                yield Found(at[pid], [_ended(running.pop(pid).exitcode)])
            continue
        if found is None:
            running.pop(pid).join()
        elif isinstance(found, int):
            at[pid] = found
        else:
            yield found


def _ended(code: int | None) -> Any:
    from .judge import Fault

    what = f"it ended with {code}, as after {_MOST_SECONDS} s outside of Python"
    return Fault("crashed", "the process of the seed", what)


def _keep(folder: Path | None, found: Found) -> None:
    if folder is not None and found.script:
        folder.mkdir(parents=True, exist_ok=True)
        (folder / f"{found.seed}.json").write_text(found.script)


def _log(path: Path | None, found: Found) -> None:
    if path is None:
        return
    with path.open("a") as file:
        for fault in found.faults:
            file.write(json.dumps({"seed": found.seed, **asdict(fault)}, ensure_ascii=False) + "\n")


def _show(arguments: Namespace, found: Found, fault: Any, base: Path, *, is_first: bool) -> None:
    print(f"\nseed {found.seed}: {fault.rule}: {fault.user}: {fault.what[:1500]}")
    print(f"  store: {', '.join(fault.about)}")
    if arguments.shrink and is_first and found.script:
        from .session import Script
        from .shrink import shrink

        script = shrink(Script.read(found.script), fault, base / "shrink")
        print(f"  {len(script.steps)} steps: {script.text()}")
    sys.stdout.flush()


def _print_script(seed: int, until: int) -> int:
    base = _base()
    try:
        from .session import draw_session

        report = draw_session(seed, base / "s", most_faults=until)
        print(report.script.text())
        for fault in report.faults:
            print(f"{fault.rule}: {fault.user}: {fault.what}", file=sys.stderr)
    finally:
        shutil.rmtree(base, ignore_errors=True)
    return 1 if report.faults else 0


def _play(arguments: Namespace) -> int:
    from .session import Script, play

    base = arguments.folder or _base()
    failed = 0
    for path in arguments.play:
        script = Script.read(path.read_text(encoding="utf-8"))
        folder = base if len(arguments.play) == 1 else base / path.stem
        report = play(script, folder)
        print(f"{path.name}: {len(script.steps)} steps in {folder}", flush=True)
        for fault in report.faults:
            print(f"{path.name}: step {fault.step}: {fault.rule}: {fault.user}: {fault.what}")
            failed = 1
    return failed


def _commit(tree: Path | None) -> str:
    where = tree or _HERE
    told = subprocess.run(
        ["git", "-C", where, "rev-parse", "--short", "HEAD"],
        capture_output=True,
        text=True,
        check=False,
    )
    return told.stdout.strip() or "unknown"


def _table(name: str, counts: Counter[str]) -> None:
    print(f"{name}:")
    for one, number in sorted(counts.items()):
        print(f"  {number:8} {one}")


def _print_lines(lines: dict[str, set[int]]) -> None:
    import coverage

    measured = coverage.Coverage(data_file=None)
    reached = known = 0
    for name, numbers in lines.items():
        _, statements, _, _, _ = measured.analysis2(name)
        known += len(statements)
        reached += len(numbers & set(statements))
    print(f"{reached} of {known} lines of {len(lines)} modules that were imported")


if __name__ == "__main__":
    sys.exit(main())
