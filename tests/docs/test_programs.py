"""The programs that guides include as files print what the guides show."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pyspark
import pytest
from pyarrow import dataset

import rmqindex
from pyspark_rmqindex.spark_version import plans_each_scan

DOCS = Path(__file__).resolve().parents[2] / "docs"
USE = DOCS / "use"
PROJECT = DOCS / "project"
SPARK_HOME = Path(pyspark.__file__).parent


def printed(command: list[str], directory: Path) -> str:
    """Run a command in an empty directory and return its standard output."""
    told = {
        "PYSPARK_PYTHON": sys.executable,
        "PYSPARK_DRIVER_PYTHON": sys.executable,
        "SPARK_HOME": str(SPARK_HOME),
        # Each server of Spark Connect has a port of its own.
        "SPARK_TESTING": "1",
    }
    done = subprocess.run(
        command,
        cwd=directory,
        env={**os.environ, **told},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_another_engine_builds_an_index_and_looks_keys_up(tmp_path: Path) -> None:
    """The program of the guide prints what the guide shows, and nothing on standard error."""
    (tmp_path / "store").mkdir()
    program = PROJECT / "other_engine.py"
    done = subprocess.run(
        [sys.executable, program], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert done.stderr == ""
    assert done.stdout == program.with_suffix(".txt").read_text()


@pytest.mark.system
def test_spark_connect_answers_as_a_classic_session_does(tmp_path: Path) -> None:
    """Lookups, joins, functions of SQL and messages through a server of Spark Connect."""
    program = USE / "spark_connect.py"
    shown = program.with_suffix(".txt").read_text()
    assert printed([sys.executable, str(program)], tmp_path) == shown


@pytest.mark.system
def test_a_file_of_sql_looks_keys_up_and_scans_without_python_code(tmp_path: Path) -> None:
    """The shell ``spark-sql`` runs it from beginning to end."""
    program = USE / "spark_sql.sql"
    shell = [str(SPARK_HOME / "bin" / "spark-sql"), "--master", "local[1]", "-f", str(program)]
    told = ["--hivevar", f"store={rmqindex.sample_store()}"]
    assert printed([*shell, *told], tmp_path) == program.with_suffix(".txt").read_text()


@pytest.mark.system
@pytest.mark.spark_pushdown
def test_the_report_of_the_leak_shows_what_this_spark_does() -> None:
    """The program needs PySpark alone; a Spark without the fault prints ``ok`` three times."""
    program = PROJECT / "spark_leak.py"
    done = subprocess.run([sys.executable, program], capture_output=True, text=True, check=False)
    version, *lines = done.stdout.splitlines()
    assert version == f"Spark {pyspark.__version__}", done.stderr
    if plans_each_scan():
        assert [line.split()[0] for line in lines] == ["ok"] * 3
    else:
        assert lines == program.with_suffix(".txt").read_text().splitlines()
    assert done.returncode == (0 if plans_each_scan() else 1)


@pytest.mark.system
@pytest.mark.spark_streams
def test_a_declarative_pipeline_makes_tables_of_a_store(tmp_path: Path) -> None:
    """The pipeline of the guide, with the sample store: a stream, messages, and one key."""
    guide = USE / "pipeline"
    shutil.copytree(guide / "transformations", tmp_path / "transformations")
    spec = (guide / "spark-pipeline.yml").read_text()
    spec = spec.replace("/data/store", str(rmqindex.sample_store()))
    spec = spec.replace("/tmp/rocketmq-pipeline", str(tmp_path / "progress"))
    (tmp_path / "spark-pipeline.yml").write_text(spec)
    printed([str(SPARK_HOME / "bin" / "spark-pipelines"), "run"], tmp_path)
    tables = {
        name: dataset.dataset(tmp_path / "spark-warehouse" / name, format="parquet").to_table()
        for name in ("entries", "messages_by_topic", "order_49")
    }
    assert {name: rows.num_rows for name, rows in tables.items()} == {
        "entries": 959,
        "messages_by_topic": 5,
        "order_49": 11,
    }
    assert set(tables["order_49"]["match_state"].to_pylist()) == {"verified"}
