"""What is installed is what a user needs, and Spark finds it."""

import importlib
import pkgutil
import tomllib
from importlib.metadata import distribution, version
from pathlib import Path

import pytest
import yaml
from packaging.requirements import Requirement  # pytest brings it

import pyspark_rmqcommitlog
import pyspark_rmqconsumequeue
import pyspark_rmqindex
import rmqindex

ROOT = Path(__file__).resolve().parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]


def test_the_version_has_one_source():
    """The installed distribution has the version of pyproject.toml."""
    assert version("rmqindex") == PROJECT["version"]


def test_spark_can_list_the_data_sources():
    """Spark looks for top-level modules named pyspark_*, and takes one source from each."""
    listed = [module.name for module in pkgutil.iter_modules()]
    for name, source in (
        ("pyspark_rmqindex", "rmqindex"),
        ("pyspark_rmqcommitlog", "rmqcommitlog"),
        ("pyspark_rmqconsumequeue", "rmqconsumequeue"),
    ):
        assert name in listed
        assert importlib.import_module(name).DefaultSource.name() == source


def test_both_packages_say_that_they_are_typed():
    """Type checkers read the annotations only of packages that have a marker."""
    for package in (
        rmqindex,
        pyspark_rmqindex,
        pyspark_rmqcommitlog,
        pyspark_rmqconsumequeue,
    ):
        assert (Path(package.__file__).parent / "py.typed").is_file()


@pytest.mark.parametrize("package", [rmqindex, pyspark_rmqindex], ids=lambda p: p.__name__)
def test_public_names_are_there_and_documented(package):
    """Every name in __all__ can be had, and classes and functions say what they are."""
    for name in package.__all__:
        public = getattr(package, name)
        assert not callable(public) or public.__doc__


def test_the_format_package_never_imports_spark():
    """Its modules name neither Spark nor the connector."""
    for path in (ROOT / "format").rglob("*.py"):
        assert "import pyspark" not in path.read_text(), path
        assert "from pyspark" not in path.read_text(), path


def test_the_command_is_installed():
    """The distribution has the console script ``rmqindex``."""
    scripts = distribution("rmqindex").entry_points.select(group="console_scripts")
    (script,) = [script for script in scripts if script.name == "rmqindex"]
    assert script.load() is importlib.import_module("rmqindex.cli").main


def test_the_sample_store_is_whole():
    """The store that every example uses has its parts, with their names."""
    store = rmqindex.sample_store()
    assert sorted(path.name for path in store.iterdir()) == [
        "abort.bak", "checkpoint", "commitlog", "consumequeue", "index", "lock",
    ]  # fmt: skip
    topics = sorted(path.name for path in (store / "consumequeue").iterdir())
    assert topics[0] == "%RETRY%group1"
    assert topics[-1] == "订单主题"
    assert sum(path.stat().st_size for path in store.rglob("*") if path.is_file()) == 197_312


def test_the_recipe_for_conda_asks_for_what_the_wheel_does():
    """With conda's names; what the extras bring is a bound there, and is not installed."""
    recipe = yaml.safe_load((ROOT / "conda" / "recipe.yaml").read_text())
    renamed = {"tzdata": "python-tzdata", "matplotlib": "matplotlib-base"}

    def as_conda(texts):
        asked = [Requirement(text) for text in texts]
        return {f"{renamed.get(each.name, each.name)} {each.specifier}".strip() for each in asked}

    def sorted_bounds(texts):
        return {
            f"{name} {','.join(sorted(bound.split(',')))}"
            for name, _, bound in (text.partition(" ") for text in texts)
        }

    run = set(recipe["requirements"]["run"]) - {"python >=${{ python_min }}"}
    assert sorted_bounds(run) == sorted_bounds(as_conda(PROJECT["dependencies"]))
    extras = [text for texts in PROJECT["optional-dependencies"].values() for text in texts]
    bounds = recipe["requirements"]["run_constraints"]
    assert sorted_bounds(bounds) == sorted_bounds(as_conda(extras))
    assert recipe["context"]["version"] == PROJECT["version"]
    assert f">={recipe['context']['python_min']}" == PROJECT["requires-python"]
    build = tomllib.loads((ROOT / "pyproject.toml").read_text())["build-system"]["requires"]
    assert as_conda(build) <= set(recipe["requirements"]["host"])
