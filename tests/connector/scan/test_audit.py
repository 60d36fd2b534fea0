"""The audit through Spark gives what ``rmqindex.verify`` gives."""

import shutil

import pytest

import rmqindex

STORE = rmqindex.sample_store()


@pytest.fixture
def store(tmp_path):
    """A copy of the sample store with a broken slot in the first file."""
    shutil.copytree(STORE, tmp_path / "store")
    with min((tmp_path / "store" / "index").iterdir()).open("r+b") as file:
        file.seek(40 + 4 * 85)
        file.write(bytes(4))
    return tmp_path / "store"


def audit(spark, path, **options):
    """Load the findings of a path."""
    return spark.read.format("rmqindex").options(audit="true", **options).load(str(path))


def test_findings_are_rows(spark, store):
    """Those of every file, and of what stands around them."""
    (store / "checkpoint").unlink()
    rows = audit(spark, store, commitLog="auto").collect()
    expected = rmqindex.verify(store, "auto").to_pylist()
    assert sorted(map(str, (row.asDict() for row in rows))) == sorted(map(str, expected))
    assert {"slot_newest", "checkpoint_missing"} <= {row["rule"] for row in rows}


@pytest.mark.system
def test_patterns_stand_for_stores_and_files(spark, store):
    """As in scans, each store with its own CommitLog."""
    shutil.copytree(store, store.with_name("store-b"))
    rows = audit(spark, store.with_name("store*"), commitLog="auto").collect()
    expected = [row for each in (store, store.with_name("store-b"))
                for row in rmqindex.verify(each, "auto").to_pylist()]  # fmt: skip
    assert sorted(map(str, (row.asDict() for row in rows))) == sorted(map(str, expected))
    (store / "index" / "notes.txt").touch()
    rows = audit(spark, store / "index" / "[2n]*").collect()
    assert {row["rule"] for row in rows if row["severity"] == "error"} == {
        "slot_newest",
        "entry_unreachable",
    }
    with pytest.raises(Exception, match="no file fits the pattern"):
        audit(spark, store / "index" / "3*").collect()


def test_the_columns_are_those_of_findings(spark, store):
    """A subset is enough, and an unknown one is refused."""
    frame = audit(spark, store)
    assert frame.columns == rmqindex.FINDING_SCHEMA.names
    some = spark.read.format("rmqindex").schema("byte BIGINT, rule STRING").option("audit", "true")
    rows = some.load(str(store)).where("rule = 'slot_newest'").collect()
    assert [tuple(row) for row in rows] == [(380, "slot_newest")]
    with pytest.raises(Exception, match=r"phy_offset.*Known columns: file STRING"):
        some.schema("phy_offset BIGINT").load(str(store)).collect()


def test_a_task_looks_at_one_file(spark, store):
    """And one at what stands around them."""
    assert audit(spark, store).rdd.getNumPartitions() == 6


def test_without_a_log_less_is_compared(spark, store):
    """As everywhere in load(), commitLog is none by default."""
    alone = {row["rule"] for row in audit(spark, store).collect()}
    beside = {row["rule"] for row in audit(spark, store, commitLog=str(store)).collect()}
    assert "slot_newest" in alone <= beside


def test_options_that_narrow_are_refused(spark, store):
    """An audit looks at whole files."""
    with pytest.raises(Exception, match="'topic': not together with 'audit'"):
        audit(spark, store, topic="T", key="k").collect()


def test_a_missing_path_is_an_error(spark, tmp_path):
    """It names the path."""
    with pytest.raises(Exception, match="no such file or directory"):
        audit(spark, tmp_path / "gone").collect()


@pytest.mark.system
def test_what_several_paths_name_is_looked_at_once(spark, store):
    """As everywhere else: a store and what is in it, given together, count once."""
    expected = sorted(map(str, audit(spark, store).collect()))
    paths = [str(store), f"{store}/index", str(min((store / "index").iterdir()))]
    frame = spark.read.format("rmqindex").option("audit", "true").load(paths)
    assert sorted(map(str, frame.collect())) == expected
