"""The lines of a cluster: what a second worker of one core adds."""

from __future__ import annotations

import os
import re
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from tests.system.cluster.standalone import Cluster

from benchmarks._rounds import Goal, compared, interleaved

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from benchmarks._context import Context
    from benchmarks._rounds import Comparison

__all__ = ["workers"]

_ROOT = Path(__file__).parent.parent
_ONE, _TWO = "one worker", "two workers"


def workers(context: Context) -> Iterator[Comparison]:
    """Scan and look up many keys on one worker and on two, each time in an application anew."""
    rows, keys = context.sizes.rows, context.sizes.lookup
    files = context.sizes.join_files
    index, wanted = context.join_index, context.keys(keys)
    path = os.pathsep.join(map(str, (_ROOT, _ROOT / "format", _ROOT / "connector")))

    def run(cluster: Cluster, cores: int, work: str) -> Callable[[], float]:
        settings = {"spark.cores.max": cores, "spark.executorEnv.PYTHONPATH": path}
        command = ["spark-submit", "--master", cluster.url]
        for name, value in settings.items():
            command += ["--conf", f"{name}={value}"]
        job = [str(Path(__file__).with_name("_cluster_job.py")), work, str(index), str(wanted)]
        command += [*job, str(context.sizes.slow_rounds)]

        def seconds() -> float:
            driver = cluster.start_driver(command, place / "driver", PYTHONPATH=path)
            output, _ = driver.communicate()
            found = re.search(r"^seconds=(\S+)$", output, re.MULTILINE)
            if not found:
                raise RuntimeError(f"the job ended with {driver.returncode}:\n{output}")
            return float(found[1])

        return seconds

    with tempfile.TemporaryDirectory() as directory:
        place = Path(directory)
        with Cluster(place, Path(sys.executable)) as cluster:
            for work, told in (
                ("scan", f"scan {rows:,} entries in {files} files, four columns"),
                ("lookup", f"lookup() of {keys:,} keys in them"),
            ):
                measured = interleaved(
                    {_TWO: run(cluster, 2, work), _ONE: run(cluster, 1, work)},
                    context.sizes.slow_rounds,
                    warm_ups=0,
                )
                yield compared(
                    measured,
                    _TWO,
                    _ONE,
                    work=f"{told}, two workers of one core",
                    goal=Goal(0),
                    rows=rows if work == "scan" else keys,
                )
