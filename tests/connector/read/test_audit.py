"""The audit through Spark gives what ``rmqindex.verify`` gives, with each rule's own remedy."""

import pickle
import shutil
from collections import Counter

import pytest
from pyspark.sql.types import LongType, StringType, StructType

import rmqindex
from engines import RECORDED_STORES
from kinds import sampled
from other_broker import running_broker, where_none_runs
from pyspark_rmqindex.options import read_options
from pyspark_rmqindex.read.audit import AuditReader
from recorded import STORE_KINDS

STORE = rmqindex.sample_store()
STORES = {name: case.path for name, case in RECORDED_STORES.items()} | {
    path.name: path / "store" for path in sorted(STORE_KINDS.iterdir()) if path.is_dir()
}
# What a task without the queues' units cannot find, besides the rules that name queues.
QUEUE_PROPERTIES = {"property_number", "topic_kind"}


def by_tasks(path):
    """Return the findings of a store with its log, from tasks in other processes; or the error."""
    schema = StructType()
    for name in rmqindex.FINDING_SCHEMA.names:
        schema.add(name, LongType() if name == "byte" else StringType())
    options = {"path": str(path), "audit": "true", "commitLog": "auto"}
    reader = AuditReader(read_options(options), schema)
    try:
        partitions = pickle.loads(pickle.dumps(reader.partitions()))
    except rmqindex.RmqIndexError as error:
        return [str(error)]
    task = pickle.loads(pickle.dumps(reader))
    return [row for each in partitions for batch in task.read(each) for row in batch.to_pylist()]


def by_verify(path):
    """Return the findings of ``verify()`` but those of ConsumeQueues; or the error."""
    names = {rule.name for rule in rmqindex.AUDIT_RULES}
    queues = {name for name in names if name.startswith("queue")} | QUEUE_PROPERTIES
    try:
        rows = rmqindex.verify(path, "auto").to_pylist()
    except rmqindex.RmqIndexError as error:
        return [str(error)]
    return with_own_remedies(row for row in rows if row["rule"] not in queues)


def with_own_remedies(findings):
    """Return findings with the remedies of their rules: a task knows no others to agree with."""
    remedies = {rule.name: where_none_runs(rule.remedy) for rule in rmqindex.AUDIT_RULES}
    return [{**finding, "remedy": remedies[finding["rule"]]} for finding in findings]


def files_of(store, *folders):
    """Return the numbered files of a store's folders."""
    paths = [path for pattern in folders for path in sorted(store.glob(f"{pattern}/*"))]
    return [path for path in paths if path.name.isdigit() and path.is_file()]


def poke(path, at, data):
    """Overwrite some bytes of a file."""
    with path.open("r+b") as file:
        file.seek(at)
        file.write(data)


def written(path):
    """Return how many bytes of a file lie before its zeros."""
    return len(path.read_bytes().rstrip(b"\0"))


def cut(path, size):
    """Cut a file short."""
    with path.open("r+b") as file:
        file.truncate(size)


# What is damaged, by the index's and the log's files.
DAMAGES = {
    "index header zeroed": lambda index, _: poke(index[-1], 0, bytes(40)),
    "index count raised": lambda index, _: poke(index[-1], 36, b"\x40\0\0\0"),
    "index count lowered": lambda index, _: poke(index[0], 36, b"\0\0\0\3"),
    "index file cut": lambda index, _: cut(index[0], index[0].stat().st_size // 2),
    "index file cut in its header": lambda index, _: cut(index[-1], 39),
    "index file gone": lambda index, _: index[0].unlink(),
    "index gone": lambda index, _: shutil.rmtree(index[0].parent),
    "log cut": lambda _, log: cut(log[-1], written(log[-1]) // 2),
    "log zeroed from a page on": lambda _, log: poke(log[0], 4096, bytes(written(log[0]) - 4096)),
    "log hole": lambda _, log: poke(log[0], 4096, bytes(2048)),
    "log file gone": lambda _, log: log[-1].unlink(),
    "log emptied": lambda _, log: [path.unlink() for path in log],
}


@pytest.mark.parametrize("name", STORES)
def test_tasks_find_in_every_store_what_verify_finds(name):
    """But for ConsumeQueues, which tasks do not audit."""
    assert Counter(map(str, by_tasks(STORES[name]))) == Counter(map(str, by_verify(STORES[name])))


@pytest.mark.parametrize("name", sampled(["5.5.0", "plain", "dledger_after_plain"], "5.5.0"))
@pytest.mark.parametrize("damage", DAMAGES)
def test_tasks_find_in_a_damaged_store_what_verify_finds(name, damage, tmp_path):
    """A task that opens the log by its files knows what beside it proves where it ended."""
    store = tmp_path / "store"
    shutil.copytree(STORES[name], store)
    DAMAGES[damage](files_of(store, "index"), files_of(store, "commitlog", "dledger-*/data"))
    found = by_tasks(store)
    assert found
    assert Counter(map(str, found)) == Counter(map(str, by_verify(store)))


def test_a_task_says_to_stop_the_broker_that_runs(store):
    """And names no broker where none does."""
    with running_broker(store):
        live = {row["remedy"] for row in by_tasks(store) if row["rule"] == "slot_newest"}
    (remedy,) = live
    assert "stop the broker and run" in remedy
    stopped = {row["remedy"] for row in by_tasks(store) if row["rule"] == "slot_newest"}
    assert stopped == {where_none_runs(remedy)} != live


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


def assert_same(rows, expected):
    """Compare rows with findings of ``verify()``."""
    found = [row.asDict() for row in rows]
    assert sorted(map(str, found)) == sorted(map(str, with_own_remedies(expected)))


def test_findings_are_rows(spark, store):
    """Those of every file, and of what stands around them."""
    (store / "checkpoint").unlink()
    rows = audit(spark, store, commitLog="auto").collect()
    expected = rmqindex.verify(store, "auto").to_pylist()
    assert_same(rows, expected)
    assert {"slot_newest", "checkpoint_missing"} <= {row["rule"] for row in rows}


@pytest.mark.system
def test_patterns_stand_for_stores_and_files(spark, store):
    """As in scans, each store with its own CommitLog."""
    shutil.copytree(store, store.with_name("store-b"))
    rows = audit(spark, store.with_name("store*"), commitLog="auto").collect()
    expected = [row for each in (store, store.with_name("store-b"))
                for row in rmqindex.verify(each, "auto").to_pylist()]  # fmt: skip
    assert_same(rows, expected)
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
