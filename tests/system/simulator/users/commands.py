"""The command ``rmqindex``, run in this process through its own entry point, as it is typed."""

from __future__ import annotations

import base64
import contextlib
import csv
import io
import json
import os
import shutil
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .outcome import CRASHED, REFUSED, Outcome, attempt

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from .outcome import Place

__all__ = ["COMMANDS", "run"]

#: The exit code of bad usage and bad files.
_BAD = 2


def run(
    argv: Sequence[str],
    user: str = "",
    kind: str = "other",
    asked: Any = None,
    stdin: io.TextIOWrapper | None = None,
) -> Outcome:
    """Run a command, and return its exit code and what it printed.

    Args:
        argv: The arguments behind ``rmqindex``.
        user: The name of the outcome's user; by default the command's.
        kind: The kind of the answer.
        asked: The question; by default the arguments.
        stdin: What is typed; by default standard input is closed.
    """
    from tests.support.command_line import run as run_command

    outcome = Outcome(user or argv[0], kind, {"argv": list(argv)} if asked is None else asked)
    outcome.argv = tuple(map(str, argv))

    def ask(_: Outcome) -> None:
        before = sys.argv, sys.stdin
        sys.argv, sys.stdin = ["rmqindex", *map(str, argv)], stdin  # type: ignore[assignment]
        try:
            run_command()
        except SystemExit as ended:
            outcome.code = 0 if ended.code is None else int(ended.code)
        finally:
            sys.argv, sys.stdin = before

    attempt(outcome, ask, ())
    if outcome.status != CRASHED and outcome.code == _BAD:
        outcome.status, outcome.text = REFUSED, outcome.stderr.strip()
        outcome.options = _options(argv[0])
    return outcome


def _typed(question: dict[str, Any]) -> io.TextIOWrapper | None:
    """Return standard input: the keys, a line each, or None where it is closed."""
    if question.get("input", "closed") == "closed":
        return None
    lines = "".join(f"{key}\n" for key in question["keys"])
    return io.TextIOWrapper(io.BytesIO(lines.encode()), encoding="utf-8")


def _options(name: str) -> frozenset[str]:
    from tests.support.command_line import COMMANDS, load

    if name not in COMMANDS:
        return frozenset()
    return frozenset(
        text for option in load(name).params for text in (*option.opts, *option.secondary_opts)
    ) | {"--help"}


def _command(
    kind: str, arguments: Callable[..., list[str]], parse: Callable[..., Any]
) -> Callable[[Place, dict[str, Any], str], Outcome]:
    def asked(place: Place, question: dict[str, Any], user: str) -> Outcome:
        argv = [str(part) for part in arguments(place, question)]
        outcome = run(argv, user, kind, question, _typed(question))
        if not outcome.is_answer:
            return outcome
        try:
            outcome.rows = parse(outcome, question)
        except (ValueError, KeyError, TypeError, IndexError) as error:
            outcome.status, outcome.error = CRASHED, "UnreadableAnswer"
            outcome.text = f"{error!r}: {outcome.stdout[:500]!r}"
        return outcome

    return asked


def _mode(question: dict[str, Any]) -> list[str]:
    return ["--mode", question["mode"]] if question.get("mode", "FAILFAST") != "FAILFAST" else []


def _geometry(place: Place, question: dict[str, Any]) -> list[str]:
    if not question.get("geometry") or place.layout is None:
        return []
    slots, entries = place.layout
    return ["--max-hash-slot-num", str(slots), "--max-index-num", str(entries)]


def _range(question: dict[str, Any], *names: str) -> list[str]:
    return [
        part
        for name in names
        if question.get(name) is not None
        for part in (f"--{name.replace('_', '-')}", str(question[name]))
    ]


def _each(question: dict[str, Any], option: str, name: str) -> list[str]:
    return [part for value in question.get(name) or () for part in (f"--{option}", str(value))]


