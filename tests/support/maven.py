"""RocketMQ's published jars by Maven, and what is compiled against them."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from pathlib import Path
from xml.etree import ElementTree as ET

# Set where the tests must not be skipped for want of Maven.
REQUIRED = "RMQINDEX_REQUIRE_MAVEN"

_ARTIFACT = "{http://maven.apache.org/POM/4.0.0}artifactId"
# Classes that only log are told to be silent by a file that they look for.
_QUIET = "<configuration><root level='OFF'/></configuration>"
_QUIET_FILES = ("rmq.logback.xml", "rmq.logback-test.xml", "logback.xml")
_TIMEOUT = 600


class UnavailableError(Exception):
    """RocketMQ's classes cannot be had here; the message says why."""


def class_path_of(pom: Path, version: str) -> list[str]:
    """Return the jars that a project names, from Maven's own cache once they are in it.

    Args:
        pom: The project, whose property ``rocketmq.version`` is set.
        version: One that Maven Central has.

    Returns:
        Paths of jars.

    Raises:
        UnavailableError: Maven or a Java compiler is missing, or Maven cannot reach the jars.
    """
    for tool in ("mvn", "javac"):
        if shutil.which(tool) is None:
            raise UnavailableError(f"there is no {tool} on the PATH")
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    name = ET.parse(pom).findtext(_ARTIFACT)
    noted = Path(base) / "rmqindex" / f"rocketmq-{name}-{version}.classpath"
    if noted.is_file():
        paths = noted.read_text().split(os.pathsep)
        if all(Path(path).is_file() for path in paths):
            return paths
    noted.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=noted.parent) as folder:
        written = Path(folder) / noted.name
        _call(
            [
                *("mvn", "-q", "-B", "-f", str(pom), "dependency:build-classpath"),
                f"-Drocketmq.version={version}",
                "-DincludeScope=runtime",
                f"-Dmdep.outputFile={written}",
            ]
        )
        written.write_text(written.read_text().strip())
        written.replace(noted)
    return noted.read_text().split(os.pathsep)


def compile_java(source: Path, class_path: list[str], classes: Path) -> None:
    """Compile a source file, and those beside it that it needs, into a folder.

    Files there silence RocketMQ's logs.

    Raises:
        UnavailableError: The compiler refuses it.
    """
    for name in _QUIET_FILES:
        (classes / name).write_text(_QUIET)
    joined = os.pathsep.join(class_path)
    beside = ["-sourcepath", str(source.parent)]
    _call(["javac", "-nowarn", "-cp", joined, *beside, "-d", str(classes), str(source)])


def _call(command: list[str]) -> None:
    try:
        subprocess.run(command, check=True, capture_output=True, text=True, timeout=_TIMEOUT)
    except subprocess.SubprocessError as error:
        output = getattr(error, "stdout", None) or getattr(error, "stderr", None) or ""
        last = str(output).strip().splitlines()[-1:] or [str(error)]
        raise UnavailableError(f"{command[0]} failed: {last[0]}") from error
