"""A master and two workers of Spark standalone, each a process of its own, on loopback."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Self

import pyspark

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["Cluster"]

_SPARK_HOME = Path(pyspark.__file__).parent
_PATIENCE = 120.0
# What another Python or Spark left in the environment must not reach the cluster.
_FOREIGN = (
    "PYTHONPATH",
    "PYTHONHOME",
    "VIRTUAL_ENV",
    "SPARK_CONF_DIR",
    "SPARK_DIST_CLASSPATH",
    "PYSPARK_DRIVER_PYTHON",
    "PYSPARK_SUBMIT_ARGS",
    "PYSPARK_GATEWAY_PORT",
    "PYSPARK_GATEWAY_SECRET",
)

# What a driver is told, whoever starts it.
_SETTINGS = {
    "spark.cores.max": "2",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.memory": "512m",
    "spark.executor.memory": "512m",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.shuffle.partitions": "2",
    "spark.ui.enabled": "false",
}


class Cluster:
    """Two workers of one core and 1 GiB each; a context manager that ends what it started."""

    def __init__(self, directory: Path, python: Path) -> None:
        """Start the processes and wait until both workers are known to the master.

        Args:
            directory: Logs and the workers' directories.
            python: What drivers and executors run.
        """
        self._directory = directory
        self._environment = {
            **{name: value for name, value in os.environ.items() if name not in _FOREIGN},
            "SPARK_HOME": str(_SPARK_HOME),
            "SPARK_LOCAL_IP": "127.0.0.1",
            "SPARK_DAEMON_MEMORY": "256m",
            "SPARK_LOCAL_DIRS": str(directory / "scratch"),
            "SPARK_NO_DAEMONIZE": "1",
            "PYSPARK_PYTHON": str(python),
        }
        self._settings = directory / "conf"
        self._settings.mkdir()
        lines = "".join(f"{name} {value}\n" for name, value in _SETTINGS.items())
        (self._settings / "spark-defaults.conf").write_text(lines)
        self._processes: dict[str, subprocess.Popen[bytes]] = {}
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = probe.getsockname()[1]
        self.url = f"spark://127.0.0.1:{port}"
        try:
            self._start("master", "master.Master", "--port", str(port))
            self._wait_for("master", "I have been elected leader", 1)
            self.start_worker("worker-a")
            self.start_worker("worker-b")
        except BaseException:
            self.close()
            raise

    def start_worker(self, name: str) -> None:
        """Start a worker, and wait until the master knows it.

        Args:
            name: Its directory, which is part of the working directories of its executors.
        """
        place = self._directory / name
        registered = self._log("master").read_text().count("Registering worker")
        arguments = ["--cores", "1", "--memory", "1g", "--work-dir", str(place), self.url]
        self._start(name, "worker.Worker", *arguments)
        self._wait_for("master", "Registering worker", registered + 1)

    def kill_worker(self, name: str) -> None:
        """Kill a worker and its executors: SIGKILL to all of them at once.

        Args:
            name: As it was started.
        """
        process = self._processes.pop(name)
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()

    def start_driver(
        self, command: Sequence[str | Path], directory: Path, **environment: str
    ) -> subprocess.Popen[str]:
        """Start a command that calls ``spark-submit``, which is on its PATH.

        Args:
            command: The program and its arguments.
            directory: Where it runs; it is made if need be.
            environment: What is set besides.

        Returns:
            The process; its output is one text.
        """
        directory.mkdir(exist_ok=True)
        programs = [str(Path(sys.executable).parent), str(_SPARK_HOME / "bin"), os.environ["PATH"]]
        return subprocess.Popen(
            command,
            env={
                **self._environment,
                "PATH": os.pathsep.join(programs),
                "SPARK_CONF_DIR": str(self._settings),
                **environment,
            },
            cwd=directory,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )

    def close(self) -> None:
        """End every process."""
        for name in list(self._processes):
            self.kill_worker(name)
        shutil.rmtree(self._directory / "scratch", ignore_errors=True)

    def __enter__(self) -> Self:
        """Return the cluster."""
        return self

    def __exit__(self, *_: object) -> None:
        """End every process."""
        self.close()

    def _log(self, name: str) -> Path:
        return self._directory / f"{name}.log"

    def _start(self, name: str, class_name: str, *arguments: str) -> None:
        command = [_SPARK_HOME / "bin" / "spark-class", f"org.apache.spark.deploy.{class_name}"]
        ours = ["--host", "127.0.0.1", "--webui-port", "0"]
        with self._log(name).open("wb") as log:
            self._processes[name] = subprocess.Popen(
                [*command, *ours, *arguments],
                env=self._environment,
                cwd=self._directory,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    def _wait_for(self, name: str, text: str, times: int) -> None:
        end = time.monotonic() + _PATIENCE
        processes = self._processes.values()
        while self._log(name).read_text().count(text) < times:
            ended = any(process.poll() is not None for process in processes)
            if time.monotonic() > end or ended:
                raise RuntimeError(f"{name}: {text!r} did not come:\n{self._log(name).read_text()}")
            time.sleep(0.05)