def _documents(outcome: Outcome) -> list[dict[str, Any]]:
    if not outcome.stdout.strip():
        return []
    decoder, text = json.JSONDecoder(), outcome.stdout.strip()
    documents: list[dict[str, Any]] = []
    while text:
        document, end = decoder.raw_decode(text)
        outcome.documents += 1
        documents += document.get("answers", [document])
        text = text[end:].lstrip()
    for each in documents:
        for name in ("uncovered", "lacking", "missing"):
            outcome.notes += [f"{name}: {json.dumps(part)}" for part in each.get(name) or ()]
    return documents


# Hits.


def _lookup(place: Place, question: dict[str, Any]) -> list[str]:
    path = question.get("path", place.root)
    keys = question["keys"]
    return [
        "lookup", path, *_range(question, "begin", "end", "max_num"), *_mode(question),
        *_geometry(place, question), "--json", "--", question["topic"], *keys,
    ]  # fmt: skip


def _hits(outcome: Outcome, _: dict[str, Any]) -> list[tuple[Any, ...]]:
    return [
        (answer["topic"], answer["key"], hit["name"], hit["position"], hit["phy_offset"],
         hit["store_timestamp"], hit["state"])
        for answer in _documents(outcome)
        for hit in answer["hits"]
    ]  # fmt: skip


def _tagged(outcome: Outcome, question: dict[str, Any]) -> list[tuple[Any, ...]]:
    rows = _hits(outcome, question)
    return [(row[0], row[1].removeprefix("T#"), *row[2:]) for row in rows]


def _lookup_csv(place: Place, question: dict[str, Any]) -> list[str]:
    return ["--csv" if part == "--json" else part for part in _lookup(place, question)]


def _hits_csv(outcome: Outcome, _: dict[str, Any]) -> list[tuple[Any, ...]]:
    rows = list(csv.DictReader(io.StringIO(outcome.stdout, newline="")))
    misses = [row for row in rows if row["state"] == "no_entry"]
    hits = [
        (row["topic"], row["key"], row["name"], int(row["position"]), int(row["phy_offset"]),
         int(row["store_timestamp"]), row["state"])
        for row in rows
        if row not in misses
    ]  # fmt: skip
    found = {hit[:2] for hit in hits}
    for row in misses:
        if (row["topic"], row["key"]) in found or any([*row.values()][2:-1]):
            raise ValueError(f"expected no entry of a key that has a row without one, got {row}")
    return hits


def _lookup_input(place: Place, question: dict[str, Any]) -> list[str]:
    argv = _lookup(place, question)
    return [*argv[: argv.index("--")], "--keys-file", "-", "--", question["topic"]]


def _lookup_messages(place: Place, question: dict[str, Any]) -> list[str]:
    argv = _lookup(place, question)
    return [*argv[:2], "--message", *argv[2:]]


def _lookup_table(place: Place, question: dict[str, Any]) -> list[str]:
    return [part for part in _lookup(place, question) if part != "--json"]


def _nothing(_: Outcome, __: dict[str, Any]) -> None:
    return None


def _broker(place: Place, question: dict[str, Any]) -> list[str]:
    argv = _lookup(place, question | {"mode": "FAILFAST"})
    return [*argv[:2], "--broker", *argv[2:]]


def _offsets(outcome: Outcome, _: dict[str, Any]) -> list[list[int]]:
    return [answer["phy_offsets"] for answer in _documents(outcome)]


def _tag(place: Place, question: dict[str, Any]) -> list[str]:
    argv = _lookup(place, question)
    return [*argv[:2], "--tag", *argv[2:]]


def _explain(place: Place, question: dict[str, Any]) -> list[str]:
    return [
        "explain", "--json", *_range(question, "begin", "end", "search_log"),
        *_geometry(place, question), "--", place.root, question["topic"], question["key"],
    ]  # fmt: skip


def _explained(outcome: Outcome, _: dict[str, Any]) -> dict[str, Any] | None:
    documents = _documents(outcome)
    return documents[0] if documents else None


# Entries.


def _scan(place: Place, question: dict[str, Any]) -> list[str]:
    return [
        "scan", question.get("path", place.root), *_range(question, "begin", "end", "from", "to"),
        *_range(question, "key_hash", "limit"), *_mode(question),
        *(["--salvage"] if question.get("salvage") else []), *_geometry(place, question), "--json",
    ]  # fmt: skip


