"""A server of S3 on this machine, which counts what is asked of it and fails when told to."""

from __future__ import annotations

import logging
import re
import socket
import threading
import time
import warnings
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

import pyarrow.fs as pafs
from werkzeug.serving import make_server

if TYPE_CHECKING:
    from collections.abc import Callable

BUCKET = "rmqindex-tests"
ACCESS_KEY = "AKIDTESTACCESS"
SECRET_KEY = "wJalrTESTSECRETKEY"
SESSION_TOKEN = "TESTSESSIONTOKEN"
SECRETS = (ACCESS_KEY, SECRET_KEY, SESSION_TOKEN)


_CREDENTIAL = re.compile("Credential=([^/]*)/")


class _Late:
    """The body of an answer that begins long after its request was counted."""

    def __iter__(self):
        """Wait; werkzeug sends the head of an answer with the first bytes of its body."""
        time.sleep(4)
        return iter(())


class Request(NamedTuple):
    """One request that came in."""

    method: str
    key: str
    query: str
    span: str | None
    sent: int
    access_key: str


def by_kind(requests):
    """Count reading requests by kind, and the bytes that were sent.

    Returns:
        How many are ``HEAD``, ``GET`` of an object's bytes and ``LIST``, and ``bytes``: how many
        bytes of objects were sent.
    """
    kinds = ["LIST" if "list-type=" in request.query else request.method for request in requests]
    counts = {kind: kinds.count(kind) for kind in ("HEAD", "GET", "LIST")}
    assert sum(counts.values()) == len(requests), set(kinds)
    gets = (request for request, kind in zip(requests, kinds, strict=True) if kind == "GET")
    return {**counts, "bytes": sum(request.sent for request in gets)}


