"""Tests come in by the doors: a room's inside is known to its own tests alone.

The tests of a room are in the folder of its name, below ``tests/format`` or ``tests/connector``;
those of the room ``cli`` are ``tests/cli``. Other tests import a package, or what a room exports,
and change nothing in it: a fault, a limit or a clock is the system's, as ``tests/support`` has it.
"""

from __future__ import annotations

import ast
import contextlib
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path

import pytest

TESTS = Path(__file__).resolve().parents[1]
PACKAGES = ("rmqindex", "pyspark_rmqindex")
PATCHES = {"setattr", "delattr", "setitem", "delitem", "patch", "object", "multiple"}
#: The modules of this room are its door, one for each format.
OPEN_ROOMS = {"rmqindex.layout"}
#: What may know insides of rooms: a file or a folder, the modules if only some, and why.
EXCEPTIONS = {
    "project/test_doors.py": (None, "it has what is wrong as texts"),
    "fuzz/": (None, "a target gives bytes to one decoder, which is inside a room"),
    "support/appends.py": (
        {"rmqindex.indexwriter.writer"},
        "the commit of a stream takes such an append from within",
    ),
    "support/command_line.py": (
        {"rmqindex.cli.command", "rmqindex.explanation.commands"},
        "the command runs in this process, without what its entry point does to all of it",
    ),
    "support/file_reads.py": (
        {"rmqindex.storage.local"},
        "mapped files are read by no call of the system that could be heard",
    ),
    "support/limits.py": (None, "a limit is a constant, and users have no say in it"),
    "support/record_kinds.py": (
        {
            "rmqindex.consumequeue.staging",
            "rmqindex.transaction.commit_record",
            "rmqindex.transaction.journal",
            "rmqindex.transaction.owner",
        },
        "each kind of record is checked alike, whichever room writes it",
    ),
    "spec/test_annexes.py": ({"rmqindex.indexfile.committed"}, "a number that the spec has"),
    "spec/test_spec_text.py": (
        {
            "rmqindex.indexfile.committed",
            "rmqindex.keys.hashing",
            "rmqindex.store.checkpoint",
        },
        "numbers that the spec has",
    ),
    "spec/test_store_vectors.py": (
        {
            "rmqindex.commitlog.files",
            "rmqindex.commitlog.framing",
            "rmqindex.commitlog.walk",
        },
        "a vector has the end and the faults of a walk, which readers pass over or raise",
    ),
    "system/simulator/disk/objects.py": (
        {"rmqindex.storage.filesystem"},
        "the simulated store is in this process, and connections to S3 are kept",
    ),
}


def own_room(path):
    """Return the room, or the module beside the rooms, that a test belongs to; None for none."""
    top, below = path.parts[0], path.parts[1:]
    if top in {"format", "connector"}:
        return below[0].removeprefix("test_").removesuffix(".py")
    return "cli" if top == "cli" else None


def origins(nodes):
    """Return what each imported name is, dotted."""
    names = {}
    for node in nodes:
        if isinstance(node, ast.ImportFrom) and node.module and not node.level:
            names |= {each.asname or each.name: f"{node.module}.{each.name}" for each in node.names}
        elif isinstance(node, ast.Import):
            for each in node.names:
                top = each.name.partition(".")[0]
                names[each.asname or top] = each.name if each.asname else top
    return names


def scripts(text):
    """Return the nodes of a source, and those of each script in it, which name a package.

    Other processes run the scripts.
    """
    if not names_a_package(text):
        return []
    found = [list(ast.walk(ast.parse(text)))]
    for node in found[0]:
        value = node.value if isinstance(node, ast.Constant) else None
        if isinstance(value, str) and "\n" in value and names_a_package(value):
            with contextlib.suppress(SyntaxError):
                found.append(list(ast.walk(ast.parse(value))))
    return found


def names_a_package(text):
    """Tell whether a source can import one, or change what is in one."""
    return any(package in text for package in PACKAGES)


@cache
def is_module(dotted):
    """Tell whether there is a module of this name."""
    try:
        return find_spec(dotted) is not None
    except ModuleNotFoundError:  # its parent is a module and no package
        return False


def imported(nodes):
    """Yield the line and the name of each module inside a room that is imported."""
    for node in nodes:
        if isinstance(node, ast.ImportFrom) and node.module and not node.level:
            found = [f"{node.module}.{each.name}" for each in node.names]
            found = [each if is_module(each) else node.module for each in found]
        elif isinstance(node, ast.Import):
            found = [each.name for each in node.names]
        else:
            continue
        for dotted in found:
            package, *inside = dotted.split(".")
            if package in PACKAGES and len(inside) > 1:
                yield node.lineno, dotted


