"""What the plannings of one relation leave to each other."""

from __future__ import annotations

import errno
import json
import multiprocessing
import os
import pickle
from dataclasses import asdict, replace
from pathlib import Path

import pytest
from pyspark.sql.datasource import EqualTo, GreaterThanOrEqual, In

from damage import DAMAGES, damaged
from pyspark_rmqindex.options import read_options
from pyspark_rmqindex.read import plan_leak, plan_log
from pyspark_rmqindex.read.filters import MAX_PAIRS
from pyspark_rmqindex.read.plan_leak import (
    PlanId,
    create_state,
    is_on_cluster,
    locked_state,
    relation_name,
    wanted_by_all,
)
from pyspark_rmqindex.read.plan_leak_reader import SharedPlanReader
from pyspark_rmqindex.read.plan_log import ScanPlan, plan_from_schema, plan_schema, record_plan
from pyspark_rmqindex.schema import full_schema
from rmqindex import RmqIndexError
from rmqindex.messagestore import Range, Wanted


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


def plan(path, wanted):
    """Plan once, and return what came out."""
    with locked_state(path) as held:
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


def refused(path, wanted):
    """Plan, and fail after the state was widened."""
    with locked_state(path) as held:
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


def planned(path, wanted, listing="files"):
    """Plan once, and return what identifies the plan."""
    with locked_state(path) as held:
        held.widen(wanted)
        return held.plan_of(listing)


def test_a_plan_that_ran_before_a_wider_one_was_made_may_run_again(state):
    """Spark had stored it, so the wider one is stored after it."""
    first = planned(state, pair("a"))
    assert wanted_by_all(state, first) is None
    second = planned(state, pair("b"))
    assert second.generation > first.generation
    assert wanted_by_all(state, second) is None
    assert wanted_by_all(state, first) is None


def test_a_plan_that_was_overtaken_before_it_ran_finds_what_both_want(state):
    """Another thread's scan may have been given it, or its own one, planned and not run."""
    first = planned(state, pair("a"))
    second = planned(state, pair("b"))
    assert wanted_by_all(state, second) is None
    for _ in range(3):
        assert wanted_by_all(state, first).pairs == {("t", "a"), ("t", "b")}
    planned(state, pair("c"))
    assert len(wanted_by_all(state, first).pairs) == 3


class Relation:
    """A ``table()`` of the sample store, planned and run as Spark does both."""

    def __init__(self, store, **options):
        """Make it, with no query so far."""
        self.state = create_state()
        self.options = {"path": str(store), "pushdown": "true", "relation": "one", **options}

    def planned(self, *keys):
        """Plan a query of some keys.

        Returns:
            What runs the plan, for these keys or for those of another query that Spark filters by.
        """
        options = read_options(self.options)
        reader = SharedPlanReader(
            options, full_schema(keys=True, log=options.has_log), self.options, self.state
        )
        bound = [EqualTo(("topic",), "TopicTest"), In(("key",), keys)]
        reader.pushFilters([*bound, GreaterThanOrEqual(("position",), 1)])
        tasks = reader.partitions()
        stored = pickle.loads(pickle.dumps(reader))
        return lambda *wanted: sorted(
            (row["key"], row["phy_offset"])
            for task in tasks
            for batch in stored.read(task)
            for row in batch.to_pylist()
            if row["key"] in (wanted or keys)
        )


@pytest.mark.usefixtures("state")
def test_a_query_that_was_planned_before_another_one_ran_is_right_ever_after(store):
    """As a DataFrame that is explained first: in one thread, and however often it is run."""
    relation = Relation(store)
    first = relation.planned("order-49")
    other = relation.planned("ORDER:68", "BB")()
    assert len(first()) == 11
    assert first() == first() == Relation(store).planned("order-49")()
    assert other == Relation(store).planned("ORDER:68", "BB")()


@pytest.mark.usefixtures("state")
def test_a_scan_that_is_given_an_overtaken_plan_has_its_rows_all_the_same(store):
    """Of two threads, Spark may store the narrower plan last, for the scan that wants more."""
    relation = Relation(store)
    overtaken = relation.planned("order-49")
    relation.planned("ORDER:68")
    assert overtaken("ORDER:68") == Relation(store).planned("ORDER:68")() != []


@pytest.mark.parametrize(
    ("earlier", "later", "listing"),
    [
        (pair("a"), pair("b"), "other files"),
        (replace(pair("a"), time=Range(1, 5)), pair("b"), "files"),
        (replace(pair("a"), position=Range(1, 5)), pair("b"), "files"),
        (replace(pair("a"), stores=frozenset({"/a"})), pair("b"), "files"),
        (Wanted(pairs=frozenset()), pair("b"), "files"),
        (Wanted(key_hashes=frozenset()), Wanted(key_hashes=frozenset({1})), "files"),
        (replace(pair("a"), phy_offset=Range(1, 0)), pair("b"), "files"),
    ],
)
def test_an_overtaken_plan_whose_files_may_lack_rows_is_refused(state, earlier, later, listing):
    """It says what to write, which plans the query anew."""
    first = planned(state, earlier)
    planned(state, later, listing)
    with pytest.raises(ValueError, match="Write its query anew"):
        wanted_by_all(state, first)