def _entries(outcome: Outcome, _: dict[str, Any]) -> list[tuple[Any, ...]]:
    rows = [json.loads(line) for line in outcome.stdout.splitlines()]
    return [
        (row["file"], row["position"], row["key_hash"], row["phy_offset"], row["store_timestamp"])
        for row in rows
    ]


def _unread(place: Place, question: dict[str, Any], user: str) -> Outcome:
    """Scan into a pipe whose reader has gone away, in a process of its own."""
    from tests.support.command_line import run as run_command

    argv = ["--csv" if part == "--json" else str(part) for part in _scan(place, question)]
    outcome = Outcome(user, "unread", question, argv=tuple(argv))
    reader, writer = os.pipe()
    os.close(reader)
    pid = os.fork()
    if not pid:
        os.dup2(writer, 1)
        os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
        sys.argv = ["rmqindex", *argv]
        sys.stdout = sys.__stdout__ = open(1, "w", closefd=False)  # type: ignore[misc]  # noqa: SIM115
        sys.stderr = open(2, "w", closefd=False)  # noqa: SIM115
        try:
            run_command()
        except SystemExit as ended:
            os._exit(int(ended.code or 0))
        os._exit(_BAD)
    os.close(writer)
    outcome.code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    outcome.status = REFUSED if outcome.code == _BAD else outcome.status
    outcome.text = "exit code 2" if outcome.code == _BAD else ""
    return outcome


def _info(place: Place, question: dict[str, Any]) -> list[str]:
    return ["info", place.root, *_mode(question), *_geometry(place, question), "--json"]


def _files(outcome: Outcome, _: dict[str, Any]) -> list[tuple[Any, ...]]:
    documents = _documents(outcome)
    return [
        (file["name"], file["entry_count"], file["hash_slot_num"], file["index_num"], file["error"])
        for document in documents
        for file in document["files"]
    ]


# Messages.


def _messages(place: Place, question: dict[str, Any]) -> list[str]:
    return [
        "messages", place.root, *_selection(question), "--limit", str(question.get("limit", 10**6)),
        *(["--body"] if question.get("body") else []), *_mode(question), "--json",
    ]  # fmt: skip


def _selection(question: dict[str, Any]) -> list[str]:
    return [
        *_each(question, "topic", "topics"), *_each(question, "queue", "queues"),
        *_each(question, "tag", "tags"), *_range(question, "begin", "end", "from", "to"),
    ]  # fmt: skip


def _message(row: dict[str, Any]) -> dict[str, Any]:
    message = {
        "offset": row["phy_offset"],
        "size": row["size"],
        "topic": row["topic"],
        "queue_id": row["queue_id"],
        "queue_offset": row["queue_offset"],
        "tags": row["tags"],
        "store_time": row["store_timestamp"],
        "state": row.get("message_state"),
    }
    if "body" in row or "body_base64" in row:
        text = row.get("body")
        message["is_text"] = text is not None or "body_base64" not in row
        message["body"] = (
            text.encode("utf-8", "surrogatepass")
            if text is not None
            else base64.b64decode(row.get("body_base64") or "")
        )
    return message


def _listed(outcome: Outcome, _: dict[str, Any]) -> list[dict[str, Any]]:
    rows = [row for document in _documents(outcome) for row in document["messages"]]
    return [_message(row) for row in rows]


def _messages_table(place: Place, question: dict[str, Any]) -> list[str]:
    return [part for part in _messages(place, question) if part != "--json"]


def _cat(place: Place, question: dict[str, Any]) -> list[str]:
    which = question.get("offset", question.get("id"))
    topic = ["--topic", question["topic"]] if question.get("topic") else []
    return ["cat", place.root, *topic, *_mode(question), "--json", "--", str(which)]


def _cats(outcome: Outcome, _: dict[str, Any]) -> list[dict[str, Any]]:
    documents = _documents(outcome)
    rows = [row for document in documents for row in document.get("messages", [document])]
    return [_message(row) for row in rows]


def _cat_raw(place: Place, question: dict[str, Any]) -> list[str]:
    return ["--raw" if part == "--json" else part for part in _cat(place, question)]


