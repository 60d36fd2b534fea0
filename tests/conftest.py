"""What all tests share: the oracle and the golden data."""

from __future__ import annotations

import gc
import gzip
import json
import os
import shutil
import sys
from pathlib import Path
from time import tzset
from unittest import mock

import pytest
from hypothesis import settings

from examples import examples
from kinds import mark_kinds
from recorded import ROCKETMQ_CLASSES
from spark_versions import HAS_SPARK_STREAMS, LACKING_MARKS, skip_what_spark_lacks

# What commands print is in the system's zone.
os.environ["TZ"] = "UTC"
tzset()
os.environ.pop("RMQINDEX_TIME_ZONE", None)

# The machine's load is no property of the code.
settings.register_profile("rmqindex", deadline=None, max_examples=examples())
settings.load_profile("rmqindex")


def pytest_configure(config):
    """Let PySpark 4.0 and 4.1 leave it to the garbage collector to close its sockets."""
    if not HAS_SPARK_STREAMS:
        unclosed = r"ignore:unclosed <socket\.socket .*'127\.0\.0\.1':ResourceWarning"
        config.addinivalue_line("filterwarnings", unclosed)


@pytest.hookimpl(wrapper=True)
def pytest_collection():
    """Let the garbage collector not look again and again for what collecting keeps anyway."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


def pytest_collection_modifyitems(config, items):
    """Mark each test with its kind, and skip what PySpark cannot."""
    mark_kinds(config, items)
    for item in items:
        for name, reason in LACKING_MARKS.items():
            if item.get_closest_marker(name):
                item.add_marker(pytest.mark.skip(reason=reason))


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report():
    """Skip the modules that import what this PySpark lacks."""
    report = yield
    skip_what_spark_lacks(report)
    return report


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport():
    """Skip the tests of what this PySpark lacks, and which is therefore refused."""
    report = yield
    skip_what_spark_lacks(report)
    return report


@pytest.fixture(autouse=True)
def _no_java_for_unit_tests(request):
    """Let no unit test start a JVM, in this process or another."""
    if request.node.get_closest_marker("unit") is None:
        yield
        return
    with mock.patch.dict(os.environ, JAVA_HOME="/no/java/for/unit/tests"):
        yield


def _ensure_open(descriptor):
    """Refuse a descriptor that is none, as the system would."""
    os.fstat(descriptor)


@pytest.fixture(autouse=True)
def _no_wait_for_disks_in_unit_tests(request):
    """Let no unit test wait for a disk: only a power cut shows whether bytes came there.

    What is synchronised, and when, is heard by those that replace the calls themselves.
    """
    if request.node.get_closest_marker("unit") is None:
        yield
        return
    synchronised = os.fsync, os.fdatasync
    os.fsync = os.fdatasync = _ensure_open
    yield
    os.fsync, os.fdatasync = synchronised


@pytest.fixture(scope="session")
def golden():
    """The folder of what RocketMQ's own classes wrote."""
    return ROCKETMQ_CLASSES


@pytest.fixture
def store(tmp_path):
    """A copy of the sample store to change."""
    from rmqindex import sample_store

    shutil.copytree(sample_store(), tmp_path / "store")
    return tmp_path / "store"


@pytest.fixture(scope="session")
def default_size_file(tmp_path_factory):
    """A sparse file of the default geometry with 300,000 entries, written by RocketMQ itself."""
    packed = ROCKETMQ_CLASSES / "default_size" / "20231114221320000.gz"
    path = tmp_path_factory.mktemp("default_size") / packed.stem
    with gzip.open(packed) as source, path.open("wb") as target:
        while block := source.read(1 << 20):
            if block.count(0) < len(block):
                target.write(block)
            else:
                target.seek(len(block), 1)
        target.truncate()
    yield path
    shutil.rmtree(path.parent)


@pytest.fixture(scope="session")
def default_size_case():
    """The recipe, the header and the queries of that file."""
    return json.loads((ROCKETMQ_CLASSES / "default_size" / "default_size.json").read_text())


@pytest.fixture(scope="session")
def s3():
    """The one S3 server of a test run."""
    from s3_server import S3Server

    server = S3Server()
    server.start()
    yield server
    server.stop()


@pytest.fixture(scope="session")
def s3_store(s3):
    """The URI of the sample store there, its index and its CommitLog."""
    import rmqindex

    return s3.put(Path(rmqindex.sample_store()), "sample")


@pytest.fixture
def s3_environment(s3, monkeypatch):
    """Let AWS's variables lead to the server, and nothing else that lies about here."""
    for name in [name for name in os.environ if name.startswith("AWS_")]:
        monkeypatch.delenv(name)
    for name, value in s3.environment.items():
        monkeypatch.setenv(name, value)
    s3.recover()
    yield s3
    s3.recover()


@pytest.fixture(scope="session")
def spark(tmp_path_factory):
    """The one Spark session of a test run: two cores, no user interface, a quiet console."""
    from pyspark.sql import SparkSession

    # Before the JVM starts: its workers inherit this environment.
    os.environ["PYSPARK_PYTHON"] = sys.executable
    os.environ["RMQINDEX_LOG_LEVEL"] = "WARNING"
    session = (
        SparkSession.builder.master("local[2]")
        .appName("rmqindex-tests")
        # Tests are many small queries: what compiles fast is faster than what runs fast.
        .config("spark.driver.extraJavaOptions", "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC")
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.sql.session.timeZone", "UTC")
        .config("spark.sql.shuffle.partitions", "2")
        .config("spark.sql.warehouse.dir", str(tmp_path_factory.mktemp("warehouse")))
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.driver.host", "127.0.0.1")
        .getOrCreate()
    )
    session.sparkContext.setLogLevel("ERROR")
    yield session
    session.stop()


@pytest.fixture
def run(monkeypatch, capsys):
    """Run a command in this process and return its exit code, standard output and error."""
    monkeypatch.delenv("COLUMNS", raising=False)  # of the terminal that runs the tests

    def run_main(*arguments):
        from command_line import run as run_command

        monkeypatch.setattr(sys, "argv", ["rmqindex", *map(str, arguments)])
        with pytest.raises(SystemExit) as ended:
            run_command()
        out, err = capsys.readouterr()
        return ended.value.code, out, err

    return run_main
