"""The loop of an adapter in Python: one JSON document a line in, one out."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

    Handler = Callable[[dict[str, Any]], dict[str, Any]]


def serve(handlers: dict[str, Handler]) -> None:
    """Answer every request on standard input until it ends.

    Args:
        handlers: What answers each operation; an exception is told as the adapter's own error.
    """
    for line in sys.stdin:
        request = json.loads(line)
        try:
            answer = handlers[request["op"]](request)
        except Exception as error:  # noqa: BLE001  (told, and the next request is answered)
            answer = {"error": f"{type(error).__name__}: {error}"}
        print(json.dumps({"id": request["id"], **answer}), flush=True)