def _raw(outcome: Outcome, _: dict[str, Any]) -> bytes:
    return outcome.stdout.encode("utf-8", "surrogateescape")


def _usage(place: Place, question: dict[str, Any]) -> list[str]:
    return [
        "usage", place.root, *_each(question, "by", "by"), *_selection(question), *_mode(question),
        "--json",
    ]  # fmt: skip


def _used(outcome: Outcome, _: dict[str, Any]) -> list[tuple[Any, ...]]:
    # Without a log it counts by hash, and has no topics.
    documents = [each for each in _documents(outcome) if each["by"] != ["key"]]
    return [
        (row["topic"], row["queue_id"], row["hour"], row["message_count"], row["size"])
        for document in documents
        for row in document["rows"]
    ]


def _key_usage(place: Place, question: dict[str, Any]) -> list[str]:
    limit = ["--limit", str(question["limit"])]
    return ["usage", place.root, "--by", question["by"], *limit, *_mode(question), "--json"]


def _used_by_keys(outcome: Outcome, _: dict[str, Any]) -> list[dict[str, Any]]:
    return [row for document in _documents(outcome) for row in document["rows"]]


def _diff(place: Place, question: dict[str, Any]) -> list[str]:
    copy = Path(place.aside) / f"copy-{os.getpid()}"  # two may be asked at once
    shutil.rmtree(copy, ignore_errors=True)
    with contextlib.suppress(shutil.Error, FileNotFoundError):  # what a broker removes meanwhile
        shutil.copytree(place.root, copy)
    return ["diff", place.root, str(copy), *_geometry(place, question), *_mode(question), "--json"]


def _parts(outcome: Outcome, _: dict[str, Any]) -> list[dict[str, Any]]:
    return [part for document in _documents(outcome) for part in document["parts"]]


def _verify(place: Place, question: dict[str, Any]) -> list[str]:
    since = ["--since", str(question["since"])] if question.get("since") else []
    bodies = ["--bodies"] if question.get("bodies") else []
    return ["verify", place.root, *since, *bodies, *_geometry(place, question), "--json"]


def _findings(outcome: Outcome, _: dict[str, Any]) -> list[dict[str, Any]]:
    return [finding for document in _documents(outcome) for finding in document["findings"]]


def _verify_table(place: Place, question: dict[str, Any]) -> list[str]:
    return [part for part in _verify(place, question) if part != "--json"]


def _dump(place: Place, question: dict[str, Any]) -> list[str]:
    path = str(Path(place.root) / question["file"])
    shown = _range(question, "offset", "limit")
    return ["dump", path, *shown, *_geometry(place, question), "--json"]


def _dumped(outcome: Outcome, _: dict[str, Any]) -> dict[str, Any] | None:
    documents = _documents(outcome)
    return documents[0] if documents else None


#: Who asks what: the kind of the answer, and the question as it is typed.
COMMANDS: dict[str, Callable[[Place, dict[str, Any], str], Outcome]] = {
    "lookup": _command("hits", _lookup, _hits),
    "lookup --csv": _command("hits", _lookup_csv, _hits_csv),
    "lookup --keys-file -": _command("hits", _lookup_input, _hits),
    "lookup --message": _command("hits", _lookup_messages, _hits),
    "lookup (table)": _command("printed", _lookup_table, _nothing),
    "lookup --tag": _command("hits", _tag, _tagged),
    "lookup --broker": _command("broker", _broker, _offsets),
    "explain": _command("explained", _explain, _explained),
    "scan": _command("entries", _scan, _entries),
    "scan, unread": _unread,
    "info": _command("files", _info, _files),
    "messages": _command("messages", _messages, _listed),
    "messages (table)": _command("printed", _messages_table, _nothing),
    "cat": _command("messages", _cat, _cats),
    "cat --raw": _command("body", _cat_raw, _raw),
    "usage": _command("usage", _usage, _used),
    "usage --by key": _command("key_usage", _key_usage, _used_by_keys),
    "diff": _command("compared", _diff, _parts),
    "verify": _command("findings", _verify, _findings),
    "verify (table)": _command("printed", _verify_table, _nothing),
    "dump": _command("dumped", _dump, _dumped),
}
