"""Run the job on a cluster, and kill what it asks for."""

from __future__ import annotations

import sys
import threading
import time
from pathlib import Path

from .bare import make_bare_python, make_zip
from .standalone import Cluster

__all__ = ["run_job"]

_JOB = Path(__file__).with_name("job.py")


def run_job(directory: Path, store: Path, *steps: str) -> list[str]:
    """Start a cluster, run steps of the job there and end the cluster.

    Args:
        directory: An empty directory for all that is made.
        store: A store, which is read.
        steps: ``all``, ``quick`` or names.

    Returns:
        The lines that the job printed, one for each step.

    Raises:
        RuntimeError: The job failed; its output is in the message.
    """
    shared = directory / "shared"
    shared.mkdir()
    python = make_bare_python(directory / "bare")
    packed = make_zip(directory / "rmqindex.zip")
    with Cluster(directory, python) as cluster:
        driver = cluster.submit(packed, str(_JOB), str(store), str(shared), *steps)
        over = threading.Event()
        killer = threading.Thread(target=_kill, args=(cluster, shared, over))
        killer.start()
        output, _ = driver.communicate()
        over.set()
        killer.join()
    lines = [line for line in output.splitlines() if line.partition(":")[0].isidentifier()]
    if driver.returncode or "all done" not in output:
        raise RuntimeError(f"the job ended with {driver.returncode}:\n{output}")
    return lines


def _kill(cluster: Cluster, shared: Path, over: threading.Event) -> None:
    """Kill each worker that a task names, then start another in its stead."""
    killed = 0
    while not over.wait(0.05):
        for victim in shared.glob("*.victim"):
            dead = victim.with_suffix(".dead")
            named = [part for part in Path(victim.read_text()).parts if part.startswith("worker-")]
            if dead.exists() or not named:
                continue
            cluster.kill_worker(named[0])
            killed += 1
            dead.touch()
            print(f"{time.strftime('%H:%M:%S')} killed {named[0]}", file=sys.stderr, flush=True)
            cluster.start_worker(f"worker-{killed}")
