"""Random SQL has the rows that the same SQL has over independently decoded files."""

from __future__ import annotations

import json
import re
import subprocess
import sys

import pytest

from .decoder import Store, decode, java_hash, keyed_rows
from .stores import make_stores

QUERIES, SEED = 20, 3


@pytest.mark.parametrize("session", ["classic", "connect"])
def test_random_sql_makes_no_difference(session):
    """The first queries of the big run, ``python -m tests.system.random_sql``."""
    command = [sys.executable, "-m", "tests.system.random_sql", "--session", session]
    done = subprocess.run(
        [*command, "--queries", str(QUERIES), "--seed", str(SEED)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr[-2000:]
    assert f"{QUERIES} queries in" in done.stdout
    assert ", 0 different" in done.stdout


@pytest.mark.parametrize("engine", ["duckdb", "polars", "datafusion"])
def test_random_queries_of_datasets_make_no_difference(engine):
    """The first ones of the same run over ``MessageStore.dataset()``."""
    command = [sys.executable, "-m", "tests.system.random_sql", "--session", engine]
    done = subprocess.run(
        [*command, "--queries", "120", "--seed", str(SEED)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr[-2000:]
    assert "120 queries in" in done.stdout
    assert "not bound" not in done.stdout
    assert ", 0 different" in done.stdout
    (answered,) = re.findall(r"^(\d+) answered", done.stdout, re.MULTILINE)
    assert int(answered) > 80


def test_the_decoder_reads_what_rocketmq_wrote(tmp_path, golden):
    """Its hashes are Java's, and every entry of the sample is of a message that has its key."""
    sample, small, expired = make_stores(tmp_path, SEED)
    assert {row["match_state"] for row in sample.rows.known} == {"verified"}
    messages = json.loads((golden / "store_messages.json").read_text())["messages"]
    stored = {row["phy_offset"] for row in sample.rows.messages}
    assert len(stored) == len(messages)
    assert java_hash("TopicTest", "Aa") == java_hash("TopicTest", "BB")
    assert {row["match_state"] for row in small.rows.known} == {"verified"}
    assert "unverified" in {row["match_state"] for row in expired.rows.known}


def test_a_difference_is_noticed(tmp_path):
    """A row that is found by a wrong key is no row of the truth."""
    made = make_stores(tmp_path, SEED)[0]
    pairs = {("TopicTest", "Aa"), ("TopicTest", "BB")}
    exact = keyed_rows(made.rows.known, pairs, verified=True)
    loose = keyed_rows(made.rows.entries, pairs, verified=False)
    assert 0 < len(exact) < len(loose)
    assert isinstance(decode(made.path, 97), Store)
