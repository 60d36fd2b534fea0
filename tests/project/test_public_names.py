"""What users rely on by name is as ``tests/project/public_names.json`` lists it.

A name that goes, or that means something else, breaks somebody's program: whoever changes the list
says so in the changelog. ``python tests/project/test_public_names.py`` writes it anew.
"""

from __future__ import annotations

import contextlib
import inspect
import io
import json
import os
import re
import runpy
import sys
from importlib import import_module
from pathlib import Path
from unittest.mock import patch

import pytest

import rmqindex

ROOT = Path(__file__).resolve().parents[2]
LIST = Path(__file__).with_name("public_names.json")
PACKAGES = ("rmqindex", "pyspark_rmqindex", "pyspark_rmqcommitlog", "pyspark_rmqconsumequeue")
SCHEMAS = ("COMMITLOG_SCHEMA", "CONSUME_QUEUE_SCHEMA", "ENTRY_SCHEMA", "FINDING_SCHEMA")
# Each shape of rows that a data source loads, by the options that ask for it.
LOADS = {
    "rmqindex": ("pyspark_rmqindex", {}),
    "rmqindex, a lookup": ("pyspark_rmqindex", {"topic": "TopicTest", "key": "BB"}),
    "rmqindex, an audit": ("pyspark_rmqindex", {"audit": "true"}),
    "rmqindex, verified": ("pyspark_rmqindex", {"commitLog": "auto"}),
    "rmqindex, with messages": ("pyspark_rmqindex", {"commitLog": "auto", "message": "true"}),
    "rmqcommitlog": ("pyspark_rmqcommitlog", {}),
    "rmqconsumequeue": ("pyspark_rmqconsumequeue", {}),
}
# The docs extension that writes the list of options lies outside of any package.
sys.path[:0] = [str(ROOT / "docs" / "_ext"), str(ROOT / "spec")]


def signature(function):
    """Return the parameters of a function, without their types, as they are written."""
    told = inspect.signature(function)
    bare = [part.replace(annotation=part.empty) for part in told.parameters.values()]
    return str(told.replace(parameters=bare, return_annotation=told.empty))


def is_from_here(public, name):
    """Say whether a class has a member from these packages, and not from Python or Spark."""
    home = next((base for base in public.__mro__ if name in vars(base)), object)
    return home.__module__.startswith(PACKAGES)


def members(public):
    """Return how a class is called, and its public members with the parameters of its methods."""
    found = {}
    if is_from_here(public, "__init__") or is_from_here(public, "__new__"):
        found["()"] = signature(public)
    for name in dir(public):
        if name.startswith("_") or not is_from_here(public, name):
            continue
        member = inspect.getattr_static(public, name)
        is_method = inspect.isfunction(member) or isinstance(member, classmethod | staticmethod)
        found[name] = signature(getattr(public, name)) if is_method else "attribute"
    return found


def python_names():
    """Return what each public name is: the parameters of a function, the members of a class."""
    found = {}
    for package in PACKAGES:
        module = import_module(package)
        found[package] = names = {}
        for name in module.__all__:
            public = getattr(module, name)
            if inspect.isclass(public):
                names[name] = members(public)
            elif inspect.isfunction(public):
                names[name] = signature(public)
            else:
                names[name] = "constant"
    return found


def options():
    """Return what the options page says of each option: its type, its places, its default.

    A default that is a sentence is left out.
    """
    from page_texts import OPTION_GROUPS, option_group_text

    item = re.compile(
        r"^\[`(?P<name>[^`]+)`\].*?^  \*(?P<type>[^*]+)\*, for (?P<places>[^;\n]+)"
        r"(?:; default: (?:`(?P<default>[^`\n]*)`$)?)?",
        re.MULTILINE | re.DOTALL,
    )
    return {
        found["name"]: {
            "type": found["type"],
            "places": re.split(r", (?=`)", found["places"]),
            "default": found["default"],
        }
        for heading in OPTION_GROUPS
        for found in item.finditer(option_group_text(heading))
    }


def arrow_columns():
    """Return the columns of the codec's schemas."""
    return {
        name: {field.name: str(field.type) for field in getattr(rmqindex, name)} for name in SCHEMAS
    }


def spark_columns():
    """Return the columns that each load has; it takes no session to ask."""
    store = str(rmqindex.sample_store())
    return {
        load: {
            field.name: field.dataType.simpleString()
            for field in import_module(module).DefaultSource({"path": store, **told}).schema()
        }
        for load, (module, told) in LOADS.items()
    }


def help_of(*command):
    """Return what ``python -m rmqindex .. --help`` prints."""
    told = {"COLUMNS": "200", "TERM": "dumb", "NO_COLOR": "1"}
    arguments = ["rmqindex", *command, "--help"]
    with (
        patch.dict(os.environ, told),
        patch.object(sys, "argv", arguments),
        contextlib.redirect_stdout(io.StringIO()) as printed,
        contextlib.suppress(SystemExit),
    ):
        runpy.run_module("rmqindex", run_name="__main__")
    return printed.getvalue()


def command_names():
    """Return the commands, in the order of ``rmqindex --help``."""
    return re.findall(
        r"^[ │|]{1,4}([a-z][a-z-]+)  ", help_of().partition("Commands")[2], re.MULTILINE
    )


def usage(*command):
    """Return a command's arguments and the names of its options; the layout does not count."""
    text = help_of(*command)
    (line,) = re.findall(r"^\W*Usage: .*$", text, re.MULTILINE)
    # An option begins its line, behind a short name perhaps, and may have a second name.
    heads = re.findall(r"^[ │|*]{1,6}((?:-\w\b,? *|--[a-z-]+[ ,/|]*)+)", text, re.MULTILINE)
    return {
        # Versions of click differ in whether a command may be left out.
        "arguments": [
            name
            for name in re.findall(r"(?<![A-Z\[])[A-Z]+(?:\|[A-Z]+)*(?![A-Z\]a-z])", line)
            if name != "COMMAND"
        ],
        "options": sorted({name for head in heads for name in re.findall(r"--?[a-z-]+", head)}),
    }


def commands():
    """Return what each command takes; that of the program itself has no name."""
    return {"": usage()} | {name: usage(name) for name in command_names()}


def tables():
    """Return the words that findings, explanations and columns hold."""
    return {
        "audit rules": {rule.name: rule.severity for rule in rmqindex.AUDIT_RULES},
        "explain reasons": list(rmqindex.EXPLAIN_REASONS),
        "match states": list(rmqindex.MATCH_STATES),
    }


KINDS = {
    "python": python_names,
    "options": options,
    "arrow columns": arrow_columns,
    "spark columns": spark_columns,
    "commands": commands,
    "tables": tables,
}


@pytest.mark.parametrize("kind", KINDS)
def test_names_are_as_they_were(kind):
    """The list is what the code has, nothing less and nothing more."""
    assert KINDS[kind]() == json.loads(LIST.read_text())[kind]


def test_nothing_is_missed():
    """Each option that the page has is listed, and no command is without options."""
    from pyspark_rmqindex.options import OPTIONS

    listed = json.loads(LIST.read_text())
    assert listed.keys() == KINDS.keys()
    assert listed["options"].keys() == {o.name for o in OPTIONS if not o.internal}
    assert len(listed["commands"]) > 10
    assert all("--help" in command["options"] for command in listed["commands"].values())


if __name__ == "__main__":
    LIST.write_text(json.dumps({kind: now() for kind, now in KINDS.items()}, indent=1) + "\n")
