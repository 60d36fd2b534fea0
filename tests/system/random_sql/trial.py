"""Runs random statements in a session, and compares the answers."""

from __future__ import annotations

import logging
import os
import re
import socket
import sys
import time
from collections import Counter
from dataclasses import dataclass, field
from random import Random
from typing import TYPE_CHECKING, Any

from .queries import make_query
from .relations import World
from .stores import make_stores

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

    from .queries import Query

__all__ = ["Outcome", "classic_session", "connect_session", "run_trial", "sail_session"]

_CONFS = {
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.shuffle.partitions": "1",
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
}
# A refusal is an error that the package raises; the text begins behind one of these.
_REFUSAL = re.compile(r"(?:ValueError|RmqIndexError|TypeError): (.*)", re.DOTALL)
_RENEWED_EVERY = 200
# How many queries one statement unites, each as likely as the others.
_SIZES = (1, 2, 4, 8, 12)
_REPEATED_SHARE, _CACHED_SHARE = 0.15, 0.08
# Many small queries: what compiles fast is faster than what runs fast.
_JAVA = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"


@dataclass
class Outcome:
    """What became of the statements.

    Attributes:
        queries: How many there were, by shape.
        statements: How many statements they made.
        answered: How many were answered, and the same on both sides.
        empty: How many of these have no rows.
        rows: How many rows they had.
        pushed: How many of the answered ones ask a ``table()`` that answers only what binds its
            keys, so that the engine has handed them over.
        refusals: How many were refused, by message.
        spark_errors: How many failed on both sides, with Spark's own error.
        faults: Those that differ.
        seconds: How long it took.
    """

    queries: Counter[str] = field(default_factory=Counter)
    statements: int = 0
    answered: int = 0
    empty: int = 0
    rows: int = 0
    pushed: int = 0
    refusals: Counter[str] = field(default_factory=Counter)
    spark_errors: Counter[str] = field(default_factory=Counter)
    faults: list[str] = field(default_factory=list)
    seconds: float = 0.0


def classic_session(directory: Path) -> SparkSession:
    """Return a classic session of one core."""
    from pyspark.sql import SparkSession

    _prepare_environment()
    session = (
        SparkSession.builder.master("local[1]")
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.sql.warehouse.dir", str(directory / "warehouse"))
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.driver.host", "127.0.0.1")
        .getOrCreate()
    )
    session.sparkContext.setLogLevel("OFF")
    return session


def connect_session(directory: Path) -> SparkSession:
    """Return a session of Spark Connect, with a server of one core."""
    from pyspark.sql.connect.session import SparkSession as RemoteSession

    _prepare_environment()
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    confs = {
        "spark.connect.grpc.binding.port": str(port),
        "spark.sql.warehouse.dir": str(directory / "warehouse"),
        "spark.ui.enabled": "false",
    }
    # As remote("local[1]") does, which always takes the same port.
    RemoteSession._start_connect_server("local[1]", confs)
    os.environ["SPARK_CONNECT_MODE_ENABLED"] = "1"
    session: SparkSession = RemoteSession.builder.remote(f"sc://localhost:{port}").getOrCreate()
    return session


def sail_session(directory: Path) -> SparkSession:  # noqa: ARG001  (what every session takes)
    """Return a session of Sail, whose server runs in this process."""
    from pysail.spark import SparkConnectServer
    from pyspark.sql.connect.session import SparkSession as RemoteSession

    server = SparkConnectServer()
    server.start(background=True)
    _, port = server.listening_address
    session: SparkSession = RemoteSession.builder.remote(f"sc://127.0.0.1:{port}").getOrCreate()
    session._server = server  # it ends when nobody holds it
    return session


def run_trial(
    spark: SparkSession, directory: Path, queries: int, seed: int, *, told_every: int = 0
) -> Outcome:
    """Run statements and compare each answer.

    Args:
        spark: The session; its confs are changed.
        directory: Where the stores are made.
        queries: How many statements.
        seed: Of all choices.
        told_every: After how many statements a line is printed; 0 for none.
    """
    for name, value in _CONFS.items():
        spark.conf.set(name, value)
    random = Random(seed)
    world = World(spark, make_stores(directory, seed), directory, random)
    outcome = Outcome()
    start = time.monotonic()
    done, told, renewed, shown = 0, 0, 0, 0
    while done < queries:
        if done - renewed >= _RENEWED_EVERY:
            world.renew()
            renewed = done
        size = min(random.choice(_SIZES), queries - done)
        made = [make_query(world, random) for _ in range(size)]
        _judge_all(spark, made, outcome, random)
        done += size
        if told_every and done // told_every > told:
            told = done // told_every
            spent = time.monotonic() - start
            new, shown = outcome.faults[shown:], len(outcome.faults)
            lines = [*new, f"{done} queries, {spent:.0f} s, {shown} faults"]
            sys.stdout.write("\n".join(lines) + "\n")
            sys.stdout.flush()
    outcome.seconds = time.monotonic() - start
    return outcome


