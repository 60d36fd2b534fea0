"""What the plannings of one relation leave to each other."""

from __future__ import annotations

import errno
import json
import multiprocessing
import os
import time
from pathlib import Path

import pytest

from pyspark_rmqindex.filters.filters import MAX_PAIRS, Range, Wanted
from pyspark_rmqindex.scan import pushdown
from pyspark_rmqindex.scan.plan_log import ScanPlan, plan_from_schema, plan_schema, record_plan
from pyspark_rmqindex.scan.pushdown import check_generation, create_state, locked_state
from rmqindex import RmqIndexError


@pytest.fixture
def state(tmp_path, monkeypatch):
    """Return the path of a new relation's state."""
    monkeypatch.setenv("SPARK_LOCAL_DIRS", f"{tmp_path}/local,{tmp_path}/other")
    path = create_state()
    assert path.startswith(f"{tmp_path}/local/")
    return path


def pair(key):
    """Return what a lookup of one key wants."""
    return Wanted(pairs=frozenset({("t", key)}))


def plan(path, wanted, arrival=None):
    """Plan once, and return what came out."""
    with locked_state(path, time.monotonic() if arrival is None else arrival) as held:
        return held.widen(wanted)


def test_every_planning_asks_for_what_all_earlier_ones_asked_for(state):
    """Not only the last one: a scan may run with any plan that is made after it."""
    assert plan(state, pair("a")).pairs == {("t", "a")}
    assert plan(state, pair("b")).pairs == {("t", "a"), ("t", "b")}
    assert plan(state, pair("c")).pairs == {("t", "a"), ("t", "b"), ("t", "c")}


def test_two_relations_know_nothing_of_each_other(state):
    """Each ``load()`` has its own file."""
    plan(state, pair("a"))
    assert plan(create_state(), pair("b")).pairs == {("t", "b")}


def test_a_refused_planning_is_not_recorded(state):
    """Else one bad query would burden every later one."""
    plan(state, pair("a"))
    with pytest.raises(FileNotFoundError):
        refused(state, pair("b"))
    assert plan(state, pair("c")).pairs == {("t", "a"), ("t", "c")}


def test_at_the_bound_a_fresh_table_is_asked_for(state):
    """And earlier lookups go on working."""
    keys = frozenset(("t", str(n)) for n in range(MAX_PAIRS))
    plan(state, Wanted(pairs=keys))
    with pytest.raises(ValueError, match=r"4097 pairs .* make a fresh table\(\)"):
        plan(state, pair("one more"))
    assert plan(state, pair("7")).pairs == keys


def test_many_key_hashes_become_a_full_read(state):
    """Which is right as well, only slower."""
    plan(state, Wanted(key_hashes=frozenset(range(MAX_PAIRS)), position=Range(1, 5)))
    wide = plan(state, Wanted(key_hashes=frozenset({MAX_PAIRS}), position=Range(4, 9)))
    assert wide == Wanted(position=Range(1, 9))


def test_a_query_that_narrows_nothing_makes_later_ones_read_everything(state):
    """Their rows could be asked of this very plan."""
    plan(state, Wanted(key_hashes=frozenset({5})))
    plan(state, Wanted())
    assert plan(state, Wanted(key_hashes=frozenset({6}))) == Wanted()


def test_a_missing_or_damaged_state_is_refused(state):
    """Without it, answers could lack rows."""
    Path(state).write_text("{")
    with pytest.raises(ValueError, match=r"damaged\. Without it, answers could be incomplete"):
        plan(state, pair("a"))
    Path(state).unlink()
    with pytest.raises(ValueError, match=r"No such file or directory\. .* make a fresh table\(\)"):
        plan(state, pair("a"))


def test_a_planning_that_overlaps_an_unfinished_one_waits_for_it_and_a_little_longer(state):
    """So that its plan, the wider one, is stored last."""
    arrival = time.monotonic()
    plan(state, pair("a"))
    began = time.monotonic()
    plan(state, pair("b"), arrival)
    assert time.monotonic() - began >= 0.09
    began = time.monotonic()
    plan(state, pair("c"))
    assert time.monotonic() - began < 0.09


def refused(path, wanted):
    """Plan, and fail after the state was widened."""
    with locked_state(path, time.monotonic()) as held:
        held.widen(wanted)
        Path("/nowhere/at/all").stat()


def _plan_keys(path, name):
    for number in range(20):
        plan(path, pair(f"{name}{number}"))


@pytest.mark.system
def test_plannings_of_several_processes_lose_nothing(state):
    """Spark plans in whatever process is free."""
    context = multiprocessing.get_context("spawn")
    processes = [context.Process(target=_plan_keys, args=(state, name)) for name in "xyz"]
    for process in processes:
        process.start()
    for process in processes:
        process.join(60)
    assert len(plan(state, pair("x0")).pairs) == 60


def generation(path, wanted):
    """Plan once, and return the generation."""
    with locked_state(path, time.monotonic()) as held:
        held.widen(wanted)
        return held.generation


