"""The command ``rmqindex`` in a process of its own, as from a shell, without waiting for imports.

A server imports what commands need, once for all tests of a process, and forks for each command
line: the child has descriptors, environment and an end of its own, as a new Python has.
"""

from __future__ import annotations

import atexit
import functools
import gc
import importlib
import json
import os
import select
import socket
import subprocess
import sys
import tempfile
import time
from io import BufferedReader, BufferedWriter, FileIO, TextIOWrapper
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["CLOSED", "typed"]

#: For a stream that the process has not got, as by ``>&-`` in a shell.
CLOSED = "closed"

_SECONDS = 60
_PRELOADED = ("pyarrow.compute", "pyarrow.csv", "rich.console", "rich.table", "rich.text")


def typed(
    *arguments: object,
    cwd: Path | None = None,
    environment: Mapping[str, str] | None = None,
    stdout: int | str | None = None,
    stderr: int | str | None = None,
) -> subprocess.CompletedProcess[bytes]:
    """Run a command line to its end.

    Args:
        arguments: What follows ``rmqindex``.
        cwd: The working directory; by default that of this process.
        environment: Variables, in place of those of this process.
        stdout: A descriptor, the path of a file to write, ``CLOSED``, or None to return it.
        stderr: Likewise.

    Raises:
        TimeoutError: It took longer than a minute.
    """
    request = {
        "arguments": [os.fsdecode(str(argument)) for argument in arguments],
        "cwd": os.fsdecode(cwd or Path.cwd()),
        "environment": dict(os.environ if environment is None else environment),
        "stdout": stdout if isinstance(stdout, str) else None,
        "stderr": stderr if isinstance(stderr, str) else None,
    }
    reader, writer = os.pipe()
    with tempfile.TemporaryFile() as errors, os.fdopen(reader, "rb", buffering=0) as output:
        given = [
            stdout if isinstance(stdout, int) else writer,
            stderr if isinstance(stderr, int) else errors.fileno(),
        ]
        server = _server()
        socket.send_fds(server, [json.dumps(request).encode()], given)
        os.close(writer)
        out = b""
        while part := _ready(output.fileno()) and output.read(1 << 16):
            out += part
        _ready(server.fileno())
        code = int(server.recv(64))
        errors.seek(0)
        return subprocess.CompletedProcess(request["arguments"], code, out, errors.read())


def _ready(descriptor: int) -> bool:
    """Wait until there is something to read, or the end."""
    if not select.select([descriptor], [], [], _SECONDS)[0]:
        raise TimeoutError(f"a command took longer than {_SECONDS} seconds")
    return True


@functools.cache
def _server() -> socket.socket:
    """Start the server and return the connection to it."""
    own, its = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    command = [sys.executable, __file__, str(its.fileno())]
    process = subprocess.Popen(command, pass_fds=[its.fileno()], stdin=subprocess.DEVNULL)
    its.close()
    atexit.register(lambda: (own.close(), process.wait()))
    return own


def _serve(connection: socket.socket) -> dict[str, Any] | None:
    """Fork for each request; return it in the child, and None when no more come."""
    while True:
        data, descriptors, *_ = socket.recv_fds(connection, 1 << 20, 2)
        if not data:
            return None
        child = os.fork()
        if not child:
            connection.close()
            # Ours: the server wrote it.
            return {**json.loads(data), "descriptors": descriptors}
        for descriptor in descriptors:
            os.close(descriptor)
        code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        connection.send(b"%d" % code)


def _become(request: dict[str, Any]) -> None:
    """Give this process the descriptors, the environment and the streams of a new one."""
    os.chdir(request["cwd"])
    os.environ.clear()
    os.environ.update(request["environment"])
    time.tzset()
    for number, name in ((1, "stdout"), (2, "stderr")):
        descriptor = request["descriptors"][number - 1]
        if request[name] not in (None, CLOSED):
            os.dup2(os.open(request[name], os.O_WRONLY), descriptor)
        os.dup2(descriptor, number)
        os.close(descriptor)
    for number, name in ((1, "stdout"), (2, "stderr")):
        if request[name] == CLOSED:
            os.close(number)
        stream = None if request[name] == CLOSED else _text(number)
        setattr(sys, name, stream)
        setattr(sys, f"__{name}__", stream)
    sys.stdin = sys.__stdin__ = TextIOWrapper(BufferedReader(FileIO(0, closefd=False)))  # type: ignore[misc]
    sys.argv = ["rmqindex", *request["arguments"]]


def _text(number: int) -> TextIOWrapper:
    """Open a stream as Python does when it starts."""
    file = FileIO(number, "w", closefd=False)
    return TextIOWrapper(
        BufferedWriter(file),
        encoding=os.environ.get("PYTHONIOENCODING"),
        errors="backslashreplace" if number == 2 else "strict",
        line_buffering=file.isatty() or number == 2,
    )


def _main() -> None:
    from command_line import COMMANDS, load

    for name in COMMANDS:
        load(name)
    for name in _PRELOADED:
        importlib.import_module(name)
    # What is never collected is not copied: a child's end took three times as long as its command.
    gc.freeze()
    request = _serve(socket.socket(fileno=int(sys.argv[1])))
    if request is not None:
        _become(request)
        from rmqindex.cli import main

        main()


if __name__ == "__main__":
    _main()
