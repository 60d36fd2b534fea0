"""``rmqindex rebuild-queues``: a store's ConsumeQueues from its CommitLog."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from rmqindex.cli.options import (
    AllowLiveOption,
    FromOption,
    JsonOption,
    LogArgument,
    Mode,
    ModeOption,
    ToOption,
    app,
    complain,
    print_json,
    progress_bar,
)
from rmqindex.commitlog.log import CommitLog
from rmqindex.consumequeue.rebuild import rebuild_consume_queues
from rmqindex.folders import COMMITLOG_FOLDER
from rmqindex.output.tables import counted
from rmqindex.output.visible import visible
from rmqindex.queue_layout import DEFAULT_BATCH_FILE_SIZE, DEFAULT_DELAY_LEVELS, DEFAULT_FILE_SIZE
from rmqindex.store.contents import refuse_dledger_log

__all__: list[str] = []


@app.command(
    "rebuild-queues",
    short_help="Make a store's ConsumeQueues anew.",
    epilog="Examples:\n\n\b\n"
    "  rmqindex rebuild-queues /data/rocketmq/store\n"
    "  rmqindex rebuild-queues store --replace\n"
    "  rmqindex rebuild-queues backup/store --out /tmp/store --file-size 6000000",
)
def rebuild_queues(
    store: LogArgument,
    *,
    out: Annotated[
        Path | None,
        typer.Option(
            "--out",
            metavar="DIR",
            help="The store root in which consumequeue/ and batchconsumequeue/ are made; by "
            "default STORE.",
        ),
    ] = None,
    from_offset: FromOption = None,
    to_offset: ToOption = None,
    replace: Annotated[
        bool,
        typer.Option(
            "--replace", help="Replace all queues that are there, when the new ones are complete."
        ),
    ] = False,
    file_size: Annotated[
        int,
        typer.Option(
            "--file-size", metavar="BYTES", help="The broker's mappedFileSizeConsumeQueue."
        ),
    ] = DEFAULT_FILE_SIZE,
    batch_file_size: Annotated[
        int,
        typer.Option(
            "--batch-file-size", metavar="BYTES", help="Its mapperFileSizeBatchConsumeQueue."
        ),
    ] = DEFAULT_BATCH_FILE_SIZE,
    batch_topics: Annotated[
        list[str] | None,
        typer.Option(
            "--batch-topic",
            metavar="TOPIC",
            help="A topic of batch queues; those with inner batches are known. May be repeated.",
        ),
    ] = None,
    delay_levels: Annotated[
        str, typer.Option("--delay-levels", metavar="LEVELS", help="Its messageDelayLevel.")
    ] = DEFAULT_DELAY_LEVELS,
    multi_dispatch: Annotated[
        bool,
        typer.Option(
            "--multi-dispatch/--no-multi-dispatch",
            help="Its enableMultiDispatch: also fill the light queues that messages name.",
        ),
    ] = True,
    allow_live_store: AllowLiveOption = False,
    as_json: JsonOption = False,
    mode: ModeOption = Mode.FAILFAST,
) -> None:
    """Make ConsumeQueues from a CommitLog, in the broker's folders, files and bytes.

    Stop the broker first. The new queues take their place when all are complete; one that was
    stopped leaves what was there, and is begun anew.
    """
    if out is None and not (Path(store) / COMMITLOG_FOLDER).is_dir():
        refuse_dledger_log(store)
        raise typer.BadParameter("needed unless STORE is a store root", param_hint="--out")
    root = Path(store) if out is None else out
    with CommitLog(store) as log, progress_bar("rebuild") as report:
        begin = log.min_offset if from_offset is None else from_offset
        try:
            result = rebuild_consume_queues(
                log,
                root,
                start=from_offset,
                stop=to_offset,
                file_size=file_size,
                batch_file_size=batch_file_size,
                delay_levels=delay_levels,
                batch_topics=batch_topics or (),
                multi_dispatch=multi_dispatch,
                replace=replace,
                allow_live_store=allow_live_store,
                mode=mode.value,
                on_malformed=lambda error: complain(str(error)),
                progress=lambda done, total: report(done - begin, total - begin),
            )
        except ValueError as error:
            raise typer.BadParameter(str(error)) from error
    if as_json:
        print_json(
            {
                "directory": str(root),
                "queue_count": result.queue_count,
                "unit_count": result.unit_count,
                "file_count": result.file_count,
                "gaps": [
                    {"topic": topic, "queue_id": queue_id, "start": start, "stop": stop}
                    for topic, queue_id, start, stop in result.gaps
                ],
            }
        )
        return
    typer.echo(
        f"Wrote {counted(result.unit_count, 'unit')} into {counted(result.queue_count, 'queue')} "
        f"of {root}, {counted(result.file_count, 'file')}"
    )
    for topic, queue_id, start, stop in result.gaps:
        typer.echo(
            f"{visible(topic)}, queue {queue_id}: no messages of queue offsets {start} to "
            f"{stop - 1}"
        )
