"""``rmqindex recover``: back to the state before a write that died."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

import typer

from rmqindex.cli.options import AllowLiveOption, JsonOption, app, print_json
from rmqindex.consumequeue.staging import QueueStaging
from rmqindex.errors import RmqIndexError
from rmqindex.folders import INDEX_FOLDER
from rmqindex.store.live_store import ensure_not_live
from rmqindex.transaction.jobs import recover

__all__: list[str] = []


@app.command(
    "recover",
    short_help="Undo a write of this project that died.",
    epilog="Example:\n\n\b\n  rmqindex recover /data/rocketmq/store",
)
def recover_store(
    store: Annotated[
        Path, typer.Argument(metavar="STORE", help="A local store root, or an index directory.")
    ],
    *,
    allow_live_store: AllowLiveOption = False,
    as_json: JsonOption = False,
) -> None:
    """Undo what a killed write left half done, as the next write would do by itself.

    Readers of an index need no such thing; those of ConsumeQueues refuse them until it, or the next
    rebuild of them, has run. Run it before a broker starts on a store on which a write was killed,
    and no other write has come since.
    """
    given = Path(os.path.abspath(store))  # noqa: PTH100  (links stay)
    index = given / INDEX_FOLDER if (given / INDEX_FOLDER).is_dir() else given
    if not given.is_dir():
        raise RmqIndexError(f"{given}: expected a store root or an index directory, got none")
    if not allow_live_store:
        ensure_not_live(index)
    undone = {"index": recover(index), "queues": False}
    queues = QueueStaging(given)
    if queues.is_unfinished:
        with queues:
            undone["queues"] = True
    if as_json:
        print_json({"path": str(given), **undone})
        return
    names = [name for name, was_undone in undone.items() if was_undone]
    typer.echo(f"Undid an unfinished write of: {', '.join(names)}" if names else "Nothing to undo")