def test_a_plan_that_ran_before_a_wider_one_was_made_may_run_again(state):
    """Spark had stored it, so the wider one is stored after it."""
    first = generation(state, pair("a"))
    check_generation(state, first)
    second = generation(state, pair("b"))
    assert second > first
    check_generation(state, second)
    check_generation(state, first)


def test_a_plan_that_was_overtaken_before_it_ran_is_refused(state):
    """Another thread's scan may have been given it instead of its own."""
    first = generation(state, pair("a"))
    second = generation(state, pair("b"))
    check_generation(state, second)
    with pytest.raises(ValueError, match="two of its queries were planned at the same time"):
        check_generation(state, first)


def test_a_planning_that_fails_makes_no_earlier_plan_doubtful(state):
    """What is not recorded overtakes nothing."""
    first = generation(state, pair("a"))
    with pytest.raises(FileNotFoundError):
        refused(state, pair("b"))
    check_generation(state, first)
    assert generation(state, pair("a")) == first


@pytest.mark.parametrize("call", ["posix_fallocate", "touch"])
def test_a_full_disk_is_an_error_of_one_planning_alone(state, monkeypatch, call):
    """The record stays as it was, and the next planning goes on from it."""
    first = generation(state, pair("a"))

    def full(*_):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as patch:
        patch.setattr(*((os, call) if call == "posix_fallocate" else (Path, call)), full)
        with pytest.raises(ValueError, match=r"cannot be written to .*No space left on device"):
            plan(state, pair("b"))
    check_generation(state, first)
    assert plan(state, pair("c")).pairs == {("t", "a"), ("t", "c")}


def test_a_plan_that_widens_nothing_is_no_new_generation(state):
    """Whichever of two equal plans Spark keeps, it holds the rows of both."""
    first = generation(state, pair("a"))
    assert generation(state, pair("a")) == first
    check_generation(state, first)


def test_a_host_without_the_state_lets_its_tasks_run(tmp_path):
    """Executors elsewhere cannot see the marks."""
    check_generation(str(tmp_path / "relation-none.json"), 1)
    assert list(tmp_path.iterdir()) == []


class TestDirectory:
    """Where the states lie when Spark names no directory of its own."""

    @pytest.fixture(autouse=True)
    def shared(self, tmp_path, monkeypatch):
        """A directory that all users write to."""
        monkeypatch.delenv("SPARK_LOCAL_DIRS", raising=False)
        monkeypatch.setattr(pushdown, "gettempdir", lambda: str(tmp_path))
        return tmp_path

    def test_it_is_this_users_alone(self, shared):
        """Another user has another one."""
        directory = pushdown.state_directory()
        assert directory == shared / f"rmqindex-{os.geteuid()}"
        assert directory.stat().st_mode & 0o777 == 0o700
        assert create_state().startswith(f"{directory}/")

    @pytest.mark.parametrize("kind", ["link", "open", "file"])
    def test_what_another_user_made_is_refused(self, shared, kind):
        """Else queries could be made to write, or to believe, what that user likes."""
        place = shared / f"rmqindex-{os.geteuid()}"
        if kind == "link":
            (shared / "elsewhere").mkdir()
            place.symlink_to(shared / "elsewhere")
        elif kind == "open":
            place.mkdir()
            place.chmod(0o777)
        else:
            place.touch()
        with pytest.raises((RmqIndexError, FileExistsError)):
            create_state()

    def test_that_of_another_user_is_refused(self, shared, monkeypatch):
        """Whatever its mode."""
        mine = os.geteuid()
        monkeypatch.setattr(pushdown.os, "geteuid", lambda: mine + 1)
        (shared / f"rmqindex-{mine + 1}").mkdir(mode=0o700)
        with pytest.raises(RmqIndexError, match=f"only user {mine + 1} can write to, got drwx"):
            create_state()

    def test_plans_are_neither_kept_nor_believed_there(self, shared):
        """A scan goes on without them."""
        place = shared / f"rmqindex-{os.geteuid()}"
        (shared / "elsewhere").mkdir()
        place.symlink_to(shared / "elsewhere")
        record_plan({"path": "x"}, ScanPlan(None, None, (), 1, 1, 1, 1))
        assert plan_from_schema(plan_schema({"path": "x"})) is None
        assert not list((shared / "elsewhere").iterdir())


def test_a_planning_that_never_ends_is_an_error_for_the_others(state, monkeypatch):
    """Nobody waits for ever for the lock of a process that has stopped."""
    monkeypatch.setattr(pushdown, "_LOCK_WAIT_SECONDS", 0.05)
    with (
        locked_state(state, time.monotonic()),
        pytest.raises(ValueError, match="another query of it has been planning for ten minutes"),
    ):
        plan(state, pair("a"))


def test_a_planning_waits_only_a_moment_whatever_the_clock_said(state):
    """A record of before the host's last start has times of another clock."""
    plan(state, pair("a"))
    text = json.loads(Path(state).read_text())
    Path(state).write_text(json.dumps({**text, "finished": time.monotonic() + 3600}))
    began = time.monotonic()
    plan(state, pair("b"))
    assert time.monotonic() - began < 60
