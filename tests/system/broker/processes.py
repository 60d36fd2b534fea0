"""RocketMQ's processes: a name server, a broker that may be killed, and a client that obeys."""

from __future__ import annotations

import json
import os
import secrets
import signal
import socket
import subprocess
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from tests.support.maven import class_path_of, compile_java

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

BROKER_NAME = "broker-a"

_HERE = Path(__file__).parent / "java"
_HOST = "127.0.0.1"
_NAME_SERVER = "org.apache.rocketmq.namesrv.NamesrvStartup"
_BROKER = "org.apache.rocketmq.broker.BrokerStartup"
_BOOTED = "boot success"
# Far more than it takes: a machine that is slow is no difference.
_START_SECONDS = 300
_STOP_SECONDS = 300
_POLL_SECONDS = 0.05
# Brokers of 4.9 look for their logs' settings here.
_QUIET_FILES = ("logback_broker.xml", "logback_namesrv.xml")
_QUIET = "<configuration><root level='OFF'/></configuration>"
_JVM_OPTIONS = (
    *("-Xms64m", "-Xmx256m", "-XX:MaxDirectMemorySize=256m"),
    *("-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xshare:auto"),
    # As in RocketMQ's own scripts: it unmaps files and reads fields by reflection.
    *(
        f"--add-opens=java.base/{package}=ALL-UNNAMED"
        for package in ("java.nio", "sun.nio.ch", "jdk.internal.ref", "java.lang", "java.util")
    ),
    # A disk that is nearly full is none of its business.
    "-Drocketmq.broker.diskSpaceWarningLevelRatio=0.99",
    "-Drocketmq.broker.diskSpaceCleanForciblyRatio=0.99",
)
# Every second, not every twenty.
_REBALANCE_SOON = "-Drocketmq.client.rebalance.waitInterval=1000"
_BROKER_SETTINGS: dict[str, object] = {
    "brokerClusterName": "rmqindex",
    "brokerName": BROKER_NAME,
    "brokerId": 0,
    "brokerIP1": _HOST,
    # Nothing is refused because the machine is slow.
    "brokerFastFailureEnable": "false",
    "osPageCacheBusyTimeOutMills": 60_000,
    "waitTimeMillsInSendQueue": 60_000,
    "autoCreateTopicEnable": "false",
    # Messages that name their light queues.
    "enableLmq": "true",
    "enableMultiDispatch": "true",
    "diskMaxUsedSpaceRatio": 95,
}


_PORTS_OF_CONNECTIONS = Path("/proc/sys/net/ipv4/ip_local_port_range")
# Where brokers and name servers listen.
_ANY_HOST = "0.0.0.0"


