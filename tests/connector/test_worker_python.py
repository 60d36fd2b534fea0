"""A Python of Spark's workers that cannot run this package is an error before any job."""

from __future__ import annotations

import sys
from types import SimpleNamespace
from unittest import mock

import pytest

import pyspark_rmqindex
from pyspark_rmqindex.worker_python import check_worker_python, wrong_python

HERE = ".".join(map(str, sys.version_info[:3]))


def python(directory, script):
    """Make a program that stands for another Python."""
    made = directory / "python3"
    made.write_text(f"#!/bin/sh\n{script}\n")
    made.chmod(0o755)
    return str(made)


def session(path, *, master="local[2]", includes=()):
    """Return what a classic session says of its workers' Python."""
    context = SimpleNamespace(pythonExec=path, master=master, _python_includes=list(includes))
    return SimpleNamespace(sparkContext=context)


@pytest.fixture
def without_package(tmp_path):
    """A Python of this version that lacks the package."""
    return python(tmp_path, f"printf {HERE}; exit 1")


@pytest.fixture
def other_minor(tmp_path):
    """A Python of another minor version, which may well have the package."""
    return python(tmp_path, "printf 3.99.1")


def test_one_without_the_package_is_named(without_package):
    """Beside the one that has it, and what to set."""
    told = wrong_python(without_package)
    assert told == (
        f"Spark's workers run {without_package} (Python {HERE}), this is {sys.executable} (Python "
        f"{HERE}), and the first cannot import pyspark_rmqindex. Set PYSPARK_PYTHON="
        f"{sys.executable}, or import pyspark_rmqindex with PYSPARK_PYTHON unset, before the "
        "session starts"
    )


def test_one_of_another_minor_version_is_named(other_minor):
    """Spark itself would say so in every task."""
    told = wrong_python(other_minor)
    assert f"run {other_minor} (Python 3.99.1), this is {sys.executable} (Python {HERE})" in told
    assert "Spark needs one minor version for both" in told


@pytest.mark.parametrize("script", ["exit 0", f"printf {HERE}", None])
def test_one_that_has_the_package_will_do(tmp_path, script):
    """Also one that is not on this machine."""
    other = str(tmp_path / "python3") if script is None else python(tmp_path, script)
    assert wrong_python(other) is None
    assert wrong_python(sys.executable) is None


def test_it_is_an_error_where_this_host_runs_the_workers(without_package):
    """Wherever it plans them, and on a cluster's other hosts it is not known."""
    for plans, master in [(True, "local[2]"), (False, "local[2]"), (True, "spark://host:7077")]:
        with pytest.raises(RuntimeError, match="cannot import pyspark_rmqindex"):
            check_worker_python(session(without_package, master=master), plans=plans)
    check_worker_python(session(without_package, master="spark://host:7077"), plans=False)


def test_what_was_sent_to_the_workers_may_hold_the_package(without_package):
    """``--py-files`` are on their path alone."""
    check_worker_python(session(without_package, includes=["rmqindex.zip"]), plans=True)


def test_a_server_of_spark_connect_knows_its_own_python():
    """A client cannot ask for it."""
    check_worker_python(SimpleNamespace(), plans=True)


@pytest.mark.spark_pushdown
def test_a_table_is_not_made(without_package):
    """Before the session is changed."""
    spark = mock.Mock(sparkContext=session(without_package).sparkContext)
    with pytest.raises(RuntimeError, match="cannot import pyspark_rmqindex"):
        pyspark_rmqindex.table(spark, "/store")
    spark.conf.set.assert_not_called()


def test_nothing_is_registered(without_package):
    """Each function would fail where it is called."""
    spark = mock.Mock(sparkContext=session(without_package).sparkContext)
    with pytest.raises(RuntimeError, match="cannot import pyspark_rmqindex"):
        pyspark_rmqindex.register(spark)
    spark.dataSource.register.assert_not_called()
