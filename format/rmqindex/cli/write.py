"""``rmqindex rebuild``, ``expire`` and ``relayout``: what changes an index."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from rmqindex.bulk.rebuild import rebuild_index
from rmqindex.bulk.relayout import expire_index, expired_files, relayout_index
from rmqindex.cli.options import (
    AllowLiveOption,
    CommitLogOption,
    EntriesOption,
    FromOption,
    JsonOption,
    LocalZoneOption,
    LogArgument,
    Mode,
    ModeOption,
    SlotsOption,
    ToOption,
    app,
    commit_log_argument,
    complain,
    layout_of,
    print_json,
    progress_bar,
    zone_named,
)
from rmqindex.commitlog.log import CommitLog
from rmqindex.commitlog.sibling import commit_log_of, refuse_sibling_dledger
from rmqindex.folders import COMMITLOG_FOLDER, INDEX_FOLDER
from rmqindex.indexfile.geometry import Layout
from rmqindex.output.tables import counted
from rmqindex.store.contents import refuse_dledger_log

if TYPE_CHECKING:
    from rmqindex.errors import CorruptCommitLogError

__all__: list[str] = []

StoreArgument = Annotated[
    str, typer.Argument(metavar="STORE", help="A local store root, or its index directory.")
]


@app.command(
    short_help="Index a store's CommitLog anew.",
    epilog="Examples:\n\n\b\n"
    "  rmqindex rebuild /data/rocketmq/store\n"
    "  rmqindex rebuild store --resume\n"
    "  rmqindex rebuild store --replace --max-hash-slot-num 5000000 --max-index-num 20000000\n"
    "  rmqindex rebuild backup/store --out /tmp/index --from 1073741824 --to 2147483648",
)
def rebuild(
    store: LogArgument,
    *,
    out: Annotated[
        Path | None,
        typer.Option(
            "--out", metavar="DIR", help="The index directory to write; by default STORE/index."
        ),
    ] = None,
    from_offset: FromOption = None,
    to_offset: ToOption = None,
    resume: Annotated[
        bool,
        typer.Option(
            "--resume", help="Go on behind the last entry, as after a rebuild that was stopped."
        ),
    ] = False,
    replace: Annotated[
        bool,
        typer.Option(
            "--replace",
            help="Replace the files that are there, in one step when the new ones are complete.",
        ),
    ] = False,
    index_tags: Annotated[
        bool,
        typer.Option("--index-tags", help="Index tags as well, as brokers from 5.4.0 on do."),
    ] = False,
    checkpoint: Annotated[
        bool | None,
        typer.Option(
            "--checkpoint/--no-checkpoint",
            help="Raise the store's checkpoint, so that a broker keeps the files after a crash. "
            "By default where the files go into STORE/index.",
        ),
    ] = None,
    allow_live_store: AllowLiveOption = False,
    as_json: JsonOption = False,
    zone_name: LocalZoneOption = None,
    max_hash_slot_num: SlotsOption = None,
    max_index_num: EntriesOption = None,
    mode: ModeOption = Mode.FAILFAST,
) -> None:
    """Index the messages of a CommitLog, byte for byte as the broker does, which itself cannot.

    Stop the broker first. Give the broker's own geometry where no file is there to tell it. A
    rebuild that was stopped is gone on with by --resume.
    """
    layout = layout_of(max_hash_slot_num, max_index_num)
    target = Path(store) / INDEX_FOLDER if out is None else out
    if resume and (replace or from_offset is not None):
        raise typer.BadParameter("not together with --replace or --from", param_hint="--resume")
    if out is None and not (Path(store) / COMMITLOG_FOLDER).is_dir():
        refuse_dledger_log(store)
        raise typer.BadParameter("needed unless STORE is a store root", param_hint="--out")

    def damaged(error: CorruptCommitLogError) -> None:
        complain(str(error))

    with CommitLog(store) as log, progress_bar("rebuild") as report:
        begin = log.min_offset if from_offset is None else from_offset
        result = rebuild_index(
            log,
            target,
            layout,
            start=from_offset,
            stop=to_offset,
            resume=resume,
            replace=replace,
            index_tags=index_tags,
            checkpoint=out is None if checkpoint is None else checkpoint,
            time_zone=None if zone_name is None else zone_named(zone_name),
            allow_live_store=allow_live_store,
            mode=mode.value,
            on_malformed=damaged,
            progress=lambda done, total: report(done - begin, total - begin),
        )
    if as_json:
        print_json(
            {
                "directory": str(target),
                "files": [path.name for path in result.files],
                "entry_count": result.entry_count,
                "message_count": result.message_count,
                "start": result.start,
                "stop": result.stop,
                "index_msg_timestamp": result.index_msg_timestamp,
            }
        )
        return
    typer.echo(
        f"Indexed {counted(result.message_count, 'message')} from {result.start} to {result.stop}: "
        f"{counted(result.entry_count, 'entry', 'entries')} in "
        f"{counted(len(result.files), 'file')} of {target}"
    )
    if result.index_msg_timestamp is not None:
        typer.echo(f"The checkpoint's indexMsgTimestamp is {result.index_msg_timestamp}")


@app.command(
    short_help="Delete files whose messages are gone.",
    epilog="Examples:\n\n\b\n"
    "  rmqindex expire store --dry-run\n"
    "  rmqindex expire store\n"
    "  rmqindex expire store/index --before 1073741824",
)
def expire(
    store: StoreArgument,
    *,
    before: Annotated[
        int | None,
        typer.Option(
            "--before",
            metavar="OFFSET",
            min=0,
            help="Where the CommitLog begins; by default it is looked at.",
        ),
    ] = None,
    commit_log: CommitLogOption = "auto",
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Say what would go, and delete nothing.")
    ] = False,
    allow_live_store: AllowLiveOption = False,
    as_json: JsonOption = False,
) -> None:
    """Delete the IndexFiles that end before the CommitLog begins, as the broker's expiry does.

    From the oldest on, and never the last one.
    """
    if before is None:
        log = commit_log_of(store, commit_log_argument(commit_log))
        if log is None or not log.files:
            refuse_sibling_dledger(store)
            raise typer.BadParameter("needed without a CommitLog", param_hint="--before")
        before = log.min_offset
    if dry_run:
        gone = expired_files(store, before)
    else:
        gone = expire_index(store, before, allow_live_store=allow_live_store)
    size = sum(entry.size for entry in gone)
    if as_json:
        print_json(
            {
                "path": store,
                "before": before,
                "dry_run": dry_run,
                "files": [entry.name for entry in gone],
                "size": size,
            }
        )
        return
    for entry in gone:
        typer.echo(entry.name)
    verb = "would go" if dry_run else "gone"
    typer.echo(f"{counted(len(gone), 'file')} {verb}, {size} bytes; offsets before {before}")


@app.command(
    short_help="Change the slots and the capacity of the files.",
    epilog="Example:\n\n\b\n"
    "  rmqindex relayout store --slots 10000000 --entries 40000000\n\n"
    "Then set the broker's maxHashSlotNum and maxIndexNum to the same numbers.",
)
def relayout(
    store: StoreArgument,
    *,
    slots: Annotated[
        int, typer.Option("--slots", metavar="N", min=1, help="The new maxHashSlotNum.")
    ],
    entries: Annotated[
        int, typer.Option("--entries", metavar="N", min=2, help="The new maxIndexNum.")
    ],
    commit_log: CommitLogOption = "auto",
    allow_live_store: AllowLiveOption = False,
    as_json: JsonOption = False,
    zone_name: LocalZoneOption = None,
    max_hash_slot_num: SlotsOption = None,
    max_index_num: EntriesOption = None,
) -> None:
    """Write an index anew with other numbers of slots and entries, all of it or nothing.

    Times come from the CommitLog where it has the message; otherwise they may be up to a second
    early, since an IndexFile keeps whole seconds.
    """
    try:
        layout = Layout(slots, entries)
    except ValueError as error:
        raise typer.BadParameter(str(error), param_hint="--slots, --entries") from error
    with progress_bar("relayout") as report:
        result = relayout_index(
            store,
            layout,
            old_layout=layout_of(max_hash_slot_num, max_index_num),
            commit_log=commit_log_argument(commit_log),
            time_zone=None if zone_name is None else zone_named(zone_name),
            allow_live_store=allow_live_store,
            progress=report,
        )
    if as_json:
        print_json(
            {
                "path": store,
                "files": [path.name for path in result.files],
                "replaced": list(result.replaced),
                "entry_count": result.entry_count,
                "exact_times": result.exact_times,
                "index_msg_timestamp": result.index_msg_timestamp,
            }
        )
        return
    typer.echo(
        f"Wrote {counted(result.entry_count, 'entry', 'entries')} into "
        f"{counted(len(result.files), 'file')} in place of {len(result.replaced)}; "
        f"{result.exact_times} with their exact times"
    )
    if result.index_msg_timestamp is not None:
        typer.echo(f"The checkpoint's indexMsgTimestamp is {result.index_msg_timestamp}")
