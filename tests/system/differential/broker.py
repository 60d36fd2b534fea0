"""RocketMQ's own classes, each version in a class loader of one JVM inside this process."""

from __future__ import annotations

import atexit
import functools
import shutil
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tests.support.maven import UnavailableError, class_path_of, compile_java

from .ours import HANGS
from .wire import Decoder, Encoder

if TYPE_CHECKING:
    from rmqindex import Layout

VERSIONS = ("5.5.1", "4.9.8")

_HERE = Path(__file__).parent / "java"
_SOURCE = _HERE / "Driver.java"
_POM = _HERE / "pom.xml"
_FIRST_WITH_TAGS = (5, 4, 0)
# Brokers of 4.9 unmap files by reflection.
_JVM_OPTIONS = (
    "-Xmx1g",
    "--add-opens=java.base/java.nio=ALL-UNNAMED",
    "--add-opens=java.base/sun.nio.ch=ALL-UNNAMED",
    "--add-opens=java.base/jdk.internal.ref=ALL-UNNAMED",
)
# Files that a broker of 4.9 leaves mapped are unmapped when they are collected.
_RUNS_A_COLLECTION = 100


class Broker:
    """The classes of one version."""

    def __init__(self, version: str, driver: Any) -> None:
        """Take a version and its compiled ``Driver``."""
        self.version = version
        self.has_tags = tuple(map(int, version.split("."))) >= _FIRST_WITH_TAGS
        self._driver = driver
        self._runs = 0

    def run_file(
        self, path: Path, layout: Layout, segment: dict[str, Any], skipped: list[int]
    ) -> list[Any]:
        """Run an opening of a file; see :func:`.ours.run_file`.

        Args:
            path: The file.
            layout: Its geometry.
            segment: The opening.
            skipped: Operations that would never end.
        """
        sent = Encoder()
        sent.text(str(path))
        sent.numbers("ii", layout.hash_slot_num, layout.index_num)
        sent.numbers("qq", *segment["previous"])
        asked = [each for place, each in enumerate(segment["operations"]) if place not in skipped]
        sent.numbers("i", len(asked))
        for kind, *operation in asked:
            sent.numbers("b", ord(kind))
            if kind in "pq":
                sent.text(operation.pop(0))
            sent.numbers({"p": "qq", "q": "iqq", "m": "qq", "b": ""}[kind], *operation)
        got = self._run(self._driver.runFile, sent)
        read = {
            "p": lambda: list(got.numbers("?qqqqii?")),
            "q": got.longs,
            "m": lambda: got.number("?"),
            "b": got.contents,
        }
        answers = [
            HANGS if place in skipped else read[kind]()
            for place, (kind, *_) in enumerate(segment["operations"])
        ]
        end = got.contents()
        assert got.is_finished
        return [*answers, None if "damage" in segment else end]

    def run_service(self, root: Path, layout: Layout, segment: dict[str, Any]) -> list[Any]:
        """Run an opening of a directory; see :func:`.ours.run_service`."""
        sent = Encoder()
        sent.text(str(root))
        sent.numbers("iii", layout.hash_slot_num, layout.index_num, segment["max_msgs_num_batch"])
        sent.numbers("??", segment["last_exit_ok"], segment["is_clean"])
        sent.numbers("i", len(segment["operations"]))
        for kind, *operation in segment["operations"]:
            sent.numbers("b", ord(kind))
            if kind == "p":
                for text in operation[:4]:
                    sent.text(text)
                sent.numbers("iqq", *operation[4:])
            elif kind == "q":
                topic, key, index_type, *rest = operation
                for text in (topic, key, index_type if self.has_tags else None):
                    sent.text(text)
                sent.numbers("iqq", *rest)
            elif kind == "e":
                sent.numbers("q", *operation)
        got = self._run(self._driver.runService, sent)
        read = {
            "p": lambda: got.number("i"),
            "q": lambda: [got.longs(), *got.numbers("qq")],
            "e": lambda: got.number("i"),
            "d": lambda: got.number("i"),
            "b": lambda: _snapshot(got),
        }
        answers: list[Any] = [list(got.numbers("?i"))]
        answers += [read[kind]() for kind, *_ in segment["operations"]]
        answers.append(_snapshot(got))
        assert got.is_finished
        return answers

    def _run(self, method: Any, sent: Encoder) -> Decoder:
        import jpype

        self._runs += 1
        if self._runs % _RUNS_A_COLLECTION == 0:
            jpype.java.lang.System.gc()
        answer = method(jpype.JArray(jpype.JByte)(sent.finish()))
        return Decoder(bytes(memoryview(answer)))


def _snapshot(got: Decoder) -> list[Any]:
    return [[got.contents() for _ in range(got.number("i"))], got.number("q")]


@functools.cache
def load_broker(version: str) -> Broker:
    """Resolve a version of RocketMQ, compile the driver for it, and load both.

    Args:
        version: One that Maven Central has.

    Returns:
        Its classes.

    Raises:
        UnavailableError: Maven, a Java compiler or JPype is missing, or Maven cannot reach the
            jars.
    """
    try:
        import jpype
    except ImportError as error:
        raise UnavailableError("JPype is not installed") from error
    class_path = class_path_of(_POM, version)
    classes = Path(tempfile.mkdtemp(prefix="rmqindex-differential-"))
    atexit.register(shutil.rmtree, classes, ignore_errors=True)
    compile_java(_SOURCE, class_path, classes)
    if not jpype.isJVMStarted():
        jpype.startJVM(*_JVM_OPTIONS, convertStrings=False)
    urls = [Path(path).as_uri() for path in class_path]
    # A folder's address ends with a slash, which is what tells the loader that it is one.
    driver = _load([f"{classes.as_uri()}/", *urls])
    return Broker(version, driver)


def _load(urls: list[str]) -> Any:
    import jpype
    from jpype import java

    parent = java.lang.ClassLoader.getPlatformClassLoader()
    of_urls = jpype.JArray(java.net.URL)([java.net.URI(url).toURL() for url in urls])
    loader = java.net.URLClassLoader(of_urls, parent)
    # RocketMQ's logging finds its configuration by the thread's own loader.
    java.lang.Thread.currentThread().setContextClassLoader(loader)
    driver = jpype.JClass(java.lang.Class.forName("Driver", True, loader))
    assert driver is not None
    return driver