def home_of(dotted):
    """Return the module that has what a dotted name means."""
    package, *parts = dotted.split(".")
    found = import_module(package)
    for part in parts:
        child = f"{found.__name__}.{part}" if hasattr(found, "__path__") else ""
        found = import_module(child) if child and is_module(child) else getattr(found, part, None)
        if not hasattr(found, "__path__"):
            break
    return getattr(found, "__module__", None) or getattr(found, "__name__", dotted)


def patched(nodes):
    """Yield the line and the module of each thing in the packages that is given another value."""
    names = origins(nodes)

    def origin(node):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            dotted = node.value
        else:
            root, _, rest = ast.unparse(node).partition(".")
            dotted = f"{names.get(root, '?')}.{rest}".rstrip(".")
        return dotted if dotted.partition(".")[0] in PACKAGES else None

    for node in nodes:
        targets = []
        if isinstance(node, ast.Call) and node.args:
            called = node.func.attr if isinstance(node.func, ast.Attribute) else ""
            called = node.func.id if isinstance(node.func, ast.Name) else called
            targets = node.args[:1] if called in PATCHES else []
        elif isinstance(node, ast.Assign):
            targets = [each.value for each in node.targets if isinstance(each, ast.Attribute)]
        for target in targets:
            if dotted := origin(target):
                yield node.lineno, home_of(dotted)


def breaches(text, path):
    """Return what of other rooms' insides a test imports or changes.

    Args:
        text: Its source.
        path: Its path below ``tests``.
    """
    own = own_room(path)
    allowed = set()
    for place, (modules, _) in EXCEPTIONS.items():
        if str(path).startswith(place):
            if modules is None:
                return []
            allowed |= modules
    found = [each for nodes in scripts(text) for each in (*imported(nodes), *patched(nodes))]
    return sorted(
        f"{path}:{line}: {module}"
        for line, module in set(found)
        if module.split(".")[1:2] != [own]
        and module not in allowed
        and ".".join(module.split(".")[:2]) not in OPEN_ROOMS
    )


def test_no_test_knows_the_inside_of_another_room():
    """It says what a room does, so that the inside may be built anew."""
    found = [
        breach
        for path in sorted(TESTS.rglob("*.py"))
        for breach in breaches(path.read_text(), path.relative_to(TESTS))
    ]
    assert found == []


@pytest.mark.parametrize("place", EXCEPTIONS)
def test_each_exception_is_needed(place, monkeypatch):
    """One that is not is taken from the list."""
    modules, _ = EXCEPTIONS[place]
    path = TESTS / place
    files = sorted(path.rglob("*.py")) if path.is_dir() else [path]
    monkeypatch.delitem(EXCEPTIONS, place)
    found = {
        breach.rpartition(" ")[2]
        for file in files
        for breach in breaches(file.read_text(), file.relative_to(TESTS))
    }
    if place != "support/limits.py":  # which has the modules as texts
        assert found if modules is None else found == modules


@pytest.mark.parametrize(
    "text",
    [
        "from rmqindex.storage.local import LocalSource",
        "from rmqindex.storage import local",
        "import rmqindex.storage.local",
        "def test():\n    from rmqindex.storage import local as module",
        "from rmqindex.transaction import Journal\nmonkeypatch.setattr(Journal, 'undo', 1)",
        "from rmqindex import CommitLog\npatch.object(CommitLog, 'scan')",
        "import rmqindex\nwith mock.patch.multiple(rmqindex.CommitLog, scan=1): pass",
        "from rmqindex.transaction import LocalStaging\nLocalStaging.commit = None",
        "monkeypatch.setattr('rmqindex.storage.local._MOST', 1)",
        'SCRIPT = "import sys\\nfrom rmqindex.storage import local"',
    ],
)
def test_a_planted_breach_is_found(text):
    """Of each way."""
    assert breaches(text, Path("format/bulk/test_x.py"))


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("format/storage/test_x.py", "from rmqindex.storage import local\nlocal._MOST = 1"),
        ("format/commitlog/test_x.py", "import rmqindex\nrmqindex.CommitLog.scan = 1"),
        ("cli/test_x.py", "from rmqindex.cli.commands.info import describe"),
        ("connector/test_log_lines.py", "from pyspark_rmqindex import log_lines\nlog_lines._x = 1"),
        ("format/bulk/test_x.py", "from rmqindex.storage import Location, to_json"),
        ("format/bulk/test_x.py", "import os\nmonkeypatch.setattr(os, 'fsync', 1)"),
        ("spec/test_x.py", "from rmqindex.layout import record"),
    ],
)
def test_a_door_is_no_breach(path, text):
    """Nor are a room's own tests, and the system's calls."""
    assert breaches(text, Path(path)) == []
