"""What both packages write goes through one class, whose errors name the file."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PACKAGES = ("format/rmqindex", "connector/pyspark_rmqindex")
OPENERS = {"open", "fdopen", "FileIO"}
WHOLE_FILES = {"write_bytes", "write_text", "touch"}
# Python's own standard output, and empty files that mark a name.
RIGHTLY = {
    ("format/rmqindex/cli/invocation.py", "write_text"),  # of click, on the screen
    ("connector/pyspark_rmqindex/read/plan_leak.py", "touch"),  # writes no byte
}


def writes_of(code):
    """Return the calls that write past :class:`WritableFile`: their names and lines."""
    found = []
    for node in ast.walk(ast.parse(code)):
        if not isinstance(node, ast.Call):
            continue
        function = node.func
        name = function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", "")
        texts = {each.value for each in node.args if isinstance(each, ast.Constant)}
        texts |= {k.value.value for k in node.keywords if isinstance(k.value, ast.Constant)}
        modes = {text for text in texts if isinstance(text, str) and set(text) <= set("rwxabt+")}
        is_writing = any(set(mode) & set("wxa+") for mode in modes)
        if name in WHOLE_FILES or (name in OPENERS and is_writing):
            found.append((name, node.lineno))
    return found


@pytest.mark.parametrize(
    "code",
    [
        'open(path, "wb")',
        'path.open(mode="x")',
        'os.fdopen(number, "r+b", buffering=0)',
        "path.write_text(text)",
        'io.FileIO(path, "a")',
    ],
)
def test_a_write_past_the_class_is_seen(code):
    """By whatever function."""
    assert writes_of(code)


def test_reading_is_no_write():
    """Of no kind."""
    assert not writes_of('open(path, "rb"); path.open(); open(path)')


def test_every_file_is_written_by_the_class_whose_errors_name_it():
    """So that "No space left on device" says where; ruff forbids the functions of os."""
    found = []
    for package in PACKAGES:
        for path in sorted((ROOT / package).rglob("*.py")):
            name = path.relative_to(ROOT).as_posix()
            found += [
                f"{name}:{line}: {function}()"
                for function, line in writes_of(path.read_text())
                if (name, function) not in RIGHTLY
            ]
    assert not found, "write it with rmqindex.storage.writable.WritableFile"
