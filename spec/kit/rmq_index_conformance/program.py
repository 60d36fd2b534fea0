"""A program that answers one JSON document a line, and all that can go wrong with it."""

from __future__ import annotations

import contextlib
import json
import os
import queue
import signal
import subprocess
import tempfile
import threading
import time
from typing import IO, Any

# A longer line is no answer to any vector.
MAX_ANSWER_BYTES = 16 << 20
_CHUNK = 1 << 16
_SHOWN = 200


class ProgramError(Exception):
    """The program gave no usable answer; the message says what it did instead."""


class Program:
    """One run of a program, started anew after it has failed."""

    def __init__(self, command: list[str], limit: float, *, start_limit: float = 60.0) -> None:
        """Take a command.

        Args:
            command: The program and its arguments.
            limit: The seconds that an answer may take.
            start_limit: The seconds that the first answer, to ``hello``, may take.
        """
        self.command = command
        self.limit = limit
        self.start_limit = start_limit
        self._run: _Run | None = None
        self._number = 0

    def ask(self, request: dict[str, Any]) -> dict[str, Any]:
        """Send a request and return its answer.

        Raises:
            ProgramError: The program died, took too long, or wrote something else.
        """
        is_new = self._run is None
        if self._run is None:
            self._run = _Run(self.command)
        try:
            if is_new and request["op"] != "hello":
                self._exchange({"op": "hello"}, self.start_limit)
            return self._exchange(request, self.start_limit if is_new else self.limit)
        except ProgramError:
            self.stop()
            raise

    def _exchange(self, request: dict[str, Any], limit: float) -> dict[str, Any]:
        assert self._run is not None
        self._number += 1
        line = json.dumps({"id": self._number, **request}).encode("ascii") + b"\n"
        answer = self._run.answer(line, limit)
        if answer.get("id") != self._number:
            raise ProgramError(f"id: expected {self._number}, got {_shown(answer.get('id'))}")
        return answer

    def stop(self) -> None:
        """End the program, with everything that it started."""
        if self._run is not None:
            self._run.stop()
            self._run = None


class _Run:
    """One process."""

    def __init__(self, command: list[str]) -> None:
        self._errors: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115  (closed by stop)
        try:
            self._process = subprocess.Popen(  # noqa: S603  (the user's own program)
                command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=self._errors,
                start_new_session=True,
            )
        except OSError as error:
            self._errors.close()
            raise ProgramError(f"the program cannot be started: {error}") from error
        self._is_stopped = threading.Event()
        self._requests: queue.Queue[bytes | None] = queue.Queue()
        # None says that there is no more. A program that floods its output waits at the third line.
        self._lines: queue.Queue[bytes | None] = queue.Queue(maxsize=2)
        threading.Thread(target=self._write, daemon=True).start()
        threading.Thread(target=self._read, daemon=True).start()

    def answer(self, line: bytes, limit: float) -> dict[str, Any]:
        if not self._lines.empty():
            unasked = self._lines.get()
            if unasked is not None:
                raise ProgramError(f"a line that nobody asked for: {_shown(unasked)}")
            raise ProgramError(self._ended())
        self._requests.put(line)
        try:
            answer = self._lines.get(timeout=limit)
        except queue.Empty:
            raise ProgramError(f"no answer within {limit:g} seconds") from None
        if answer is None:
            raise ProgramError(self._ended())
        if not answer.endswith(b"\n"):
            if len(answer) >= MAX_ANSWER_BYTES:
                raise ProgramError(f"a line of more than {MAX_ANSWER_BYTES} bytes")
            raise ProgramError(f"the output ends within a line: {_shown(answer)}; {self._ended()}")
        try:
            document = json.loads(answer.decode("utf-8"), parse_constant=_refuse)
        except (ValueError, RecursionError):
            raise ProgramError(f"expected a JSON document, got {_shown(answer)}") from None
        if not isinstance(document, dict):
            raise ProgramError(f"expected a JSON object, got {_shown(answer)}")
        return document

    def stop(self) -> None:
        self._is_stopped.set()
        self._requests.put(None)
        if hasattr(os, "killpg"):
            try:
                os.killpg(self._process.pid, signal.SIGKILL)
            except (ProcessLookupError, PermissionError):
                self._process.kill()
        else:
            self._process.kill()
        self._process.wait()
        self._errors.close()

    def _ended(self) -> str:
        # The output has ended; a program that goes on without one is stopped by the caller.
        until = time.monotonic() + 1
        while self._process.poll() is None and time.monotonic() < until:
            time.sleep(0.01)
        code = self._process.poll()
        if code is None:
            return "the program closed its output"
        how = f"signal {-code}" if code < 0 else f"status {code}"
        self._errors.seek(0, os.SEEK_END)
        self._errors.seek(max(self._errors.tell() - _CHUNK, 0))
        last = self._errors.read().decode("utf-8", "replace").strip().splitlines()[-1:]
        return f"the program ended with {how}" + "".join(f": {_cut(line)}" for line in last)

    def _write(self) -> None:
        assert self._process.stdin is not None
        # A program that no longer reads: the reader sees the end of the output.
        with contextlib.suppress(OSError, ValueError), self._process.stdin as told:
            while (line := self._requests.get()) is not None:
                told.write(line)
                told.flush()

    def _read(self) -> None:
        assert self._process.stdout is not None
        line = b""
        parts: list[bytes] = []
        size = 0
        with self._process.stdout as output:
            while size < MAX_ANSWER_BYTES and (chunk := output.read1(_CHUNK)):  # type: ignore[attr-defined]
                *ended, rest = chunk.split(b"\n")
                for line in ended:
                    if not self._hand_on(b"".join([*parts, line, b"\n"])):
                        return
                    parts, size = [], 0
                parts.append(rest)
                size += len(rest)
            if not size or self._hand_on(b"".join(parts)):
                self._hand_on(None)

    def _hand_on(self, line: bytes | None) -> bool:
        while not self._is_stopped.is_set():
            try:
                self._lines.put(line, timeout=0.1)
            except queue.Full:
                continue
            return True
        return False


def _refuse(name: str) -> None:
    raise ValueError(f"{name} is not JSON")


def _shown(value: object) -> str:
    text = value.decode("utf-8", "replace").strip() if isinstance(value, bytes) else repr(value)
    return _cut(text)


def _cut(text: str) -> str:
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}.. ({len(text)} characters)"
