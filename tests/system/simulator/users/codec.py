"""The codec's public names, called as a program calls them."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from .outcome import Outcome, attempt
from .store import message_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from .outcome import Place

__all__ = ["CODEC"]

_LONG_MAX = 2**63 - 1


def _layout(place: Place, question: dict[str, Any]) -> Any:
    from rmqindex import Layout

    return Layout(*place.layout) if question.get("geometry") and place.layout else None


def _index_paths(place: Place) -> list[Path]:
    index = Path(place.root) / "index"
    try:
        names = sorted(path for path in index.glob("*") if path.is_file())
    except FileNotFoundError:  # a restore has just removed the folder
        return []
    return [path for path in names if path.name.isdigit()]


def _files(place: Place, question: dict[str, Any]) -> Iterator[tuple[Path, Any]]:
    from rmqindex import IndexFile, RmqIndexError

    layout, mode = _layout(place, question), question.get("mode", "FAILFAST")
    for path in _index_paths(place):
        try:
            opened = IndexFile(path, layout, mode=mode)
        except RmqIndexError:
            if path.exists():
                raise
            continue  # it was listed by this program, and the broker has deleted it since
        with opened as file:
            yield path, file


def file_scan(_: Outcome, place: Place, question: dict[str, Any]) -> list[tuple[Any, ...]]:
    """Scan each IndexFile."""
    return [
        (path.name, row["position"], row["key_hash"], row["phy_offset"], row["store_timestamp"])
        for path, file in _files(place, question)
        for batch in file.scan()
        for row in batch.to_pylist()
    ]


def file_count(_: Outcome, place: Place, question: dict[str, Any]) -> list[int]:
    """Count the rows of each IndexFile, without any column."""
    counts = []
    for _path, file in _files(place, question):
        try:
            counts.append(sum(batch.num_rows for batch in file.scan(columns=[])))
        except ValueError:
            counts.append(sum(batch.num_rows for batch in file.scan(columns=["position"])))
    return counts


def file_lookup(_: Outcome, place: Place, question: dict[str, Any]) -> list[tuple[Any, ...]]:
    """Look hashes up in each IndexFile, as :class:`IndexFile` alone can: all of one hash."""
    from rmqindex import index_key, key_hash

    hashes = [key_hash(index_key(question["topic"], key)) for key in question["keys"]]
    return [
        (row["query"], path.name, row["position"], row["phy_offset"], row["store_timestamp"])
        for path, file in _files(place, question)
        for row in file.lookup(hashes).to_pylist()
    ]


def salvaged(_: Outcome, place: Place, question: dict[str, Any]) -> list[tuple[Any, ...]]:
    """Read what can be read of each IndexFile."""
    from rmqindex import RmqIndexError, salvage

    found = []
    for path in _index_paths(place):
        try:
            rows = [
                row for each in salvage(path, _layout(place, question)) for row in each.to_pylist()
            ]
        except RmqIndexError:
            if path.exists():
                raise
            continue  # it was listed by this program, and the broker has deleted it since
        found += [
            (path.name, row["position"], row["key_hash"], row["phy_offset"], row["store_timestamp"])
            for row in rows
        ]
    return found


def query_offset(_: Outcome, place: Place, question: dict[str, Any]) -> list[list[int]]:
    """Ask as the broker asks."""
    from rmqindex import IndexDirectory

    begin, end = question.get("begin"), question.get("end")
    with IndexDirectory(Path(place.root) / "index", _layout(place, question)) as directory:
        return [
            list(
                directory.query_offset(
                    question["topic"],
                    key,
                    question.get("max_num") or 64,
                    0 if begin is None else begin,
                    _LONG_MAX if end is None else end,
                ).phy_offsets
            )
            for key in question["keys"]
        ]


def log_scan(outcome: Outcome, place: Place, question: dict[str, Any]) -> list[dict[str, Any]]:
    """Scan the log."""
    from rmqindex import CommitLog

    told: list[str] = []
    with CommitLog(place.root) as log:
        rows = [
            message_of(row)
            for batch in log.scan(
                question.get("from"),
                question.get("to"),
                mode=question.get("mode", "FAILFAST"),
                check_crc=bool(question.get("crc")),
                on_malformed=lambda error: told.append(f"malformed: {error}"),
            )
            for row in batch.to_pylist()
        ]
        outcome.notes += told + [f"gap: {gap}" for gap in log.gaps]
        log.ensure_same()
    return rows


def log_parts(_: Outcome, place: Place, question: dict[str, Any]) -> list[dict[str, Any]]:
    """Scan the log in parts that begin at boundaries, as tasks do."""
    from rmqindex import CommitLog

    rows = []
    with CommitLog(place.root) as log:
        cuts = [
            cut for file in log.files for cut in log.record_boundaries(file, question["chunk_size"])
        ]
        for start, stop in zip(cuts, [*cuts[1:], None], strict=False):
            for batch in log.scan(start, stop, at_boundaries=True):
                rows += [message_of(row) for row in batch.to_pylist()]
    return rows


def log_read_at(_: Outcome, place: Place, question: dict[str, Any]) -> list[dict[str, Any]]:
    """Read messages at offsets."""
    from rmqindex import CommitLog

    with CommitLog(place.root) as log:
        table = log.read_at(question["offsets"], check_crc=bool(question.get("crc")))
        return [
            message_of(row) | {"asked": offset, "state": row["state"]}
            for offset, row in zip(question["offsets"], table.to_pylist(), strict=True)
        ]


def queue_units(_: Outcome, place: Place, question: dict[str, Any]) -> list[tuple[Any, ...]]:  # noqa: ARG001
    """Read all ConsumeQueues."""
    from rmqindex import ConsumeQueue

    return [
        (row["topic"], row["queue_id"], row["queue_offset"], row["phy_offset"], row["size"],
         row["tags_code"])
        for queue in ConsumeQueue.find(place.root)
        for batch in queue.scan()
        for row in batch.to_pylist()
    ]  # fmt: skip


def verify(_: Outcome, place: Place, question: dict[str, Any]) -> list[dict[str, Any]]:
    """Audit with a log, without one, or an index alone."""
    from rmqindex import verify as audit

    log = question.get("log", "auto")
    return audit(place.root, log, _layout(place, question)).to_pylist()


def _call(
    kind: str, function: Callable[[Outcome, Place, dict[str, Any]], Any]
) -> Callable[[Place, dict[str, Any], str], Outcome]:
    def asked(place: Place, question: dict[str, Any], user: str) -> Outcome:
        from rmqindex import RmqIndexError

        outcome = Outcome(user, kind, question)
        return attempt(outcome, lambda _: function(outcome, place, question), (RmqIndexError,))

    return asked


#: Who asks what: the kind of the answer, and the call.
CODEC = {
    "IndexFile.scan": _call("entries", file_scan),
    "IndexFile.scan, counted": _call("counts", file_count),
    "IndexFile.lookup": _call("candidates", file_lookup),
    "salvage": _call("salvaged", salvaged),
    "IndexDirectory.query_offset": _call("broker", query_offset),
    "CommitLog.scan": _call("messages", log_scan),
    "CommitLog.record_boundaries": _call("messages", log_parts),
    "CommitLog.read_at": _call("read_at", log_read_at),
    "ConsumeQueue.scan": _call("units", queue_units),
    "rmqindex.verify": _call("findings", verify),
}