def _prepare_environment() -> None:
    os.environ["PYSPARK_PYTHON"] = sys.executable
    os.environ.setdefault("JAVA_TOOL_OPTIONS", _JAVA)
    # What both sides refuse is counted, and not printed.
    logging.getLogger("SQLQueryContextLogger").setLevel(logging.CRITICAL)


def _judge_all(spark: SparkSession, queries: list[Query], outcome: Outcome, random: Random) -> None:
    """Ask queries in one statement; if that fails, its halves, and so the one that fails alone."""
    if len(queries) == 1:
        outcome.statements += 1
        outcome.queries[queries[0].kind] += 1
        _judge(spark, queries[0], outcome, random)
        return
    ours, truth = (_united([getattr(each, side) for each in queries]) for side in ("ours", "truth"))
    found, error = _answer(spark, ours, random)
    expected = None if error else _answer(spark, truth)[0]
    if found is None or expected is None:
        half = len(queries) // 2
        _judge_all(spark, queries[:half], outcome, random)
        _judge_all(spark, queries[half:], outcome, random)
        return
    outcome.statements += 1
    outcome.queries.update(query.kind for query in queries)
    if found != expected:
        told = f"{len(queries)} queries in one statement: {_difference(found, expected)}"
        outcome.faults.append(f"{told}\n  {ours}\n  {truth}")
        return
    outcome.answered += len(queries)
    outcome.pushed += sum(query.binds for query in queries)
    outcome.rows += found.total()
    outcome.empty += len(queries) - len({row[1 : row.index(",")] for row in found})


def _united(statements: list[str]) -> str:
    """Return one statement of several, whose rows become texts."""
    return " UNION ALL ".join(
        f"SELECT {number} AS n, CAST(struct(*) AS STRING) AS row FROM ({statement})"
        for number, statement in enumerate(statements)
    )


def _difference(found: Counter[str], expected: Counter[str]) -> str:
    missing, surplus = expected - found, found - expected
    return (
        f"{missing.total()} rows missing {list(missing)[:2]}, {surplus.total()} surplus "
        f"{list(surplus)[:2]}"
    )


def _judge(spark: SparkSession, query: Query, outcome: Outcome, random: Random) -> None:
    found, error = _answer(spark, query.ours, random)
    refusal = None if error is None else _REFUSAL.search(str(error))
    if refusal is not None:
        outcome.refusals[_shortened(refusal[1])] += 1
        return
    expected, its_error = _answer(spark, query.truth)
    if error is not None and its_error is not None:
        outcome.spark_errors[_shortened(str(error))] += 1
    elif error is not None or its_error is not None:
        told = str(error)[:600] if error is not None else f"answered, and not {its_error}"
        outcome.faults.append(f"{query.kind}: {told}\n  {query.ours}\n  {query.truth}")
    elif found != expected:
        assert found is not None
        assert expected is not None
        told = _difference(found, expected)
        outcome.faults.append(f"{query.kind}: {told}\n  {query.ours}\n  {query.truth}")
    else:
        assert found is not None
        outcome.answered += 1
        outcome.pushed += query.binds
        outcome.rows += found.total()
        outcome.empty += not found


def _answer(
    spark: SparkSession, sql: str, random: Random | None = None
) -> tuple[Counter[str] | None, Exception | None]:
    turn = 1.0 if random is None else random.random()
    try:
        frame = spark.sql(sql)
        if turn < _CACHED_SHARE:
            frame = frame.cache()
            frame.count()
            rows = frame.collect()
            frame.unpersist()
        else:
            if turn < _CACHED_SHARE + _REPEATED_SHARE:
                frame.limit(2).collect()  # an action before changes nothing
            rows = frame.collect()
    except Exception as error:  # noqa: BLE001  (every failure is judged)
        return None, error
    return Counter(repr(tuple(map(_plain, row))) for row in rows), None


def _plain(value: Any) -> Any:
    return bytes(value) if isinstance(value, bytearray) else value


def _shortened(text: str) -> str:
    """Return the first line of a message, without what differs from query to query."""
    line = text.strip().partition("\n")[0]
    line = re.sub(r"(pushed down|hands over) .*?(: it|, and)", r"\1 ..\2", line)
    line = re.sub(r"'[^']*'|\"[^\"]*\"", "'..'", line)
    return re.sub(r"\d+", "N", line)[:160]
