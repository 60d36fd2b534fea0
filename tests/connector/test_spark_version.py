"""A PySpark that is too old is refused in one sentence, from every way in."""

from __future__ import annotations

import os
import pickle
import subprocess
import sys

import pyspark.version
import pytest
from pyspark.sql.datasource import DataSource

import pyspark_rmqcommitlog
import pyspark_rmqconsumequeue
import pyspark_rmqindex
from pyspark_rmqindex.spark_version import refusal

PACKAGES = {
    "rmqindex": pyspark_rmqindex,
    "rmqcommitlog": pyspark_rmqcommitlog,
    "rmqconsumequeue": pyspark_rmqconsumequeue,
}
# What a vendor's PySpark 3.5 has of data sources.
STUB = """
class DataSource:
    def __init__(self, options):
        self.options = options
"""
HAVE_SOURCES = {"3.5.2+vendor"}
# What PySpark's own pyspark/sql/worker/lookup_data_sources.py does, and then all names.
DISCOVERY = """
from importlib import import_module
from pkgutil import iter_modules
for found in iter_modules():
    if found.name.startswith("pyspark_"):
        module = import_module(found.name)
        try:
            print(found.name, module.DefaultSource.name())
        except ImportError as error:
            print(found.name, error)
import pyspark_rmqindex
for name in pyspark_rmqindex.__all__:
    try:
        print(name, getattr(pyspark_rmqindex, name)({}))
    except ImportError as error:
        print(name, error)
"""


def sentence(version):
    """Return what is said of a version."""
    return f"rmqindex needs PySpark 4.0 or later, found {version}: pip install 'pyspark>=4.0'"


@pytest.fixture(params=["3.5.6", "3.5.6+vendor.1", "3.4.0"])
def old(request, monkeypatch):
    """A version that is too old, as the one that is installed."""
    monkeypatch.setattr(pyspark.version, "__version__", request.param)
    return request.param


@pytest.mark.parametrize(
    "version",
    ["4.0.0", "4.0.2", "4.1.0", "4.1.0.dev3", "4.1", "4.10.0", "4.3.0", "5.0.0", "vendor-7"],
)
def test_later_ones_are_left_alone(monkeypatch, version):
    """Those that nobody knows yet, too."""
    monkeypatch.setattr(pyspark.version, "__version__", version)
    assert refusal() is None
    assert pyspark_rmqindex.DefaultSource({}).name() == "rmqindex"
    assert callable(pyspark_rmqindex.table)


@pytest.mark.parametrize("name", sorted(set(pyspark_rmqindex.__all__) - {"DefaultSource"}))
def test_each_public_name_says_so(old, name):
    """Whether it is imported or looked up."""
    with pytest.raises(ImportError) as refused:
        getattr(pyspark_rmqindex, name)
    assert str(refused.value) == sentence(old)
    with pytest.raises(ImportError) as refused:
        exec(f"from pyspark_rmqindex import {name}")
    assert str(refused.value) == sentence(old)


@pytest.mark.parametrize("name", PACKAGES)
def test_each_data_source_is_found_and_says_so(old, name):
    """A module that failed would hide the data sources of all other packages."""
    source = PACKAGES[name].DefaultSource
    assert issubclass(source, DataSource)
    assert source.name() == name
    assert pickle.loads(pickle.dumps(source)) is source
    with pytest.raises(ImportError) as refused:
        source({"path": "/nowhere"})
    assert str(refused.value) == sentence(old)


def test_no_pyspark_at_all_is_named(monkeypatch):
    """The codec alone is installed without it."""
    monkeypatch.setitem(sys.modules, "pyspark.version", None)
    assert refusal() == sentence("none")


@pytest.mark.parametrize("package", PACKAGES.values())
def test_other_names_are_not_there(package):
    """As in any module."""
    with pytest.raises(AttributeError, match="has no attribute 'nothing'"):
        _ = package.nothing


class TestProcess:
    """A Python that has another PySpark: a stub with what that version has of ours."""

    @pytest.fixture(params=["3.5.2+vendor", "3.5.6"])
    def version(self, request):
        """Its version."""
        return request.param

    @pytest.fixture
    def run(self, tmp_path, version):
        """Run it with arguments."""
        (tmp_path / "pyspark" / "sql").mkdir(parents=True)
        (tmp_path / "pyspark" / "__init__.py").touch()
        (tmp_path / "pyspark" / "sql" / "__init__.py").touch()
        (tmp_path / "pyspark" / "version.py").write_text(f"__version__ = {version!r}\n")
        if version in HAVE_SOURCES:
            (tmp_path / "pyspark" / "sql" / "datasource.py").write_text(STUB)
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(tmp_path), *sys.path])}

        def run(*arguments):
            return subprocess.run(
                [sys.executable, *arguments],
                capture_output=True,
                text=True,
                check=False,
                env=environment,
                cwd=tmp_path,
            )

        return run

    def test_spark_finds_what_there_is(self, run, version):
        """Each module can be imported, and whatever is used says the sentence."""
        done = run("-c", DISCOVERY)
        assert done.stderr == ""
        found = dict(line.split(" ", 1) for line in done.stdout.splitlines())
        said = {name: sentence(version) for name in pyspark_rmqindex.__all__}
        named = {
            package.__name__: name if version in HAVE_SOURCES else sentence(version)
            for name, package in PACKAGES.items()
        }
        assert {name: found[name] for name in (*said, *named)} == {**said, **named}

    def test_the_demo_says_so_and_fails(self, run, version):
        """In one line, without a traceback."""
        done = run("-m", "pyspark_rmqindex.demo")
        assert (done.returncode, done.stdout, done.stderr) == (1, "", sentence(version) + "\n")
