"""What files and options may say: checked before it is believed, and bounded."""

from __future__ import annotations

import json
from dataclasses import asdict

import pytest

from damage import DAMAGES, damaged
from pyspark_rmqindex.read.plan_leak import locked_state
from pyspark_rmqindex.read.plan_log import ScanPlan, plan_from_schema, plan_schema, record_plan
from pyspark_rmqindex.stream.checkpoint import offsets_from_json
from pyspark_rmqindex.stream.commit import StreamBatch, commit_batch, staging_of
from pyspark_rmqindex.stream.store_offset import StoreOffset
from pyspark_rmqindex.write import write_options
from rmqindex import RmqIndexError
from rmqindex.storage import Location
from rmqindex.store import expand, matcher
from rmqindex.times import zone_of
from rmqindex.transaction import Owner, staging_root

OFFSET = {
    "file": "100", "position": 1, "entries": 1, "phy_offset": 0, "begin_timestamp": 0,
    "begin_phy_offset": 0,
}  # fmt: skip


@pytest.mark.parametrize(
    "change",
    [
        {"file": 100},
        {"file": None},
        {"position": "1"},
        {"position": True},
        {"entries": 1.0},
        {"last_name": 1},
        {"furthest_phy_offset": "0"},
    ],
)
def test_an_offset_of_entries_has_its_own_fields(change):
    """The checkpoint is a file like others."""
    with pytest.raises(ValueError, match="the checkpoint's offset: expected that of a stream"):
        offsets_from_json(StoreOffset, {"/store/index": {**OFFSET, **change}})
    assert offsets_from_json(StoreOffset, {"/store/index": OFFSET})


@pytest.mark.spark_streams
@pytest.mark.parametrize("data", [{"offset": "0"}, {"offset": True}, {"offset": 1.5}])
def test_an_offset_of_messages_has_its_own_fields(data):
    """Likewise."""
    from pyspark_rmqindex.stream.messages import LogOffset

    with pytest.raises(ValueError, match="offset: expected an integer of 64 bits, got"):
        LogOffset.from_json(data)


@pytest.mark.parametrize(
    "ledger",
    [
        {"streams": []},
        {"streams": {"q": "1"}},
        {"streams": {"q": True}},
        {"tail": []},
        {"tail": {}},
        {"tail": {"name": "1", "path": "/etc/passwd"}},
    ],
)
def test_a_ledger_has_its_own_fields(tmp_path, ledger):
    """It says which batches are in the index, so that nothing else may pass for it."""
    options = write_options({"path": str(tmp_path / "index")})
    root = staging_root(options.directory)
    root.mkdir()
    fields = {"job": "stream-q-0", "created": False, "old": [], "new": [], "ledger": ledger}
    (root / "ledger.json").write_text(json.dumps(fields))
    with pytest.raises(RmqIndexError, match=r"index\.rmqindex/ledger\.json: expected what batches"):
        commit_batch(options, StreamBatch("q", 0), [], None, Owner.current())


@pytest.mark.parametrize("query", ["../../elsewhere", "/elsewhere", "a/b", ""])
def test_the_id_of_a_query_leads_nowhere_else(tmp_path, query):
    """It comes from a checkpoint, and names a directory."""
    options = write_options({"path": str(tmp_path / "index")})
    if query:
        with pytest.raises(ValueError, match="job: expected a name"):
            staging_of(options, StreamBatch(query, 0))
    else:
        assert staging_of(options, StreamBatch(query, 0)).path.parent.parent == tmp_path


@pytest.mark.parametrize("name", ["../../../etc/passwd", "/etc/passwd", "a\0b"])
def test_a_time_zone_is_no_path(name):
    """It names a file of the zone database."""
    with pytest.raises(ValueError, match="time zone: expected"):
        zone_of(name)


def test_braces_do_not_multiply_without_end(tmp_path):
    """Thirty pairs would stand for a thousand million names."""
    with pytest.raises(ValueError, match="at most 1000 alternatives in all"):
        matcher("{a,b}" * 30)
    with pytest.raises(ValueError, match="at most 1000 alternatives in all"):
        list(expand(Location(f"{tmp_path}/{'{a,b}' * 30}")))
    assert matcher("{a,{b,c}}{d,e}")("cd")
    assert matcher("{a,b}" * 9)("ababababa")


def test_stars_cost_no_more_than_the_name_is_long():
    """A pattern that nearly fits is not tried in every way."""
    assert not matcher("*a" * 200 + "b")("a" * 255)


def test_a_pattern_does_not_leave_its_directory(tmp_path):
    """Names that are paths do not exist, and dots are names like others."""
    (tmp_path / "a").mkdir()
    (tmp_path / "secret").touch()
    assert [hit.path for hit in expand(Location(f"{tmp_path}/a/*"))] == []
    assert [hit.path for hit in expand(Location(f"{tmp_path}/a/{{..,.}}*"))] == []


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