@dataclass
class S3Server:
    """The server, and what it has seen."""

    requests: list[Request] = field(default_factory=list)
    #: Called before each request that changes something.
    before_change: Callable[[], None] | None = None
    #: Called once, before a key with this in it is stored.
    before_storing: tuple[str, Callable[[], None]] | None = None
    _faults: list[tuple[str, str, str]] = field(default_factory=list)
    _lost: tuple[str, int] | None = None
    _sizes: dict[str, int] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def start(self):
        """Serve in threads of this process."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            from moto.server import create_backend_app
        logging.getLogger("werkzeug").setLevel(logging.ERROR)
        # The dispatcher before it looks anew for moto's other services at each request.
        self._app = create_backend_app("s3")
        self._server = make_server("127.0.0.1", 0, self._answer, threaded=True)
        threading.Thread(target=self._server.serve_forever, daemon=True).start()
        self.fs = pafs.S3FileSystem(
            access_key=ACCESS_KEY,
            secret_key=SECRET_KEY,
            endpoint_override=f"127.0.0.1:{self._server.port}",
            scheme="http",
            region="us-east-1",
            allow_bucket_creation=True,
            allow_bucket_deletion=True,
        )
        self.fs.create_dir(BUCKET)

    def stop(self):
        """End it."""
        self._server.shutdown()
        self._server.server_close()

    @property
    def endpoint(self):
        """Where it is."""
        return f"http://127.0.0.1:{self._server.port}"

    @property
    def environment(self):
        """What AWS's own tools want to know."""
        return {
            "AWS_ACCESS_KEY_ID": ACCESS_KEY,
            "AWS_SECRET_ACCESS_KEY": SECRET_KEY,
            "AWS_ENDPOINT_URL": self.endpoint,
            "AWS_REGION": "us-east-1",
        }

    @property
    def options(self):
        """The same as options of the data source."""
        return {
            "fs.s3a.endpoint": self.endpoint,
            "fs.s3a.access.key": ACCESS_KEY,
            "fs.s3a.secret.key": SECRET_KEY,
            "fs.s3a.session.token": SESSION_TOKEN,
        }

    def put(self, folder, prefix, bucket=BUCKET):
        """Copy a local folder, and return its URI."""
        self.fs.create_dir(bucket)
        for path in sorted(folder.rglob("*")):
            if path.is_file():
                key = f"{bucket}/{prefix}/{path.relative_to(folder)}"
                with self.fs.open_output_stream(key) as stream:
                    stream.write(path.read_bytes())
        return f"s3://{bucket}/{prefix}"

    def keys(self, prefix):
        """Return the keys of all objects below a prefix, without it, and their sizes."""
        selector = pafs.FileSelector(f"{BUCKET}/{prefix}", recursive=True, allow_not_found=True)
        found = self.fs.get_file_info(selector)
        return {
            info.path.removeprefix(f"{BUCKET}/{prefix}/"): info.size
            for info in found
            if info.type == pafs.FileType.File
        }

    def uploads(self):
        """Return the keys of multipart uploads that were begun and neither ended nor given up."""
        from moto.s3.models import s3_backends

        (backends,) = s3_backends.values()
        bucket = backends["global" if "global" in backends else "aws"].buckets[BUCKET]
        return [upload.key_name for upload in bucket.multiparts.values()]

    def read(self, key):
        """Return the bytes of an object."""
        with self.fs.open_input_file(f"{BUCKET}/{key}") as file:
            return file.read()

    @contextmanager
    def counted(self):
        """Collect what is asked meanwhile."""
        seen: list[Request] = []
        start = len(self.requests)
        yield seen
        seen += self.requests[start:]

    def fail(self, times, how, method="", part="", *, behind=0):
        """Let the next requests fail.

        Args:
            times: How many.
            how: A status such as ``503``; ``cut`` ends the connection without an answer, ``half``
                in the middle of one, ``hang`` says nothing for long.
            method: Only those of this method.
            part: Only those of keys with this in them.
            behind: How many of them are answered before.
        """
        self._faults += [("", method, part)] * behind + [(how, method, part)] * times

    def lose_answers_of(self, part, number):
        """Do what the n-th storing of a key with this in it asks, and answer with a failure."""
        self._lost = (part, number)

    @contextmanager
    def pretending(self, key, size):
        """Say meanwhile that an object has another size, and refuse to send any of it."""
        self._sizes[f"/{BUCKET}/{key}"] = size
        yield
        self._sizes.clear()

    def recover(self):
        """Fail no more."""
        self._faults.clear()
        self._lost = self.before_storing = None

    def _tell(self, environ):
        """Call what is to be called before a request."""
        if self.before_change is not None and environ["REQUEST_METHOD"] not in {"GET", "HEAD"}:
            self.before_change()
        if self.before_storing is not None and environ["REQUEST_METHOD"] in {"PUT", "POST"}:
            part, act = self.before_storing
            if part in environ["PATH_INFO"]:
                self.before_storing = None
                act()

    def _fault(self, environ):
        if environ["REQUEST_METHOD"] == "GET" and environ["PATH_INFO"] in self._sizes:
            return "403"
        with self._lock:
            for place, (how, method, part) in enumerate(self._faults):
                if method in environ["REQUEST_METHOD"] and part in environ["PATH_INFO"]:
                    del self._faults[place]
                    return how or None
        return None

    def _is_lost(self, environ):
        # The request that stores an object is its only one, or the end of a multipart upload.
        stores = (environ["REQUEST_METHOD"], "uploadId=" in environ.get("QUERY_STRING", ""))
        if self._lost is None or stores not in {("PUT", False), ("POST", True)}:
            return False
        part, number = self._lost
        if part in environ["PATH_INFO"]:
            self._lost = (part, number - 1)
            return number == 1
        return False

    def _answer(self, environ, start_response):
        sent = 0

        def started(status, headers, exc_info=None):
            nonlocal sent
            if environ["REQUEST_METHOD"] == "HEAD" and environ["PATH_INFO"] in self._sizes:
                size = str(self._sizes[environ["PATH_INFO"]])
                headers = [each for each in headers if each[0].lower() != "content-length"]
                headers.append(("Content-Length", size))
            sent = int(dict(headers).get("Content-Length", 0))
            return start_response(status, headers, exc_info)

        self._tell(environ)
        how = self._fault(environ)
        if how is None and self._is_lost(environ):
            for _ in self._app(environ, lambda *_: lambda _: None):
                pass
            started("500 Lost", [("Content-Length", "0")])
            body = []
        elif how is None:
            body = self._app(environ, started)
        elif how == "cut":
            environ["werkzeug.socket"].shutdown(socket.SHUT_RDWR)
            started("200 OK", [])
            body = [b"gone"]
        elif how == "half":
            first, last = map(int, environ["HTTP_RANGE"].removeprefix("bytes=").split("-"))
            started("206 Partial Content", [("Content-Length", str(last + 1 - first))])
            body = [bytes((last + 1 - first) // 2)]
        elif how == "hang":
            body = _Late()
            started("503 Late", [("Content-Length", "0")])
        else:
            started(f"{how} Told To", [("Content-Length", "0")])
            body = []
        _, _, key = environ["PATH_INFO"].removeprefix("/").partition("/")
        self.requests.append(
            Request(
                environ["REQUEST_METHOD"],
                key,
                environ.get("QUERY_STRING", ""),
                environ.get("HTTP_RANGE"),
                0 if environ["REQUEST_METHOD"] == "HEAD" else sent,
                _CREDENTIAL.search(environ.get("HTTP_AUTHORIZATION", "Credential=/"))[1],
            )
        )
        return body
