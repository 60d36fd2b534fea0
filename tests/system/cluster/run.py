"""Run the job on a cluster, and kill what it asks for."""

from __future__ import annotations

import json
import sys
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING

from tests.support.s3_server import BUCKET, S3Server

from .bare import make_bare_python, make_zip
from .guide import run_guide
from .standalone import Cluster

if TYPE_CHECKING:
    import subprocess

__all__ = ["run_job"]

JOB = Path(__file__).with_name("job.py")


def run_job(directory: Path, store: Path, *steps: str) -> list[str]:
    """Start a cluster and an S3 server, run steps of the job there and end them.

    Args:
        directory: An empty directory for all that is made.
        store: A store, which is read.
        steps: ``all``, ``quick``, ``guide`` for the commands of the guide, or names.

    Returns:
        The lines that the job printed, one for each step.

    Raises:
        RuntimeError: The job failed; its output is in the message.
    """
    shared = directory / "shared"
    shared.mkdir()
    python = make_bare_python(directory / "bare")
    server = S3Server()
    server.start()
    target = f"s3://{BUCKET}/written"
    far = {"store": server.put(store, "broker-a"), "target": target, "options": server.options}
    lines = []
    try:
        with Cluster(directory, python) as cluster:
            if steps != ("guide",):
                packed = str(make_zip(directory / "rmqindex.zip"))
                arguments = [str(JOB), str(store), str(shared), json.dumps(far), *steps]
                # The driver has the packages on its PYTHONPATH as well, since the Python that
                # plans streams gets no --py-files.
                submit = ["spark-submit", "--master", cluster.url, "--py-files", packed, *arguments]
                place = directory / "driver"
                driver = cluster.start_driver(submit, place, PYTHONPATH=packed)
                lines += _lines_of(cluster, driver, shared)
            if {"all", "guide"} & set(steps):
                lines += run_guide(cluster, directory / "guide", JOB, store, far)
    finally:
        server.stop()
    return lines


def _lines_of(cluster: Cluster, driver: subprocess.Popen[str], shared: Path) -> list[str]:
    """Wait for a driver, and kill what its tasks ask for."""
    over = threading.Event()
    killer = threading.Thread(target=_kill, args=(cluster, shared, over))
    killer.start()
    output, _ = driver.communicate()
    over.set()
    killer.join()
    if driver.returncode or "all done" not in output:
        raise RuntimeError(f"the job ended with {driver.returncode}:\n{output}")
    return [line for line in output.splitlines() if line.partition(":")[0].isidentifier()]


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
