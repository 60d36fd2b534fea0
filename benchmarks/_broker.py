"""RocketMQ's own classes, from the published jar, in one JVM inside this process."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

__all__ = ["VERSION", "resolve_jars", "start_broker"]

_HERE = Path(__file__).parent
_SOURCE = _HERE / "java" / "Broker.java"
_HEAP = "-Xmx4g"

VERSION = "5.3.3"


def resolve_jars(work: Path) -> Path:
    """Return the folder of RocketMQ's jars, resolved once.

    Args:
        work: Where they are kept.

    Raises:
        subprocess.CalledProcessError: Maven failed.
        FileNotFoundError: It is not installed.
    """
    jars = work / f"rocketmq-{VERSION}"
    if not any(jars.glob("rocketmq-tools-*.jar")):
        subprocess.run(
            [
                *("mvn", "-q", "-B", "-f", str(_HERE / "pom.xml")),
                "dependency:copy-dependencies",
                f"-Drocketmq.version={VERSION}",
                "-DincludeScope=runtime",
                f"-DoutputDirectory={jars.resolve()}",
            ],
            check=True,
        )
    return jars


def start_broker(work: Path) -> Any:  # noqa: ANN401  (a Java class)
    """Resolve RocketMQ, compile the loops over it and start the JVM, each once.

    Args:
        work: Where jars and classes are kept.

    Returns:
        The Java class ``Broker``.

    Raises:
        subprocess.CalledProcessError: Maven or the Java compiler failed.
        FileNotFoundError: One of them is not installed.
    """
    import jpype  # noqa: PLC0415  (only these lines of the table need it)

    jars, classes = resolve_jars(work), work / "classes"
    classes.mkdir(parents=True, exist_ok=True)
    subprocess.run(
        ["javac", "-cp", f"{jars}/*", "-d", str(classes), str(_SOURCE)],
        check=True,
    )
    if not jpype.isJVMStarted():
        jpype.startJVM(_HEAP, classpath=[str(classes), f"{jars}/*"], convertStrings=False)
    return jpype.JClass("Broker")