class Cluster:
    """A name server and a broker of one version, on loopback, in one folder."""

    def __init__(self, version: str, work: Path) -> None:
        """Find the jars and compile the client; nothing is started.

        Args:
            version: Of RocketMQ.
            work: An empty folder, which holds the store, too.

        Raises:
            tests.support.maven.UnavailableError: The jars cannot be had.
        """
        self.version = version
        self.store = work / "store"
        self._work = work
        jars = class_path_of(_HERE / "pom.xml", version)
        classes = work / "classes"
        conf = work / "home" / "conf"
        for folder in (classes, conf):
            folder.mkdir(parents=True)
        for name in _QUIET_FILES:
            (conf / name).write_text(_QUIET)
        compile_java(_HERE / "Client.java", jars, classes)
        self._class_path = os.pathsep.join([str(classes), *jars])
        self._name_server: subprocess.Popen[bytes] | None = None
        self._broker: subprocess.Popen[bytes] | None = None
        self._client: Client | None = None
        self._name_address = ""
        self._broker_port = 0

    def __enter__(self) -> Self:
        """Start the name server."""
        port = free_port()
        settings = self._work / "namesrv.conf"
        settings.write_text(f"listenPort={port}\nkvConfigPath={self._work}/kvConfig.json\n")
        self._name_address = f"{_HOST}:{port}"
        self._name_server = self._start("namesrv", _NAME_SERVER, "-c", str(settings))
        # One port for all of the broker's lives, so that message ids stay the same.
        self._broker_port = free_port()
        return self

    def __exit__(self, *_: object) -> None:
        """Kill what runs."""
        if self._client is not None:
            self._client.kill()
        for process in (self._broker, self._name_server):
            if process is not None:
                process.kill()
                process.wait()

    def start_broker(self, settings: Mapping[str, object]) -> None:
        """Start the broker, and wait until clients find it.

        Args:
            settings: Of its configuration, beside what is set for all.
        """
        lines = {
            **_BROKER_SETTINGS,
            "namesrvAddr": self._name_address,
            "listenPort": self._broker_port,
            "haListenPort": free_port(),
            "storePathRootDir": self.store,
            "storePathCommitLog": self.store / "commitlog",
            **settings,
        }
        path = self._work / "broker.conf"
        path.write_text("".join(f"{name}={value}\n" for name, value in lines.items()))
        self._broker = self._start("broker", _BROKER, "-c", str(path))
        self.client.ask("register", broker=BROKER_NAME)

    def kill_broker(self) -> None:
        """End the broker as ``kill -9`` does."""
        assert self._broker is not None
        self._broker.kill()
        self._broker.wait()

    def restart_client(self) -> None:
        """End the client, which would wait for a broker that was killed; the next one is new."""
        if self._client is not None:
            self._client.kill()
            self._client = None

    def stop_broker(self) -> None:
        """End the broker as its operators do, and wait until it has put everything away."""
        assert self._broker is not None
        self._broker.send_signal(signal.SIGTERM)
        self._broker.wait(_STOP_SECONDS)

    @property
    def client(self) -> Client:
        """The client, started when it is first wanted."""
        if self._client is None:
            broker = f"{_HOST}:{self._broker_port}"
            arguments = (_REBALANCE_SOON, "Client", self._name_address, broker)
            self._client = Client([*self._java(), *arguments], self._work)
        return self._client

    def _java(self) -> list[str]:
        # Logs go below the home directory.
        return ["java", *_JVM_OPTIONS, f"-Duser.home={self._work}", "-cp", self._class_path]

    def _start(self, name: str, *arguments: str) -> subprocess.Popen[bytes]:
        output = self._work / f"{name}.out"
        environment = {**os.environ, "ROCKETMQ_HOME": str(self._work / "home")}
        with output.open("wb") as file:
            process = subprocess.Popen(
                [*self._java(), *arguments],
                stdin=subprocess.DEVNULL,
                stdout=file,
                stderr=subprocess.STDOUT,
                cwd=self._work,
                env=environment,
            )
        deadline = time.monotonic() + _START_SECONDS
        while _BOOTED not in output.read_text(errors="replace"):
            if process.poll() is not None or time.monotonic() > deadline:
                process.kill()
                process.wait()
                raise RuntimeError(f"{name} did not start:\n{output.read_text(errors='replace')}")
            time.sleep(_POLL_SECONDS)
        return process


class Client:
    """The process of ``Client.java``."""

    def __init__(self, command: Sequence[str], work: Path) -> None:
        """Start it."""
        self._turn = threading.Lock()
        self._ended = False
        self._errors = work / "client.err"
        with self._errors.open("wb") as errors:
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                cwd=work,
                text=True,
                encoding="utf-8",
            )

    def ask(self, do: str, **request: Any) -> Any:
        """Have something done.

        Args:
            do: What, as ``Client.java`` names it.
            request: With what.

        Returns:
            Its answer.

        Raises:
            RuntimeError: It failed, or was killed, before it was asked or meanwhile.
        """
        with self._turn:
            line = self._answer(json.dumps({"do": do, **request}))
        answer = json.loads(line) if line else {"error": "it ended"}
        if "error" in answer:
            told = self._errors.read_text(errors="replace")[-4000:]
            raise RuntimeError(f"{do}: {answer['error']}\n{told}")
        return answer["answer"]

    def kill(self) -> None:
        """End it; who waits for an answer is told so."""
        self._process.kill()
        with self._turn:
            self._ended = True
            self._process.communicate()

    def _answer(self, question: str) -> str:
        """Return the line that answers, empty of a process that has ended."""
        if self._ended:
            return ""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        try:
            print(question, file=self._process.stdin, flush=True)
        except BrokenPipeError:
            return ""
        return self._process.stdout.readline()


def free_port() -> int:
    """Return a port that is free, and so is the one two below, which a broker takes, too.

    It is none of those that the system gives to connections, of which any may take it before the
    broker does, or between two of its lives.
    """
    lowest = int(_PORTS_OF_CONNECTIONS.read_text().split()[0])
    while True:
        port = secrets.choice(range(lowest // 2, lowest))
        with socket.socket() as first, socket.socket() as second:
            try:
                for each, number in ((first, port), (second, port - 2)):
                    each.bind((_ANY_HOST, number))
            except OSError:
                continue
            return port