def test_on_a_cluster_a_planning_is_refused_while_another_one_is_under_way(state):
    """Its tasks would not see the marks; nobody waits for a clock there."""
    with (
        locked_state(state),
        pytest.raises(ValueError, match="two of its queries were planned at the same time"),
        locked_state(state, waits=False),
    ):
        pass
    with locked_state(state, waits=False) as held:
        held.widen(pair("a"))
    assert is_on_cluster({"relation": relation_name("spark://host:7077")})
    assert is_on_cluster({"relation": relation_name("")})
    assert not is_on_cluster({"relation": relation_name("local[2]")})


def test_a_planning_that_fails_makes_no_earlier_plan_doubtful(state):
    """What is not recorded overtakes nothing."""
    first = planned(state, pair("a"))
    with pytest.raises(FileNotFoundError):
        refused(state, pair("b"))
    assert wanted_by_all(state, first) is None
    assert planned(state, pair("a")) == first


@pytest.mark.parametrize("call", ["posix_fallocate", "touch"])
def test_a_full_disk_is_an_error_of_one_planning_alone(state, monkeypatch, call):
    """The record stays as it was, and the next planning goes on from it."""
    first = planned(state, pair("a"))

    def full(*_):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as patch:
        patch.setattr(*((os, call) if call == "posix_fallocate" else (Path, call)), full)
        with pytest.raises(ValueError, match=r"cannot be written to .*No space left on device"):
            plan(state, pair("b"))
    assert wanted_by_all(state, first) is None
    assert plan(state, pair("c")).pairs == {("t", "a"), ("t", "c")}


def test_a_plan_that_widens_nothing_is_no_new_generation(state):
    """Whichever of two equal plans Spark keeps, it holds the rows of both."""
    first = planned(state, pair("a"))
    assert planned(state, pair("a")) == first
    assert wanted_by_all(state, first) is None


def test_a_host_without_the_state_lets_its_tasks_run(tmp_path):
    """Executors elsewhere cannot see the marks."""
    assert wanted_by_all(str(tmp_path / "relation-none.json"), PlanId(1, None, "")) is None
    assert list(tmp_path.iterdir()) == []


class TestDirectory:
    """Where the states lie when Spark names no directory of its own."""

    @pytest.fixture(autouse=True)
    def shared(self, tmp_path, monkeypatch):
        """A directory that all users write to."""
        monkeypatch.delenv("SPARK_LOCAL_DIRS", raising=False)
        monkeypatch.setattr(plan_log, "gettempdir", lambda: str(tmp_path))
        return tmp_path

    def test_it_is_this_users_alone(self, shared):
        """Another user has another one."""
        directory = plan_log.state_directory()
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
        monkeypatch.setattr(plan_log.os, "geteuid", lambda: mine + 1)
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
    monkeypatch.setattr(plan_leak, "_LOCK_WAIT_SECONDS", 0.05)
    with (
        locked_state(state),
        pytest.raises(ValueError, match="another query of it has been planning for ten minutes"),
    ):
        plan(state, pair("a"))


class TestOwnState:
    """What plannings of one relation leave to each other."""

    @pytest.mark.parametrize("how", DAMAGES)
    def test_a_damaged_state_asks_for_a_fresh_table(self, tmp_path, how):
        """A part of what was asked for could be missing in it."""
        path = tmp_path / "relation.json"
        path.write_bytes(damaged({"generation": 0, "wanted": None, "listing": ""}, how))
        if how == "huge":
            with path.open("r+b") as file:
                file.truncate(1 << 40)
        with (
            pytest.raises(ValueError, match=rf"{path}: damaged.* make a fresh table\(\)"),
            locked_state(str(path)),
        ):
            pass

    @pytest.mark.parametrize(
        "change",
        [
            {"wanted": []},
            {"wanted": {"pairs": 1}},
            {"listing": 1},
            {"generation": None},
            {"generation": -1},
        ],
    )
    def test_a_state_has_its_own_fields(self, tmp_path, change):
        """Each is checked."""
        path = tmp_path / "relation.json"
        fields = {"wanted": None, "listing": "", "generation": 0, **change}
        path.write_text(json.dumps(fields))
        with pytest.raises(ValueError, match="damaged"), locked_state(str(path)):
            pass

    @pytest.mark.parametrize("how", DAMAGES)
    def test_a_damaged_plan_is_named(self, tmp_path, monkeypatch, how):
        """last_plan() has no other to show."""
        monkeypatch.setenv("SPARK_LOCAL_DIRS", str(tmp_path))
        plan = ScanPlan((("t", "k"),), (7,), ("position >= 1",), 1, 2, 3, 4)
        assert repr(plan) == str(plan)
        record_plan({"path": "x"}, plan)
        assert plan_from_schema(plan_schema({"path": "x", "lastPlan": "true"})) == plan
        assert plan_from_schema(plan_schema({"path": "y"})) is None
        (path,) = (tmp_path / "rmqindex").iterdir()
        path.write_bytes(damaged(asdict(plan), how))
        if how == "huge":
            with path.open("r+b") as file:
                file.truncate(1 << 40)
        with pytest.raises(RmqIndexError, match=f"^{path}: expected the plan of a scan"):
            plan_schema({"path": "x"})
