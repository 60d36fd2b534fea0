"""A finding says to stop the broker where one runs, or may run, and nowhere else."""

from __future__ import annotations

import re
import shutil
from contextlib import contextmanager
from pathlib import Path

import pytest

import rmqindex
from other_broker import running_broker, where_none_runs
from permissions import mode_of
from rmqindex import AUDIT_RULES, verify
from rmqindex.transaction import BrokerLock

SAMPLE = Path(rmqindex.sample_store())
# They are found only where no broker runs.
WITHOUT_BROKER = {"index_behind", "restart_indexes", "restart_loses", "queues_missing"}


@contextmanager
def killed(store):
    """A broker left `abort` and a lock that nobody holds."""
    (store / "abort").touch()
    (store / "lock").touch()
    yield


def unknown(store):
    """The lock cannot be read: a broker may run."""
    return mode_of(store / "lock", 0)


@contextmanager
def copied(store):
    """Nothing tells of a broker."""
    (store / "checkpoint").unlink()
    yield


@contextmanager
def stopped(store):
    """The checkpoint is there, and no `abort`."""
    assert (store / "checkpoint").is_file()
    yield


def written(store):
    """A command of this package writes."""
    return BrokerLock.of(store).hold()


def lose_index(store):
    """Remove the index."""
    shutil.rmtree(store / "index")


def break_files(store):
    """Break an IndexFile, and remove a topic's ConsumeQueues."""
    with min((store / "index").iterdir()).open("r+b") as file:
        file.seek(40 + 4 * 85)
        file.write(bytes(4))
    shutil.rmtree(store / "consumequeue" / "TopicTest")


def remedies(store):
    """Return what the findings of a store advise, by rule."""
    return {row["rule"]: row["remedy"] for row in verify(store, "auto").to_pylist()}


@pytest.fixture
def store(tmp_path):
    """Return a copy of the sample store."""
    shutil.copytree(SAMPLE, tmp_path / "store")
    return tmp_path / "store"


@pytest.mark.parametrize("broker", [running_broker, unknown, killed, stopped, copied, written])
def test_the_advice_follows_what_the_store_tells_of_its_broker(store, broker):
    """For index and queues alike."""
    break_files(store)
    with broker(store):
        told = remedies(store)
    assert {"slot_newest", "queue_unknown"} <= told.keys()
    may_run = broker in (running_broker, unknown)
    for remedy in told.values():
        says_so = re.search("stop the broker", remedy, re.IGNORECASE) is not None
        assert says_so == (may_run and "`rmqindex rebuild" in remedy)


def test_a_killed_broker_without_an_index_needs_a_rebuild_alone(store):
    """Its lock is free, so there is nothing to stop."""
    lose_index(store)
    with killed(store):
        assert remedies(store)["index_missing"].startswith("Run `rmqindex rebuild STORE --replace`")


def test_every_command_that_a_broker_refuses_is_told_with_the_broker():
    """In the words that are left out where no broker runs."""
    for rule in AUDIT_RULES:
        commands = re.findall(
            r"`(?:rmqindex (?:rebuild|rebuild-queues|relayout)|truncate) ", rule.remedy
        )
        told = re.findall(r"[Ss]top the broker and run\b", rule.remedy)
        assert len(told) == len(commands) or rule.name in WITHOUT_BROKER, rule.name
        shorter = where_none_runs(rule.remedy)
        assert not re.search("broker stopped|stop the broker and run", shorter, re.IGNORECASE)
