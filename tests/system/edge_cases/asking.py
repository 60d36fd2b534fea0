"""A process with RocketMQ's classes of one version, asked one thing a line."""

from __future__ import annotations

import contextlib
import os
import subprocess
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Self

from tests.support.maven import class_path_of, compile_java

if TYPE_CHECKING:
    from types import TracebackType

_SOURCE = Path(__file__).parent / "Ask.java"
_POM = Path(__file__).parents[1] / "differential" / "java" / "pom.xml"
_JVM_OPTIONS = (
    "-Xmx512m",
    "-Dfile.encoding=UTF-8",
    "--add-opens=java.base/java.nio=ALL-UNNAMED",
    "--add-opens=java.base/sun.nio.ch=ALL-UNNAMED",
    "--add-opens=java.base/jdk.internal.ref=ALL-UNNAMED",
)


class Rocketmq:
    """The classes of one version, in a process of their own.

    Attributes:
        folder: A directory for the files of one case.
    """

    def __init__(self, version: str, folder: Path) -> None:
        """Compile the program for the version and start it.

        Raises:
            UnavailableError: Maven, a Java compiler or the jars are missing.
        """
        self.folder = folder
        self._class_path = class_path_of(_POM, version)
        self._classes = Path(tempfile.mkdtemp(prefix="rmqindex-edge-"))
        compile_java(_SOURCE, self._class_path, self._classes)
        self._process: subprocess.Popen[str] | None = None

    def __enter__(self) -> Self:
        """Return itself."""
        return self

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc_value: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """End the process."""
        self.stop()

    def stop(self) -> None:
        """End the process; the next question starts another."""
        if self._process is not None:
            self._process.kill()
            with self._process:
                self._process = None

    def ask(self, question: str, *arguments: str | int | bool | bytes | None) -> str:
        """Ask one question of ``Ask.java``; a text is a ``str``, bytes are ``bytes``."""
        if self._process is None:
            path = os.pathsep.join([str(self._classes), *self._class_path])
            self._process = subprocess.Popen(
                ["java", *_JVM_OPTIONS, "-cp", path, "Ask"],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                text=True,
                env={**os.environ, "LC_ALL": "C.UTF-8"},
            )
        assert self._process.stdin
        assert self._process.stdout
        words = [question, *map(_word, arguments)]
        with contextlib.suppress(BrokenPipeError):
            self._process.stdin.write(" ".join(words) + "\n")
            self._process.stdin.flush()
        answer = self._process.stdout.readline().rstrip("\n")
        if not answer:
            raise RuntimeError(f"{words}: no answer")
        return answer

    def ask_briefly(self, question: str, *arguments: str | int | bool | bytes | None) -> str:
        """Ask what may never end; after five seconds the answer is ``hangs``."""
        return self.ask("briefly", *map(_Word, ("5", question)), *arguments)

    def path(self, name: str) -> str:
        """Return a path in the case's folder."""
        return str(self.folder / name)

    def file(self, name: str) -> Path:
        """Return the path of an IndexFile, which RocketMQ opens by a numeric name only."""
        path = self.folder / f"{name}.files" / "20260101000000000"
        path.parent.mkdir(exist_ok=True)
        return path

    def data(self, name: str) -> str:
        """Return the bytes of an IndexFile in hexadecimal."""
        return self.file(name).read_bytes().hex()


class _Word(str):
    """A word that is sent as it is."""

    __slots__ = ()


def _word(argument: str | int | bool | bytes | None) -> str:
    if argument is None:
        return "null"
    if isinstance(argument, _Word):
        return argument
    if isinstance(argument, bool):
        return str(argument).lower()
    if isinstance(argument, int):
        return str(argument)
    data = argument if isinstance(argument, bytes) else argument.encode("utf-16-be")
    return f"={data.hex()}"
